//! `weir compile`: a ruleset to an artefact.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use weir_artefact::manifest::{FormRuleCoverage, UnconvertedRulesCauseAndCount};
use weir_artefact::{Artefact, CheckedPass, CompiledForm, Manifest, PassEqualityEvidence};
use weir_backends::load_scripts::LoadScripts;
use weir_backends::{CompileError, CompileOptions, compile};
use weir_model::effect::MATCH_ROWS;
use weir_model::managing_programs::{ManagingProgram, count_preserved_rules_by_program};
use weir_model::{Chain, Firewall, Match, Span};

use super::form_output::{format_binary_byte_size, print_refusals};
use super::{YesNoExitStatus, compile_classifier};
use crate::cli;
use crate::cli::{CompileArgs, SourcesBesidesFileArgs};
use crate::json_output;
use crate::operand::{self, LoadedFirewall};
use crate::process_timeout::ProcessTimeout;
use crate::terminal::{self, TerminalProgress};

/// Compiles, checks, writes the folder, and says the result of it.
pub fn compile_and_write_artefact(args: &CompileArgs, color: bool) -> Result<YesNoExitStatus> {
    let Some(form) = form_from_arg(args.to) else {
        return compile_classifier::compile_and_write_classifier(args, color);
    };
    if !args.classifier_chains.is_empty() {
        bail!("--chain is for --to classifier: other forms are of the whole ruleset");
    }
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let options = CompileOptions {
        tree_level_prefix_lengths: args.tree_prefix_lengths.clone(),
        seed: args.seed,
        check_packets_per_family: args.packets,
        passes: args.passes.clone(),
        skipped_passes: args.no_pass.clone(),
        trust: args.write_without_comparison,
        allow_counter_loss: args.allow.contains(&cli::AllowedCounterLossArg::Counters),
        programs_with_rewritable_chains: parse_rewritable_programs(&args.programs)?,
        refuse_rules_left_in_iptables: args.refuse_partial_nft_form,
        all_proofs_steps_max: args.limits.step_count(),
        diagram_memory_bytes_per_path_max: args.limits.memory_bytes(),
        ..CompileOptions::default()
    };
    let (loaded, artefact) =
        load_and_compile(args.file.as_deref(), &args.sources_besides_file, form, &options, color)?;
    let scripts = LoadScripts::generate_for_artefact(&artefact);
    let bundle = scripts.to_folder_contents_with_artefact(&artefact);
    process_timeout.disarm();
    weir_artefact::write_folder_contents(&bundle, &args.output)
        .with_context(|| format!("write {}", args.output.display()))?;
    terminal::print_escaped_to_stderr(&render_warnings_about_input_and_form(
        &loaded,
        &artefact.manifest,
    ));
    if args.json {
        return terminal::print_escaped_if_terminal(&json_output::render_single_member_json(
            "compile",
            "manifest",
            &bundle.manifest,
        )?);
    }
    let left = match form {
        CompiledForm::Linear => Vec::new(),
        _ => count_preserved_rules_by_program(
            &loaded.firewall,
            &options.programs_with_rewritable_chains,
        ),
    };
    terminal::print_escaped_if_terminal(&render_compile_summary(
        &artefact.manifest,
        &left,
        &args.output.display().to_string(),
    ))
}

/// Reads a ruleset and compiles it to a form that tools load, with the checks of `weir compile`.
/// Warnings about it are printed.
pub fn compile_ruleset_operand(
    file: Option<&Path>,
    sources_besides_file: &SourcesBesidesFileArgs,
    to: cli::FormArg,
    options: &CompileOptions,
    color: bool,
) -> Result<(LoadedFirewall, Artefact)> {
    let Some(form) = form_from_arg(to) else {
        bail!("--to classifier: no tool loads that form: choose linear, tree, ipset or nft");
    };
    let (loaded, artefact) = load_and_compile(file, sources_besides_file, form, options, color)?;
    terminal::print_escaped_to_stderr(&render_warnings_about_input_and_form(
        &loaded,
        &artefact.manifest,
    ));
    Ok((loaded, artefact))
}

