//! All passes, one file each, by name.
//!
//! Their order in [`ALL`] is one in which each helps the next: what is dead goes first, then what
//! can be said more cheaply, then what changes the shape of chains.

pub mod chain_tree;
pub mod cheaper_match;
pub mod early_drop;
pub mod fold_into_set;
pub mod inline_chain;
pub mod merge_adjacent;
pub mod notrack;
pub mod remove_duplicates;
pub mod remove_shadowed;
pub mod reorder_by_hits;
pub mod split_by_protocol;
mod way;

use std::collections::HashSet;

use weir_model::effect::{conntrack_of, conntrack_of_all};
use weir_model::manifest::Kept;
use weir_model::{Chain, Family, Hook, Policy, Rule, RuleId, Ruleset, Table, TableName, Target};

use crate::logic::Logic;
use crate::pass::{Context, chain_mut};
use crate::programs::program_of;
use crate::{Pass, Rewritten};

/// Every pass over iptables rulesets, in the order in which they are best run.
pub const ALL: [&dyn Pass; 11] = [
    &remove_duplicates::RemoveDuplicates,
    &remove_shadowed::RemoveShadowed,
    &cheaper_match::CheaperMatch,
    &inline_chain::InlineChain,
    &merge_adjacent::MergeAdjacent,
    &reorder_by_hits::ReorderByHits,
    &notrack::Notrack,
    &early_drop::EarlyDrop,
    &fold_into_set::FoldIntoSet,
    &split_by_protocol::SplitByProtocol,
    &chain_tree::ChainTree,
];

/// The pass that the nft form is: runs of rules that test one field become verdict maps. It is not
/// among [`ALL`], for what it makes is no iptables ruleset.
pub const FOLD_INTO_VERDICT_MAP: &str = "fold_into_verdict_map";

/// The pass of that name.
///
/// ```
/// use weir_passes::passes;
/// assert_eq!(passes::by_name("chain_tree").unwrap().name(), "chain_tree");
/// assert!(passes::by_name("no_such_pass").is_none());
/// ```
pub fn by_name(name: &str) -> Option<&'static dyn Pass> {
    ALL.into_iter().find(|p| p.name() == name)
}

/// Runs a pass over the chains that are not another program's; those are put back as they were.
fn leave_programs_alone(
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
            made.kept.push(Kept { rule, why: format!("its chain is {program}'s") });
        }
        chain.rules = rules;
    }
    made
}

/// `iptables` or `ip6tables`.
const fn tool(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// Chains that may be rewritten, with their tables.
fn rewritable<'r>(
    ruleset: &'r Ruleset,
    context: &'r Context<'_>,
) -> impl Iterator<Item = (&'r Table, &'r Chain)> {
    let chains = ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t, c)));
    chains.filter(|(_, c)| context.may_touch(c))
}

/// Rewrites chain by chain: `pass` gives the new rules of one, or `None` where it stays.
fn rewrite_chains(
    ruleset: &Ruleset,
    context: &Context<'_>,
    mut pass: impl FnMut(&Chain, Logic, &mut Rewritten) -> Option<Vec<Rule>>,
) -> Rewritten {
    let mut made = Rewritten::unchanged(ruleset);
    for (t, table) in ruleset.tables.iter().enumerate() {
        let logic = Logic::of(table, ruleset.family);
        for (c, chain) in table.chains.iter().enumerate().filter(|(_, c)| context.may_touch(c)) {
            if let Some(rules) = pass(chain, logic, &mut made) {
                made.ruleset.tables[t].chains[c].rules = rules;
            }
        }
    }
    made
}

/// Whether no packet that the target acts on goes on in its chain.
fn leaves_the_chain(target: &Target) -> bool {
    target.decides() || matches!(target, Target::Return | Target::Goto(_))
}

/// Leaves out rules that no packet reaches. One that is the last to use conntrack, or to have
/// fragments put together, stays: it switches that on by being there.
fn remove(
    ruleset: &Ruleset,
    dead: &HashSet<RuleId>,
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
fn raw_chain(ruleset: &mut Ruleset, hook: Hook) -> &mut Chain {
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
