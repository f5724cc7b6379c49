//! The order in which a ruleset takes the place of another: the one place that decides it.
//!
//! The kernel replaces a table of legacy iptables, all tables of nf_tables, or the elements of one
//! set at once, and nothing more. A change of a whole ruleset is therefore a sequence of steps, each
//! atomic for packets. The order guarantees that at every moment a packet traverses the old ruleset,
//! the new one or both, and never none:
//!
//! 1. Sets are created and filled before a rule names them. A set that both rulesets have with other
//!    elements is filled under a second name.
//! 2. No table goes before what stands for it has come:
//!    - *legacy to legacy*: each table is replaced;
//!    - *legacy to nft*: the nft tables are added, then the legacy tables are emptied;
//!    - *nft to legacy*: the legacy tables are loaded, then the nft tables are removed;
//!    - *nft to nft*: one transaction replaces all nft tables. If tables of legacy iptables change
//!      as well, rules may move between the two: copies of the new nft tables are in force from
//!      before the legacy tables change until the nft tables are replaced.
//! 3. Sets with new elements are swapped, and sets that nothing names any more are destroyed.
//!
//! Steps are planned from what is in force, never from what was done: a process may be killed
//! between a step and its record. Going back, whether after an error, a crash or by `weir rollback`,
//! is a plan from what is in force then to the ruleset of before.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel_ruleset::{FamilyTable, KernelRuleset, RulesetInForce, have_equal_rules};

