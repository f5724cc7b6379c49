//! `weir optimize`: applies the fixes of findings, and proves the result before printing it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use weir_backends::equivalence_check::{
    FormDifference, PacketCheckOptions as Packets, compare_form_on_generated_packets,
    describe_outcome,
};
use weir_diagram::{CompareOptions, ProofBudget, compare_with_progress};
use weir_lint::{
    FixOptions, FixResult, LintOptions, UnfixedReason, all_lints, apply_fixes, find_lint,
};
use weir_model::{Firewall, Rule, Ruleset, Target, lower_to_tests};
use weir_semantics::{Interpreter, Outcome};
use weir_syntax::packet::print_packet;
use weir_syntax::{ipset, iptables};

use super::YesNoExitStatus;
use super::check::parse_lint_levels;
use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::cli::OptimizeArgs;
use crate::operand::{self, LoadedFirewall, RulesetTextKind, SourceText};
use crate::process_timeout::ProcessTimeout;
use crate::terminal::{self, TerminalProgress, ip_version_name};
use crate::unified_diff;

/// Fixes, compares, prints; on standard error what was done, and what was left.
pub fn fix_findings_and_prove(args: &OptimizeArgs, color: bool) -> Result<YesNoExitStatus> {
    let counters = parse_allow_counters(&args.allow)?;
    let options = FixOptions {
        lint_ids_to_fix: lint_ids_to_fix(args)?,
        allow_counter_changes: counters,
        changeable_foreign_chains: args.changeable_foreign_chains.clone(),
        lint_options: LintOptions {
            counters_are_real: false,
            levels: parse_lint_levels(&[], &[], &[])?,
            ..LintOptions::default()
        },
        one_by_one: false,
    };
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let outputs = output_paths(args, &loaded)?;
    let (fixed, proof) = fix_and_prove(&loaded.firewall, options, args)?;
    process_timeout.disarm();
    terminal::print_escaped_to_stderr(&render_removals_after_accept_all(&loaded, &fixed.firewall));
    terminal::print_escaped_to_stderr(&render_fix_counts_and_evidence(
        &fixed,
        proof.as_ref(),
        args.seed,
    ));
    let changes = render_unified_diffs(&loaded, &fixed.firewall);
    if args.dry_run {
        return terminal::print_escaped_if_terminal(&changes);
    }
    // For people: the result for programs is in the files.
    terminal::print_escaped_to_stderr(&changes);
    write_optimized_texts(&loaded, &fixed.firewall, &outputs)
}

/// Fixes that are tried one by one at most: each takes a check of the whole ruleset.
const MAX_FIXES_TO_RETRY_ONE_BY_ONE: usize = 500;

/// Fixes, and the proof that they change nothing. Where all fixes together do, they are tried one
/// after the other: each of two findings may be right because of the other's rule.
fn fix_and_prove(
    before: &Firewall,
    mut options: FixOptions,
    args: &OptimizeArgs,
) -> Result<(FixResult, Option<FixEquivalenceEvidence>)> {
    let fixed = apply_fixes(before, &options);
    if fixed.fixed_findings.is_empty() {
        return Ok((fixed, None));
    }
    let budget = ProofBudget::new(args.limits.step_count());
    // What the first proof leaves is for the second.
    let steps_max = budget.steps_for_next_proof(true);
    let error = match compare_by_diagram_and_packets(
        before,
        &fixed.firewall,
        options.allow_counter_changes,
        steps_max,
        args,
    ) {
        Ok(proof) => return Ok((fixed, Some(proof))),
        Err(error) => error,
    };
    if fixed.fixed_findings.len() > MAX_FIXES_TO_RETRY_ONE_BY_ONE {
        return Err(error.context(format!(
            "{} fixes cannot be made together: name fewer kinds by --fix",
            fixed.fixed_findings.len()
        )));
    }
    options.one_by_one = true;
    let fixed = apply_fixes(before, &options);
    let proof = compare_by_diagram_and_packets(
        before,
        &fixed.firewall,
        options.allow_counter_changes,
        steps_max,
        args,
    )
    .map_err(|_| error)?;
    Ok((fixed, Some(proof)))
}

/// What `--allow` names.
fn parse_allow_counters(words: &[String]) -> Result<bool> {
    match words.iter().find(|w| *w != "counters") {
        Some(other) => bail!("--allow {other}: only counters can be allowed"),
        None => Ok(!words.is_empty()),
    }
}

