//! `notrack`: exempts traffic whose outcome does not depend on conntrack from tracking.
//!
//! Conntrack costs a lookup per packet and an entry per flow; under a flood of short flows (DNS)
//! the connection table is exhausted first. A class of traffic can do without it if no rule on any
//! of its paths uses conntrack before it is accepted: for its packets, for the replies, and for
//! ICMP errors in return, in any hook of any table; if no rule may translate it; and if no helper
//! reads it.
//!
//! Classes are the ACCEPT rules of the filter table that test a protocol and ports, optionally
//! addresses, and nothing else. Each gives four rules: for the class and its replies, in raw
//! PREROUTING and OUTPUT, because a class that is tracked in one direction would see half of each
//! connection. They follow the existing rules of raw. Conntrack stays in use as before: NOTRACK
//! does not use it, and nothing is removed.
//!
//! A packet with a truncated transport header must not be dropped at these rules, because it would
//! have been dropped later: they first require a length that includes the header.
//!
//! The sense of equality for packets that the rules untrack: everything except NOTRACK itself,
//! their conntrack state, and the policies of the nat table, which count the connections that they
//! see. In addition, no state may have made a difference, and the replies must be untracked, too
//! ([`Equivalence::Untracked`]). If there is a nat table, the pass therefore loses counters, and
//! runs only if that is allowed.

use weir_artefact::Deviation;
use weir_model::effect::{has_conntrack_enabling_rule, is_conntrack_enabling_rule};
use weir_model::target::Effect;
use weir_model::{
    Chain, Field, Hook, Match, ProtoMatch, Rule, Ruleset, Table, TableName, Target, Test,
};
use weir_model::{
    Family,
    rule_match::{IcmpTypeMatch, Negatable, PortSpan},
};
use weir_partition::{BarrierReason, TestAlgebra, find_barrier_reason};
use weir_semantics::tables_at_hook;

use crate::packet_class_walk::{PacketClassWalk, PacketClassWalkOutcome};
use crate::pass::{Equivalence, Pass, PassContext};
use crate::rewrite::{ensure_raw_chain, iter_rewritable_chains};
use crate::{ChainNameAllocator, RewrittenRuleset};

/// Last word of the chain's name, by which the check knows the pass's rules.
pub(crate) const NOTRACK_CHAIN_SUFFIX: &str = ":notrack";

/// Destination ports that helpers of the kernel read (net/netfilter/nf_conntrack_*.c).
const HELPER_PORTS: [u16; 13] =
    [21, 69, 137, 161, 554, 1719, 1720, 1723, 5060, 5061, 6566, 6667, 10080];

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct NotrackPass;

impl Pass for NotrackPass {
    fn name(&self) -> &'static str {
        "notrack"
    }

    fn description(&self) -> &'static str {
        "exempts traffic whose outcome never depends on conntrack, in both directions, from \
         tracking"
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::Untracked
    }

    fn deviation(&self) -> Option<Deviation> {
        Some(Deviation::Untracked)
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let mut made = RewrittenRuleset::unchanged(ruleset);
        let nat = ruleset.table(&TableName::Nat).is_some() && !context.options.allow_counter_loss;
        let in_use = has_conntrack_enabling_rule(ruleset);
        if nat || !in_use || !are_icmp_errors_conntrack_independent(ruleset) {
            return made;
        }
        let mut notrack_rules: Vec<Rule> = Vec::new();
        for (table, chain) in iter_rewritable_chains(ruleset, context) {
            if table.name != TableName::Filter {
                continue;
            }
            for rule in &chain.rules {
                let Some((notrack_rule, reply_rule)) =
                    make_notrack_and_reply_rules(rule, ruleset.family)
                else {
                    continue;
                };
                if notrack_rules.contains(&notrack_rule)
                    || !is_conntrack_independent(&notrack_rule, ruleset)
                    || !is_conntrack_independent(&reply_rule, ruleset)
                {
                    continue;
                }
                made.record_compiled_run(
                    context,
                    &rule.credited_originals,
                    1,
                    "traffic without conntrack".to_owned(),
                );
                for added in [notrack_rule, reply_rule] {
                    if !notrack_rules.contains(&added) {
                        notrack_rules.push(added);
                    }
                }
            }
        }
        if !notrack_rules.is_empty() {
            insert_notrack_chain(&mut made.ruleset, notrack_rules);
        }
        made
    }
}

fn insert_notrack_chain(ruleset: &mut Ruleset, notrack_rules: Vec<Rule>) {
    let family = ruleset.family;
    ensure_raw_chain(ruleset, Hook::Prerouting);
    let raw = ruleset.tables.iter_mut().find(|t| t.name == TableName::Raw).expect("it is there");
    let name = ChainNameAllocator::new(family, raw)
        .allocate_numbered_with_word(&NOTRACK_CHAIN_SUFFIX[1..]);
    raw.chains.push(Chain { rules: notrack_rules, ..Chain::new(name.clone(), None) });
    for hook in [Hook::Prerouting, Hook::Output] {
        ensure_raw_chain(ruleset, hook).rules.push(Rule::unconditional(Target::Jump(name.clone())));
    }
}

