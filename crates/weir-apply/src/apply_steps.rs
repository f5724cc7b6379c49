//! The order of the steps by which one ruleset replaces another; only this module decides it.
//!
//! The kernel can atomically replace a table of legacy iptables, all tables of nf_tables, or the
//! elements of one set, but nothing larger. A change of a whole ruleset is therefore a sequence of
//! steps, each atomic for packets. The order guarantees that at every moment a packet traverses the
//! old ruleset, the new one or both, and is never unfiltered:
//!
//! 1. Sets are created and filled before a rule uses them. If both rulesets have a set with
//!    different elements, the new elements are put into a spare set.
//! 2. A table is removed only after its replacement is in force:
//!    - *legacy to legacy*: each table is replaced;
//!    - *legacy to nft*: the nft tables are added, then the legacy tables are emptied;
//!    - *nft to legacy*: the legacy tables are loaded, then the nft tables are removed;
//!    - *nft to nft*: one transaction replaces all nft tables. If tables of legacy iptables change
//!      as well, or base chains come or go, copies of the new nft tables are in force from before
//!      the legacy tables change until the nft tables are recreated.
//!
//!    If an interrupted change left copies of another ruleset, these keep filtering whatever
//!    happens to the nft tables: the nft tables are recreated first, then the legacy tables change.
//! 3. Spare sets are swapped with their sets, and sets that are no longer used are destroyed.
//!
//! Steps are planned from the ruleset in force, never from a record of completed steps: a process
//! may be killed between a step and its record. Restoring, whether after an error, a crash or by
//! `weir rollback`, is a plan from the ruleset then in force to the previous one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, RulesetInForce, are_texts_equal_except_counters,
};
use crate::nft_transaction_text::have_same_base_chains;

