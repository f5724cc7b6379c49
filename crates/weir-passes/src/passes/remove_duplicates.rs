//! `remove_duplicates`: removes a rule if an earlier rule of its chain has the same tests.
//!
//! The earlier one must be terminating, whatever it decides: then no packet reaches the later one,
//! and its counter is always zero. A repeated LOG rule logs twice and stays. The tested values must
//! be the same at both places: fields that a rule of the table changes (marks, TOS, the state after
//! NOTRACK) prove nothing. Comments may differ, because they test nothing.

use std::collections::{HashMap, HashSet};

use weir_model::{Match, OriginalRuleIndex, Ruleset, TableName};
use weir_partition::{TestAlgebra, find_barrier_reason};

use crate::RewrittenRuleset;
use crate::pass::{Pass, PassContext};
use crate::rewrite::{iter_rewritable_chains, remove_dead_rules_keeping_conntrack_use};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct RemoveDuplicatesPass;

impl Pass for RemoveDuplicatesPass {
    fn name(&self) -> &'static str {
        "remove_duplicates"
    }

    fn description(&self) -> &'static str {
        "removes rules that repeat the tests of an earlier terminating rule"
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let mut dead: HashSet<OriginalRuleIndex> = HashSet::new();
        let algebras =
            ruleset.tables.iter().map(|t| (t.name, TestAlgebra::for_table(t, ruleset.family)));
        let algebras: HashMap<TableName, TestAlgebra> = algebras.collect();
        for (table, chain) in iter_rewritable_chains(ruleset, context) {
            let algebra = algebras[&table.name];
            let mut seen: HashSet<String> = HashSet::new();
            for rule in &chain.rules {
                if find_barrier_reason(rule, ruleset.family).is_some()
                    || !algebra.has_only_stable_tests(rule)
                {
                    continue;
                }
                let tests: Vec<&Match> =
                    rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_))).collect();
                let key = format!("{:?} {tests:?}", rule.base);
                if seen.contains(&key) {
                    dead.extend(&rule.credited_originals);
                } else if rule.target.leaves_chain() {
                    seen.insert(key);
                }
            }
        }
        remove_dead_rules_keeping_conntrack_use(
            ruleset,
            &dead,
            "an earlier rule has the same tests",
            context,
        )
    }
}
