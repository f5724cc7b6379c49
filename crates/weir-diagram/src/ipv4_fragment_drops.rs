//! IPv4 datagrams that arrive in fragments and are reassembled before INPUT.
//!
//! Each fragment traversed PREROUTING separately, so its mark and length say nothing about the
//! datagram. But if PREROUTING drops every fragment, there is no datagram.

use weir_model::{
    Chain, Family, Field, Firewall, Hook, Packet, Policy, Rule, Ruleset, Table, TableName, Target,
    Test, lower_to_tests,
};
use weir_semantics::AlwaysFalseOracle;
use weir_semantics::Interpreter;
use weir_semantics::Verdict;

/// Rules at the beginning of a chain of PREROUTING that drop all fragments of a datagram or none:
/// they test what all of them share. There is no output device yet, and rules before may have
/// marked fragments differently; so fewer fields are shared here than in
/// [`reassembly_difference`](crate::reassembly_difference), which compares whole journeys.
pub(crate) fn find_leading_drops_of_all_fragments(
    firewall: &Firewall,
) -> impl Iterator<Item = &Rule> {
    let is_shared = |t: &Test| match t {
        Test::Field { field, .. } => {
            matches!(field, Field::Saddr | Field::Daddr | Field::Proto | Field::Iif)
        }
        _ => false,
    };
    let drops = move |rule: &&Rule| {
        rule.target == Target::Drop && lower_to_tests(rule, Family::V4).iter().all(is_shared)
    };
    let chain = |name| firewall.v4.as_ref()?.table(&name)?.chain(Hook::Prerouting.chain_name());
    let chains = [TableName::Raw, TableName::Mangle].into_iter().filter_map(chain);
    chains.flat_map(move |chain| chain.rules.iter().take_while(drops))
}

/// Whether both firewalls have the same such rules.
pub(crate) fn have_same_leading_drops(firewalls: [&Firewall; 2]) -> bool {
    let [a, b] = firewalls.map(find_leading_drops_of_all_fragments);
    a.map(|rule| (&rule.base, &rule.matches)).eq(b.map(|rule| (&rule.base, &rule.matches)))
}

/// Whether a rule that drops all fragments of a datagram drops those of this one.
pub(crate) fn is_dropped_before_reassembly(firewall: &Firewall, packet: &Packet) -> bool {
    let rules: Vec<Rule> = find_leading_drops_of_all_fragments(firewall).cloned().collect();
    let hook = Hook::Prerouting.chain_name();
    let chain = Chain { rules, ..Chain::new(hook, Some(Policy::Accept)) };
    let mut alone = Ruleset::new(Family::V4);
    alone.tables.push(Table {
        name: TableName::Raw,
        chains: vec![chain],
        leading_comments: Vec::new(),
        trailing_comments: Vec::new(),
    });
    let alone = Firewall { v4: Some(alone), ..Firewall::default() };
    let outcome =
        Interpreter::new(&alone).traverse_hook(packet, Hook::Prerouting, &mut AlwaysFalseOracle);
    outcome.verdict == Verdict::Drop
}