/// The traffic that an ACCEPT rule names, and its replies, as rules that untrack them.
fn make_notrack_and_reply_rules(rule: &Rule, family: Family) -> Option<(Rule, Rule)> {
    let base = &rule.base;
    let plain = base.iif.is_none() && base.oif.is_none() && base.fragment.is_none();
    let proto = base.proto.filter(|p| !p.negated && matches!(p.proto, 6 | 17))?;
    if rule.target != Target::Accept || !plain {
        return None;
    }
    let tests = rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_)));
    let [ports] = tests.collect::<Vec<_>>()[..] else { return None };
    let (sport, dport) = match ports {
        Match::Tcp { sport, dport, flags: None, option: None } => (sport, dport),
        Match::Udp { sport, dport } => (sport, dport),
        _ => return None,
    };
    let helped = |p: &Option<Negatable<PortSpan>>| {
        p.as_ref().is_none_or(|p| {
            p.negated || HELPER_PORTS.iter().any(|h| (p.value.lo..=p.value.hi).contains(h))
        })
    };
    // A port on one side at least, and none that a helper reads.
    let named: Vec<_> = [sport, dport].into_iter().filter(|p| p.is_some()).collect();
    if named.is_empty() || named.iter().any(|p| helped(p)) {
        return None;
    }
    let make = |sport: &Option<Negatable<PortSpan>>, dport: &Option<Negatable<PortSpan>>| {
        let (sport, dport) = (sport.clone(), dport.clone());
        let ports = match proto.proto {
            6 => Match::Tcp { sport, dport, flags: None, option: None },
            _ => Match::Udp { sport, dport },
        };
        let mut out = Rule::unconditional(Target::Effect(Box::new(Effect::CtNotrack {
            ignored_options: Vec::new(),
        })));
        out.base.proto = Some(proto);
        let header = if proto.proto == 6 { 20 } else { 8 };
        let network = if family == Family::V4 { 20 } else { 40 };
        let value = (network + header, u16::MAX);
        out.matches.push(Match::Length(Negatable { negated: false, value }));
        out.matches.push(ports);
        out
    };
    let (mut notrack_rule, mut reply_rule) = (make(sport, dport), make(dport, sport));
    (notrack_rule.base.saddr, notrack_rule.base.daddr) = (base.saddr, base.daddr);
    (reply_rule.base.saddr, reply_rule.base.daddr) = (base.daddr, base.saddr);
    Some((notrack_rule, reply_rule))
}

/// Whether no rule, in any table at any hook, uses conntrack for the packets that a rule matches,
/// or translates them, before they are decided there.
fn is_conntrack_independent(traffic: &Rule, ruleset: &Ruleset) -> bool {
    Hook::ALL.into_iter().all(|hook| {
        tables_at_hook(hook).iter().filter_map(|name| ruleset.table(name)).all(|table| {
            table.chain(hook.chain_name()).is_none()
                || is_conntrack_independent_in_table(traffic, table, hook, ruleset.family)
        })
    })
}

fn is_conntrack_independent_in_table(
    traffic: &Rule,
    table: &Table,
    hook: Hook,
    family: Family,
) -> bool {
    let algebra = TestAlgebra::for_table(table, family);
    let tests = algebra.tests_of_rule(traffic);
    let outcome = PacketClassWalk { table, algebra, tests: &tests }.walk(
        hook.chain_name(),
        &mut |rule, _| {
            let tests_conntrack = algebra
                .tests_of_rule(rule)
                .iter()
                .any(|t| matches!(t, Test::Field { field: Field::CtState | Field::CtMark, .. }));
            let untracks = matches!(&rule.target, Target::Effect(e)
            if matches!(**e, Effect::Notrack | Effect::CtNotrack { .. }));
            let kept =
                find_barrier_reason(rule, family).is_some_and(|b| b != BarrierReason::IpsetMatch);
            !tests_conntrack && !untracks && !kept && !is_conntrack_enabling_rule(rule)
        },
    );
    outcome != PacketClassWalkOutcome::CallbackRejectedRule
}

/// Whether ICMP errors have the same outcome whether conntrack knows their connection (RELATED) or
/// not (INVALID). They may come from any address.
fn are_icmp_errors_conntrack_independent(ruleset: &Ruleset) -> bool {
    let (proto, icmp_types): (u8, &[u8]) = match ruleset.family {
        Family::V4 => (1, &[3, 11, 12]),
        Family::V6 => (58, &[1, 2, 3, 4]),
    };
    icmp_types.iter().all(|&kind| {
        let mut error = Rule::unconditional(Target::Accept);
        error.base.proto = Some(ProtoMatch { negated: false, proto });
        let value = IcmpTypeMatch { kind, codes: (0, 255) };
        error.matches.push(Match::Icmp(Negatable { negated: false, value }));
        is_conntrack_independent(&error, ruleset)
    })
}
