//! `early_drop`: what is dropped anyway is dropped in raw PREROUTING, before conntrack and routing.
//!
//! The benches of a provider under attack dropped three times as many packets a second there as
//! behind conntrack. A rule's packets may go there if the ruleset drops all of them, silently,
//! whatever their state is, on both ways that routing may send them (INPUT and FORWARD), and
//! nothing is done to them before that anybody could notice: no LOG, no budget, no answer.
//!
//! The early rule is a copy; the rule itself stays. For there are packets of the kind that must
//! still reach it: one with a time to live of 1 that is to be forwarded is answered by the host
//! before FORWARD drops it, so the copies ask for a time to live above 1.
//!
//! Rulesets that translate addresses are left alone: the answers of a translated connection have
//! other addresses in raw than in FORWARD or INPUT, and only the kernel knows which.
//!
//! A copy must drop either all fragments of a datagram or none. FORWARD and PREROUTING see them one
//! by one, but INPUT of IPv4 sees the datagram that they make up (ip_local_deliver in ip_input.c).
//! So where nothing uses conntrack, which puts datagrams together before raw, a copy for IPv4 tests
//! only what all fragments share: addresses, protocol, input device.
//!
//! Equal is, for packets that a copy drops: they were dropped, silently, without effects that could
//! be seen and without questions to stateful matches. For all others: everything
//! ([`Equivalence::EarlyDrop`]). What is lost are the counters on the way: they count what comes so
//! far. So the pass runs where that is allowed.
//!
//! Equal is meant packet by packet. Conntrack never sees what is dropped in raw: an answer that the
//! ruleset drops has made its connection ESTABLISHED before, and no longer does. Packets that come
//! later may have another state than without the pass. No comparison of packets sees that, so the
//! pass is never called proven.

use weir_artefact::Deviation;
use weir_model::effect::needs_conntrack;
use weir_model::matching::TtlOp;
use weir_model::{
    Chain, Family, Field, Hook, Match, Policy, Rule, Ruleset, Table, TableName, Target, Test,
    effects_of,
};
use weir_partition::{TestAlgebra, barrier};
use weir_semantics::tables_at;

use super::way::{ClassEnd, PacketClass};
use crate::pass::{Context, Counting, Equivalence, Pass};
use crate::rewrite::{raw_chain, rewritable};
use crate::{ChainNames, Rewritten};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct EarlyDrop;

impl Pass for EarlyDrop {
    fn name(&self) -> &'static str {
        "early_drop"
    }

    fn about(&self) -> &'static str {
        "what is dropped on both ways of the route, whatever its state, is dropped in raw PREROUTING"
    }

    fn counters(&self) -> Counting {
        Counting::Loses
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::EarlyDrop
    }

    fn deviation(&self) -> Option<Deviation> {
        Some(Deviation::EarlyDrop)
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let mut made = Rewritten::unchanged(ruleset);
        // Packets of a translated connection have other addresses in raw than behind nat.
        if ruleset.rules().any(|(_, _, rule)| matches!(rule.target, Target::Nat(_))) {
            return made;
        }
        let mut early: Vec<Rule> = Vec::new();
        for (_, _, rule) in
            rewritable(ruleset, context).flat_map(|(t, c)| c.rules.iter().map(move |r| (t, c, r)))
        {
            if may_go(rule, ruleset)
                && dropped(rule, ruleset, Hook::Forward)
                && dropped(rule, ruleset, Hook::Input)
            {
                let copy = copy(rule);
                if !early.contains(&copy) {
                    made.note(context, &rule.credit, 1, "also in raw PREROUTING".to_owned());
                    early.push(copy);
                }
            }
        }
        if !early.is_empty() {
            put(&mut made.ruleset, early);
        }
        made
    }
}

