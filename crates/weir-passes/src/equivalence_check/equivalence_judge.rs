//! How two outcomes of a packet differ, in each sense of equality.

use std::collections::{HashMap, HashSet};

use weir_model::target::Effect;
use weir_model::{
    CtState, Family, Firewall, OriginalRuleIndex, Packet, SharedName, TableName, Target,
    target_effects,
};
use weir_packet::{ConntrackInfo, Transport};
use weir_semantics::{
    AppliedTarget, CountedObject, CounterHitWithCredit, CreditedCounter, Interpreter, JourneyKind,
    Oracle, Outcome, OutcomeDifference, Verdict,
};

use super::counterexample::{Counterexample, FormDifference, describe_outcome};
use crate::Equivalence;

/// Sends packets through what a pass made of a firewall, and compares in the pass's sense.
pub(crate) struct EquivalenceJudge<'f> {
    equivalence: Equivalence,
    interpreter_before: Interpreter<'f>,
    interpreter_after: Interpreter<'f>,
    /// For merged rules, the one that stands for all of them.
    merged_rule_representatives: [HashMap<OriginalRuleIndex, OriginalRuleIndex>; 2],
    /// Built-in chains that were there before.
    original_policies: HashSet<(Family, TableName, SharedName)>,
    /// Rules tried, before and after.
    pub rules_tried: (u64, u64),
}

impl<'f> EquivalenceJudge<'f> {
    pub fn new(equivalence: Equivalence, before: &'f Firewall, after: &'f Firewall) -> Self {
        let mut policies = HashSet::new();
        for ruleset in before.rulesets() {
            for table in &ruleset.tables {
                let built_in = table.chains.iter().filter(|c| c.policy.is_some());
                policies.extend(built_in.map(|c| (ruleset.family, table.name, c.name.clone())));
            }
        }
        let class = |family| {
            let rules =
                after.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
            map_merged_rules_to_first(rules.map(|(_, _, r)| &r.credited_originals[..]))
        };
        EquivalenceJudge {
            equivalence,
            merged_rule_representatives: [class(Family::V4), class(Family::V6)],
            original_policies: policies,
            interpreter_before: Interpreter::new_for_comparison_with(before, after),
            interpreter_after: Interpreter::new_for_comparison_with(after, before),
            rules_tried: (0, 0),
        }
    }

