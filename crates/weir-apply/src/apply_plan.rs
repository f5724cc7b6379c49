//! The plan of an apply: what it would change. Nothing is changed.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use weir_artefact::{Artefact, CompiledForm};

use crate::ApplyOperationError;
use crate::apply_conflicts::list_apply_conflicts;
use crate::apply_steps::{ApplyStep, plan_apply_steps};
use crate::artefact_ruleset::list_artefact_tables;
use crate::firewall_status::{FirewallKind, FirewallStatus, read_firewall_status};
use crate::generation_changes::{
    check_unchanged_by_others, plan_wanted_ruleset, read_affected_ruleset_in_force,
};
use crate::kernel_ruleset::{FamilyTable, KernelRulesetTexts, list_chain_names};
use crate::rule_counters::is_nft_rule_line;
use crate::state_store::{Journal, StateStore};
use crate::step_execution::tool_of_step;

/// The plan of an apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplyPlan {
    /// The form.
    pub form: CompiledForm,
    /// The identity of the artefact.
    pub artefact_id: String,
    /// The generation in force; none before the first apply.
    pub generation_in_force: Option<u32>,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// The changes of each table.
    pub tables: Vec<TableChange>,
    /// Whether packets traverse both rulesets during the change.
    pub both_in_force: bool,
    /// Unchanged tables, sets and other firewalls.
    pub unchanged: Vec<String>,
    /// State of the kernel that is kept.
    pub kept_state: Vec<String>,
    /// State of the kernel that is reset.
    pub lost_state: Vec<String>,
    /// Conflicts to resolve first; empty if the artefact can be applied.
    pub conflicts: Vec<String>,
}

/// A step and the tool that executes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// The step.
    #[serde(flatten)]
    pub step: ApplyStep,
    /// A description of the step.
    pub description: String,
    /// The tool that executes it; none if weir does.
    pub tool: Option<&'static str>,
    /// Why a table is not loaded natively.
    pub reason: Option<String>,
}

/// The changes of an iptables table, in legacy iptables or nft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableChange {
    /// The table.
    pub table: FamilyTable,
    /// Number of rules in legacy iptables and nft before the apply.
    pub rules_before: LegacyAndNftRuleCount,
    /// The numbers after the apply.
    pub rules_after: LegacyAndNftRuleCount,
    /// Chains that only the new ruleset has.
    pub new_chains: Vec<String>,
    /// Chains that only the present ruleset has.
    pub removed_chains: Vec<String>,
}

/// Number of rules of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LegacyAndNftRuleCount {
    /// In legacy iptables.
    pub legacy: usize,
    /// In nft.
    pub nft: usize,
}

/// Plans an apply in the current network namespace.
///
/// # Errors
/// If weir is not root, or something cannot be read.
pub fn plan_apply(state: &Path, artefact: &Artefact) -> Result<ApplyPlan, ApplyOperationError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ApplyOperationError::Refused(
            "only root can read the ruleset in force: run weir as root".to_owned(),
        ));
    }
    let store = StateStore::find(state)?;
    let journal = store.read_journal()?;
    let current = store.read_current_of_this_boot()?.generation;
    let recorded = match current {
        Some(generation) => store.read_ruleset(generation)?,
        None => KernelRulesetTexts::default(),
    };
    let present = read_affected_ruleset_in_force(artefact, &recorded)?;
    let wanted = plan_wanted_ruleset(artefact, &recorded, &present.ruleset)?;
    let status = read_firewall_status();
    let steps = plan_apply_steps(&present, &wanted);
    let mut conflicts: Vec<String> = journal.iter().map(describe_journal).collect();
    if let Some(generation) = current {
        let changed = check_unchanged_by_others(&recorded, &present.ruleset, generation);
        conflicts.extend(changed.err().map(|error| error.to_string()));
    }
    for found in list_apply_conflicts(artefact, &present.ruleset, &status, &recorded) {
        // An artefact that load.sh loaded is also a change of the generation.
        if !conflicts.contains(&found.message) {
            conflicts.push(found.message);
        }
    }
    let (kept_state, lost_state) = list_kept_and_lost_rule_state(&present.ruleset, &wanted, &steps);
    Ok(ApplyPlan {
        form: artefact.manifest.form,
        artefact_id: artefact.manifest.id.clone(),
        generation_in_force: current,
        both_in_force: moves_rules_between_legacy_and_nft(&steps, &present.ruleset),
        tables: list_table_changes(&present.ruleset, &wanted),
        unchanged: list_unchanged_objects(artefact, &recorded, &wanted, &status),
        steps: steps.into_iter().map(|step| describe_step(step, &wanted)).collect(),
        kept_state,
        lost_state,
        conflicts,
    })
}