fn load_and_compile(
    file: Option<&Path>,
    sources_besides_file: &SourcesBesidesFileArgs,
    form: CompiledForm,
    options: &CompileOptions,
    color: bool,
) -> Result<(LoadedFirewall, Artefact)> {
    let loaded = operand::load_ruleset_operand(file, sources_besides_file, color)?;
    let progress = TerminalProgress::new();
    let made = compile(&loaded.firewall, form, options, &mut |what, done| {
        progress.show_done_fraction(what, done);
    });
    drop(progress);
    match made {
        Ok(artefact) => Ok((loaded, artefact)),
        Err(error) => Err(print_refusals_and_make_error(&loaded, error, color)),
    }
}

/// The programs of those names.
pub fn parse_rewritable_programs(names: &[String]) -> Result<Vec<ManagingProgram>> {
    let find = |name: &String| {
        let known = ManagingProgram::parse_name_if_preserved(name);
        known.with_context(|| format!("no program {name}: docker, kube-proxy, firewalld, ufw"))
    };
    names.iter().map(find).collect()
}

/// The back end's word for a form that tools load.
fn form_from_arg(form: cli::FormArg) -> Option<CompiledForm> {
    match form {
        cli::FormArg::Linear => Some(CompiledForm::Linear),
        cli::FormArg::Tree => Some(CompiledForm::Tree),
        cli::FormArg::Ipset => Some(CompiledForm::Ipset),
        cli::FormArg::Nft => Some(CompiledForm::Nft),
        cli::FormArg::Classifier => None,
    }
}

/// Draws what the form cannot say at its place in the text, and returns the error that remains.
fn print_refusals_and_make_error(
    loaded: &LoadedFirewall,
    error: CompileError,
    color: bool,
) -> anyhow::Error {
    let (form, refusals) = match &error {
        CompileError::Unsupported { form, refusals }
        | CompileError::RulesLeftInIptables { form, refusals, .. } => (*form, refusals),
        _ => return error.into(),
    };
    print_refusals(loaded, form.as_str(), refusals, color);
    let CompileError::RulesLeftInIptables { share, .. } = &error else {
        return anyhow!(
            "the {form} form cannot express {} of the rules: nothing was written",
            refusals.len()
        );
    };
    anyhow!(
        "--strict: {form} would evaluate {} of {} rules, iptables {}: nothing was written\n\
         {}compile without --strict for both side by side, or --to ipset or --to tree for iptables \
         alone",
        share.in_form,
        share.hook_entered_rules,
        share.left,
        render_uncompiled_rules_by_hook(share, "left in iptables", "  "),
    )
}

/// The result of it, for people.
fn render_compile_summary(
    manifest: &Manifest,
    left: &[(ManagingProgram, usize)],
    dir: &str,
) -> String {
    let rules: u32 = manifest.compiled.iter().map(|run| run.rules).sum();
    let runs = manifest.compiled.len();
    let mut text = format!("{} form in {dir}\n", manifest.form);
    if is_form_unchanged(manifest) {
        let all = manifest.share.hook_entered_rules;
        text.push_str(&format!("  unchanged {}; nothing to optimise\n", format_rule_count(all)));
        text.push_str(&render_uncompiled_rules_by_hook(
            &manifest.share,
            "unchanged",
            "            ",
        ));
    } else {
        text.push_str(&format!(
            "  compiled  {rules} rules in {runs} group{} of consecutive rules\n",
            if runs == 1 { "" } else { "s" },
        ));
        text.push_str(&render_form_coverage(manifest.form, &manifest.share));
    }
    text.push_str(&format!(
        "  memory    about {} in the kernel\n",
        format_binary_byte_size(manifest.memory_bytes)
    ));
    for pass in &manifest.checked.passes {
        text.push_str(&render_pass_line(pass));
    }
    let trusted =
        manifest.checked.passes.iter().any(|p| p.evidence == PassEqualityEvidence::Trusted);
    text.push_str(&match &manifest.checked {
        _ if trusted => "  checked   nothing: --trust skipped the comparison\n".into(),
        checked if checked.packets == 0 => {
            "  checked   nothing: output identical to input\n".into()
        }
        checked => {
            format!("  checked   {} packets, seed {}: equal\n", checked.packets, checked.seed)
        }
    });
    for (program, rules) in left {
        text.push_str(&format!(
            "  note      {rules} rules are in chains that {program} rewrites, and are unchanged; \
             --programs {program} compiles them, without {program} being aware of it\n"
        ));
    }
    for deviation in &manifest.deviations {
        text.push_str(&format!("  note      {deviation}\n"));
    }
    text.push_str(&format!("load it with: sh {dir}/load.sh\n"));
    text
}

