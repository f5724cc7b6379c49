//! `early_drop`: drops in raw PREROUTING, before conntrack and routing, what is dropped anyway.
//!
//! In the benchmarks of a provider under attack, three times as many packets per second were
//! dropped there as after conntrack. A rule qualifies if the ruleset drops all of its packets,
//! silently, whatever their state, on both paths that routing may choose (INPUT and FORWARD), and
//! if nothing observable happens to them before: no LOG, no limit, no reply.
//!
//! The early rule is a copy; the rule itself stays, because some of these packets must still reach
//! it: for a packet with TTL 1 that is to be forwarded, the host sends an ICMP error before FORWARD
//! drops it, so the copies require a TTL above 1.
//!
//! Rulesets that translate addresses are not changed: the replies of a translated connection have
//! other addresses in raw than in FORWARD or INPUT, and only the kernel knows them.
//!
//! A copy must drop either all fragments of a datagram or none. FORWARD and PREROUTING see them one
//! by one, but INPUT of IPv4 sees the reassembled datagram (ip_local_deliver in ip_input.c). So if
//! nothing uses conntrack, which reassembles datagrams before raw, a copy for IPv4 tests only what
//! all fragments share: addresses, protocol, input device.
//!
//! The sense of equality for packets that a copy drops: they were dropped before, silently, without
//! observable effects and without evaluating stateful matches. All other packets are compared
//! strictly ([`Equivalence::EarlyDrop`]). The counters of the rules in between are lost: they count
//! packets that get that far. So the pass runs only if that is allowed.
//!
//! This equality is per packet. Conntrack never sees what is dropped in raw: a reply that the
//! ruleset drops made its connection ESTABLISHED before, and no longer does. Later packets may have
//! another state than without the pass. Comparing packets cannot show that, so the pass is never
//! reported as proven.

use weir_artefact::Deviation;
use weir_model::effect::has_conntrack_enabling_rule;
use weir_model::rule_match::TtlComparison;
use weir_model::{
    Chain, Family, Field, Hook, Match, Policy, Rule, Ruleset, Table, TableName, Target, Test,
    target_effects,
};
use weir_partition::{TestAlgebra, find_barrier_reason};
use weir_semantics::tables_at_hook;

use crate::packet_class_walk::{PacketClassWalk, PacketClassWalkOutcome};
use crate::pass::{CounterPreservation, Equivalence, Pass, PassContext};
use crate::rewrite::{ensure_raw_chain, iter_rewritable_chains};
use crate::{ChainNameAllocator, RewrittenRuleset};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct EarlyDropPass;

impl Pass for EarlyDropPass {
    fn name(&self) -> &'static str {
        "early_drop"
    }

    fn description(&self) -> &'static str {
        "drops in raw PREROUTING what both INPUT and FORWARD drop, whatever its state"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Lost
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::EarlyDrop
    }

    fn deviation(&self) -> Option<Deviation> {
        Some(Deviation::EarlyDrop)
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let mut made = RewrittenRuleset::unchanged(ruleset);
        // Packets of a translated connection have other addresses in raw than after nat.
        if ruleset
            .rules_with_table_and_chain()
            .any(|(_, _, rule)| matches!(rule.target, Target::Nat(_)))
        {
            return made;
        }
        let mut early: Vec<Rule> = Vec::new();
        for (_, _, rule) in iter_rewritable_chains(ruleset, context)
            .flat_map(|(t, c)| c.rules.iter().map(move |r| (t, c, r)))
        {
            if is_drop_testing_only_raw_fields(rule, ruleset)
                && is_dropped_before_hook_end(rule, ruleset, Hook::Forward)
                && is_dropped_before_hook_end(rule, ruleset, Hook::Input)
            {
                let copy = make_drop_rule_above_ttl_one(rule);
                if !early.contains(&copy) {
                    made.record_compiled_run(
                        context,
                        &rule.credited_originals,
                        1,
                        "also in raw PREROUTING".to_owned(),
                    );
                    early.push(copy);
                }
            }
        }
        if !early.is_empty() {
            insert_early_drop_chain(&mut made.ruleset, early);
        }
        made
    }
}

/// Puts the rules in front of all others, in their own chain.
fn insert_early_drop_chain(ruleset: &mut Ruleset, early: Vec<Rule>) {
    let family = ruleset.family;
    ensure_raw_chain(ruleset, Hook::Prerouting);
    let raw = ruleset.tables.iter_mut().find(|t| t.name == TableName::Raw).expect("it is there");
    let name = ChainNameAllocator::new(family, raw).allocate_numbered_with_word("early");
    raw.chains.push(Chain { rules: early, ..Chain::new(name.clone(), None) });
    ensure_raw_chain(ruleset, Hook::Prerouting)
        .rules
        .insert(0, Rule::unconditional(Target::Jump(name)));
}