fn describe_journal(journal: &Journal) -> String {
    match journal.seconds_left() {
        Some(seconds) => format!(
            "generation {} waits for its confirmation ({seconds} s left): run weir confirm or weir \
             rollback",
            journal.to
        ),
        None => format!(
            "the change from generation {} to {} was interrupted: the next weir apply, confirm or \
             rollback recovers it first",
            journal.from, journal.to
        ),
    }
}

fn describe_step(step: ApplyStep, wanted: &KernelRulesetTexts) -> PlannedStep {
    let (tool, reason) = tool_of_step(&step, wanted);
    PlannedStep { description: step.to_string(), step, tool, reason }
}

/// Whether rules move between legacy iptables and nft: the two cannot change at the same instant.
fn moves_rules_between_legacy_and_nft(steps: &[ApplyStep], present: &KernelRulesetTexts) -> bool {
    let is_nft = |step: &ApplyStep| {
        matches!(
            step,
            ApplyStep::AddNftCopies { .. }
                | ApplyStep::ReplaceNftTables { .. }
                | ApplyStep::RecreateNftTables { .. }
                | ApplyStep::RemoveNftTables { .. }
        )
    };
    let is_legacy = |step: &ApplyStep| match step {
        ApplyStep::ReplaceLegacyTable { table } => {
            let before =
                present.legacy_tables.get(table).map_or(0, |text| count_iptables_save_rules(text));
            before > 0 || present.nft_tables.contains_key(table)
        }
        _ => false,
    };
    steps.iter().any(is_nft) && steps.iter().any(is_legacy)
}

/// Number of rules in iptables-save text.
fn count_iptables_save_rules(text: &str) -> usize {
    let is_rule = |line: &&str| line.starts_with("-A ") || line.contains("] -A ");
    text.lines().filter(is_rule).count()
}

/// Number of rules in an nft table.
fn count_rules_of_nft_listing(text: &str) -> usize {
    let (mut is_in_chain, mut rules) = (false, 0);
    for line in text.lines().map(str::trim) {
        if line.starts_with("chain ") {
            is_in_chain = true;
        } else if line == "}" {
            is_in_chain = false;
        } else if is_in_chain && is_nft_rule_line(line) {
            rules += 1;
        }
    }
    rules
}

fn list_table_changes(
    present: &KernelRulesetTexts,
    wanted: &KernelRulesetTexts,
) -> Vec<TableChange> {
    let count = |ruleset: &KernelRulesetTexts, table: &FamilyTable| LegacyAndNftRuleCount {
        legacy: ruleset.legacy_tables.get(table).map_or(0, |text| count_iptables_save_rules(text)),
        nft: ruleset.nft_tables.get(table).map_or(0, |text| count_rules_of_nft_listing(text)),
    };
    let chains = |ruleset: &KernelRulesetTexts, table: &FamilyTable| -> BTreeSet<String> {
        let legacy = ruleset.legacy_tables.get(table).map(String::as_str).unwrap_or_default();
        let nft = ruleset.nft_tables.get(table).map(String::as_str).unwrap_or_default();
        let in_nft =
            nft.lines().filter_map(|line| line.trim().strip_prefix("chain ")?.strip_suffix(" {"));
        list_chain_names(legacy).into_iter().chain(in_nft).map(str::to_owned).collect()
    };
    let is_changed = |table: &FamilyTable| {
        present.legacy_tables.get(table) != wanted.legacy_tables.get(table)
            || present.nft_tables.get(table) != wanted.nft_tables.get(table)
    };
    let tables = wanted.tables().into_iter().filter(is_changed);
    tables
        .map(|table| {
            let (before, after) = (chains(present, &table), chains(wanted, &table));
            TableChange {
                rules_before: count(present, &table),
                rules_after: count(wanted, &table),
                new_chains: after.difference(&before).cloned().collect(),
                removed_chains: before.difference(&after).cloned().collect(),
                table,
            }
        })
        .collect()
}

