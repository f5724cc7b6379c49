//! Applying an artefact as a new generation.

use std::time::{Duration, Instant};

use weir_artefact::Artefact;
use weir_kernel::boot_clock::{read_boot_id, time_since_boot};
use weir_kernel::tcp_sockets::{TcpSocketState, read_tcp_sockets};
use weir_model::Family;

use super::foreign_changes::add_foreign_sets;
use super::{
    LockedGenerations, StartSupervisor, check_unchanged_by_others, family_of_source_file,
    read_original_rules, read_ruleset_completed_from_baseline, read_tables_and_sets_in_force,
};
use crate::ApplyOperationError;
use crate::apply_conflicts::list_apply_conflicts;
use crate::apply_steps::{ApplyStep, plan_apply_steps};
use crate::artefact_ruleset::{list_artefact_tables, merge_artefact_into_ruleset};
use crate::firewall_status::read_firewall_status;
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, RulesetInForce, find_artefact_mark, is_legacy_table_in_use,
    list_set_names,
};
use crate::rule_counters::{OriginalRules, add_counts_during_change, carry_counters};
use crate::state_store::{
    ConfirmationDeadline, GenerationKind, GenerationOutcome, GenerationRecord, Journal,
    JournalOperation, JournalStage, SourceFile,
};
use crate::step_execution::tool_of_step;
use crate::tool_execution::read_tool_output;

/// The artefact to apply, and how.
#[derive(Clone, Debug)]
pub struct ApplyRequest<'a> {
    /// The compiled form.
    pub artefact: &'a Artefact,
    /// The files that it was compiled from, with their texts; none for a compiled directory.
    pub sources: Vec<(SourceFile, &'a str)>,
    /// The command line.
    pub command: Vec<String>,
    /// Time limit of the confirmation, if one is required.
    pub confirm: Option<Duration>,
    /// Whether to proceed if another program changed the ruleset in force.
    pub ignores_foreign_changes: bool,
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedGeneration {
    /// The new generation.
    pub generation: u32,
    /// The generation that was in force before.
    pub previous: u32,
    /// The executed steps.
    pub steps: Vec<ApplyStep>,
    /// Time limit of the confirmation in seconds.
    pub confirm_seconds: Option<u64>,
    /// Number of previous rules with counted packets that are not in the new ruleset.
    pub dropped_counter_rules: usize,
}

impl ApplyRequest<'_> {
    /// The original rules of the artefact, and where they are counted.
    fn original_rules(&self) -> OriginalRules {
        let texts: Vec<(Family, String)> = self
            .sources
            .iter()
            .filter_map(|(source, text)| Some((family_of_source_file(source)?, (*text).to_owned())))
            .collect();
        OriginalRules::of_sources(&texts, &self.artefact.manifest)
    }
}

