//! `weir diff`: two rulesets, for all packets.

use anyhow::{Context as _, Result, bail};
use weir_artefact::Deviation;
use weir_diagram::{
    CompareLevel, CompareOptions, CompareScope, StatefulTestPairing, compare_with_progress,
    have_same_stateful_rule_counts_by_credit,
};
use weir_model::{Family, Rule, Span};
use weir_packet::pcap;
use weir_review::{
    Review, ReviewedRuleset as Named, UndecidedPathCheckOptions, compare_counters,
    describe_uncovered_packets,
};

use super::YesNoExitStatus;
use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::cli::{DiffArgs, DiffFormatArg, SourcesBesidesFileArgs};
use crate::diff_operand::{self, DiffOperand};
use crate::json_output;
use crate::operand::RulesetTextKind;
use crate::process_timeout::ProcessTimeout;
use crate::source_locations::SourceLineIndex;
use crate::terminal::{self, TerminalProgress, ip_version_name};

/// Compares, and says the result of it.
pub fn compare_and_print_review(args: &DiffArgs, color: bool) -> Result<YesNoExitStatus> {
    let [name_a, name_b] = &operands_in_order(args)?;
    if name_a == "-" && name_b == "-" {
        bail!("standard input can be read only once: name a file for the other");
    }
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let progress = TerminalProgress::new();
    progress.show_done_fraction("reading", 0.0);
    let mut a = diff_operand::load_diff_operand(name_a, &select_operand_args(args, 0), color)?;
    let mut b = diff_operand::load_diff_operand(name_b, &select_operand_args(args, 1), color)?;
    let by_nft = [&a, &b].iter().any(|s| !s.nft_tables.tables.is_empty());
    let by_artefact = a.manifest.is_some() || b.manifest.is_some();
    let originals = diff_operand::credit_originals_if_identical(&mut a, &mut b);
    if args.counters && originals.is_none() {
        bail!("--counters needs the same rules on both sides, or an artefact of them");
    }
    let (before, after) = (
        diff_operand::translate_nft_into_firewall(&a, &b.firewall)?,
        diff_operand::translate_nft_into_firewall(&b, &a.firewall)?,
    );
    // Nobody checked the credit of a manifest that was edited.
    let identity = match originals.is_some() && by_artefact {
        true if have_same_stateful_rule_counts_by_credit([&before, &after]) => {
            StatefulTestPairing::ByCredit
        }
        _ => StatefulTestPairing::ByRuleText,
    };
    let options = build_compare_options(args, identity, by_nft);
    progress.show_done_fraction("comparing all packets", 0.1);
    let comparison = compare_with_progress(&before, &after, &options, &mut |family, path| {
        progress.show_done_fraction(&format!("proving {} {path}", ip_version_name(family)), 0.1);
    })?;
    let indexes = [&a, &b].map(|side| SourceLineIndex::new(&side.sources));
    let lines = indexes
        .each_ref()
        .map(|index| move |span, family| locate_ruleset_line(index, span, family));
    let original = |rule: &Rule| {
        let known = originals.as_ref().filter(|_| identity == StatefulTestPairing::ByCredit)?;
        known.rule_id_text(*rule.credited_originals.first()?).map(str::to_owned)
    };
    let [of_a, of_b] = &lines;
    let original = &original;
    let sides = [
        Named { name: &a.name, firewall: &before, locate_line: of_a, original_place: original },
        Named { name: &b.name, firewall: &after, locate_line: of_b, original_place: original },
    ];
    let mut review = Review::from_comparison(&comparison, sides, identity);
    if args.verdict {
        review.compared = "verdict";
    }
    if let (true, Some(originals)) = (args.counters, &originals) {
        progress.show_done_fraction("counting", 0.8);
        let place = |id| originals.rule_id_text(id).unwrap_or_default().to_owned();
        let counters = compare_counters(
            sides,
            args.counter_and_unproven_path_packets,
            args.seed,
            by_nft,
            &place,
        );
        review.proven_equal &= counters.differ.is_empty();
        review.counters = Some(counters);
    }
    let check = build_undecided_path_check_options(args, identity, by_nft);
    review.check_undecided_paths_on_packets(&comparison, sides, &check);
    review.not_compared = list_uncompared_parts(&[&a, &b], by_nft);
    review.not_compared.extend(describe_uncovered_packets(&[&before, &after]));
    drop(progress);
    process_timeout.disarm();
    write_example_pcap(args, &review)?;
    print_review(args, &review)?;
    exit_status_of_review(&review)
}

