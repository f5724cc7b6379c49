//! How two outcomes of a packet differ, in each sense of equality.

use std::collections::{HashMap, HashSet};

use weir_model::target::Effect;
use weir_model::{
    CtState, Family, Firewall, Name, Packet, RuleIndex, TableName, Target, effects_of,
};
use weir_packet::{Ct, Transport};
use weir_semantics::{
    Counted, Credited, EffectSeen, Entry, Hit, Interpreter, Oracle, Outcome, OutcomeDifference,
    Verdict,
};

use super::counterexample::{Counterexample, Differs, describe};
use crate::Equivalence;

/// Sends packets through what a pass made of a firewall, and compares in the pass's sense.
pub(crate) struct Judge<'f> {
    equivalence: Equivalence,
    before: Interpreter<'f>,
    after: Interpreter<'f>,
    /// For merged rules, the one that stands for all of them.
    class: [HashMap<RuleIndex, RuleIndex>; 2],
    /// Built-in chains that were there before.
    policies: HashSet<(Family, TableName, Name)>,
    /// Rules tried, before and after.
    pub tried: (u64, u64),
}

impl<'f> Judge<'f> {
    pub fn new(equivalence: Equivalence, before: &'f Firewall, after: &'f Firewall) -> Self {
        let mut policies = HashSet::new();
        for ruleset in before.rulesets() {
            for table in &ruleset.tables {
                let built_in = table.chains.iter().filter(|c| c.policy.is_some());
                policies.extend(built_in.map(|c| (ruleset.family, table.name, c.name.clone())));
            }
        }
        let class = |family| {
            let rules = after.ruleset(family).into_iter().flat_map(|r| r.rules());
            classes(rules.map(|(_, _, r)| &r.credit[..]))
        };
        Judge {
            equivalence,
            class: [class(Family::V4), class(Family::V6)],
            policies,
            before: Interpreter::comparing(before, after),
            after: Interpreter::comparing(after, before),
            tried: (0, 0),
        }
    }

    /// The packet, if the two differ for it.
    pub fn example(
        &mut self,
        packet: &Packet,
        entry: Entry,
        answers: &mut dyn Oracle,
    ) -> Option<Box<Counterexample>> {
        let (before, Differs { what, after }) = self.difference(packet, entry, answers)?;
        let packet = packet.clone();
        Some(Box::new(Counterexample { packet, entry, difference: what, before, after }))
    }

    /// In what the two differ for a packet; the outcome that it had.
    fn difference(
        &mut self,
        packet: &Packet,
        entry: Entry,
        answers: &mut dyn Oracle,
    ) -> Option<(String, Differs)> {
        let was = self.before.journey(packet, entry, answers);
        let is = self.after.journey(packet, entry, answers);
        self.tried.0 += u64::from(was.tried);
        self.tried.1 += u64::from(is.tried);
        let what = match self.equivalence {
            Equivalence::Strict | Equivalence::StrictOnBytes => was.difference(&is).map(words),
            Equivalence::Summed => self.summed(&was, &is, packet.family),
            Equivalence::EarlyDrop if dropped_early(&is) => {
                let fate = match was.verdict {
                    // Conntrack reassembles datagrams before raw: there are no fragments.
                    Verdict::Waits if self.before.conntrack_in_use(packet.family) => return None,
                    Verdict::Waits => self.datagram(packet, entry, answers),
                    _ => early_drop(&was),
                };
                fate.or_else(|| self.at_its_last_hop(packet, entry, answers))
            }
            Equivalence::EarlyDrop => self.but_new_policies(&was, &is, packet.family),
            Equivalence::Untracked => match untracked_by(&is) {
                0 => self.but_new_policies(&was, &is, packet.family),
                rules => self
                    .untracked(&was, &is, rules, packet.family)
                    .or_else(|| self.on_conntrack(packet, entry, &was, answers)),
            },
        }?;
        Some((describe(&was), Differs { what, after: describe(&is) }))
    }