/// Puts the rules in front of all others, in a chain of their own.
fn put(ruleset: &mut Ruleset, early: Vec<Rule>) {
    let family = ruleset.family;
    raw_chain(ruleset, Hook::Prerouting);
    let raw = ruleset.tables.iter_mut().find(|t| t.name == TableName::Raw).expect("it is there");
    let name = ChainNames::new(family, raw).word("early");
    raw.chains.push(Chain { rules: early, ..Chain::new(name.clone(), None) });
    raw_chain(ruleset, Hook::Prerouting).rules.insert(0, Rule::new(Target::Jump(name)));
}

fn copy(rule: &Rule) -> Rule {
    let mut out = Rule { base: rule.base.clone(), ..Rule::new(Target::Drop) };
    let tests = rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_)));
    out.matches.push(Match::Ttl { op: TtlOp::Gt, value: 1 });
    out.matches.extend(tests.cloned());
    out
}

/// Whether the rule drops in the filter, and asks only what is there before conntrack and routing
/// and stays as it is.
fn may_go(rule: &Rule, ruleset: &Ruleset) -> bool {
    use Field::{
        Daddr, Dport, Fragment, Icmp, Iif, Length, PktType, Proto, Saddr, SourceMac, Sport,
        TcpFlags,
    };
    let family = ruleset.family;
    let early = [
        Daddr, Dport, Fragment, Icmp, Iif, Length, PktType, Proto, Saddr, SourceMac, Sport,
        TcpFlags,
    ];
    // What all fragments of a datagram share.
    let shared = [Daddr, Iif, Proto, Saddr];
    let tracked = || ruleset.rules().any(|(_, _, rule)| needs_conntrack(rule));
    let wholes = family == Family::V6 || tracked();
    let tests = weir_model::tests_of(rule, family);
    rule.target == Target::Drop
        && !tests.is_empty()
        && barrier(rule, family).is_none()
        && tests.iter().all(|t| match t {
            Test::Field { field, .. } if wholes => early.contains(field),
            Test::Field { field, .. } => shared.contains(field),
            Test::EitherPort { .. } => wholes,
            _ => false,
        })
}

/// Whether all packets of the rule are dropped, unnoticed, on their way from raw PREROUTING to the
/// end of a hook.
fn dropped(rule: &Rule, ruleset: &Ruleset, hook: Hook) -> bool {
    for at in [Hook::Prerouting, hook] {
        for name in tables_at(at) {
            let Some(table) = ruleset.table(name) else { continue };
            if table.chain(at.chain()).is_none() {
                continue;
            }
            match at_table(rule, ruleset, table, at) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
        }
    }
    false
}

/// Whether the table drops all packets of the rule; `None` where that would be noticed, or where
/// it cannot be told.
fn at_table(rule: &Rule, ruleset: &Ruleset, table: &Table, hook: Hook) -> Option<bool> {
    let chain = table.chain(hook.chain())?;
    let algebra = TestAlgebra::of(table, ruleset.family);
    let tests = algebra.tests(rule);
    let mut accepts = false;
    let kind = PacketClass { table, algebra, tests: &tests };
    let way = kind.walk(hook.chain(), &mut |rule, _| {
        use weir_partition::Barrier::{Opaque, Set};
        accepts |= rule.target == Target::Accept;
        let asked = barrier(rule, ruleset.family).filter(|b| !matches!(b, Set | Opaque));
        asked.is_none() && is_unnoticed(&rule.target)
    });
    match way {
        ClassEnd::Refused => None,
        ClassEnd::Ends => Some(!accepts),
        ClassEnd::Policy | ClassEnd::GoesOn => Some(!accepts && chain.policy == Some(Policy::Drop)),
    }
}

/// Whether nobody notices what the target does to a packet that is dropped later.
fn is_unnoticed(target: &Target) -> bool {
    match target {
        Target::None
        | Target::Accept
        | Target::Drop
        | Target::Return
        | Target::Jump(_)
        | Target::Goto(_) => true,
        // A time to live that runs out is answered.
        Target::Effect(_) => {
            let row = effects_of(target);
            !row.emits && !row.drops && !row.writes.contains(Field::Ttl)
        }
        Target::Reject(_) | Target::Divert(_) | Target::Nat(_) | Target::Opaque(_) => false,
    }
}