fn build_undecided_path_check_options(
    args: &DiffArgs,
    stateful_pairing: StatefulTestPairing,
    exclude_unreadable_headers: bool,
) -> UndecidedPathCheckOptions {
    UndecidedPathCheckOptions {
        stateful_pairing,
        packets: args.counter_and_unproven_path_packets,
        seed: args.seed,
        exclude_unreadable_headers,
        conntrack_in_use: args.conntrack_in_use,
    }
}

fn build_compare_options(
    args: &DiffArgs,
    pairing: StatefulTestPairing,
    by_nft: bool,
) -> CompareOptions {
    CompareOptions {
        level: if args.verdict { CompareLevel::Verdict } else { CompareLevel::Effects },
        scope: args
            .hook
            .map_or(CompareScope::Journey, |h| CompareScope::OneHook(h.to_model_hook())),
        stateful_pairing: pairing,
        memory_bytes: args.limits.memory_bytes(),
        steps_max: args.limits.step_count(),
        regions_max: args.regions,
        conntrack_in_use: args.conntrack_in_use,
        exclude_unreadable_headers: by_nft,
        ..CompareOptions::default()
    }
}

/// The text and line of a span; `None` for what weir made of nft.
fn locate_ruleset_line(
    index: &SourceLineIndex<'_>,
    span: Span,
    family: Family,
) -> Option<(String, usize)> {
    let source = index.source_of_kind(RulesetTextKind::Rules(family))?;
    let range = index.line_column_range(source, span)?;
    Some((source.name.clone(), range.line))
}

/// Both operands, in the order of the command line.
fn operands_in_order(args: &DiffArgs) -> Result<[String; 2]> {
    match (&args.operands[..], args.live) {
        ([a, b], false) => Ok([a.clone(), b.clone()]),
        ([file], true) => {
            let words: Vec<String> =
                std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
            let place = |word: &str| words.iter().position(|w| w == word);
            let (live, file, first) = (
                diff_operand::LIVE_OPERAND.to_owned(),
                file.clone(),
                place(diff_operand::LIVE_OPERAND) < place(file),
            );
            Ok(if first { [live, file] } else { [file, live] })
        }
        _ => bail!("diff needs two operands: files, folders of artefacts, or --live"),
    }
}

/// The files that belong to the operand of that number.
fn select_operand_args(args: &DiffArgs, number: usize) -> SourcesBesidesFileArgs {
    let of = |all: &[std::path::PathBuf]| all.get(number).or(all.first()).cloned();
    SourcesBesidesFileArgs {
        ip6: of(&args.ip6),
        ipset: of(&args.ipset),
        live: false,
        variant: args.variant,
        table: None,
        resolve: args.resolve,
    }
}

fn list_uncompared_parts(sides: &[&DiffOperand], by_nft: bool) -> Vec<String> {
    let mut out: Vec<String> = sides.iter().flat_map(|s| s.not_compared.clone()).collect();
    if by_nft {
        out.push(format!(
            "packets that nft inherently treats differently: {} (docs/semantics.md, deviations)",
            Deviation::join_ids_with_packet_predicate()
        ));
    }
    out
}

fn write_example_pcap(args: &DiffArgs, review: &Review) -> Result<()> {
    let Some(path) = &args.pcap else { return Ok(()) };
    let paths = review.parts.iter().filter_map(|p| p.example.as_ref());
    let frames =
        paths.map(|p| p.example.witness_packet.to_frame_with_dmac(super::PCAP_DESTINATION_MAC));
    pcap::encode_frames(frames)
        .and_then(|bytes| replace_file_atomically_if_possible(path, &bytes))
        .with_context(|| format!("write {}", path.display()))
}

fn print_review(args: &DiffArgs, review: &Review) -> Result<()> {
    let format = if args.json { DiffFormatArg::Json } else { args.format };
    let text = match format {
        DiffFormatArg::Text => review.to_text(),
        DiffFormatArg::Json => json_output::render_json_object("diff", review)?,
        DiffFormatArg::Markdown => review.to_markdown(),
    };
    terminal::print_escaped_to_stdout(&text).map(|_| ())
}

fn exit_status_of_review(review: &Review) -> Result<YesNoExitStatus> {
    if review.has_differences() {
        return Ok(YesNoExitStatus::No);
    }
    if review.has_undecided_parts() {
        bail!("some paths were not decided: try more --memory or --steps, or a single --hook");
    }
    Ok(YesNoExitStatus::Yes)
}