    /// The packet, if the two differ for it.
    pub fn find_counterexample_on_journey(
        &mut self,
        packet: &Packet,
        journey_kind: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> Option<Box<Counterexample>> {
        let (before, FormDifference { difference: what, outcome_after: after }) =
            self.compare_journeys(packet, journey_kind, answers)?;
        let packet = packet.clone();
        Some(Box::new(Counterexample {
            packet,
            journey_kind,
            difference: what,
            outcome_before: before,
            outcome_after: after,
        }))
    }

    /// In what the two differ for a packet; the outcome that it had.
    fn compare_journeys(
        &mut self,
        packet: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> Option<(String, FormDifference)> {
        let was = self.interpreter_before.evaluate_journey(packet, entry, answers);
        let is = self.interpreter_after.evaluate_journey(packet, entry, answers);
        self.rules_tried.0 += u64::from(was.rules_tried);
        self.rules_tried.1 += u64::from(is.rules_tried);
        let what = match self.equivalence {
            Equivalence::Strict | Equivalence::StrictOnPacketBytes => {
                was.first_difference(&is).map(describe_difference)
            }
            Equivalence::SummedCounters => {
                self.compare_merged_rules_as_one(&was, &is, packet.family)
            }
            Equivalence::EarlyDrop if is_dropped_by_early_drop_rule(&is) => {
                let fate = match was.verdict {
                    // Conntrack reassembles datagrams before raw: there are no fragments.
                    Verdict::HeldForReassembly
                        if self.interpreter_before.is_conntrack_used_by_family(packet.family) =>
                    {
                        return None;
                    }
                    Verdict::HeldForReassembly => {
                        self.find_loss_of_reassembled_datagram(packet, entry, answers)
                    }
                    _ => find_early_drop_loss(&was),
                };
                fate.or_else(|| self.compare_verdicts_at_ttl_one(packet, entry, answers))
            }
            Equivalence::EarlyDrop => self.compare_except_new_policies(&was, &is, packet.family),
            Equivalence::Untracked => match count_notrack_pass_hits(&is) {
                0 => self.compare_except_new_policies(&was, &is, packet.family),
                rules => self
                    .compare_except_notrack_effects(&was, &is, rules, packet.family)
                    .or_else(|| self.find_conntrack_dependence(packet, entry, &was, answers)),
            },
        }?;
        Some((
            describe_outcome(&was),
            FormDifference { difference: what, outcome_after: describe_outcome(&is) },
        ))
    }

    /// Everything but credit, then credit with each class of merged rules as one.
    fn compare_merged_rules_as_one(
        &self,
        was: &Outcome<'_>,
        is: &Outcome<'_>,
        family: Family,
    ) -> Option<String> {
        match was.first_difference(is) {
            None => return None,
            Some(OutcomeDifference::Credit) => {}
            Some(other) => return Some(describe_difference(other)),
        }
        let class = &self.merged_rule_representatives[usize::from(family == Family::V6)];
        let credits = |o: &Outcome<'_>| -> Vec<String> {
            let mut all: Vec<String> =
                o.hits.iter().flat_map(|h| list_merged_classes_of_hit(h, class)).collect();
            all.sort_unstable();
            all
        };
        (credits(was) != credits(is)).then(|| describe_difference(OutcomeDifference::Credit))
    }

    /// What a datagram to the host had that is lost if one of its fragments is dropped: the others
    /// may make it any that has the same addresses and protocol.
    fn find_loss_of_reassembled_datagram(
        &self,
        fragment: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> Option<String> {
        let whole = Packet { fragment: Default::default(), ..fragment.clone() };
        let ports = [(1024, 80), (80, 1024), (53, 53), (40_000, 22)];
        let of = |(sport, dport): (u16, u16)| match whole.proto {
            6 => {
                let (seq, ack, flags, options) = (1, 0, 2, Vec::new());
                Transport::Tcp { sport, dport, seq, ack, flags, options }
            }
            17 => Transport::Udp { sport, dport },
            1 => Transport::Icmp { kind: 8, code: 0, rest: [0; 4] },
            _ => whole.transport.clone(),
        };
        ports.into_iter().zip([16, 400, 1_400, 4_000]).find_map(|(ports, bytes)| {
            let packet = Packet { transport: of(ports), payload: vec![0; bytes], ..whole.clone() };
            find_early_drop_loss(&self.interpreter_before.evaluate_journey(&packet, entry, answers))
        })
    }

    /// Whether the packet, had it come with a time to live of 1, is no longer answered.
    fn compare_verdicts_at_ttl_one(
        &self,
        packet: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> Option<String> {
        let last = Packet { ttl: 1, ..packet.clone() };
        let was = self.interpreter_before.evaluate_journey(&last, entry, answers).verdict;
        let is = self.interpreter_after.evaluate_journey(&last, entry, answers).verdict;
        (was != is).then(|| "verdict differs where its time to live is 1".to_owned())
    }

    /// As strict, but a table that was not there has policies that count.
    fn compare_except_new_policies(
        &self,
        was: &Outcome<'_>,
        is: &Outcome<'_>,
        family: Family,
    ) -> Option<String> {
        match was.first_difference(is)? {
            OutcomeDifference::Credit
                if self.list_credits_except_new_policies(was, family, &[])
                    == self.list_credits_except_new_policies(is, family, &[]) =>
            {
                None
            }
            other => Some(describe_difference(other)),
        }
    }

    /// Credits without those of policies that the ruleset did not have, and of some tables.
    fn list_credits_except_new_policies(
        &self,
        outcome: &Outcome<'_>,
        family: Family,
        without: &[TableName],
    ) -> Vec<String> {
        let is_counted = |c: &CreditedCounter<'_>| match c {
            CreditedCounter::Rule(_) => true,
            CreditedCounter::Policy(table, _) if without.contains(table) => false,
            CreditedCounter::Policy(table, chain) => {
                self.original_policies.contains(&(family, *table, (*chain).into()))
            }
        };
        outcome
            .credited_counters()
            .iter()
            .filter(|c| is_counted(c))
            .map(|c| format!("{c:?}"))
            .collect()
    }

    /// As strict, but for the last `pass_hit_count` of NOTRACK, conntrack itself and nat's
    /// policies.
    fn compare_except_notrack_effects(
        &self,
        was: &Outcome<'_>,
        is: &Outcome<'_>,
        pass_hit_count: usize,
        family: Family,
    ) -> Option<String> {
        if was.verdict != is.verdict {
            return Some(describe_difference(OutcomeDifference::Verdict));
        }
        let own = |e: &AppliedTarget<'_>| {
            e.table == TableName::Raw
                && matches!(e.target, Target::Effect(e) if is_notrack_without_options(e))
        };
        let mut effects = is.effects.clone();
        for _ in 0..pass_hit_count {
            let Some(i) = effects.iter().rposition(own) else {
                return Some(describe_difference(OutcomeDifference::Effects));
            };
            effects.remove(i);
        }
        if was.effects != effects {
            return Some(describe_difference(OutcomeDifference::Effects));
        }
        let packet = Packet { ct: was.packet.ct, ..is.packet.clone() };
        if was.packet != packet {
            return Some(describe_difference(OutcomeDifference::Packet));
        }
        if was.questions.iter().chain(&is.questions).any(|a| a.stateful) {
            return Some(describe_difference(OutcomeDifference::StatefulQuestions));
        }
        let nat = [TableName::Nat];
        (self.list_credits_except_new_policies(was, family, &nat)
            != self.list_credits_except_new_policies(is, family, &nat))
        .then(|| describe_difference(OutcomeDifference::Credit))
    }

    /// Whether the outcome of an untracked packet depended on conntrack after all: on the state, on
    /// its own or that of its replies, or for the ICMP errors that return for it.
    fn find_conntrack_dependence(
        &self,
        packet: &Packet,
        entry: JourneyKind,
        was: &Outcome<'_>,
        answers: &mut dyn Oracle,
    ) -> Option<String> {
        for state in [CtState::New, CtState::Established, CtState::Related, CtState::Invalid] {
            let other = Packet { ct: ConntrackInfo::from_state(state), ..packet.clone() };
            let outcome = self.interpreter_before.evaluate_journey(&other, entry, answers);
            if outcome.verdict != was.verdict || outcome.effects != was.effects {
                return Some(format!("what became of it depended on conntrack ({state:?})"));
            }
        }
        let (reply, way) = build_reply(packet, entry);
        let way_back = self.interpreter_after.evaluate_journey(&reply, way, answers);
        if way_back.verdict != Verdict::Expired && count_notrack_pass_hits(&way_back) == 0 {
            return Some("its replies are tracked".to_owned());
        }
        let mut error = reply;
        error.proto = if packet.family == Family::V4 { 1 } else { 58 };
        error.fragment = Default::default();
        error.payload.clear();
        let kinds: &[u8] = if packet.family == Family::V4 { &[3, 11, 12] } else { &[1, 2, 3, 4] };
        for &kind in kinds {
            error.transport = Transport::Icmp { kind, code: 0, rest: [0; 4] };
            let mut verdict = |state| {
                let packet = Packet { ct: ConntrackInfo::from_state(state), ..error.clone() };
                self.interpreter_before.evaluate_journey(&packet, way, answers).verdict
            };
            if verdict(CtState::Related) != verdict(CtState::Invalid) {
                return Some(format!("ICMP errors of type {kind} for it depend on conntrack"));
            }
        }
        None
    }
}

/// The reply to a packet, and its entry.
fn build_reply(packet: &Packet, entry: JourneyKind) -> (Packet, JourneyKind) {
    let mut out = packet.clone();
    std::mem::swap(&mut out.saddr, &mut out.daddr);
    std::mem::swap(&mut out.iif, &mut out.oif);
    match &mut out.transport {
        Transport::Tcp { sport, dport, .. }
        | Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. }
        | Transport::DccpPorts { sport, dport } => std::mem::swap(sport, dport),
        Transport::Icmp { kind, .. } => *kind = if *kind == 8 { 0 } else { *kind },
        Transport::NoParsedHeader | Transport::Truncated => {}
    }
    let way = match entry {
        JourneyKind::Forward => JourneyKind::Forward,
        JourneyKind::Input => JourneyKind::Output,
        JourneyKind::Output => JourneyKind::Input,
    };
    if way == JourneyKind::Output {
        out.smac = None;
    }
    (out, way)
}