/// How many rules of each hook the form changed, and why it left the others.
fn render_form_coverage(form: CompiledForm, share: &FormRuleCoverage) -> String {
    let FormRuleCoverage { hook_entered_rules: rules, in_form, left, .. } = share;
    let (whole, what) = match form {
        _ if *rules == 0 => return String::new(),
        CompiledForm::Nft => {
            let stay = if *left == 0 { "none" } else { &left.to_string() };
            // A rule of a chain that hooks of both kinds enter.
            let in_both = match (in_form + left).saturating_sub(*rules) {
                0 => String::new(),
                both => format!(" ({both} of them in both)"),
            };
            (
                format!("nft evaluates {in_form} of {rules} rules, iptables {stay}{in_both}"),
                "left in iptables",
            )
        }
        _ => (format!("{in_form} of {rules} rules compiled, {left} unchanged"), "unchanged"),
    };
    format!("  share     {whole}\n{}", render_uncompiled_rules_by_hook(share, what, "            "))
}

/// Whether the form has all rules as they were.
fn is_form_unchanged(manifest: &Manifest) -> bool {
    let FormRuleCoverage { hook_entered_rules: rules, in_form, .. } = manifest.share;
    let changed = |p: &CheckedPass| {
        !matches!(p.evidence, PassEqualityEvidence::Unchanged | PassEqualityEvidence::PassNotRun(_))
    };
    let rewritten = manifest.checked.passes.iter().any(changed);
    // What nft does not evaluate stays in iptables and is not rewritten.
    let rewritten = rewritten && manifest.form != CompiledForm::Nft;
    rules > 0 && in_form == 0 && manifest.compiled.is_empty() && !rewritten
}

fn format_rule_count(rules: u64) -> String {
    if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") }
}

/// Warnings about what was read and the outcome of it: a form that has no rule, sets that rules
/// match and that are not given.
fn render_warnings_about_input_and_form(loaded: &LoadedFirewall, manifest: &Manifest) -> String {
    let mut out = String::new();
    if manifest.form != CompiledForm::Linear
        && manifest.share.hook_entered_rules > 0
        && manifest.share.in_form == 0
    {
        out.push_str(&format!(
            "weir: warning: the {} form changes none of the {}: it is not faster\n",
            manifest.form,
            format_rule_count(manifest.share.hook_entered_rules)
        ));
    }
    if manifest.form == CompiledForm::Nft
        && manifest.share.in_form > 0
        && manifest.compiled.is_empty()
    {
        out.push_str(
            "weir: warning: the nft form has no lookup: nft evaluates its rules one after another, \
             and may be slower than iptables\n",
        );
    }
    out.push_str(&render_assumed_policy_warning(&loaded.firewall));
    let mut unknown: Vec<&str> = Vec::new();
    for (_, _, rule) in loaded.firewall.rulesets().flat_map(|r| r.rules_with_table_and_chain()) {
        for m in &rule.matches {
            if let Match::Opaque(other) = m
                && !unknown.contains(&&*other.name)
            {
                unknown.push(&other.name);
            }
        }
    }
    for name in unknown {
        let close =
            MATCH_ROWS.iter().map(|row| row.name).find(|known| is_close_spelling(name, known));
        if let Some(known) = close {
            out.push_str(&format!(
                "weir: warning: -m {name}: weir does not know this match; is -m {known} meant?\n"
            ));
        }
    }
    let missing = operand::list_missing_sets(&loaded.firewall);
    if !missing.is_empty() {
        out.push_str(&format!(
            "weir: warning: rules match sets that are not given ({}): their rules are not rewritten; \
             give `ipset save` output with --ipset FILE\n",
            missing.join(", ")
        ));
    }
    out
}