impl LockedGenerations {
    /// Puts an artefact in force as a new generation.
    ///
    /// `start_supervisor` is called before the first change.
    ///
    /// # Errors
    /// If it is refused or fails; the previous ruleset is then in force.
    pub fn apply(
        &mut self,
        request: &ApplyRequest<'_>,
        start_supervisor: StartSupervisor<'_>,
    ) -> Result<AppliedGeneration, ApplyOperationError> {
        if let Some(pending) = self.store.read_journal()? {
            return Err(ApplyOperationError::ConfirmationPending {
                generation: pending.to,
                seconds_left: pending.seconds_left().unwrap_or_default(),
            });
        }
        let current = self.store.read_current_of_this_boot()?;
        let recorded = match current.generation {
            Some(generation) => self.store.read_ruleset(generation)?,
            None => KernelRulesetTexts::default(),
        };
        let present = read_affected_ruleset_in_force(request.artefact, &recorded)?;
        refuse_conflicts(request, &present, &recorded)?;
        let mut wanted = plan_wanted_ruleset(request.artefact, &recorded, &present.ruleset)?;
        let old_originals = match current.generation {
            // If another program added or removed rules, numbers no longer identify the original
            // rules.
            Some(generation)
                if check_unchanged_by_others(&recorded, &present.ruleset, generation).is_ok() =>
            {
                read_original_rules(&self.store, generation)?
            }
            _ => OriginalRules::of_legacy_tables(&present.ruleset),
        };
        let steps = plan_apply_steps(&present, &wanted);
        check_required_tools(&steps, &wanted)?;
        let previous = self.save_ruleset_in_force(request, &recorded, &present)?;
        let baseline = self.store.read_current_of_this_boot()?.baseline.unwrap_or(previous);
        let generation = self.write_new_generation(request, &wanted, previous)?;
        let ids = [previous, generation, baseline];
        let mut journal = Journal::new_change(JournalOperation::Apply, ids, read_boot_id()?);
        journal.steps.clone_from(&steps);
        journal.confirm_seconds = request.confirm.map(|limit| limit.as_secs());
        let begun = start_supervisor().and_then(|supervisor| {
            journal.supervisor = Some(supervisor);
            journal.deadline = request.confirm.map(|limit| ConfirmationDeadline {
                boottime_nanoseconds: (time_since_boot() + limit).as_nanos() as u64,
                tcp_cookies_before: Vec::new(),
            });
            self.store.write_journal(&journal)
        });
        if let Err(error) = begun {
            self.store.remove_generation(generation)?;
            return Err(error);
        }
        let begin = Instant::now();
        let done =
            self.change_ruleset_and_carry_counters(request, &present, &old_originals, &mut wanted);
        let apply_time = begin.elapsed();
        let done = done.and_then(|dropped_counter_rules| {
            self.verify_and_record_generation_in_force(request, &mut journal, &wanted, apply_time)?;
            Ok(dropped_counter_rules)
        });
        let dropped_counter_rules = match done {
            Ok(dropped_counter_rules) => dropped_counter_rules,
            Err(cause) => return Err(self.undo_apply(&journal, &wanted, cause)),
        };
        self.store.write_current(generation, baseline)?;
        if request.confirm.is_none() {
            self.record_boot_generation(generation)?;
            self.store.remove_journal()?;
        }
        let confirm_seconds = journal.confirm_seconds;
        Ok(AppliedGeneration {
            generation,
            previous,
            steps,
            confirm_seconds,
            dropped_counter_rules,
        })
    }

    /// Changes the ruleset and carries over counters, which are read immediately before. Returns
    /// the number of rules with counted packets that are not in the new ruleset.
    fn change_ruleset_and_carry_counters(
        &self,
        request: &ApplyRequest<'_>,
        present: &RulesetInForce,
        old_originals: &OriginalRules,
        wanted: &mut KernelRulesetTexts,
    ) -> Result<usize, ApplyOperationError> {
        let new_originals = request.original_rules();
        let counters = self.read_current_counters(&present.ruleset)?;
        let dropped = carry_counters(old_originals, &counters, &new_originals, wanted);
        let replaced = self.change_ruleset_to(present, wanted)?;
        add_counts_during_change(old_originals, [&counters, &replaced], &new_originals)?;
        Ok(dropped)
    }