fn list_unchanged_objects(
    artefact: &Artefact,
    recorded: &KernelRulesetTexts,
    wanted: &KernelRulesetTexts,
    status: &FirewallStatus,
) -> Vec<String> {
    let covered = list_artefact_tables(artefact);
    let mut unchanged: Vec<String> = recorded
        .tables()
        .into_iter()
        .filter(|table| !covered.contains(table))
        .map(|table| format!("table {table} of the generation in force"))
        .collect();
    for table in &status.tables {
        let is_other = match table.kind {
            FirewallKind::LegacyIptables => {
                let is_it = |of: &FamilyTable| {
                    of.nft_family() == table.family && of.table.as_str() == table.name
                };
                !wanted.tables().iter().any(is_it)
            }
            FirewallKind::WeirNft => false,
            FirewallKind::IptablesNft | FirewallKind::NativeNft => true,
        };
        if is_other && table.affects_packets() {
            unchanged.push(format!("{}: packets also traverse it", table.place()));
        }
    }
    if let Some(sets) = &artefact.contents.sets {
        for set in crate::state_store::split_sets(&sets.user).keys() {
            if !wanted.sets.contains_key(set) {
                unchanged.push(format!("set {set} exists and keeps its elements"));
            }
        }
    }
    unchanged
}

/// Options that name state which the kernel keeps as long as a rule uses it.
const OPTIONS_NAMING_KEPT_STATE: [(&str, &str); 2] =
    [("--hashlimit-name", "hashlimit table"), ("--name", "recent list")];
/// Matches with state per rule, and what happens to it.
const MATCHES_THAT_LOSE_STATE: [(&str, &str); 4] = [
    ("-m limit", "limit: bursts start full again"),
    ("-m quota", "quota: counts start again"),
    ("-m statistic", "statistic: positions start again"),
    ("-m connlimit", "connlimit: connection counts start again"),
];

/// Lists the state of rules in the kernel that is kept, and that is lost.
fn list_kept_and_lost_rule_state(
    present: &KernelRulesetTexts,
    wanted: &KernelRulesetTexts,
    steps: &[ApplyStep],
) -> (Vec<String>, Vec<String>) {
    let is_replaced = |table: &FamilyTable| {
        steps
            .iter()
            .any(|step| matches!(step, ApplyStep::ReplaceLegacyTable { table: t } if t == table))
    };
    let replaced: Vec<&String> = present
        .legacy_tables
        .iter()
        .filter(|(t, _)| is_replaced(t))
        .map(|(_, text)| text)
        .collect();
    let mut kept = vec!["connections stay tracked (conntrack)".to_owned()];
    let mut lost = Vec::new();
    for (option, what) in OPTIONS_NAMING_KEPT_STATE {
        for name in list_option_values(replaced.iter().copied(), option) {
            let is_named =
                list_option_values(wanted.legacy_tables.values(), option).contains(&name);
            match is_named {
                true => kept.push(format!("{what} {name}")),
                false => {
                    lost.push(format!("{what} {name}: no rule of legacy iptables uses it any more"))
                }
            }
        }
    }
    for (words, what) in MATCHES_THAT_LOSE_STATE {
        if replaced.iter().any(|text| text.contains(words)) {
            lost.push(what.to_owned());
        }
    }
    (kept, lost)
}

fn list_option_values<'t>(
    texts: impl Iterator<Item = &'t String>,
    option: &str,
) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    for text in texts {
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            if word == option {
                values.extend(words.next().map(str::to_owned));
            }
        }
    }
    values
}

