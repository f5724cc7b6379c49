//! The passes of each form, and their entries in the manifest.

use weir_artefact::{Checked, CheckedPass, Form};
use weir_model::Firewall;
use weir_passes::check::CheckOptions;
use weir_passes::{
    CheckedRun, Pass, PassOptions, PassStep, ProgressFn, RunOptions, passes, run_checked,
};

use crate::form::{CompileError, CompileOptions};

/// The default passes of the form, in order.
const fn passes_of(form: Form) -> &'static [&'static str] {
    match form {
        Form::Linear => &[],
        Form::Tree => &["chain_tree"],
        Form::Ipset => &["fold_into_set", "chain_tree"],
        Form::Nft => &["fold_into_verdict_map"],
    }
}

/// The names of the passes to run, in order.
///
/// # Errors
/// [`CompileError::Option`] for a name that no pass has, or that the form cannot use.
pub(crate) fn names(form: Form, options: &CompileOptions) -> Result<Vec<&str>, CompileError> {
    let chosen: Vec<&str> = match &options.passes {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => passes_of(form).to_vec(),
    };
    for name in chosen.iter().copied().chain(options.without.iter().map(String::as_str)) {
        let maps = name == passes::FOLD_INTO_VERDICT_MAP;
        if !maps && passes::by_name(name).is_none() {
            let all: Vec<&str> = passes::ALL.iter().map(|p| p.name()).collect();
            let all = all.join(", ");
            return Err(CompileError::Option(format!(
                "unknown pass {name}; passes are {all}, {}",
                passes::FOLD_INTO_VERDICT_MAP
            )));
        }
        if form == Form::Nft && name == "fold_into_set" {
            return Err(CompileError::Option(
                "the nft form has its own sets: fold_into_set creates ipsets, which nft cannot use"
                    .to_owned(),
            ));
        }
        if maps && form != Form::Nft {
            return Err(CompileError::Option(format!("{name} generates nft maps: use --to nft")));
        }
    }
    let without = |n: &&str| !options.without.iter().any(|w| w == n);
    Ok(chosen.into_iter().filter(without).collect())
}

/// Runs the passes of those names.
pub(crate) fn run(
    firewall: &Firewall,
    names: &[&str],
    options: &CompileOptions,
    id: &str,
    progress: &mut ProgressFn<'_>,
) -> Result<CheckedRun, CompileError> {
    let passes: Vec<&dyn Pass> = names.iter().filter_map(|n| passes::by_name(n)).collect();
    let pass = pass_options(options, id);
    let check = CheckOptions { seed: options.seed, packets: options.check_packets };
    let options = RunOptions { pass, check, trust: options.trust, ..RunOptions::default() };
    Ok(run_checked(firewall, &passes, &options, progress)?)
}

/// How passes work.
pub(crate) fn pass_options(options: &CompileOptions, id: &str) -> PassOptions {
    PassOptions {
        cost: options.cost.clone(),
        levels: options.levels.clone(),
        id: id.to_owned(),
        allow_counters: options.allow_counters,
        programs: options.programs.clone(),
    }
}

/// The manifest's entry about the checks.
pub(crate) fn checked(steps: &[PassStep], options: &CompileOptions) -> Checked {
    let passes: Vec<CheckedPass> = steps.iter().map(of_step).collect();
    let packets = passes.iter().map(|p| p.evidence.packets()).sum();
    Checked { packets, seed: options.seed, passes }
}

fn of_step(step: &PassStep) -> CheckedPass {
    let tenth = |n: f64| (n * 10.0).round() / 10.0;
    CheckedPass {
        pass: step.pass.to_owned(),
        evidence: step.evidence.in_words(),
        rules_before: step.rules.0 as u64,
        rules_after: step.rules.1 as u64,
        tried_before: step.tried.map(|t| tenth(t.0)),
        tried_after: step.tried.map(|t| tenth(t.1)),
    }
}