    /// Everything but credit, then credit with each class of merged rules as one.
    fn summed(&self, was: &Outcome<'_>, is: &Outcome<'_>, family: Family) -> Option<String> {
        match was.difference(is) {
            None => return None,
            Some(OutcomeDifference::Credit) => {}
            Some(other) => return Some(words(other)),
        }
        let class = &self.class[usize::from(family == Family::V6)];
        let credits = |o: &Outcome<'_>| -> Vec<String> {
            let mut all: Vec<String> = o.hits.iter().flat_map(|h| hit_of(h, class)).collect();
            all.sort_unstable();
            all
        };
        (credits(was) != credits(is)).then(|| words(OutcomeDifference::Credit))
    }

    /// What a datagram to the host had that is lost if one of its fragments is dropped: the others
    /// may make it any that has the same addresses and protocol.
    fn datagram(
        &self,
        fragment: &Packet,
        entry: Entry,
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
            early_drop(&self.before.journey(&packet, entry, answers))
        })
    }

    /// Whether the packet, had it come with a time to live of 1, is no longer answered.
    fn at_its_last_hop(
        &self,
        packet: &Packet,
        entry: Entry,
        answers: &mut dyn Oracle,
    ) -> Option<String> {
        let last = Packet { ttl: 1, ..packet.clone() };
        let was = self.before.journey(&last, entry, answers).verdict;
        let is = self.after.journey(&last, entry, answers).verdict;
        (was != is).then(|| "verdict differs where its time to live is 1".to_owned())
    }

    /// As strict, but a table that was not there has policies that count.
    fn but_new_policies(&self, was: &Outcome<'_>, is: &Outcome<'_>, of: Family) -> Option<String> {
        match was.difference(is)? {
            OutcomeDifference::Credit
                if self.credits(was, of, &[]) == self.credits(is, of, &[]) =>
            {
                None
            }
            other => Some(words(other)),
        }
    }

    /// Credits without those of policies that the ruleset did not have, and of some tables.
    fn credits(&self, outcome: &Outcome<'_>, of: Family, without: &[TableName]) -> Vec<String> {
        let is_counted = |c: &Credited<'_>| match c {
            Credited::Rule(_) => true,
            Credited::Policy(table, _) if without.contains(table) => false,
            Credited::Policy(table, chain) => {
                self.policies.contains(&(of, *table, (*chain).into()))
            }
        };
        outcome.credits().iter().filter(|c| is_counted(c)).map(|c| format!("{c:?}")).collect()
    }

    /// As strict, but for the last `rules` of NOTRACK, conntrack itself and nat's policies.
    fn untracked(
        &self,
        was: &Outcome<'_>,
        is: &Outcome<'_>,
        rules: usize,
        of: Family,
    ) -> Option<String> {
        if was.verdict != is.verdict {
            return Some(words(OutcomeDifference::Verdict));
        }
        let own = |e: &EffectSeen<'_>| {
            e.table == TableName::Raw
                && matches!(e.target, Target::Effect(e) if **e == Effect::CtNotrack)
        };
        let mut effects = is.effects.clone();
        for _ in 0..rules {
            let Some(i) = effects.iter().rposition(own) else {
                return Some(words(OutcomeDifference::Effects));
            };
            effects.remove(i);
        }
        if was.effects != effects {
            return Some(words(OutcomeDifference::Effects));
        }
        let packet = Packet { ct: was.packet.ct, ..is.packet.clone() };
        if was.packet != packet {
            return Some(words(OutcomeDifference::Packet));
        }
        if was.asked.iter().chain(&is.asked).any(|a| a.stateful) {
            return Some(words(OutcomeDifference::Stateful));
        }
        let nat = [TableName::Nat];
        (self.credits(was, of, &nat) != self.credits(is, of, &nat))
            .then(|| words(OutcomeDifference::Credit))
    }

    /// Whether the outcome of an untracked packet depended on conntrack after all: on the state, on
    /// its own or that of its replies, or for the ICMP errors that return for it.
    fn on_conntrack(
        &self,
        packet: &Packet,
        entry: Entry,
        was: &Outcome<'_>,
        answers: &mut dyn Oracle,
    ) -> Option<String> {
        for state in [CtState::New, CtState::Established, CtState::Related, CtState::Invalid] {
            let other = Packet { ct: Ct::of(state), ..packet.clone() };
            let outcome = self.before.journey(&other, entry, answers);
            if outcome.verdict != was.verdict || outcome.effects != was.effects {
                return Some(format!("what became of it depended on conntrack ({state:?})"));
            }
        }
        let (reply, way) = reply(packet, entry);
        let way_back = self.after.journey(&reply, way, answers);
        if way_back.verdict != Verdict::Expired && untracked_by(&way_back) == 0 {
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
                let packet = Packet { ct: Ct::of(state), ..error.clone() };
                self.before.journey(&packet, way, answers).verdict
            };
            if verdict(CtState::Related) != verdict(CtState::Invalid) {
                return Some(format!("ICMP errors of type {kind} for it depend on conntrack"));
            }
        }
        None
    }
}

