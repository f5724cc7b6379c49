//! `weir plan`, `apply`, `confirm`, `rollback`, `history` and `counters`: generations of the
//! ruleset in force.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weir_apply::apply_plan::plan_apply;
use weir_apply::apply_steps::ApplyStep;
use weir_apply::change_supervisor::{start_change_supervisor, supervise_changes};
use weir_apply::counter_listing::{OriginalCounterReader, read_counters_by_original_rule};
use weir_apply::firewall_metrics::read_firewall_metrics;
use weir_apply::generation_changes::{
    AppliedGeneration, ApplyRequest, LockedGenerations, ReachabilityProof,
};
use weir_apply::generation_listing::list_generations;
use weir_apply::state_store::SourceFile;
use weir_artefact::{Artefact, sha256_hex};
use weir_backends::CompileOptions;
use weir_kernel::call_inside_named_namespace;
use weir_kernel::process::PidWithStartTime;
use weir_model::iptables_tool_name;

use super::compile::{compile_ruleset_operand, parse_rewritable_programs};
use super::{YesNoExitStatus, boot_unit};
use crate::cli::{
    AppliedRulesetArgs, ApplyArgs, ConfirmArgs, CountersArgs, CountersFormatArg, HistoryArgs,
    NamespaceAndStateArgs, PlanArgs, RollbackArgs, SuperviseArgs,
};
use crate::metrics_text::render_metrics;
use crate::operand::{LoadedFirewall, RulesetTextKind};
use crate::process_timeout::ProcessTimeout;
use crate::{json_output, terminal};

/// Calls a command in the namespace given on the command line.
pub(super) fn call_in_selected_namespace<T: Send>(
    place: &NamespaceAndStateArgs,
    command: impl FnOnce(&Path) -> Result<T> + Send,
) -> Result<T> {
    match &place.netns {
        Some(name) => call_inside_named_namespace(name, || command(&place.state))?,
        None => command(&place.state),
    }
}

/// The artefact to apply, and the files that it was compiled from.
struct CompiledRuleset {
    artefact: Artefact,
    loaded: Option<LoadedFirewall>,
}

/// Compiles and checks a ruleset, or reads a compiled folder.
fn compile_or_read_artefact(
    args: &AppliedRulesetArgs,
    state: &Path,
    color: bool,
) -> Result<CompiledRuleset> {
    if let Some(folder) = &args.artefact {
        let stored = weir_artefact::read_artefact(folder)?;
        if let Some(edited) = stored.edited_files.first() {
            bail!(
                "{} was edited after it was compiled, and weir apply cannot attribute its counters \
                 any more: make the change in the ruleset and compile that (weir compile writes the \
                 directory anew, without the edit), or load the edited directory with sh \
                 {}/load.sh --allow-edited",
                folder.join(edited).display(),
                folder.display()
            );
        }
        return Ok(CompiledRuleset { artefact: stored.artefact, loaded: None });
    }
    if args.sources_besides_file.live && list_generations(state)?.in_force.is_some() {
        bail!(
            "--live: a generation of weir is in force, so the rules in the kernel are those of its \
             form: give the file that it was compiled from"
        );
    }
    let form = args.to.context("--to FORM is missing")?;
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let options = CompileOptions {
        seed: args.seed,
        check_packets_per_family: args.packets,
        programs_with_rewritable_chains: parse_rewritable_programs(&args.programs)?,
        all_proofs_steps_max: args.limits.step_count(),
        diagram_memory_bytes_per_path_max: args.limits.memory_bytes(),
        ..CompileOptions::default()
    };
    let (loaded, artefact) = compile_ruleset_operand(
        args.file.as_deref(),
        &args.sources_besides_file,
        form,
        &options,
        color,
    )?;
    process_timeout.disarm();
    Ok(CompiledRuleset { artefact, loaded: Some(loaded) })
}

impl CompiledRuleset {
    fn source_files(&self) -> Vec<(SourceFile, &str)> {
        let sources = self.loaded.iter().flat_map(|loaded| &loaded.sources);
        let file = |kind| match kind {
            RulesetTextKind::Rules(family) => iptables_tool_name(family),
            RulesetTextKind::Sets => "ipset",
        };
        let pair = sources.map(|source| {
            let described = SourceFile {
                name: source.name.clone(),
                copy: file(source.kind).to_owned(),
                sha256: sha256_hex(source.text.as_bytes()),
            };
            (described, source.text.as_str())
        });
        pair.collect()
    }
}

