//! What rules, chains and tables may write to a packet for the rules after them.
//!
//! A rule that tests a field may change places with one that writes it only where the writing ends
//! the walk. A jump writes what the rules of its chain write, and those of all chains below it.

use crate::chain_graph::ChainGraph;
use crate::effect::{FieldSet, TargetTermination, match_effects, target_effects};
use crate::ruleset::{Chain, Rule, Table};
use crate::{Family, Target};

/// The fields that a rule itself may write for rules after it: what its target writes, unless that
/// ends the walk for every packet, and what its matches write (`socket --restore-skmark`). What the
/// chain that it leads to writes is in [`FieldsWrittenByChain`].
pub fn fields_written_for_later_rules(rule: &Rule) -> FieldSet {
    let row = target_effects(&rule.target);
    let by_target = match row.termination {
        TargetTermination::Always => FieldSet::NONE,
        TargetTermination::Never | TargetTermination::Perhaps => row.writes,
    };
    // Both families write the same.
    let by_matches = rule.matches.iter().map(|m| match_effects(m, Family::V4).writes);
    by_matches.fold(by_target, FieldSet::union)
}

/// The fields that rules of a table may change for the rules after them.
pub fn collect_fields_changed_within_table(table: &Table) -> FieldSet {
    let rules = table.chains.iter().flat_map(|c| &c.rules);
    rules.map(fields_written_for_later_rules).fold(FieldSet::NONE, FieldSet::union)
}

/// What each chain of a table may write for the rules after a jump to it.
///
/// ```
/// use weir_model::effect::FieldsWrittenByChain;
/// use weir_model::rule_match::OpaqueExtension;
/// use weir_model::{Chain, ChainGraph, Field, Rule, Target};
///
/// let mut chain = Chain::new("vendor", None);
/// let unknown = OpaqueExtension { name: "VENDOR".into(), words: vec![] };
/// chain.rules.push(Rule::unconditional(Target::Opaque(Box::new(unknown))));
/// let mut forward = Chain::new("FORWARD", None);
/// forward.rules.push(Rule::unconditional(Target::Jump("vendor".into())));
/// let chains = [forward, chain];
/// let graph = ChainGraph::new(&chains);
/// let written = FieldsWrittenByChain::of_chains(&chains, &graph);
/// assert!(written.by_rule(&chains[0].rules[0], &graph).contains(Field::Saddr));
/// ```
#[derive(Clone, Debug)]
pub struct FieldsWrittenByChain {
    by_chain: Vec<FieldSet>,
}

impl FieldsWrittenByChain {
    /// Sums up the chains, each after those that it leads to.
    pub fn of_chains(chains: &[Chain], graph: &ChainGraph<'_>) -> FieldsWrittenByChain {
        let mut by_chain = vec![FieldSet::NONE; chains.len()];
        for at in graph.all_callees_first() {
            let own = chains[at].rules.iter().map(fields_written_for_later_rules);
            let called = graph.jumps_from(at).iter().map(|jump| by_chain[jump.to]);
            by_chain[at] = own.chain(called).fold(FieldSet::NONE, FieldSet::union);
        }
        FieldsWrittenByChain { by_chain }
    }

    /// What a rule may write for the rules after it, with the chain that it leads to.
    pub fn by_rule(&self, rule: &Rule, graph: &ChainGraph<'_>) -> FieldSet {
        fields_written_for_later_rules(rule).union(self.by_callee(&rule.target, graph))
    }

    /// What the chain may write that a target leads to.
    pub fn by_callee(&self, target: &Target, graph: &ChainGraph<'_>) -> FieldSet {
        let callee = target.jump_target().and_then(|name| graph.chain_index(name));
        callee.map_or(FieldSet::NONE, |at| self.by_chain[at])
    }
}
