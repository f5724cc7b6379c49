//! Tests of the order of steps on a simulated kernel, with crashes between and inside of steps.

use weir_model::{Family, TableName};

use super::*;

const TABLES: [TableName; 2] = [TableName::Mangle, TableName::Filter];
const HOOKS: [&str; 2] = ["INPUT", "FORWARD"];

fn family_table(table: TableName) -> FamilyTable {
    FamilyTable { family: Family::V4, table }
}

/// A ruleset that evaluates both hooks of both tables, some of them by nft: bit `2 * table + hook`
/// of `in_nft`. Its version stands in every rule.
fn ruleset(version: char, in_nft: u32) -> KernelRulesetTexts {
    let mut made = KernelRulesetTexts::default();
    for (t, table) in TABLES.into_iter().enumerate() {
        let (mut legacy, mut nft) = (String::new(), String::new());
        for (h, hook) in HOOKS.into_iter().enumerate() {
            if in_nft & 1 << (2 * t + h) == 0 {
                legacy.push_str(&format!("-A {hook} -j {version}\n"));
            } else {
                nft.push_str(&format!(
                    "\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0; policy drop;\n\
                     \t\t{version}\n\t}}\n"
                ));
            }
        }
        made.legacy_tables.insert(family_table(table), format!("*t\n{legacy}COMMIT\n"));
        if !nft.is_empty() {
            let text = format!("table ip weir_t {{\n{nft}}}\n");
            made.nft_tables.insert(family_table(table), text);
        }
    }
    made.sets.insert(format!("own-{version}"), format!("create own-{version} hash:ip\n"));
    let shared = format!("create shared hash:ip\nadd shared {version}\n");
    made.sets.insert("shared".to_owned(), shared);
    made
}

/// What a simulated kernel holds.
#[derive(Clone)]
struct SimulatedKernel {
    present: RulesetInForce,
}

/// Gives the policy accept to the base chains of tables.
fn accept_by_policy<'t>(
    tables: &mut BTreeMap<FamilyTable, String>,
    names: impl Iterator<Item = &'t FamilyTable>,
) {
    for name in names {
        if let Some(text) = tables.get_mut(name) {
            *text = text.replace("policy drop", "policy accept");
        }
    }
}

impl SimulatedKernel {
    /// The states that a step leads through; the last is its end.
    fn states_of_step(
        &self,
        step: &ApplyStep,
        wanted: &KernelRulesetTexts,
    ) -> Vec<SimulatedKernel> {
        let mut states = Vec::new();
        let mut next = self.clone();
        let now = &mut next.present.ruleset;
        match step {
            ApplyStep::CreateSet { set } => {
                let before = now.sets.insert(set.clone(), wanted.sets[set].clone());
                assert_eq!(before, None, "{set} is there already");
            }
            ApplyStep::FillSpareSet { set } => next.present.spare_sets.push(set.clone()),
            ApplyStep::SwapSet { set } => {
                now.sets.insert(set.clone(), wanted.sets[set].clone());
                next.present.spare_sets.retain(|spare| spare != set);
            }
            ApplyStep::DestroySpareSet { set } => {
                next.present.spare_sets.retain(|spare| spare != set);
            }
            ApplyStep::DestroySet { set } => drop(now.sets.remove(set)),
            ApplyStep::ReplaceLegacyTable { table } => {
                now.legacy_tables.insert(*table, wanted.legacy_tables[table].clone());
            }
            ApplyStep::ReplaceNftTables { tables } => {
                for table in tables {
                    let text = wanted.nft_tables[table].clone();
                    let before = now.nft_tables.insert(*table, text.clone());
                    let is_same = before.is_none_or(|before| have_same_base_chains(&before, &text));
                    assert!(is_same, "base chains stay");
                }
            }
            ApplyStep::RecreateNftTables { tables, removed } => {
                accept_by_policy(&mut now.nft_tables, tables.iter().chain(removed));
                states.push(next.clone());
                let now = &mut next.present.ruleset;
                now.nft_tables.retain(|table, _| !removed.contains(table));
                for table in tables {
                    now.nft_tables.insert(*table, wanted.nft_tables[table].clone());
                }
            }
            ApplyStep::RemoveNftTables { tables } => {
                accept_by_policy(&mut now.nft_tables, tables.iter());
                states.push(next.clone());
                let now = &mut next.present.ruleset;
                now.nft_tables.retain(|table, _| !tables.contains(table));
            }
            ApplyStep::AddNftCopies { tables } => {
                assert!(next.present.nft_copies.is_empty(), "copies are there already");
                for table in tables {
                    let text = wanted.nft_tables[table].clone();
                    next.present.nft_copies.insert(*table, text);
                }
            }
            ApplyStep::RemoveNftCopies { tables } => {
                accept_by_policy(&mut next.present.nft_copies, tables.iter());
                states.push(next.clone());
                next.present.nft_copies.clear();
            }
        }
        states.push(next);
        states
    }

