//! `weir traffic`: frames for a ruleset, with the expected verdict of each.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use weir_model::{Family, Firewall, Packet};
use weir_packet::pcap;
use weir_semantics::{AlwaysFalseOracle, Interpreter, Verdict};
use weir_traffic::{
    PacketPatternOptions, TrafficOptions, TrafficPattern as Kind, generate_pattern_packets,
    generate_rule_boundary_packets,
};

use super::YesNoExitStatus;
use crate::atomic_file_replacement::replace_file_atomically;
use crate::cli::{TrafficArgs, TrafficPatternArg};
use crate::{operand, terminal};

/// Writes the pcap file and the verdicts next to it.
pub fn write_frames_with_verdicts(args: &TrafficArgs, color: bool) -> Result<YesNoExitStatus> {
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let mut all = Vec::new();
    for family in [Family::V4, Family::V6] {
        all.extend(generate_packets_with_verdicts(&loaded.firewall, family, args));
    }
    if all.is_empty() {
        bail!("the ruleset has no packets of this pattern: try another --pattern");
    }
    all.truncate(args.count);
    let frames =
        all.iter().map(|(packet, _)| packet.to_frame_with_dmac(super::PCAP_DESTINATION_MAC));
    pcap::encode_frames(frames)
        .and_then(|bytes| replace_file_atomically(&args.output, &bytes))
        .with_context(|| format!("write {}", args.output.display()))?;
    let mut beside = args.output.clone().into_os_string();
    beside.push(".verdicts");
    let beside = PathBuf::from(beside);
    let verdicts: String =
        all.iter().map(|(_, verdict)| format_accept_or_drop_line(*verdict)).collect();
    fs::write(&beside, verdicts).with_context(|| format!("write {}", beside.display()))?;
    let dropped = all.iter().filter(|(_, v)| *v != Verdict::Accept).count();
    terminal::print_escaped_if_terminal(&format!(
        "{} frames in {}, {} to be accepted, {dropped} to be dropped\n",
        all.len(),
        args.output.display(),
        all.len() - dropped,
    ))
}

fn format_accept_or_drop_line(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Accept { "accept\n" } else { "drop\n" }
}

fn generate_packets_with_verdicts(
    firewall: &Firewall,
    family: Family,
    args: &TrafficArgs,
) -> Vec<(Packet, Verdict)> {
    let Some(ruleset) = firewall.ruleset(family) else { return Vec::new() };
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
                let verdict =
                    interpreter.evaluate_journey(&packet, entry, &mut AlwaysFalseOracle).verdict;
                (packet, verdict)
            };
            return generate_rule_boundary_packets(ruleset, &firewall.sets, &options)
                .into_iter()
                .map(judged)
                .collect();
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
        ..PacketPatternOptions::default()
    };
    generate_pattern_packets(firewall, &options)
}