    /// Saves the ruleset in force in the current generation, or as the first generation.
    fn save_ruleset_in_force(
        &mut self,
        request: &ApplyRequest<'_>,
        recorded: &KernelRulesetTexts,
        present: &RulesetInForce,
    ) -> Result<u32, ApplyOperationError> {
        let current = self.store.read_current_of_this_boot()?;
        let Some(baseline) = current.baseline else {
            let generation = self.store.create_generation_folder()?;
            self.store.write_ruleset(generation, &add_foreign_sets(present.ruleset.clone())?)?;
            let kind = GenerationKind::Snapshot;
            let mut record = GenerationRecord::new(generation, kind, None, &request.command);
            record.outcome = GenerationOutcome::Applied;
            self.store.write_generation_record(&record)?;
            self.store.write_current(generation, generation)?;
            return Ok(generation);
        };
        // A table that no generation contained until now is unchanged since before weir.
        let mut before_weir = self.store.read_ruleset(baseline)?;
        let known = before_weir.legacy_tables.len();
        for (table, text) in &present.ruleset.legacy_tables {
            before_weir.legacy_tables.entry(*table).or_insert_with(|| text.clone());
        }
        let is_baseline_current = current.generation == Some(baseline);
        if before_weir.legacy_tables.len() > known {
            let named = add_foreign_sets(before_weir.clone())?.foreign_sets;
            for (set, text) in named {
                before_weir.foreign_sets.entry(set).or_insert(text);
            }
            self.store.write_ruleset(baseline, &before_weir)?;
        }
        let recorded = if is_baseline_current { &before_weir } else { recorded };
        self.save_outgoing_generation(
            recorded,
            &present.ruleset,
            request.ignores_foreign_changes,
            &request.command,
        )
    }

    /// Writes the files of a new generation, which is not in force yet.
    fn write_new_generation(
        &self,
        request: &ApplyRequest<'_>,
        wanted: &KernelRulesetTexts,
        previous: u32,
    ) -> Result<u32, ApplyOperationError> {
        let generation = self.store.create_generation_folder()?;
        let written = self.write_generation_folder(request, wanted, generation, previous);
        if written.is_err() {
            // To free space on a disk that may be full.
            let _ = self.store.remove_generation(generation);
        }
        written.map(|()| generation)
    }

    fn write_generation_folder(
        &self,
        request: &ApplyRequest<'_>,
        wanted: &KernelRulesetTexts,
        generation: u32,
        previous: u32,
    ) -> Result<(), ApplyOperationError> {
        for (source, text) in &request.sources {
            self.store.write_generation_file(generation, "source", &source.copy, text)?;
        }
        let folder = self.store.generation_folder(generation);
        weir_backends::write_artefact(request.artefact, &folder.join("artefact"))?;
        self.store.write_ruleset(generation, wanted)?;
        let manifest = &request.artefact.manifest;
        let kind = GenerationKind::Applied {
            form: manifest.form,
            artefact_id: manifest.id.clone(),
            sources: request.sources.iter().map(|(source, _)| source.clone()).collect(),
        };
        let mut record = GenerationRecord::new(generation, kind, Some(previous), &request.command);
        record.ignores_foreign_changes = request.ignores_foreign_changes;
        self.store.write_generation_record(&record)
    }

    /// Checks that the new ruleset is in force, and records the kernel's listing of it.
    fn verify_and_record_generation_in_force(
        &self,
        request: &ApplyRequest<'_>,
        journal: &mut Journal,
        wanted: &KernelRulesetTexts,
        apply_time: Duration,
    ) -> Result<(), ApplyOperationError> {
        let tables = wanted.tables();
        let present = read_tables_and_sets_in_force(&tables, &[wanted])?.ruleset;
        let id = request.artefact.manifest.id.as_str();
        for table in list_artefact_tables(request.artefact) {
            let is_expected = |ruleset: &KernelRulesetTexts| {
                let text = ruleset.legacy_tables.get(&table).map(String::as_str);
                text.and_then(find_artefact_mark) == Some(id)
            };
            let is_in_nft = |ruleset: &KernelRulesetTexts| ruleset.nft_tables.contains_key(&table);
            if is_expected(&present) != is_expected(wanted)
                || is_in_nft(&present) != is_in_nft(wanted)
            {
                return Err(ApplyOperationError::TableChangedMeanwhile { table });
            }
        }
        self.store.write_ruleset(journal.to, &add_foreign_sets(present)?)?;
        let mut record = self.store.read_generation_record(journal.to)?;
        record.outcome = GenerationOutcome::Applied;
        record.apply_microseconds = Some(apply_time.as_micros() as u64);
        self.store.write_generation_record(&record)?;
        journal.stage = JournalStage::InForce;
        if let Some(deadline) = &mut journal.deadline {
            let sockets = read_tcp_sockets()?;
            let is_connection = |state| state != TcpSocketState::Listening;
            let before = sockets.iter().filter(|socket| is_connection(socket.state));
            deadline.tcp_cookies_before = before.map(|socket| socket.cookie).collect();
        }
        self.store.write_journal(journal)
    }

