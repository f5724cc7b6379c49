//! `weir compile --to classifier`: built-in chains to blocks of look-ups.

use anyhow::{Context as _, Result, bail};
use weir_artefact::classifier_folder::create_classifier_folder;
use weir_backends::FormRefusal;
use weir_backends::classifier_form::{
    BuiltInChain, ClassifierForm, compile_chain_to_lookups, list_built_in_chains_with_rules,
    list_refusals_of_rules_lookups_cannot_decide,
};
use weir_classify::ruleset::LookupStructures;
use weir_classify::{BuildLimits, Engine};
use weir_model::{Firewall, Hook};
use weir_review::lookup_walk::compare_generated_packets;
use weir_semantics::Interpreter;

use super::YesNoExitStatus;
use super::form_output::{format_binary_byte_size, print_refusals};
use crate::cli::CompileArgs;
use crate::process_timeout::ProcessTimeout;
use crate::{json_output, operand, terminal};

/// Compiles the chains, compares them with the interpreter, writes the folder.
pub fn compile_and_write_classifier(args: &CompileArgs, color: bool) -> Result<YesNoExitStatus> {
    require_no_pass_options(args)?;
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let firewall = &loaded.firewall;
    let chains = select_chains(firewall, &args.classifier_chains)?;
    let compile = |chain: &BuiltInChain<'_>| compile_chain_to_lookups(firewall, *chain);
    let programs = chains.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let mut refusals: Vec<FormRefusal> = Vec::new();
    for refusal in programs.iter().flat_map(list_refusals_of_rules_lookups_cannot_decide) {
        // Several built-in chains lead to it.
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
    if !refusals.is_empty() {
        print_refusals(&loaded, "classifier", &refusals, color);
        bail!(
            "the classifier form cannot express {} of the rules: nothing was written; --chain \
             TABLE/CHAIN compiles single chains",
            refusals.len()
        );
    }
    let interpreter = Interpreter::new(firewall);
    let mut form = ClassifierForm::default();
    let mut checked = 0;
    for (program, (_, table, chain)) in programs.iter().zip(&chains) {
        let structures =
            LookupStructures::build(program, Engine::IntervalDag, &BuildLimits::default())?;
        let hook = Hook::from_chain_name(chain).context("a built-in chain has a hook")?;
        let packets = (args.seed, args.packets);
        let (count, differing) = compare_generated_packets(
            program,
            &structures,
            (&interpreter, firewall),
            hook,
            packets,
        );
        if let Some((packet, differing)) = differing {
            bail!(
                "internal error: the look-ups of {table}/{chain} differ from the interpreter in {} \
                 for {packet:?}: nothing was written; please report the ruleset",
                differing.difference
            );
        }
        form.push_chain_lookup_program(program, count)?;
        checked += count;
    }
    process_timeout.disarm();
    form.manifest = create_classifier_folder(&form.manifest, &form.blocks, &args.output)
        .context("write the classifier form")?;
    if args.json {
        return terminal::print_escaped_if_terminal(&json_output::render_single_member_json(
            "compile",
            "manifest",
            &form.manifest,
        )?);
    }
    terminal::print_escaped_if_terminal(&render_summary(&form, checked, args))
}

/// Options of passes mean nothing here.
fn require_no_pass_options(args: &CompileArgs) -> Result<()> {
    let given = [
        ("--levels", args.tree_prefix_lengths.is_some()),
        ("--passes", args.passes.is_some()),
        ("--no-pass", !args.no_pass.is_empty()),
        ("--trust", args.write_without_comparison),
        ("--allow", !args.allow.is_empty()),
        ("--programs", !args.programs.is_empty()),
        ("--strict", args.refuse_partial_nft_form),
    ];
    match given.into_iter().find(|option| option.1) {
        Some((option, _)) => {
            bail!("{option} does not apply to --to classifier, which runs no pass")
        }
        None => Ok(()),
    }
}

/// The chains of those names, or all that have rules.
pub(super) fn select_chains<'f>(
    firewall: &'f Firewall,
    names: &[String],
) -> Result<Vec<BuiltInChain<'f>>> {
    let all = list_built_in_chains_with_rules(firewall);
    let known = || all.iter().map(|(_, table, chain)| format!("{table}/{chain}"));
    if let Some(name) = names.iter().find(|name| !known().any(|known| known == **name)) {
        let known: std::collections::BTreeSet<String> = known().collect();
        let known: Vec<String> = known.into_iter().collect();
        bail!(
            "there is no built-in chain {name} with rules; the chains with rules are {}",
            known.join(", ")
        );
    }
    if all.is_empty() {
        bail!("the ruleset has no rules in built-in chains: there is nothing to look up");
    }
    let is_selected = |(_, table, chain): &BuiltInChain<'_>| {
        names.is_empty() || names.contains(&format!("{table}/{chain}"))
    };
    Ok(all.iter().copied().filter(is_selected).collect())
}

fn render_summary(form: &ClassifierForm, checked: usize, args: &CompileArgs) -> String {
    let mut text = format!("classifier form in {}\n", args.output.display());
    for table in &form.manifest.tables {
        let stretches: usize = table.chains.iter().map(|chain| chain.stretches.len()).sum();
        let plural = if stretches == 1 { "" } else { "s" };
        text += &format!(
            "  compiled  {}: {} rules in {stretches} block{plural}\n",
            table.chain, table.rules
        );
    }
    let bytes: usize = form.blocks.iter().map(|block| block.1.len()).sum();
    text += &format!("  memory    {} of blocks\n", format_binary_byte_size(bytes as u64));
    text += &format!("  checked   {checked} packets, seed {}: equal\n", args.seed);
    text
}