fn make_drop_rule_above_ttl_one(rule: &Rule) -> Rule {
    let mut out = Rule { base: rule.base.clone(), ..Rule::unconditional(Target::Drop) };
    let tests = rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_)));
    out.matches.push(Match::Ttl { op: TtlComparison::Gt, value: 1 });
    out.matches.extend(tests.cloned());
    out
}

/// Whether the rule drops, and tests only what is available before conntrack
/// and routing and does not change.
fn is_drop_testing_only_raw_fields(rule: &Rule, ruleset: &Ruleset) -> bool {
    use Field::{
        Daddr, Dport, IcmpTypeAndCode, Iif, IsLaterFragment, Length, PktType, Proto, Saddr,
        SourceMac, Sport, TcpFlags,
    };
    let family = ruleset.family;
    let early = [
        Daddr,
        Dport,
        IsLaterFragment,
        IcmpTypeAndCode,
        Iif,
        Length,
        PktType,
        Proto,
        Saddr,
        SourceMac,
        Sport,
        TcpFlags,
    ];
    // What all fragments of a datagram share.
    let shared = [Daddr, Iif, Proto, Saddr];
    let wholes = family == Family::V6 || has_conntrack_enabling_rule(ruleset);
    let tests = weir_model::lower_to_tests(rule, family);
    rule.target == Target::Drop
        && !tests.is_empty()
        && find_barrier_reason(rule, family).is_none()
        && tests.iter().all(|t| match t {
            Test::Field { field, .. } if wholes => early.contains(field),
            Test::Field { field, .. } => shared.contains(field),
            Test::EitherPort { .. } => wholes,
            _ => false,
        })
}

/// Whether all packets of the rule are dropped, unnoticed, on their way from raw PREROUTING to the
/// end of a hook.
fn is_dropped_before_hook_end(rule: &Rule, ruleset: &Ruleset, hook: Hook) -> bool {
    for at in [Hook::Prerouting, hook] {
        for name in tables_at_hook(at) {
            let Some(table) = ruleset.table(name) else { continue };
            if table.chain(at.chain_name()).is_none() {
                continue;
            }
            match table_drops_all_rule_packets(rule, ruleset, table, at) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
        }
    }
    false
}

/// Whether the table drops all packets of the rule; `None` if that would be observable, or is not
/// known.
fn table_drops_all_rule_packets(
    rule: &Rule,
    ruleset: &Ruleset,
    table: &Table,
    hook: Hook,
) -> Option<bool> {
    let chain = table.chain(hook.chain_name())?;
    let algebra = TestAlgebra::for_table(table, ruleset.family);
    let tests = algebra.tests_of_rule(rule);
    let mut accepts = false;
    let class_walk = PacketClassWalk { table, algebra, tests: &tests };
    let outcome = class_walk.walk(hook.chain_name(), &mut |rule, _| {
        use weir_partition::BarrierReason::{IpsetMatch, OpaqueMatch};
        accepts |= rule.target == Target::Accept;
        let barrier = find_barrier_reason(rule, ruleset.family)
            .filter(|b| !matches!(b, IpsetMatch | OpaqueMatch));
        barrier.is_none() && is_unobservable_if_packet_dropped(&rule.target)
    });
    match outcome {
        PacketClassWalkOutcome::CallbackRejectedRule => None,
        PacketClassWalkOutcome::AllDecided => Some(!accepts),
        PacketClassWalkOutcome::ReachesPolicy | PacketClassWalkOutcome::LeavesChain => {
            Some(!accepts && chain.policy == Some(Policy::Drop))
        }
    }
}

/// Whether the effect of the target on a packet that is dropped later is unobservable.
fn is_unobservable_if_packet_dropped(target: &Target) -> bool {
    match target {
        Target::None
        | Target::Accept
        | Target::Drop
        | Target::Return
        | Target::Jump(_)
        | Target::Goto(_) => true,
        // A time to live that runs out is answered.
        Target::Effect(_) => {
            let row = target_effects(target);
            !row.is_observable && !row.may_drop && !row.writes.contains(Field::Ttl)
        }
        Target::Reject(_) | Target::Divert(_) | Target::Nat(_) | Target::Opaque(_) => false,
    }
}
