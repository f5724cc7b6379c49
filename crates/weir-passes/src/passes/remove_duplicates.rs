//! `remove_duplicates`: removes a rule if an earlier rule of its chain has the same tests.
//!
//! The earlier one must be terminating, whatever it decides: then no packet reaches the later one,
//! and its counter is always zero. A repeated LOG rule logs twice and stays. The tested values must
//! be the same at both places: fields that a rule of the table changes (marks, TOS, the state after
//! NOTRACK) prove nothing. Comments may differ, because they test nothing.

use std::collections::{HashMap, HashSet};

use weir_model::{Match, RuleIndex, Ruleset, TableName};
use weir_partition::{TestAlgebra, barrier};

use crate::Rewritten;
use crate::pass::{Context, Pass};
use crate::rewrite::{remove, rewritable};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct RemoveDuplicates;

impl Pass for RemoveDuplicates {
    fn name(&self) -> &'static str {
        "remove_duplicates"
    }

    fn about(&self) -> &'static str {
        "removes rules that repeat the tests of an earlier terminating rule"
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let mut dead: HashSet<RuleIndex> = HashSet::new();
        let algebras = ruleset.tables.iter().map(|t| (t.name, TestAlgebra::of(t, ruleset.family)));
        let algebras: HashMap<TableName, TestAlgebra> = algebras.collect();
        for (table, chain) in rewritable(ruleset, context) {
            let algebra = algebras[&table.name];
            let mut seen: HashSet<String> = HashSet::new();
            for rule in &chain.rules {
                if barrier(rule, ruleset.family).is_some() || !algebra.is_settled(rule) {
                    continue;
                }
                let tests: Vec<&Match> =
                    rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_))).collect();
                let key = format!("{:?} {tests:?}", rule.base);
                if seen.contains(&key) {
                    dead.extend(&rule.credit);
                } else if rule.target.leaves_chain() {
                    seen.insert(key);
                }
            }
        }
        remove(ruleset, &dead, "an earlier rule has the same tests", context)
    }
}
