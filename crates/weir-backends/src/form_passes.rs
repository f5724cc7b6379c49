//! The passes of each form, and their entries in the manifest.

use weir_artefact::{CheckedPass, CompiledForm, EqualityCheckRecord};
use weir_model::Firewall;
use weir_passes::equivalence_check::PacketCheckOptions;
use weir_passes::{
    CheckedPassesOptions, CheckedPassesResult, FractionDoneFn, Pass, PassOptions, PassReport,
    passes, run_passes_until_first_refusal,
};

use crate::compile_options::{CompileError, CompileOptions};

/// The default passes of the form, in order.
const fn default_passes(form: CompiledForm) -> &'static [&'static str] {
    match form {
        CompiledForm::Linear => &[],
        CompiledForm::Tree => &["chain_tree"],
        CompiledForm::Ipset => &["fold_into_set", "chain_tree"],
        CompiledForm::Nft => &["fold_into_verdict_map"],
    }
}

/// The default passes of a form that are not among those to run.
pub(crate) fn default_passes_not_among(form: CompiledForm, names: &[&str]) -> Vec<&'static str> {
    default_passes(form).iter().copied().filter(|pass| !names.contains(pass)).collect()
}

/// The names of the passes to run, in order.
///
/// # Errors
/// [`CompileError::InvalidOption`] for a name that no pass has, or that the form cannot use.
pub(crate) fn select_pass_names(
    form: CompiledForm,
    options: &CompileOptions,
) -> Result<Vec<&str>, CompileError> {
    let chosen: Vec<&str> = match &options.passes {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => default_passes(form).to_vec(),
    };
    for name in chosen.iter().copied().chain(options.skipped_passes.iter().map(String::as_str)) {
        let maps = name == passes::FOLD_INTO_VERDICT_MAP_PASS_NAME;
        if !maps && passes::find_pass(name).is_none() {
            let all: Vec<&str> = passes::ALL_PASSES.iter().map(|p| p.name()).collect();
            let all = all.join(", ");
            return Err(CompileError::InvalidOption(format!(
                "unknown pass {name}; passes are {all}, {}",
                passes::FOLD_INTO_VERDICT_MAP_PASS_NAME
            )));
        }
        if form == CompiledForm::Nft && name == "fold_into_set" {
            return Err(CompileError::InvalidOption(
                "the nft form has its own sets: fold_into_set creates ipsets, which nft cannot use"
                    .to_owned(),
            ));
        }
        if maps && form != CompiledForm::Nft {
            return Err(CompileError::InvalidOption(format!(
                "{name} generates nft maps: use --to nft"
            )));
        }
    }
    let without = |n: &&str| !options.skipped_passes.iter().any(|w| w == n);
    Ok(chosen.into_iter().filter(without).collect())
}

/// Runs the passes of those names.
pub(crate) fn run_form_passes(
    firewall: &Firewall,
    names: &[&str],
    options: &CompileOptions,
    (form, id): (CompiledForm, &str),
    progress: &mut FractionDoneFn<'_>,
) -> Result<CheckedPassesResult, CompileError> {
    let passes: Vec<&dyn Pass> = names.iter().filter_map(|n| passes::find_pass(n)).collect();
    let pass = build_pass_options(options, id);
    let packet_check = PacketCheckOptions {
        seed: options.seed,
        packets_per_family: options.check_packets_per_family,
    };
    let options = CheckedPassesOptions {
        pass,
        packet_check,
        skip_equivalence_checks: options.trust,
        proof_steps_max: options.all_proofs_steps_max,
        proof_memory_bytes: options.diagram_memory_bytes_per_path_max,
        reserve_steps_for_later_proof: form == CompiledForm::Nft,
    };
    Ok(run_passes_until_first_refusal(firewall, &passes, &options, progress)?)
}

/// How passes work.
pub(crate) fn build_pass_options(options: &CompileOptions, id: &str) -> PassOptions {
    PassOptions {
        cost: options.cost.clone(),
        levels: options.tree_level_prefix_lengths.clone(),
        set_name_id: id.to_owned(),
        allow_counter_loss: options.allow_counter_loss,
        programs_with_rewritable_chains: options.programs_with_rewritable_chains.clone(),
    }
}

/// The manifest's entry about the checks.
pub(crate) fn build_equality_check_record(
    steps: &[PassReport],
    options: &CompileOptions,
) -> EqualityCheckRecord {
    let passes: Vec<CheckedPass> = steps.iter().map(to_checked_pass).collect();
    let packets = passes.iter().map(|p| p.evidence.compared_packet_count()).sum();
    EqualityCheckRecord { packets, seed: options.seed, passes }
}

fn to_checked_pass(step: &PassReport) -> CheckedPass {
    let tenth = |n: f64| (n * 10.0).round() / 10.0;
    CheckedPass {
        pass: step.pass.to_owned(),
        evidence: step.evidence.map_reason_to_text(),
        rules_before: step.rule_counts.0 as u64,
        rules_after: step.rule_counts.1 as u64,
        tried_before: step.mean_rules_tried.map(|t| tenth(t.0)),
        tried_after: step.mean_rules_tried.map(|t| tenth(t.1)),
    }
}