/// Prints what an apply would change. No if there are conflicts.
pub fn plan_and_print(args: &PlanArgs, color: bool) -> Result<YesNoExitStatus> {
    let plan = call_in_selected_namespace(&args.place, |state| {
        let compiled = compile_or_read_artefact(&args.ruleset, state, color)?;
        Ok(plan_apply(state, &compiled.artefact)?)
    })?;
    print_json_or_text("plan", &plan, args.json, &plan.render_text())?;
    Ok(if plan.conflicts.is_empty() { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

#[derive(Serialize)]
struct ApplyJson<'a> {
    generation: u32,
    previous: u32,
    confirm_seconds: Option<u64>,
    dropped_counter_rules: usize,
    steps: &'a [ApplyStep],
    recovered: Vec<&'a str>,
}

/// Puts a ruleset in force as a new generation.
pub fn apply_ruleset(args: &ApplyArgs, color: bool) -> Result<YesNoExitStatus> {
    if args.dry_run {
        let plan = call_in_selected_namespace(&args.place, |state| {
            let compiled = compile_or_read_artefact(&args.ruleset, state, color)?;
            Ok(plan_apply(state, &compiled.artefact)?)
        })?;
        print_json_or_text("plan", &plan, args.json, &plan.render_text())?;
        let is_free = plan.conflicts.is_empty();
        return Ok(if is_free { YesNoExitStatus::Yes } else { YesNoExitStatus::No });
    }
    if args.boot {
        boot_unit::require_systemd()?;
    }
    let (applied, recovered) = call_in_selected_namespace(&args.place, |state| {
        let compiled = compile_or_read_artefact(&args.ruleset, state, color)?;
        let wait = Duration::from_secs(args.wait);
        let mut generations = LockedGenerations::lock_and_recover(state, wait)?;
        print_recovery_messages(&generations);
        let request = ApplyRequest {
            artefact: &compiled.artefact,
            sources: compiled.source_files(),
            command: std::env::args().collect(),
            confirm: args.confirm,
            ignores_foreign_changes: args.ignores_foreign_changes,
        };
        let applied = generations.apply(&request, &|| start_change_supervisor(state))?;
        Ok((applied, generations.recovered))
    })?;
    let members = ApplyJson {
        generation: applied.generation,
        previous: applied.previous,
        confirm_seconds: applied.confirm_seconds,
        dropped_counter_rules: applied.dropped_counter_rules,
        steps: &applied.steps,
        recovered: recovered.iter().map(|recovered| &*recovered.sentence).collect(),
    };
    let printed = print_change_ignoring_output_errors(
        "apply",
        &members,
        args.json,
        &render_applied(&applied),
    )?;
    if args.boot {
        boot_unit::install_and_enable_unit()?;
    }
    Ok(printed)
}

fn render_applied(applied: &AppliedGeneration) -> String {
    let AppliedGeneration { generation, previous, confirm_seconds, .. } = applied;
    let mut text =
        format!("generation {generation} is in force and replaces generation {previous}\n");
    match applied.dropped_counter_rules {
        0 => {}
        1 => text.push_str("1 rule with counted packets is not in the new ruleset\n"),
        n => text.push_str(&format!("{n} rules with counted packets are not in the new ruleset\n")),
    }
    match confirm_seconds {
        Some(seconds) => text.push_str(&format!(
            "run weir confirm in a new session within {seconds} s, or generation {previous} is \
             restored\n"
        )),
        None => text.push_str(&format!("weir rollback restores generation {previous}\n")),
    }
    text
}

#[derive(Serialize)]
struct ConfirmJson {
    generation: u32,
    /// Peer of the connection that proves that the host can be reached.
    peer: Option<String>,
}

/// Confirms the generation that waits for its confirmation.
pub fn confirm_generation(args: &ConfirmArgs) -> Result<YesNoExitStatus> {
    let proof = match args.console {
        true => ReachabilityProof::Console,
        false => ReachabilityProof::SessionConnection,
    };
    let (generation, peer) = call_in_selected_namespace(&args.place, |state| {
        let wait = Duration::from_secs(args.wait);
        let mut generations = LockedGenerations::lock_and_recover(state, wait)?;
        print_recovery_messages(&generations);
        Ok(generations.confirm(proof)?)
    })?;
    let shown = peer.map(|peer| format!(" (connection from {peer})")).unwrap_or_default();
    let text = format!("generation {generation} is confirmed{shown}\n");
    let peer = peer.map(|peer| peer.to_string());
    print_change_ignoring_output_errors(
        "confirm",
        &ConfirmJson { generation, peer },
        args.json,
        &text,
    )
}

#[derive(Serialize)]
struct RollbackJson {
    from: u32,
    to: u32,
}

/// Restores an earlier generation.
pub fn roll_back_generation(args: &RollbackArgs) -> Result<YesNoExitStatus> {
    let restored = call_in_selected_namespace(&args.place, |state| {
        let wait = Duration::from_secs(args.wait);
        let mut generations = LockedGenerations::lock_and_recover(state, wait)?;
        print_recovery_messages(&generations);
        let supervise = || start_change_supervisor(state);
        Ok(generations.roll_back(args.generation, args.ignores_foreign_changes, &supervise)?)
    })?;
    let (from, to) = (restored.from, restored.to);
    let text = format!("generation {to} is in force and replaces generation {from}\n");
    print_change_ignoring_output_errors("rollback", &RollbackJson { from, to }, args.json, &text)
}

/// Prints all generations.
pub fn print_history(args: &HistoryArgs) -> Result<YesNoExitStatus> {
    let listing = call_in_selected_namespace(&args.place, |state| Ok(list_generations(state)?))?;
    print_json_or_text("history", &listing, args.json, &listing.render_history())
}

/// Prints the counters of the original rules in force, once or again and again.
pub fn print_counters(args: &CountersArgs) -> Result<YesNoExitStatus> {
    loop {
        let text = call_in_selected_namespace(&args.place, |state| render_counters(state, args));
        let Some(interval) = args.watch else {
            return terminal::print_escaped_if_terminal(&text?);
        };
        match text {
            Ok(text) => drop(terminal::print_escaped_if_terminal(&text)?),
            // The ruleset is being changed, for example: the next reading may succeed.
            Err(error) => terminal::print_escaped_to_stderr(&format!("weir: {error:#}\n")),
        }
        std::thread::sleep(interval);
    }
}

fn render_counters(state: &Path, args: &CountersArgs) -> Result<String> {
    Ok(match args.format {
        CountersFormatArg::Iptables => {
            read_counters_by_original_rule(state)?.render_iptables_text()
        }
        CountersFormatArg::Csv => read_counters_by_original_rule(state)?.render_csv(),
        CountersFormatArg::Json => {
            json_output::render_json_object("counters", &read_counters_by_original_rule(state)?)?
        }
        CountersFormatArg::Prometheus => {
            let mut reader = OriginalCounterReader::new(state);
            render_metrics(&read_firewall_metrics(state, &mut reader)?, args.key)?
        }
    })
}

/// Recovers interrupted changes, and rolls back unconfirmed generations.
pub fn supervise_unconfirmed_generation(args: &SuperviseArgs) -> Result<YesNoExitStatus> {
    let owner = PidWithStartTime { pid: args.owner_pid, start: args.owner_start_ticks };
    supervise_changes(&args.state, owner)?;
    Ok(YesNoExitStatus::Yes)
}

pub(super) fn print_recovery_messages(generations: &LockedGenerations) {
    for recovered in &generations.recovered {
        terminal::print_escaped_to_stderr(&format!("weir: {}\n", recovered.sentence));
    }
}

/// Prints what was changed. The change is complete even if printing fails, so the status is yes.
pub(super) fn print_change_ignoring_output_errors<T: Serialize>(
    command: &str,
    members: &T,
    is_json: bool,
    text: &str,
) -> Result<YesNoExitStatus> {
    if let Err(error) = print_json_or_text(command, members, is_json, text)
        && !terminal::is_closed_pipe(&error)
    {
        terminal::print_escaped_to_stderr(&format!("weir: write standard output: {error}\n{text}"));
    }
    Ok(YesNoExitStatus::Yes)
}

fn print_json_or_text<T: Serialize>(
    command: &str,
    members: &T,
    is_json: bool,
    text: &str,
) -> Result<YesNoExitStatus> {
    match is_json {
        true => {
            terminal::print_escaped_if_terminal(&json_output::render_json_object(command, members)?)
        }
        false => terminal::print_escaped_to_stdout(text),
    }
}