/// The lints that are to be fixed.
fn lint_ids_to_fix(args: &OptimizeArgs) -> Result<BTreeSet<&'static str>> {
    if args.all {
        return Ok(all_lints()
            .filter(|l| l.is_fixable && l.enabled_by_default)
            .map(|l| l.id)
            .collect());
    }
    let known = |id: &String| match find_lint(id) {
        Some(lint) if lint.is_fixable => Ok(lint.id),
        Some(_) => bail!("{id}: weir cannot fix this kind of finding (weir check --explain {id})"),
        None => bail!("unknown kind of finding {id} (see weir check --list)"),
    };
    args.fix.iter().map(known).collect()
}

/// Where each text goes; none is standard output.
fn output_paths(args: &OptimizeArgs, loaded: &LoadedFirewall) -> Result<Vec<PathBuf>> {
    let inputs: Vec<PathBuf> = loaded.sources.iter().map(|s| PathBuf::from(&s.name)).collect();
    if args.in_place {
        return match inputs.iter().find(|p| !p.is_file()) {
            Some(p) => bail!("--in-place: {} is not a file", p.display()),
            None => Ok(inputs),
        };
    }
    let Some(out) = &args.output else { return Ok(Vec::new()) };
    let outputs = match inputs.len() {
        1 => vec![out.clone()],
        _ if out.is_dir() => {
            inputs.iter().map(|p| out.join(p.file_name().unwrap_or_default())).collect()
        }
        n => bail!("{n} texts cannot be written to one file: create the folder {}", out.display()),
    };
    for path in &outputs {
        if inputs.iter().any(|input| is_same_file(input, path)) {
            bail!("{} is the input: --in-place overwrites it", path.display());
        }
    }
    Ok(outputs)
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// What is known of a ruleset and what the fixes made of it.
struct FixEquivalenceEvidence {
    /// Verdict and effects are the same for all packets; else why that could not be decided.
    why_unproven: Option<String>,
    /// Packets that were sent through both.
    packets: u64,
}

/// Compares both for all packets, by diagrams; then sends packets through both, whose counters must
/// be the same, too, unless they may change.
fn compare_by_diagram_and_packets(
    before: &Firewall,
    after: &Firewall,
    allow_counter_changes: bool,
    steps_max: u64,
    args: &OptimizeArgs,
) -> Result<FixEquivalenceEvidence> {
    const MEANING_CHANGED_MESSAGE: &str =
        "a fix would change what the ruleset means, so nothing is written";
    let progress = TerminalProgress::new();
    let memory_bytes = args.limits.memory_bytes();
    let options =
        CompareOptions { regions_max: 1, steps_max, memory_bytes, ..CompareOptions::default() };
    let mut part = 0;
    let comparison = compare_with_progress(before, after, &options, &mut |family, path| {
        let what = format!("proving {} {path}", ip_version_name(family));
        progress.show_done_fraction(&what, f64::from(part) / 6.0);
        part += 1;
    })?;
    if let Some((_, d)) = comparison.differences().next() {
        bail!(
            "{MEANING_CHANGED_MESSAGE}: {} differs for {}",
            d.difference.as_str(),
            print_packet(&d.witness.packet)
        );
    }
    if let Some((part, f)) = comparison.reassembly_differences().next() {
        let which = if f.is_first_ruleset_reassembling { "no longer" } else { "now" };
        bail!(
            "{MEANING_CHANGED_MESSAGE}: {:?} fragments are {which} reassembled ({})",
            part.family,
            f.rule_position()
        );
    }
    let unknown = comparison.undecided_comparisons().next().map(|(_, why)| why.to_owned());
    let new = Interpreter::new_for_comparison_with(after, before);
    let options = Packets { seed: args.seed, packets_per_family: args.packets };
    let checked = compare_form_on_generated_packets(
        before,
        &[after],
        &options,
        |packet, entry, outcome, answers| {
            let other = new.evaluate_journey(packet, entry, answers);
            let what = name_differing_outcome_part(outcome, &other, allow_counter_changes)?;
            Some(FormDifference { difference: what, outcome_after: describe_outcome(&other) })
        },
        &mut |what, done| progress.show_done_fraction(what, done),
    );
    drop(progress);
    match checked {
        Ok(checked) => {
            Ok(FixEquivalenceEvidence { why_unproven: unknown, packets: checked.packets })
        }
        Err(e) => bail!("{MEANING_CHANGED_MESSAGE}: {e}"),
    }
}

fn name_differing_outcome_part(
    a: &Outcome<'_>,
    b: &Outcome<'_>,
    allow_counter_changes: bool,
) -> Option<String> {
    if !allow_counter_changes {
        return a.first_difference(b).map(|d| format!("{d:?} differs").to_lowercase());
    }
    let same = a.verdict == b.verdict && a.effects == b.effects && a.packet == b.packet;
    (!same).then(|| "verdict, effects or packet differ".to_owned())
}

/// What was done and what was left, for people.
fn render_fix_counts_and_evidence(
    fixed: &FixResult,
    proof: Option<&FixEquivalenceEvidence>,
    seed: u64,
) -> String {
    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    for f in &fixed.fixed_findings {
        *done.entry(f.lint_id()).or_default() += 1;
    }
    let mut left: BTreeMap<(&str, UnfixedReason), usize> = BTreeMap::new();
    for (f, why) in &fixed.unfixed_findings {
        *left.entry((f.lint_id(), *why)).or_default() += 1;
    }
    let mut out = String::new();
    for (id, n) in &done {
        out.push_str(&format!("fixed    {n:>6}  {id}\n"));
    }
    for ((id, why), n) in &left {
        out.push_str(&format!("left     {n:>6}  {id}: {}\n", why.as_str()));
    }
    let Some(proof) = proof else { return out + "nothing was changed\n" };
    out.push_str(&match &proof.why_unproven {
        None => "proven   the same verdict and effects for every packet\n".to_owned(),
        Some(why) => format!("unproven {why}: only packet-checked\n"),
    });
    out.push_str(&format!("checked  {} packets, seed {seed}: equal\n", proof.packets));
    out
}

/// Warns of rules that accept every packet before the rules after them are removed: who wrote these
/// may have meant them to filter.
fn render_removals_after_accept_all(loaded: &LoadedFirewall, after: &Firewall) -> String {
    let mut out = String::new();
    for ruleset in loaded.firewall.rulesets() {
        let family = ruleset.family;
        let accepts_all =
            |rule: &Rule| rule.target == Target::Accept && lower_to_tests(rule, family).is_empty();
        for (table, chain) in
            ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t, c)))
        {
            let Some(at) = chain.rules.iter().position(accepts_all) else { continue };
            let rest = after.ruleset(family).and_then(|r| r.table(&table.name)?.chain(&chain.name));
            let Some(rest) = rest else { continue };
            let kept =
                rest.rules.iter().position(accepts_all).map_or(0, |at| rest.rules.len() - at - 1);
            let removed = (chain.rules.len() - at - 1).saturating_sub(kept);
            if removed > 0 {
                let rules =
                    if removed == 1 { "1 rule".to_owned() } else { format!("{removed} rules") };
                let words = iptables::print_rule(&chain.rules[at], family);
                out.push_str(&format!(
                    "WARNING  -A {} {words} (rule {} of {} {}) accepts every packet: removing \
                     {rules} after it that no packet reaches; if this rule should not match every \
                     packet, narrow it instead\n",
                    chain.name,
                    at + 1,
                    table.name,
                    chain.name
                ));
            }
        }
    }
    out
}