    /// Restores the previous ruleset after an error, and returns that error.
    fn undo_apply(
        &self,
        journal: &Journal,
        wanted: &KernelRulesetTexts,
        cause: ApplyOperationError,
    ) -> ApplyOperationError {
        let tables = wanted.tables();
        let undone = read_ruleset_completed_from_baseline(
            &self.store,
            journal.from,
            journal.baseline,
            &tables,
        )
        .and_then(|back| self.undo_partial_change(&back, wanted));
        match undone {
            Err(undo) => ApplyOperationError::UndoFailed {
                cause: Box::new(cause),
                generation: journal.from,
                undo: Box::new(undo),
            },
            Ok(()) => {
                let forgotten = self.store.remove_journal();
                // A generation that was never in force is useless; the next one replaces it.
                let _ = self.store.remove_generation(journal.to);
                forgotten.err().unwrap_or(cause)
            }
        }
    }
}

/// Reads the ruleset in force for the tables of an artefact and of a generation, and its sets.
pub(crate) fn read_affected_ruleset_in_force(
    artefact: &Artefact,
    recorded: &KernelRulesetTexts,
) -> Result<RulesetInForce, ApplyOperationError> {
    let mut tables = list_artefact_tables(artefact);
    tables.extend(recorded.tables());
    tables.sort();
    tables.dedup();
    read_tables_and_sets_in_force(&tables, &[recorded])
}

/// The ruleset that replaces `present` when an artefact is applied. `recorded` is the record of the
/// current generation.
pub(crate) fn plan_wanted_ruleset(
    artefact: &Artefact,
    recorded: &KernelRulesetTexts,
    present: &KernelRulesetTexts,
) -> Result<KernelRulesetTexts, ApplyOperationError> {
    let mut foreign_sets = Vec::new();
    if artefact.contents.sets.is_some() {
        foreign_sets = list_set_names()?;
        foreign_sets.retain(|set| !recorded.sets.contains_key(set));
    }
    let mut in_use = Vec::new();
    for table in list_artefact_tables(artefact) {
        if is_legacy_table_in_use(table)? {
            in_use.push(table);
        }
    }
    let is_in_use = |table: FamilyTable| in_use.contains(&table);
    Ok(merge_artefact_into_ruleset(artefact, present, &foreign_sets, is_in_use))
}

fn refuse_conflicts(
    request: &ApplyRequest<'_>,
    present: &RulesetInForce,
    recorded: &KernelRulesetTexts,
) -> Result<(), ApplyOperationError> {
    let status = read_firewall_status();
    let conflicts = list_apply_conflicts(request.artefact, &present.ruleset, &status, recorded);
    let serious = |forceable: bool| !(forceable && request.ignores_foreign_changes);
    let messages: Vec<String> = conflicts
        .into_iter()
        .filter(|conflict| serious(conflict.is_forceable))
        .map(|conflict| conflict.message)
        .collect();
    match messages.is_empty() {
        true => Ok(()),
        false => Err(ApplyOperationError::Refused(messages.join("\n"))),
    }
}

/// Checks, before the first step, that the tools of all steps are installed.
fn check_required_tools(
    steps: &[ApplyStep],
    wanted: &KernelRulesetTexts,
) -> Result<(), ApplyOperationError> {
    let mut tools: Vec<&str> = Vec::new();
    for step in steps {
        let (tool, _) = tool_of_step(step, wanted);
        tools.extend(tool.filter(|tool| !tools.contains(tool)));
    }
    for tool in tools {
        read_tool_output(&[tool, "--version"])?;
    }
    Ok(())
}