/// A hit by the class of its rule.
fn list_merged_classes_of_hit(
    hit: &CounterHitWithCredit<'_>,
    class: &HashMap<OriginalRuleIndex, OriginalRuleIndex>,
) -> Vec<String> {
    let mut ids: Vec<OriginalRuleIndex> =
        hit.credited_originals.iter().map(|id| class.get(id).copied().unwrap_or(*id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut out: Vec<String> = ids.iter().map(|id| format!("{}", id.0)).collect();
    if let CountedObject::Policy { table, chain } = hit.counted_object {
        out.push(format!("{table}/{chain}"));
    }
    out
}

/// Rules that share a counter since they were merged, each with the first of them. `credits` are
/// those of all counters: rules, and elements of sets.
pub fn map_merged_rules_to_first<'c>(
    credits: impl Iterator<Item = &'c [OriginalRuleIndex]>,
) -> HashMap<OriginalRuleIndex, OriginalRuleIndex> {
    let mut class: HashMap<OriginalRuleIndex, OriginalRuleIndex> = HashMap::new();
    for credited_originals in credits.filter(|c| c.len() > 1) {
        let known: Vec<OriginalRuleIndex> =
            credited_originals.iter().map(|id| class.get(id).copied().unwrap_or(*id)).collect();
        let first = known.iter().min().copied().expect("there are two at least");
        for of in class.values_mut().filter(|of| known.contains(of)) {
            *of = first;
        }
        class.extend(credited_originals.iter().map(|id| (*id, first)));
    }
    class
}

/// Whether a rule that a pass put into raw PREROUTING dropped the packet.
fn is_dropped_by_early_drop_rule(outcome: &Outcome<'_>) -> bool {
    let own = |h: &CounterHitWithCredit<'_>| {
        h.credited_originals.is_empty()
            && matches!(h.counted_object, CountedObject::Rule { table: TableName::Raw, .. })
    };
    outcome.verdict == Verdict::Drop && outcome.hits.last().is_some_and(own)
}

