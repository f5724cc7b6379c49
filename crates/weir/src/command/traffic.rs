//! `weir traffic`: frames for a ruleset, with the expected verdict of each.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use weir_model::{Family, Firewall, Packet};
use weir_packet::pcap;
use weir_semantics::{AlwaysFalseOracle, Interpreter, Verdict};
use weir_traffic::{
    DecidingFilterRuleOrPolicy, PacketPatternOptions, PatternPacket, TrafficOptions,
    TrafficPattern as Kind, generate_boundary_and_random_packets, generate_pattern_packets,
};

use super::YesNoExitStatus;
use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::cli::{TrafficArgs, TrafficPatternArg};
use crate::{operand, terminal};

/// Writes the pcap file and the verdicts next to it.
pub fn write_frames_with_verdicts(args: &TrafficArgs, color: bool) -> Result<YesNoExitStatus> {
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let mut all = Vec::new();
    for family in [Family::V4, Family::V6] {
        all.extend(generate_packets_with_verdicts(&loaded.firewall, family, args)?);
    }
    if all.is_empty() {
        bail!("the ruleset has no packets of this pattern: try another --pattern");
    }
    all.truncate(args.count);
    let frames = all.iter().map(|one| one.packet.to_frame_with_dmac(super::PCAP_DESTINATION_MAC));
    pcap::encode_frames(frames)
        .and_then(|bytes| replace_file_atomically_if_possible(&args.output, &bytes))
        .with_context(|| format!("write {}", args.output.display()))?;
    let verdicts: String = all.iter().map(|one| format_accept_or_drop_line(one.verdict)).collect();
    for (suffix, text) in [(".verdicts", verdicts), (".facts", render_facts_of_packets(&all))] {
        let mut beside = args.output.clone().into_os_string();
        beside.push(suffix);
        let beside = PathBuf::from(beside);
        fs::write(&beside, text).with_context(|| format!("write {}", beside.display()))?;
    }
    let dropped = all.iter().filter(|one| one.verdict != Verdict::Accept).count();
    terminal::print_escaped_if_terminal(&format!(
        "{} frames in {}, {} to be accepted, {dropped} to be dropped\n",
        all.len(),
        args.output.display(),
        all.len() - dropped,
    ))
}

/// What the packets hit, as the interpreter evaluated them: a name and a number per line.
fn render_facts_of_packets(all: &[PatternPacket]) -> String {
    let share = |count: usize| count as f64 / all.len().max(1) as f64;
    let count = |is_counted: &dyn Fn(&DecidingFilterRuleOrPolicy) -> bool| {
        all.iter().filter(|one| one.decided_by.as_ref().is_some_and(is_counted)).count()
    };
    let rules: BTreeSet<&DecidingFilterRuleOrPolicy> = all
        .iter()
        .filter_map(|one| one.decided_by.as_ref())
        .filter(|by| by.rule.is_some())
        .collect();
    let chains: BTreeSet<&str> = rules.iter().map(|by| by.chain.as_str()).collect();
    let mut tried: Vec<u32> = all.iter().map(|one| one.rules_tried).collect();
    tried.sort_unstable();
    let tried_at = |share: usize| tried.get((tried.len().saturating_sub(1)) * share / 2);
    let facts = [
        ("packets", all.len() as f64),
        ("dropped_share", share(all.iter().filter(|one| one.verdict != Verdict::Accept).count())),
        ("policy_share", share(count(&|by| by.rule.is_none()))),
        ("user_chain_share", share(count(&|by| by.is_user_chain))),
        ("rules_hit", rules.len() as f64),
        ("chains_hit", chains.len() as f64),
        ("rules_tried_min", tried_at(0).copied().map_or(0.0, f64::from)),
        ("rules_tried_median", tried_at(1).copied().map_or(0.0, f64::from)),
        ("rules_tried_max", tried_at(2).copied().map_or(0.0, f64::from)),
    ];
    facts.iter().map(|(name, number)| format!("{name} {number}\n")).collect()
}

fn format_accept_or_drop_line(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Accept { "accept\n" } else { "drop\n" }
}

fn generate_packets_with_verdicts(
    firewall: &Firewall,
    family: Family,
    args: &TrafficArgs,
) -> Result<Vec<PatternPacket>> {
    let Some(ruleset) = firewall.ruleset(family) else { return Ok(Vec::new()) };
    let entry = args.hook.to_journey_kind();
    let pattern = match args.pattern {
        TrafficPatternArg::Boundary => {
            let options = TrafficOptions {
                seed: args.seed,
                max_packets: args.count,
                journey_kind: entry,
                ..Default::default()
            };
            let interpreter = Interpreter::new(firewall);
            let judged = |packet: Packet| {
                let outcome = interpreter.evaluate_journey(&packet, entry, &mut AlwaysFalseOracle);
                PatternPacket::from_outcome(packet, &outcome)
            };
            let is_wanted = |one: &PatternPacket| !args.accepted || one.verdict == Verdict::Accept;
            return Ok(generate_boundary_and_random_packets(ruleset, &firewall.sets, &options)
                .into_iter()
                .map(judged)
                .filter(is_wanted)
                .collect());
        }
        TrafficPatternArg::End => Kind::AllMatchAtEnd,
        TrafficPatternArg::Uniform => Kind::Uniform,
        TrafficPatternArg::Zipf => Kind::Zipf,
        TrafficPatternArg::Near => Kind::NearMiss,
        TrafficPatternArg::Far => Kind::Far,
    };
    let options = PacketPatternOptions {
        pattern,
        family,
        seed: args.seed,
        max_packets: args.count,
        journey_kind: entry,
        fixed_devices: args.devices.clone(),
        only_accepted: args.accepted,
        ..PacketPatternOptions::default()
    };
    Ok(generate_pattern_packets(firewall, &options)?)
}
