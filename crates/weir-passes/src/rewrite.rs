//! How passes rewrite a ruleset: chain by chain, without the chains of other programs.

use std::collections::HashSet;

use weir_artefact::manifest::UnchangedRule;
use weir_model::effect::{rule_conntrack_demand, total_conntrack_demand};
use weir_model::{
    Chain, Hook, OriginalRuleIndex, Policy, Rule, Ruleset, Table, TableName, iptables_tool_name,
};
use weir_partition::{TableBarriers, TestAlgebra};

use crate::RewrittenRuleset;
use crate::pass::{PassContext, find_chain_mut};
use weir_model::managing_programs::find_preserved_program_of_chain;

/// Adds to a report the chains that stay because they are another program's.
pub(crate) fn record_program_chains_as_unchanged(
    ruleset: &Ruleset,
    context: &PassContext<'_>,
    made: &mut RewrittenRuleset,
) {
    let chains = ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t.name, c)));
    for (table, chain) in chains.filter(|(_, c)| !context.may_rewrite(c) && c.rules.len() > 1) {
        if let Some(program) = find_preserved_program_of_chain(&chain.name) {
            let rule = format!("{}/{table}/{}", iptables_tool_name(ruleset.family), chain.name);
            made.unchanged_rules
                .push(UnchangedRule { rule, why: format!("its chain belongs to {program}") });
        }
    }
}

/// Chains that may be rewritten, with their tables.
pub(crate) fn iter_rewritable_chains<'r>(
    ruleset: &'r Ruleset,
    context: &'r PassContext<'_>,
) -> impl Iterator<Item = (&'r Table, &'r Chain)> {
    let chains = ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t, c)));
    chains.filter(|(_, c)| context.may_rewrite(c))
}

/// Rewrites chain by chain: `pass` gives the new rules of one, or `None` if it stays.
pub(crate) fn rewrite_chains(
    ruleset: &Ruleset,
    context: &PassContext<'_>,
    mut pass: impl FnMut(
        &Chain,
        (TestAlgebra, &TableBarriers<'_>),
        &mut RewrittenRuleset,
    ) -> Option<Vec<Rule>>,
) -> RewrittenRuleset {
    let mut made = RewrittenRuleset::unchanged(ruleset);
    for (t, table) in ruleset.tables.iter().enumerate() {
        let algebra = TestAlgebra::for_table(table, ruleset.family);
        let barriers = TableBarriers::of_table(table, ruleset.family);
        for (c, chain) in table.chains.iter().enumerate().filter(|(_, c)| context.may_rewrite(c)) {
            if let Some(rules) = pass(chain, (algebra, &barriers), &mut made) {
                made.ruleset.tables[t].chains[c].rules = rules;
            }
        }
    }
    made
}

/// Leaves out rules that no packet reaches. One that is the last to use conntrack, or to have
/// fragments reassembled, stays: it switches that on by being there.
pub(crate) fn remove_dead_rules_keeping_conntrack_use(
    ruleset: &Ruleset,
    dead: &HashSet<OriginalRuleIndex>,
    why: &str,
    context: &PassContext<'_>,
) -> RewrittenRuleset {
    let mut made = RewrittenRuleset::unchanged(ruleset);
    let is_dead = |r: &Rule| r.credited_originals.iter().any(|id| dead.contains(id));
    let rules = || ruleset.rules_with_table_and_chain().map(|(_, _, r)| r);
    let on = total_conntrack_demand(rules());
    let needed = total_conntrack_demand(rules().filter(|r| !is_dead(r))) != on;
    let stays = |r: &Rule| !is_dead(r) || (needed && rule_conntrack_demand(r) == on);
    for chain in made.ruleset.tables.iter_mut().flat_map(|t| &mut t.chains) {
        chain.rules.retain(stays);
    }
    for (_, _, rule) in ruleset.rules_with_table_and_chain().filter(|(_, _, r)| is_dead(r)) {
        if !stays(rule) {
            made.dead_rules.extend(&rule.credited_originals);
            made.record_compiled_run(
                context,
                &rule.credited_originals,
                1,
                format!("nothing: {why}"),
            );
        }
    }
    made
}

/// The built-in chain of raw at a hook, which is made where it is missing.
pub(crate) fn ensure_raw_chain(ruleset: &mut Ruleset, hook: Hook) -> &mut Chain {
    if ruleset.table(&TableName::Raw).is_none() {
        let chains = TableName::Raw.hooks().iter();
        ruleset.tables.push(Table {
            name: TableName::Raw,
            chains: chains.map(|h| Chain::new(h.chain_name(), Some(Policy::Accept))).collect(),
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        });
    }
    find_chain_mut(ruleset, TableName::Raw, hook.chain_name())
        .expect("a parser brings in built-in chains")
}