/// Policies that the text does not give. iptables-restore leaves the one in force; a form sets
/// ACCEPT, which is that of a new namespace.
fn render_assumed_policy_warning(firewall: &Firewall) -> String {
    let is_assumed = |chain: &&Chain| chain.policy.is_some() && chain.span == Span::NONE;
    let mut tables = Vec::new();
    for table in firewall.rulesets().flat_map(|r| &r.tables) {
        let chains: Vec<&str> = table.chains.iter().filter(is_assumed).map(|c| &*c.name).collect();
        if !chains.is_empty() {
            tables.push(format!("{} {}", table.name, chains.join(", ")));
        }
    }
    if tables.is_empty() {
        return String::new();
    }
    format!(
        "weir: warning: no policy is given for {}: the form sets ACCEPT, where iptables-restore \
         leaves the policy in force; write `:CHAIN POLICY [0:0]`\n",
        tables.join("; ")
    )
}

/// Whether one name becomes the other by one edit, or two where both are long: a letter more, less
/// or another.
fn is_close_spelling(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (k, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[k + 1];
            row[k + 1] = changed.min(row[k] + 1).min(diagonal + 1);
        }
    }
    let most = if a.len().min(b.len()) > 4 { 2 } else { 1 };
    (1..=most).contains(&row[b.len()])
}

/// Causes that are shown of a hook; the manifest has all.
const MAX_SHOWN_CAUSES_PER_HOOK: usize = 4;

/// A line for each hook that has rules left.
fn render_uncompiled_rules_by_hook(share: &FormRuleCoverage, what: &str, indent: &str) -> String {
    let cause = |UnconvertedRulesCauseAndCount { why, causing_rules: rules }: &UnconvertedRulesCauseAndCount| {
        format!("{why} ({})", format_rule_count(*rules))
    };
    let mut text = String::new();
    for hook in share.hooks.iter().filter(|hook| hook.left > 0) {
        let mut causes: Vec<String> =
            hook.causes.iter().take(MAX_SHOWN_CAUSES_PER_HOOK).map(cause).collect();
        if let more @ 1.. = hook.causes.len().saturating_sub(MAX_SHOWN_CAUSES_PER_HOOK) {
            causes.push(format!("{more} more, see the manifest"));
        }
        let (left, rules, why) = (hook.left, format_rule_count(hook.rules), causes.join(", "));
        text.push_str(&format!("{indent}{}: {left} of {rules} {what}: {why}\n", hook.hook));
    }
    text
}

/// What a pass did, in a line.
fn render_pass_line(pass: &CheckedPass) -> String {
    let CheckedPass { pass: name, evidence, rules_before, rules_after, .. } = pass;
    let how = match evidence {
        PassEqualityEvidence::Unchanged => return format!("  pass      {name}: changed nothing\n"),
        PassEqualityEvidence::PassNotRun(why) => {
            return format!("  pass      {name}: did not run: {why}\n");
        }
        PassEqualityEvidence::ProvenAndPacketsCompared(_) => "proven equal".to_owned(),
        PassEqualityEvidence::ComparedPackets(packets, why) => {
            format!("equal on {packets} packets ({why})")
        }
        PassEqualityEvidence::Trusted => "not checked".to_owned(),
    };
    let tried = match (pass.tried_before, pass.tried_after) {
        (Some(was), Some(is)) => format!(", {was:.1} to {is:.1} evaluated per packet"),
        _ => String::new(),
    };
    format!("  pass      {name}: {rules_before} to {rules_after} rules{tried}; {how}\n")
}

#[cfg(test)]
mod tests {
    use super::is_close_spelling;

    #[test]
    fn a_misspelled_module_is_close_to_the_one_that_was_meant() {
        assert!(
            is_close_spelling("multiprt", "multiport")
                && is_close_spelling("conntrak", "conntrack")
        );
        assert!(is_close_spelling("tpc", "tc") && !is_close_spelling("tpc", "udp"));
        assert!(!is_close_spelling("geoip", "tcp") && !is_close_spelling("mark", "mark"));
    }
}