/// The reply to a packet, and its entry.
fn reply(packet: &Packet, entry: Entry) -> (Packet, Entry) {
    let mut out = packet.clone();
    std::mem::swap(&mut out.saddr, &mut out.daddr);
    std::mem::swap(&mut out.iif, &mut out.oif);
    match &mut out.transport {
        Transport::Tcp { sport, dport, .. }
        | Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. }
        | Transport::Dccp { sport, dport } => std::mem::swap(sport, dport),
        Transport::Icmp { kind, .. } => *kind = if *kind == 8 { 0 } else { *kind },
        Transport::None | Transport::Truncated => {}
    }
    let way = match entry {
        Entry::Forward => Entry::Forward,
        Entry::Input => Entry::Output,
        Entry::Output => Entry::Input,
    };
    if way == Entry::Output {
        out.smac = None;
    }
    (out, way)
}

/// A hit by the class of its rule.
fn hit_of(hit: &Hit<'_>, class: &HashMap<RuleIndex, RuleIndex>) -> Vec<String> {
    let mut ids: Vec<RuleIndex> =
        hit.credit.iter().map(|id| class.get(id).copied().unwrap_or(*id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut out: Vec<String> = ids.iter().map(|id| format!("{}", id.0)).collect();
    if let Counted::Policy { table, chain } = hit.counted {
        out.push(format!("{table}/{chain}"));
    }
    out
}

/// Rules that share a counter since they were merged, each with the first of them. `credits` are
/// those of all counters: rules, and elements of sets.
pub fn classes<'c>(
    credits: impl Iterator<Item = &'c [RuleIndex]>,
) -> HashMap<RuleIndex, RuleIndex> {
    let mut class: HashMap<RuleIndex, RuleIndex> = HashMap::new();
    for credit in credits.filter(|c| c.len() > 1) {
        let known: Vec<RuleIndex> =
            credit.iter().map(|id| class.get(id).copied().unwrap_or(*id)).collect();
        let first = known.iter().min().copied().expect("there are two at least");
        for of in class.values_mut().filter(|of| known.contains(of)) {
            *of = first;
        }
        class.extend(credit.iter().map(|id| (*id, first)));
    }
    class
}

/// Whether a rule that a pass put into raw PREROUTING dropped the packet.
fn dropped_early(outcome: &Outcome<'_>) -> bool {
    let own = |h: &Hit<'_>| {
        h.credit.is_empty() && matches!(h.counted, Counted::Rule { table: TableName::Raw, .. })
    };
    outcome.verdict == Verdict::Drop && outcome.hits.last().is_some_and(own)
}

/// What a packet that is dropped early had before that is lost.
fn early_drop(was: &Outcome<'_>) -> Option<String> {
    if was.verdict != Verdict::Drop {
        return Some(words(OutcomeDifference::Verdict));
    }
    if was.effects.iter().any(is_seen) {
        return Some(words(OutcomeDifference::Effects));
    }
    was.asked.iter().any(|a| a.stateful).then(|| words(OutcomeDifference::Stateful))
}

/// Whether an effect is noticed although the packet is dropped later.
fn is_seen(effect: &EffectSeen<'_>) -> bool {
    !matches!(effect.target, Target::Effect(_)) || effects_of(effect.target).emits
}

/// How many rules of the pass untracked the packet.
fn untracked_by(outcome: &Outcome<'_>) -> usize {
    let own = |h: &&Hit<'_>| match h.counted {
        Counted::Rule { table: TableName::Raw, chain, .. } => {
            h.credit.is_empty() && chain.ends_with(crate::passes::notrack::CHAIN)
        }
        _ => false,
    };
    outcome.hits.iter().filter(own).count()
}

fn words(difference: OutcomeDifference) -> String {
    format!("{difference:?} differs").to_lowercase()
}
