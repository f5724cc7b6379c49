//! Rulesets of which only one has fragments reassembled before its rules.
//!
//! A rule that uses conntrack, `-m socket` or TPROXY enables defragmentation by being loaded
//! ([`ConntrackDemand::Defragmentation`]). The diagrams compare packet by packet, so they do not
//! see that one ruleset sees a whole datagram where the other sees its fragments. Only a ruleset
//! whose rules decide every fragment as they decide the datagram is not affected.

use weir_model::effect::{ConntrackDemand, rule_conntrack_demand, target_effects};
use weir_model::{Family, Field, Firewall, Rule, Ruleset, TableName, Test, lower_to_tests};

/// That only one of two rulesets has fragments reassembled, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct ReassemblyDifference {
    /// It is the first ruleset.
    pub is_first_ruleset_reassembling: bool,
    /// The table of a rule that makes the kernel do so.
    pub table: TableName,
    /// Its chain.
    pub chain: String,
    /// Its number in the chain, from 1.
    pub rule_number: usize,
    /// The rule.
    pub rule: Rule,
}

impl ReassemblyDifference {
    /// The position of the rule, in words.
    pub fn rule_position(&self) -> String {
        format!("{} {}, rule {}", self.table, self.chain, self.rule_number)
    }
}

/// Which of two rulesets alone has fragments reassembled, unless neither can distinguish a fragment
/// from its datagram. `conntrack`: other programs use conntrack, whatever the rulesets require.
pub(crate) fn find_reassembly_difference(
    before: &Firewall,
    after: &Firewall,
    family: Family,
    conntrack: bool,
) -> Option<Box<ReassemblyDifference>> {
    if conntrack {
        return None;
    }
    let sides = [before.ruleset(family), after.ruleset(family)];
    let (is_before, found) = match sides.map(|r| r.and_then(find_defragmenting_rule)) {
        [Some(found), None] => (true, found),
        [None, Some(found)] => (false, found),
        _ => return None,
    };
    let tells = |r: &Ruleset| {
        r.rules_with_table_and_chain()
            .any(|(_, _, rule)| can_rule_distinguish_fragments(rule, family))
    };
    sides.iter().flatten().any(|r| tells(r)).then(|| {
        Box::new(ReassemblyDifference { is_first_ruleset_reassembling: is_before, ..found })
    })
}

/// The first rule that switches on defragmentation.
fn find_defragmenting_rule(ruleset: &Ruleset) -> Option<ReassemblyDifference> {
    let chains = ruleset.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t, c)));
    chains.into_iter().find_map(|(table, chain)| {
        let at = chain
            .rules
            .iter()
            .position(|r| rule_conntrack_demand(r) >= ConntrackDemand::Defragmentation)?;
        Some(ReassemblyDifference {
            is_first_ruleset_reassembling: true,
            table: table.name,
            chain: chain.name.to_string(),
            rule_number: at + 1,
            rule: chain.rules[at].clone(),
        })
    })
}

/// Whether a rule may do otherwise for a fragment than for its datagram: it tests more than what
/// all fragments of a datagram share, or what it does is noticed once a packet.
fn can_rule_distinguish_fragments(rule: &Rule, family: Family) -> bool {
    let is_shared = |field: Field| match field {
        // Of IPv6, later fragments do not say which extension headers come next.
        Field::Proto => family == Family::V4,
        Field::Saddr | Field::Daddr | Field::Iif | Field::Oif => true,
        Field::Mark | Field::CtState | Field::CtMark => true,
        _ => false,
    };
    let tells = |test: &Test| match test {
        Test::Field { field, .. } => !is_shared(*field),
        Test::Never => false,
        _ => true,
    };
    let row = target_effects(&rule.target);
    lower_to_tests(rule, family).iter().any(tells)
        || row.is_observable
        || row.stateful
        || row.may_drop
        || row.changes_unmodelled_state
}
