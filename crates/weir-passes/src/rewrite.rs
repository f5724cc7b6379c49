//! How passes rewrite a ruleset: chain by chain, without the chains of other programs.

use std::collections::HashSet;

use weir_artefact::manifest::Kept;
use weir_model::effect::{conntrack_of, conntrack_of_all};
use weir_model::{Chain, Hook, Policy, Rule, RuleIndex, Ruleset, Table, TableName, tool};
use weir_partition::TestAlgebra;

use crate::Rewritten;
use crate::pass::{Context, chain_mut};
use weir_model::programs::program_of;

/// Runs a pass over the chains that are not another program's; those are restored as they were.
pub(crate) fn leave_programs_alone(
    ruleset: &Ruleset,
    context: &Context<'_>,
    pass: impl FnOnce(&Ruleset) -> Rewritten,
) -> Rewritten {
    let mut ours = ruleset.clone();
    let mut theirs = Vec::new();
    for table in &mut ours.tables {
        for chain in table.chains.iter_mut().filter(|c| !context.may_touch(c)) {
            theirs.push((table.name, chain.name.clone(), std::mem::take(&mut chain.rules)));
        }
    }
    let mut made = pass(&ours);
    for (table, name, rules) in theirs {
        let chain = chain_mut(&mut made.ruleset, table, &name).expect("a pass keeps all chains");
        if let (Some(program), true) = (program_of(&name), rules.len() > 1) {
            let rule = format!("{}/{table}/{name}", tool(ruleset.family));
            made.kept.push(Kept { rule, why: format!("its chain belongs to {program}") });
        }
        chain.rules = rules;
    }
    made
}

/// Chains that may be rewritten, with their tables.
pub(crate) fn rewritable<'r>(
    ruleset: &'r Ruleset,
    context: &'r Context<'_>,
) -> impl Iterator<Item = (&'r Table, &'r Chain)> {
    let chains = ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t, c)));
    chains.filter(|(_, c)| context.may_touch(c))
}

/// Rewrites chain by chain: `pass` gives the new rules of one, or `None` if it stays.
pub(crate) fn rewrite_chains(
    ruleset: &Ruleset,
    context: &Context<'_>,
    mut pass: impl FnMut(&Chain, TestAlgebra, &mut Rewritten) -> Option<Vec<Rule>>,
) -> Rewritten {
    let mut made = Rewritten::unchanged(ruleset);
    for (t, table) in ruleset.tables.iter().enumerate() {
        let algebra = TestAlgebra::of(table, ruleset.family);
        for (c, chain) in table.chains.iter().enumerate().filter(|(_, c)| context.may_touch(c)) {
            if let Some(rules) = pass(chain, algebra, &mut made) {
                made.ruleset.tables[t].chains[c].rules = rules;
            }
        }
    }
    made
}

/// Leaves out rules that no packet reaches. One that is the last to use conntrack, or to have
/// fragments reassembled, stays: it switches that on by being there.
pub(crate) fn remove(
    ruleset: &Ruleset,
    dead: &HashSet<RuleIndex>,
    why: &str,
    context: &Context<'_>,
) -> Rewritten {
    let mut made = Rewritten::unchanged(ruleset);
    let is_dead = |r: &Rule| r.credit.iter().any(|id| dead.contains(id));
    let rules = || ruleset.rules().map(|(_, _, r)| r);
    let on = conntrack_of_all(rules());
    let needed = conntrack_of_all(rules().filter(|r| !is_dead(r))) != on;
    let stays = |r: &Rule| !is_dead(r) || (needed && conntrack_of(r) == on);
    for chain in made.ruleset.tables.iter_mut().flat_map(|t| &mut t.chains) {
        chain.rules.retain(stays);
    }
    for (_, _, rule) in ruleset.rules().filter(|(_, _, r)| is_dead(r)) {
        if !stays(rule) {
            made.dead.extend(&rule.credit);
            made.note(context, &rule.credit, 1, format!("nothing: {why}"));
        }
    }
    made
}

/// The built-in chain of raw at a hook, which is made where it is missing.
pub(crate) fn raw_chain(ruleset: &mut Ruleset, hook: Hook) -> &mut Chain {
    if ruleset.table(&TableName::Raw).is_none() {
        let chains = TableName::Raw.hooks().iter();
        ruleset.tables.push(Table {
            name: TableName::Raw,
            chains: chains.map(|h| Chain::new(h.chain(), Some(Policy::Accept))).collect(),
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        });
    }
    chain_mut(ruleset, TableName::Raw, hook.chain()).expect("a parser brings in built-in chains")
}