/// An atomic change of the ruleset in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum ApplyStep {
    /// Destroys the spare set of an interrupted change; no rule uses it.
    DestroySpareSet {
        /// The set that it was to be swapped with.
        set: String,
    },
    /// Creates a set with its elements.
    CreateSet {
        /// The set.
        set: String,
    },
    /// Creates a spare set with the new elements of a set; no rule uses it.
    FillSpareSet {
        /// The set that it will be swapped with.
        set: String,
    },
    /// Adds copies of the new nft tables, which also filter packets.
    AddNftCopies {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// Replaces a table of legacy iptables.
    ReplaceLegacyTable {
        /// The table.
        table: FamilyTable,
    },
    /// Adds nft tables, or replaces their rules, in one transaction.
    ReplaceNftTables {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// Recreates nft tables and removes others, while copies filter packets.
    RecreateNftTables {
        /// Tables to recreate.
        tables: Vec<FamilyTable>,
        /// Tables to remove.
        removed: Vec<FamilyTable>,
    },
    /// Removes nft tables, whose replacement is in force.
    RemoveNftTables {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// Removes the copies.
    RemoveNftCopies {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// Swaps a set with its spare set, which is then destroyed.
    SwapSet {
        /// The set.
        set: String,
    },
    /// Destroys a set that is no longer used.
    DestroySet {
        /// The set.
        set: String,
    },
}

/// Plans the steps from the ruleset in force to the wanted one.
pub fn plan_apply_steps(present: &RulesetInForce, wanted: &KernelRulesetTexts) -> Vec<ApplyStep> {
    let now = &present.ruleset;
    let is_changed = |set: &&String| {
        let [old, new] = [&now.sets, &wanted.sets].map(|sets| sets.get(*set));
        old.zip(new).is_some_and(|(old, new)| !are_texts_equal_except_counters(old, new))
    };
    let changed_sets: Vec<&String> = wanted.sets.keys().filter(is_changed).collect();
    let mut steps = Vec::new();
    let spare = present.spare_sets.iter();
    steps.extend(spare.map(|set| ApplyStep::DestroySpareSet { set: set.clone() }));
    let mut new_sets: Vec<(&String, &String)> =
        wanted.sets.iter().filter(|(set, _)| !now.sets.contains_key(*set)).collect();
    new_sets.sort_by_key(|(_, text)| KernelRulesetTexts::is_list_of_sets(text));
    steps.extend(new_sets.into_iter().map(|(set, _)| ApplyStep::CreateSet { set: set.clone() }));
    let changed = changed_sets.iter();
    steps.extend(changed.clone().map(|set| ApplyStep::FillSpareSet { set: (*set).clone() }));
    steps.extend(plan_table_steps(present, wanted));
    steps.extend(changed.map(|set| ApplyStep::SwapSet { set: (*set).clone() }));
    let mut old_sets: Vec<(&String, &String)> =
        now.sets.iter().filter(|(set, _)| !wanted.sets.contains_key(*set)).collect();
    old_sets.sort_by_key(|(_, text)| !KernelRulesetTexts::is_list_of_sets(text));
    steps.extend(old_sets.into_iter().map(|(set, _)| ApplyStep::DestroySet { set: set.clone() }));
    steps
}

/// Step 2 of the order.
fn plan_table_steps(present: &RulesetInForce, wanted: &KernelRulesetTexts) -> Vec<ApplyStep> {
    let now = &present.ruleset;
    let legacy: Vec<ApplyStep> =
        list_missing_or_changed_tables(&now.legacy_tables, &wanted.legacy_tables)
            .into_iter()
            .map(|table| ApplyStep::ReplaceLegacyTable { table })
            .collect();
    let put = list_missing_or_changed_tables(&now.nft_tables, &wanted.nft_tables);
    let is_unwanted = |table: &&FamilyTable| !wanted.nft_tables.contains_key(table);
    let removed: Vec<FamilyTable> = now.nft_tables.keys().filter(is_unwanted).copied().collect();
    let copied = present.nft_copies.keys().copied().collect();
    let remove_copies = ApplyStep::RemoveNftCopies { tables: copied };
    let has_copies = !present.nft_copies.is_empty();
    let mut steps = Vec::new();
    if wanted.nft_tables.is_empty() {
        steps.extend(legacy);
        if !removed.is_empty() {
            steps.push(ApplyStep::RemoveNftTables { tables: removed });
        }
        steps.extend(has_copies.then_some(remove_copies));
        return steps;
    }
    let is_nft_changed = !put.is_empty() || !removed.is_empty();
    let all: Vec<FamilyTable> = wanted.nft_tables.keys().copied().collect();
    if has_copies && are_copies_with_same_or_accept_policies(&present.nft_copies, &now.nft_tables) {
        // The tables themselves are complete; the copies may have lost their policies.
        let without_copies = RulesetInForce { nft_copies: BTreeMap::new(), ..present.clone() };
        steps.push(remove_copies);
        steps.extend(plan_table_steps(&without_copies, wanted));
        return steps;
    }
    if has_copies && !are_equal_tables(&present.nft_copies, &wanted.nft_tables) {
        let recreate = ApplyStep::RecreateNftTables { tables: all, removed };
        steps.extend(is_nft_changed.then_some(recreate));
        steps.extend(legacy);
        steps.push(remove_copies);
        return steps;
    }
    let is_base_chain_changed = !removed.is_empty()
        || put.iter().any(|table| {
            let (now, wanted) = (now.nft_tables.get(table), wanted.nft_tables.get(table));
            now.zip(wanted).is_none_or(|(now, wanted)| !have_same_base_chains(now, wanted))
        });
    let needs_copies = !now.nft_tables.is_empty()
        && is_nft_changed
        && (!legacy.is_empty() || is_base_chain_changed);
    if !needs_copies {
        let replace = ApplyStep::ReplaceNftTables { tables: put };
        steps.extend(is_nft_changed.then_some(replace));
        steps.extend(legacy);
        steps.extend(has_copies.then_some(remove_copies));
        return steps;
    }
    if !has_copies {
        steps.push(ApplyStep::AddNftCopies { tables: all.clone() });
    }
    steps.extend(legacy);
    steps.push(ApplyStep::RecreateNftTables { tables: all.clone(), removed });
    steps.push(ApplyStep::RemoveNftCopies { tables: all });
    steps
}

/// Whether copies are of these tables, with the same policies or with policy accept, which they are
/// given before their removal.
fn are_copies_with_same_or_accept_policies(
    copies: &BTreeMap<FamilyTable, String>,
    tables: &BTreeMap<FamilyTable, String>,
) -> bool {
    let accepting = tables
        .iter()
        .map(|(table, text)| (*table, text.replace("policy drop;", "policy accept;")))
        .collect();
    are_equal_tables(copies, tables) || are_equal_tables(copies, &accepting)
}

/// Whether two lists have the same tables with the same rules.
fn are_equal_tables(a: &BTreeMap<FamilyTable, String>, b: &BTreeMap<FamilyTable, String>) -> bool {
    a.len() == b.len() && list_missing_or_changed_tables(a, b).is_empty()
}

/// The tables of `wanted` that are missing in `now` or have different rules.
fn list_missing_or_changed_tables(
    now: &BTreeMap<FamilyTable, String>,
    wanted: &BTreeMap<FamilyTable, String>,
) -> Vec<FamilyTable> {
    let differs = |(table, text): &(&FamilyTable, &String)| {
        now.get(table).is_none_or(|present| !are_texts_equal_except_counters(present, text))
    };
    wanted.iter().filter(differs).map(|(table, _)| *table).collect()
}

impl fmt::Display for ApplyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |tables: &[FamilyTable]| {
            let names: Vec<String> = tables
                .iter()
                .map(|table| format!("{} weir_{}", table.nft_family(), table.table))
                .collect();
            names.join(", ")
        };
        match self {
            ApplyStep::DestroySpareSet { set } => {
                write!(f, "destroy the unfinished spare set of {set}")
            }
            ApplyStep::CreateSet { set } => write!(f, "create set {set}"),
            ApplyStep::FillSpareSet { set } => write!(f, "fill a spare set for set {set}"),
            ApplyStep::AddNftCopies { tables } => {
                write!(f, "add copies of nft tables {}", names(tables))
            }
            ApplyStep::ReplaceLegacyTable { table } => write!(f, "replace table {table}"),
            ApplyStep::ReplaceNftTables { tables } => {
                write!(f, "nft transaction: replace {}", names(tables))
            }
            ApplyStep::RecreateNftTables { tables, removed } => {
                write!(f, "recreate nft tables: {}", names(tables))?;
                match removed.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; remove {}", names(removed)),
                }
            }
            ApplyStep::RemoveNftTables { tables } => {
                write!(f, "remove nft tables {}", names(tables))
            }
            ApplyStep::RemoveNftCopies { tables } => {
                write!(f, "remove the copies of nft tables {}", names(tables))
            }
            ApplyStep::SwapSet { set } => write!(f, "swap set {set} with its spare set"),
            ApplyStep::DestroySet { set } => write!(f, "destroy set {set}"),
        }
    }
}

#[cfg(test)]
mod simulated_kernel;