    /// At each hook of each table, rules of some ruleset evaluate packets, policies included.
    fn assert_every_hook_has_rules(&self, context: &str) {
        let now = &self.present.ruleset;
        for table in TABLES {
            for hook in HOOKS {
                let of = family_table(table);
                let is_in_nft = |tables: &BTreeMap<FamilyTable, String>| {
                    let head = format!("hook {hook} priority 0; policy drop;");
                    tables.get(&of).is_some_and(|text| text.contains(&head))
                };
                let is_in_legacy = now.legacy_tables[&of].contains(&format!("-A {hook}"));
                let is_evaluated = is_in_legacy
                    || is_in_nft(&now.nft_tables)
                    || is_in_nft(&self.present.nft_copies);
                assert!(is_evaluated, "{context}: nothing stands for {table} {hook}");
            }
        }
    }
}

fn simulate_kernel_with(ruleset: KernelRulesetTexts) -> SimulatedKernel {
    SimulatedKernel { present: RulesetInForce { ruleset, ..RulesetInForce::default() } }
}

/// Goes to `wanted`; at each point there may be a crash, after which `back` is wanted instead, or
/// `wanted` still. An interrupted way back is gone on, as weir does.
fn run_with_crashes(
    start: &SimulatedKernel,
    wanted: &KernelRulesetTexts,
    back: &KernelRulesetTexts,
    crashes: u32,
) {
    let mut kernel = start.clone();
    let steps = plan_apply_steps(&kernel.present, wanted);
    let context = format!("{steps:?} from {:#?}", start.present);
    for step in &steps {
        for state in kernel.states_of_step(step, wanted) {
            state.assert_every_hook_has_rules(&context);
            if crashes > 0 {
                run_with_crashes(&state, back, back, crashes - 1);
                run_with_crashes(&state, wanted, wanted, crashes - 1);
            }
            kernel = state;
        }
    }
    assert_eq!(kernel.present.ruleset, *wanted, "{context}");
    let is_clean = kernel.present.nft_copies.is_empty() && kernel.present.spare_sets.is_empty();
    assert!(is_clean, "{context}");
}

#[test]
fn no_crash_leaves_a_hook_without_rules_or_prevents_the_wanted_ruleset() {
    for from in 0..16 {
        for to in 0..16 {
            let (old, new) = (ruleset('1', from), ruleset('2', to));
            // A second crash, on the way back, for a third of the pairs.
            let crashes = if (from + to) % 3 == 0 { 2 } else { 1 };
            run_with_crashes(&simulate_kernel_with(old.clone()), &new, &old, crashes);
        }
    }
}

#[test]
fn a_ruleset_already_in_force_needs_no_steps() {
    for form in 0..16 {
        let present = simulate_kernel_with(ruleset('1', form)).present;
        assert_eq!(plan_apply_steps(&present, &present.ruleset), []);
    }
}

#[test]
fn replacing_an_nft_ruleset_is_one_transaction() {
    let present = simulate_kernel_with(ruleset('1', 15)).present;
    let steps = plan_apply_steps(&present, &ruleset('2', 15));
    let is_nft = |step: &&ApplyStep| step.to_string().contains("nft");
    assert_eq!(steps.iter().filter(is_nft).count(), 1, "{steps:?}");
}