/// What changed in each text, as a unified diff of what `iptables-save` would print.
fn render_unified_diffs(loaded: &LoadedFirewall, after: &Firewall) -> String {
    let of = |source: &SourceText| {
        let texts =
            [&loaded.firewall, after].map(|firewall| render_save_text(source.kind, firewall));
        let after = format!("{} (optimized)", source.name);
        unified_diff::render_unified_diff([&source.name, &after], &texts[0], &texts[1])
    };
    loaded.sources.iter().map(of).collect()
}

/// A text as it would be saved.
fn render_save_text(kind: RulesetTextKind, firewall: &Firewall) -> String {
    // Counters are printed where the text had them.
    let has_counters =
        |r: &Ruleset| r.rules_with_table_and_chain().any(|(_, _, rule)| rule.counters.is_some());
    match kind {
        RulesetTextKind::Sets => ipset::print(&firewall.sets),
        RulesetTextKind::Rules(family) => {
            let ruleset = firewall.ruleset(family);
            ruleset.map(|r| iptables::print(r, has_counters(r))).unwrap_or_default()
        }
    }
}

fn write_optimized_texts(
    loaded: &LoadedFirewall,
    after: &Firewall,
    outputs: &[PathBuf],
) -> Result<YesNoExitStatus> {
    let text = |kind| render_save_text(kind, after);
    if outputs.is_empty() {
        let all: Vec<String> = loaded.sources.iter().map(|s| text(s.kind)).collect();
        return terminal::print_escaped_if_terminal(&all.concat());
    }
    for (source, path) in loaded.sources.iter().zip(outputs) {
        replace_file_atomically_if_possible(path, text(source.kind).as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(YesNoExitStatus::Yes)
}
