//! `split_by_protocol`: splits a long chain of rules for several protocols into one chain per
//! protocol.
//!
//! A UDP packet need not try the rules for TCP. The rules after the last barrier of a chain are
//! distributed: those that a TCP packet could match, in order, to a chain for TCP, and so on; rules
//! for any protocol go into each. The chains are entered by gotos, which do not return, so RETURN,
//! the end of the list and the policy mean the same in them as before, and nothing follows them.
//!
//! For IPv6 only if the first rule already tests the protocol of every packet: ip6tables drops a
//! packet with malformed extension headers at the first such test.

use weir_model::{Chain, Family, ProtoMatch, Rule, Ruleset, Target};
use weir_partition::TableBarriers;

use crate::pass::{CounterPreservation, Pass, PassContext, find_chain_mut};
use crate::rewrite::iter_rewritable_chains;
use crate::{ChainNameAllocator, CostModel, RewrittenRuleset};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct SplitByProtocolPass;

impl Pass for SplitByProtocolPass {
    fn name(&self) -> &'static str {
        "split_by_protocol"
    }

    fn description(&self) -> &'static str {
        "splits long chains of rules for several protocols into one chain per protocol"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Derivable
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let mut made = RewrittenRuleset::unchanged(ruleset);
        let family = ruleset.family;
        for table in &ruleset.tables {
            let barriers = TableBarriers::of_table(table, family);
            let mut names = ChainNameAllocator::new(family, table);
            for (of, chain) in
                iter_rewritable_chains(ruleset, context).filter(|(t, _)| t.name == table.name)
            {
                let last_barrier =
                    chain.rules.iter().rposition(|r| barriers.find_barrier_reason(r).is_some());
                let from = last_barrier.map_or(0, |i| i + 1);
                let rules = &chain.rules[from..];
                let protocols = choose_protocols(rules, family, &context.options.cost);
                if protocols.is_empty() {
                    continue;
                }
                let (ways, chains) = split_rules_by_protocol(rules, &protocols, &mut names);
                let here: Vec<Rule> = chain.rules[..from].iter().cloned().chain(ways).collect();
                let into = format!("{} chains by protocol", chains.len());
                made.record_compiled_run(context, &rules[0].credited_originals, rules.len(), into);
                find_chain_mut(&mut made.ruleset, of.name, &chain.name).expect("a copy").rules =
                    here;
                let table = made.ruleset.tables.iter_mut().find(|t| t.name == of.name);
                table.expect("a copy").chains.extend(chains);
            }
        }
        made
    }
}

/// Whether a packet of the protocol may match the rule.
fn may_match_protocol(rule: &Rule, proto: u8) -> bool {
    rule.base.proto.is_none_or(|p| (p.proto == proto) != p.negated)
}

/// Whether only packets of the protocol match the rule.
fn matches_only_protocol(rule: &Rule, proto: u8) -> bool {
    rule.base.proto == Some(ProtoMatch { negated: false, proto })
}

/// The protocols for which a separate chain pays off, the one with most rules first.
fn choose_protocols(rules: &[Rule], family: Family, cost: &CostModel) -> Vec<u8> {
    let asked = |r: &Rule| {
        let b = &r.base;
        b.proto.is_some()
            && b.saddr.is_none()
            && b.daddr.is_none()
            && b.iif.is_none()
            && b.oif.is_none()
    };
    if family == Family::V6 && !rules.first().is_some_and(asked) {
        return Vec::new();
    }
    let icmp = if family == Family::V4 { 1 } else { 58 };
    let own = |p: u8| rules.iter().filter(|r| matches_only_protocol(r, p)).count();
    let mut protocols: Vec<u8> = [6, 17, icmp]
        .into_iter()
        .filter(|&p| own(p) >= cost.protocol_chain_rules_min.max(1))
        .collect();
    protocols.sort_by_key(|&p| std::cmp::Reverse(own(p)));
    // The cost of a packet of each protocol with its chain, and without.
    let all = cost.full_list_scan_ns(rules.len());
    let pays = |p: &u8| {
        let mine = rules.iter().filter(|r| may_match_protocol(r, *p)).count();
        cost.jump_ns + cost.full_list_scan_ns(protocols.len() + mine) < all
    };
    if protocols.iter().any(|p| !pays(p)) { Vec::new() } else { protocols }
}

/// The rules that lead to the chains and what is left for other protocols, and the chains.
fn split_rules_by_protocol(
    rules: &[Rule],
    protocols: &[u8],
    names: &mut ChainNameAllocator,
) -> (Vec<Rule>, Vec<Chain>) {
    let mut ways = Vec::new();
    let mut chains = Vec::new();
    for &proto in protocols {
        let name = names.allocate_numbered_with_word(match proto {
            6 => "tcp",
            17 => "udp",
            _ => "icmp",
        });
        let mut way = Rule::unconditional(Target::Goto(name.clone()));
        way.base.proto = Some(ProtoMatch { negated: false, proto });
        ways.push(way);
        let own: Vec<Rule> =
            rules.iter().filter(|r| may_match_protocol(r, proto)).cloned().collect();
        chains.push(Chain { rules: own, ..Chain::new(name, None) });
    }
    let others = rules.iter().filter(|r| !protocols.iter().any(|&p| matches_only_protocol(r, p)));
    ways.extend(others.cloned());
    (ways, chains)
}