impl ApplyPlan {
    /// The plan as text.
    pub fn render_text(&self) -> String {
        let mut out = self.render_readiness_and_conflicts();
        out.push_str(&format!("form        {}, artefact {}\n", self.form, self.artefact_id));
        let in_force = match self.generation_in_force {
            Some(generation) => format!("generation {generation}"),
            None => "the ruleset from before weir; it is saved as a generation".to_owned(),
        };
        out.push_str(&format!("in force    {in_force}\n"));
        for (number, planned) in self.steps.iter().enumerate() {
            let by = planned.tool.map(|tool| format!(" ({tool})")).unwrap_or_default();
            let why = planned.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
            out.push_str(&format!("step {:<6} {}{by}{why}\n", number + 1, planned.description));
        }
        if self.both_in_force {
            out.push_str("meanwhile   packets traverse the old ruleset, the new one or both\n");
        }
        for change in &self.tables {
            out.push_str(&change.render_line());
        }
        let mut list = |what: &str, lines: &[String]| {
            for line in lines {
                out.push_str(&format!("{what:<11} {line}\n"));
            }
        };
        list("lost", &self.lost_state);
        list("kept", &self.kept_state);
        list("unchanged", &self.unchanged);
        out
    }

    /// Whether weir apply would go ahead, and what it would change or what prevents it.
    fn render_readiness_and_conflicts(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (steps, tables) = (self.steps.len(), self.tables.len());
        let mut out = match (self.conflicts.len(), steps) {
            (0, 0) => "result      no change: the ruleset is already in force\n".to_owned(),
            (0, _) => format!(
                "result      ready to apply: {}, {} changed\n",
                count(steps, "step"),
                count(tables, "table")
            ),
            (conflicts, _) => format!(
                "result      weir apply would refuse: {} to resolve\n",
                count(conflicts, "conflict")
            ),
        };
        for conflict in &self.conflicts {
            out.push_str(&format!("conflict    {conflict}\n"));
        }
        out
    }
}

impl TableChange {
    fn render_line(&self) -> String {
        let count = |count: LegacyAndNftRuleCount| match count {
            LegacyAndNftRuleCount { legacy, nft: 0 } => format!("{legacy} rules"),
            LegacyAndNftRuleCount { legacy: 0, nft } => format!("{nft} rules in nft"),
            LegacyAndNftRuleCount { legacy, nft } => format!("{legacy} rules and {nft} in nft"),
        };
        format!(
            "table       {}: {} to {}; {} new chains, {} removed\n",
            self.table,
            count(self.rules_before),
            count(self.rules_after),
            self.new_chains.len(),
            self.removed_chains.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;

    #[test]
    fn named_state_is_kept_while_a_rule_uses_it() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        let ruleset = |rule: &str| {
            let mut ruleset = KernelRulesetTexts::default();
            ruleset.legacy_tables.insert(table, format!("*filter\n-A INPUT {rule}\nCOMMIT\n"));
            ruleset
        };
        let old = ruleset("-m recent --set --name ssh -m limit --limit 5/min");
        let steps = [ApplyStep::ReplaceLegacyTable { table }];
        let (kept, lost) = list_kept_and_lost_rule_state(&old, &old, &steps);
        assert!(kept.contains(&"recent list ssh".to_owned()), "{kept:?}");
        assert_eq!(lost, ["limit: bursts start full again"]);
        let (_, lost) = list_kept_and_lost_rule_state(&old, &ruleset("-j DROP"), &steps);
        assert!(lost.iter().any(|line| line.starts_with("recent list ssh")), "{lost:?}");
    }

    #[test]
    fn rules_in_legacy_and_nft_texts_are_counted() {
        let nft = "table ip weir_filter {\n\tmap m {\n\t\ttype ipv4_addr : verdict\n\t}\n\tchain c {\n\
                   \t\ttype filter hook input priority 0; policy drop;\n\t\tcounter accept\n\t}\n}\n";
        assert_eq!(count_rules_of_nft_listing(nft), 1);
        let legacy = "*filter\n:INPUT DROP [0:0]\n[0:0] -A INPUT -j ACCEPT\n-A INPUT\nCOMMIT\n";
        assert_eq!(count_iptables_save_rules(legacy), 2);
    }
}