/// What a packet that is dropped early had before that is lost.
fn find_early_drop_loss(was: &Outcome<'_>) -> Option<String> {
    if was.verdict != Verdict::Drop {
        return Some(describe_difference(OutcomeDifference::Verdict));
    }
    if was.effects.iter().any(is_observable_effect) {
        return Some(describe_difference(OutcomeDifference::Effects));
    }
    was.questions
        .iter()
        .any(|a| a.stateful)
        .then(|| describe_difference(OutcomeDifference::StatefulQuestions))
}

/// Whether an effect is noticed although the packet is dropped later.
fn is_observable_effect(effect: &AppliedTarget<'_>) -> bool {
    !matches!(effect.target, Target::Effect(_)) || target_effects(effect.target).is_observable
}

/// Whether the target is the one that the notrack pass adds.
fn is_notrack_without_options(effect: &Effect) -> bool {
    matches!(effect, Effect::CtNotrack { ignored_options } if ignored_options.is_empty())
}

/// How many rules of the pass untracked the packet.
fn count_notrack_pass_hits(outcome: &Outcome<'_>) -> usize {
    let own = |h: &&CounterHitWithCredit<'_>| match h.counted_object {
        CountedObject::Rule { table: TableName::Raw, chain, .. } => {
            h.credited_originals.is_empty()
                && chain.ends_with(crate::passes::notrack::NOTRACK_CHAIN_SUFFIX)
        }
        _ => false,
    };
    outcome.hits.iter().filter(own).count()
}

fn describe_difference(difference: OutcomeDifference) -> String {
    format!("{} differs", difference.as_str())
}