/// A change that the kernel makes as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum ApplyStep {
    /// A set that an interrupted change filled is destroyed; no rule names it.
    DestroySpareSet {
        /// The set that it was to be swapped with.
        set: String,
    },
    /// A set is created, with its elements.
    CreateSet {
        /// The set.
        set: String,
    },
    /// The new elements of a set are put into a second one; no rule names it.
    FillSpareSet {
        /// The set that it will be swapped with.
        set: String,
    },
    /// Copies of the new nft tables are added, which evaluate packets as well.
    AddNftCopies {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// A table of legacy iptables is replaced.
    ReplaceLegacyTable {
        /// The table.
        table: FamilyTable,
    },
    /// nft tables are added, replaced and removed, in one transaction.
    ReplaceNftTables {
        /// Tables that are added or replaced.
        tables: Vec<FamilyTable>,
        /// Tables that are removed.
        removed: Vec<FamilyTable>,
    },
    /// nft tables are removed; others evaluate the packets by now.
    RemoveNftTables {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// The copies are removed.
    RemoveNftCopies {
        /// The tables.
        tables: Vec<FamilyTable>,
    },
    /// A set gets its new elements: it is swapped with the second one, which is destroyed.
    SwapSet {
        /// The set.
        set: String,
    },
    /// A set is destroyed that nothing names any more.
    DestroySet {
        /// The set.
        set: String,
    },
}

/// The steps from what is in force to a ruleset.
pub fn plan_steps(present: &RulesetInForce, wanted: &KernelRuleset) -> Vec<ApplyStep> {
    let now = &present.ruleset;
    let is_changed = |set: &&String| {
        let [old, new] = [&now.sets, &wanted.sets].map(|sets| sets.get(*set));
        old.zip(new).is_some_and(|(old, new)| !have_equal_rules(old, new))
    };
    let changed_sets: Vec<&String> = wanted.sets.keys().filter(is_changed).collect();
    let mut steps = Vec::new();
    let spare = present.spare_sets.iter();
    steps.extend(spare.map(|set| ApplyStep::DestroySpareSet { set: set.clone() }));
    let mut new_sets: Vec<(&String, &String)> =
        wanted.sets.iter().filter(|(set, _)| !now.sets.contains_key(*set)).collect();
    new_sets.sort_by_key(|(_, text)| is_list_of_sets(text));
    steps.extend(new_sets.into_iter().map(|(set, _)| ApplyStep::CreateSet { set: set.clone() }));
    let changed = changed_sets.iter();
    steps.extend(changed.clone().map(|set| ApplyStep::FillSpareSet { set: (*set).clone() }));
    steps.extend(plan_table_steps(present, wanted));
    steps.extend(changed.map(|set| ApplyStep::SwapSet { set: (*set).clone() }));
    let mut old_sets: Vec<(&String, &String)> =
        now.sets.iter().filter(|(set, _)| !wanted.sets.contains_key(*set)).collect();
    old_sets.sort_by_key(|(_, text)| !is_list_of_sets(text));
    steps.extend(old_sets.into_iter().map(|(set, _)| ApplyStep::DestroySet { set: set.clone() }));
    steps
}

/// Whether a set holds names of sets: it comes after these and goes before them.
fn is_list_of_sets(text: &str) -> bool {
    text.split_ascii_whitespace().nth(2) == Some("list:set")
}

/// Step 2 of the order.
fn plan_table_steps(present: &RulesetInForce, wanted: &KernelRuleset) -> Vec<ApplyStep> {
    let now = &present.ruleset;
    let legacy: Vec<ApplyStep> = list_differing(&now.legacy_tables, &wanted.legacy_tables)
        .into_iter()
        .map(|table| ApplyStep::ReplaceLegacyTable { table })
        .collect();
    let put = list_differing(&now.nft_tables, &wanted.nft_tables);
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
    let replace_nft = ApplyStep::ReplaceNftTables { tables: put, removed };
    let moves_rules = !now.nft_tables.is_empty() && is_nft_changed && !legacy.is_empty();
    if !moves_rules {
        steps.extend(is_nft_changed.then_some(replace_nft));
        steps.extend(legacy);
        steps.extend(has_copies.then_some(remove_copies));
        return steps;
    }
    let tables: Vec<FamilyTable> = wanted.nft_tables.keys().copied().collect();
    let are_copies_wanted = has_copies
        && list_differing(&present.nft_copies, &wanted.nft_tables).is_empty()
        && present.nft_copies.len() == tables.len();
    if !are_copies_wanted {
        // Copies of another ruleset were the way to it, and it is in force as a whole: else its nft
        // tables would not be, and those that are would be the wanted ones.
        steps.extend(has_copies.then_some(remove_copies));
        steps.push(ApplyStep::AddNftCopies { tables: tables.clone() });
    }
    steps.extend(legacy);
    steps.push(replace_nft);
    steps.push(ApplyStep::RemoveNftCopies { tables });
    steps
}

/// The tables of `wanted` that are not there, or have other rules.
fn list_differing(
    now: &BTreeMap<FamilyTable, String>,
    wanted: &BTreeMap<FamilyTable, String>,
) -> Vec<FamilyTable> {
    let differs = |(table, text): &(&FamilyTable, &String)| {
        now.get(table).is_none_or(|present| !have_equal_rules(present, text))
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
                write!(f, "destroy the unfinished set {set}~")
            }
            ApplyStep::CreateSet { set } => write!(f, "create set {set}"),
            ApplyStep::FillSpareSet { set } => write!(f, "fill set {set}~ for set {set}"),
            ApplyStep::AddNftCopies { tables } => {
                write!(f, "add copies of nft tables {}", names(tables))
            }
            ApplyStep::ReplaceLegacyTable { table } => write!(f, "replace table {table}"),
            ApplyStep::ReplaceNftTables { tables, removed } => {
                let put = (!tables.is_empty()).then(|| format!("replace {}", names(tables)));
                let gone = (!removed.is_empty()).then(|| format!("remove {}", names(removed)));
                let parts: Vec<String> = put.into_iter().chain(gone).collect();
                write!(f, "nft transaction: {}", parts.join("; "))
            }
            ApplyStep::RemoveNftTables { tables } => {
                write!(f, "remove nft tables {}", names(tables))
            }
            ApplyStep::RemoveNftCopies { tables } => {
                write!(f, "remove the copies of nft tables {}", names(tables))
            }
            ApplyStep::SwapSet { set } => write!(f, "give set {set} its new elements"),
            ApplyStep::DestroySet { set } => write!(f, "destroy set {set}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;

    /// A ruleset of one part that may be in legacy iptables or in nft. Its letter stands in both
    /// texts; a part that is not there has an empty legacy table.
    fn ruleset(version: char, in_nft: &[TableName]) -> KernelRuleset {
        let mut made = KernelRuleset::default();
        for table in [TableName::Nat, TableName::Filter] {
            let of = FamilyTable { family: Family::V4, table };
            let is_nft = in_nft.contains(&table);
            let text = if is_nft { "*t\n".to_owned() } else { format!("*t\n-A C -j {version}\n") };
            made.legacy_tables.insert(of, text);
            if is_nft {
                made.nft_tables.insert(of, format!("table t {{\n\t{version}\n}}\n"));
            }
        }
        made.sets.insert(format!("own-{version}"), format!("create own-{version}\n"));
        made.sets.insert("shared".to_owned(), format!("create shared\nadd shared {version}\n"));
        made
    }

    const FORMS: [&[TableName]; 4] =
        [&[], &[TableName::Filter], &[TableName::Nat], &[TableName::Nat, TableName::Filter]];

    /// What a simulated kernel holds.
    #[derive(Clone)]
    struct SimulatedKernel {
        present: RulesetInForce,
    }

    impl SimulatedKernel {
        fn run(&mut self, step: &ApplyStep, wanted: &KernelRuleset) {
            let now = &mut self.present.ruleset;
            match step {
                ApplyStep::CreateSet { set } => {
                    let before = now.sets.insert(set.clone(), wanted.sets[set].clone());
                    assert_eq!(before, None, "{set} is there already");
                }
                ApplyStep::FillSpareSet { set } => self.present.spare_sets.push(set.clone()),
                ApplyStep::SwapSet { set } => {
                    now.sets.insert(set.clone(), wanted.sets[set].clone());
                    self.present.spare_sets.retain(|spare| spare != set);
                }
                ApplyStep::DestroySpareSet { set } => {
                    self.present.spare_sets.retain(|spare| spare != set);
                }
                ApplyStep::DestroySet { set } => drop(now.sets.remove(set)),
                ApplyStep::ReplaceLegacyTable { table } => {
                    let text = wanted.legacy_tables[table].clone();
                    now.legacy_tables.insert(*table, text);
                }
                ApplyStep::ReplaceNftTables { tables, removed } => {
                    for table in tables {
                        now.nft_tables.insert(*table, wanted.nft_tables[table].clone());
                    }
                    now.nft_tables.retain(|table, _| !removed.contains(table));
                }
                ApplyStep::RemoveNftTables { tables } => {
                    now.nft_tables.retain(|table, _| !tables.contains(table));
                }
                ApplyStep::AddNftCopies { tables } => {
                    assert!(self.present.nft_copies.is_empty(), "copies are there already");
                    for table in tables {
                        let text = wanted.nft_tables[table].clone();
                        self.present.nft_copies.insert(*table, text);
                    }
                }
                ApplyStep::RemoveNftCopies { .. } => self.present.nft_copies.clear(),
            }
        }

        /// Each table evaluates packets by a ruleset as a whole, be it in legacy or in nft.
        fn assert_never_none(&self, context: &str) {
            let now = &self.present.ruleset;
            for table in [TableName::Nat, TableName::Filter] {
                let of = FamilyTable { family: Family::V4, table };
                let is_evaluated = now.legacy_tables[&of].contains("-A")
                    || now.nft_tables.contains_key(&of)
                    || self.present.nft_copies.contains_key(&of);
                assert!(is_evaluated, "{context}: nothing stands for {table}");
            }
        }
    }

    fn in_force(ruleset: KernelRuleset) -> SimulatedKernel {
        let present = RulesetInForce { ruleset, ..RulesetInForce::default() };
        SimulatedKernel { present }
    }

    /// Runs the steps to `wanted`, and after each of them a crash and the steps on and back.
    fn run_with_crashes(
        start: &SimulatedKernel,
        wanted: &KernelRuleset,
        other: &KernelRuleset,
        crashes: u32,
    ) {
        let mut kernel = start.clone();
        let steps = plan_steps(&kernel.present, wanted);
        let context = format!("{steps:?}");
        for step in &steps {
            kernel.run(step, wanted);
            kernel.assert_never_none(&context);
            if crashes > 0 {
                run_with_crashes(&kernel, wanted, other, crashes - 1);
                run_with_crashes(&kernel, other, wanted, crashes - 1);
            }
        }
        assert_eq!(kernel.present.ruleset, *wanted, "{context}");
        let is_clean = kernel.present.nft_copies.is_empty() && kernel.present.spare_sets.is_empty();
        assert!(is_clean, "{context}");
    }

    #[test]
    fn no_crash_leaves_a_table_without_rules_and_every_plan_arrives() {
        for from in FORMS {
            for to in FORMS {
                let (old, new) = (ruleset('1', from), ruleset('2', to));
                let start = in_force(old.clone());
                run_with_crashes(&start, &new, &old, 2);
            }
        }
    }

    #[test]
    fn what_is_in_force_needs_no_step() {
        for form in FORMS {
            let present = in_force(ruleset('1', form)).present;
            let steps = plan_steps(&present, &present.ruleset);
            assert_eq!(steps, []);
        }
    }

    #[test]
    fn from_nft_to_nft_is_one_transaction() {
        let all = FORMS[3];
        let present = in_force(ruleset('1', all)).present;
        let steps = plan_steps(&present, &ruleset('2', all));
        let is_nft = |step: &&ApplyStep| step.to_string().contains("nft");
        assert_eq!(steps.iter().filter(is_nft).count(), 1, "{steps:?}");
    }
}
