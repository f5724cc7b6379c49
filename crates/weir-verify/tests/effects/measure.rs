//! Sends the packets, and collects the effects of each rule.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use weir_kernel::Session;
use weir_model::{Family, Hook, TableName, Target, Test, lower_to_tests};
use weir_semantics::Interpreter;
use weir_verify::rule_effect_tester::{
    EffectTestPacket, PredictedObservation, RuleEffectTester, RuleObservation, RuleToMeasure,
    generate_packets_without_ct_entry,
};

use super::changed_fields::find_changed_fields;
use super::flips::{Flips, flips, states};
use super::judge::{Case, MatchFact, TargetFact};
use super::rows;
use super::targets::{self, Probe};

/// Differences that are told; the others are counted.
const TOLD_MAX: usize = 40;

/// What was done.
#[derive(Default)]
pub struct Tally {
    pub rules: usize,
    pub packets: usize,
    pub copies: usize,
    /// Copies that the interpreter was asked of.
    pub predicted: usize,
    /// Copies that did not come to their rule: martians, wrong extension headers.
    pub refused: usize,
    /// What the interpreter said otherwise.
    pub wrong: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { rules, packets, copies, predicted, refused, wrong } = self;
        write!(
            f,
            "{rules} rules, {packets} packets, {copies} copies, {predicted} predicted, {refused} \
             not at their rule, {} differences",
            wrong.len()
        )
    }
}

impl Tally {
    fn wrong(&mut self, what: String) {
        if self.wrong.len() < TOLD_MAX {
            self.wrong.push(what);
        }
    }

    /// Compares what was seen of a copy with what the interpreter says.
    fn compare(
        &mut self,
        bench: &RuleEffectTester,
        interpreter: &Interpreter<'_>,
        sample: &EffectTestPacket,
        which: usize,
        seen: &RuleObservation,
    ) -> Option<PredictedObservation> {
        self.copies += 1;
        if !seen.reached_rule {
            self.refused += 1;
            return None;
        }
        let predicted = bench.predict_observation(interpreter, sample, which, seen)?;
        self.predicted += 1;
        let expected = &predicted.observation;
        if (expected.matched, expected.reached_next_rule) != (seen.matched, seen.reached_next_rule)
        {
            let RuleToMeasure { table, hook, rule, .. } = &bench.measured_rules()[which];
            self.wrong(format!(
                "{table} {hook:?} {rule}: {}: counted {}, went on {}; the interpreter says {}, {}",
                sample.name,
                seen.matched,
                seen.reached_next_rule,
                expected.matched,
                expected.reached_next_rule
            ));
        }
        Some(predicted)
    }
}

/// Every match, in the family.
pub fn matches(session: &Session, family: Family, facts: &mut Vec<MatchFact>, tally: &mut Tally) {
    for (name, subjects) in
        [("plain", rows::matches(family)), ("tracked", rows::connection_matches(family))]
    {
        let name = format!("{name}-{family:?}").to_lowercase();
        let sets = rows::sets(family);
        let mut bench =
            RuleEffectTester::new(session, &name, family, subjects, &[], &sets).unwrap();
        let firewall = bench.parsed_firewall().clone();
        let interpreter = Interpreter::new(&firewall);
        let mut own: Vec<Option<MatchFact>> =
            (0..bench.measured_rules().len()).map(|i| fact_of(&bench, family, i)).collect();
        tally.rules += bench.measured_rules().len();
        // Budgets are full yet: what answers the same packet in two ways is seen here.
        // What conntrack takes a packet for hangs on all of its header: there, the same packet is
        // sent in several states.
        let tracked = interpreter.is_conntrack_used_by_family(family);
        for pairs in if tracked { states(family) } else { flips(family) } {
            see_reads(&mut bench, &mut own, &pairs, tally);
        }
        for sample in generate_packets_without_ct_entry(family) {
            let seen = bench.send_through_all_rules(&sample).unwrap();
            tally.packets += 1;
            let broken = chain_is_broken(&bench, &seen);
            for (i, seen) in seen.iter().enumerate() {
                tally.compare(&bench, &interpreter, &sample, i, seen);
                if let Some(fact) = own[i].as_mut().filter(|_| seen.reached_rule && !broken) {
                    note(fact, &bench, i, &sample, seen);
                }
            }
        }
        let tried = bench.measured_rules().iter().zip(&mut own);
        try_fragments(
            session,
            family,
            tracked,
            tried.filter_map(|(s, fact)| Some((s, &mut fact.as_mut()?.defragments))),
        );
        facts.extend(own.into_iter().flatten());
    }
}

/// Whether each module by itself has fragments reassembled: then a fragment waits for its datagram,
/// and no rule sees it. Among many of which one does that cannot be told, so that each of these is
/// loaded alone.
fn try_fragments<'s>(
    session: &Session,
    family: Family,
    together: bool,
    of: impl Iterator<Item = (&'s RuleToMeasure, &'s mut Option<bool>)>,
) {
    let mut known: HashMap<&str, bool> = HashMap::new();
    for (subject, defragments) in of {
        // What CT does hangs on its options.
        let key = if subject.module == "CT" { &*subject.rule } else { subject.module };
        if !together {
            *defragments = Some(false);
        } else if let Some(known) = known.get(key) {
            *defragments = Some(*known);
        } else if family == Family::V4 {
            let control =
                RuleToMeasure { rule: String::new(), table: TableName::Mangle, ..subject.clone() };
            let control = RuleToMeasure { hook: Hook::Forward, ..control };
            let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let name = format!("alone-{}", subject.rule.to_lowercase());
            let name: String = name.chars().map(word).collect();
            let rules = vec![subject.clone(), control];
            let sets = rows::sets(family);
            let mut bench =
                RuleEffectTester::new(session, &name, family, rules, &[], &sets).unwrap();
            let first = "udp first fragment of 8 bytes";
            let sample = generate_packets_without_ct_entry(family)
                .into_iter()
                .find(|s| s.name == first)
                .unwrap();
            let waits = !bench.send_through_all_rules(&sample).unwrap()[1].reached_rule;
            known.insert(key, waits);
            *defragments = Some(waits);
        }
    }
}

/// The rule's only match, with nothing seen yet.
fn fact_of(bench: &RuleEffectTester, family: Family, which: usize) -> Option<MatchFact> {
    let rule = bench.parsed_rule(which)?;
    let of = rule.matches.first()?.clone();
    let asks = |t: &Test| matches!(t, Test::Opaque { .. } | Test::Set { .. });
    let decided = !lower_to_tests(rule, family).iter().any(asks);
    Some(MatchFact {
        rule: format!("{family:?} {}", bench.measured_rules()[which].rule),
        family,
        of,
        cases: Vec::new(),
        drops_odd: false,
        drops_matched: false,
        reads: BTreeSet::new(),
        varies: false,
        decided,
        defragments: None,
    })
}

/// Whether a rule that tests the protocol alone drops the packet: extension headers that are
/// cut (*malformed extension headers* in docs/semantics.md).
fn chain_is_broken(bench: &RuleEffectTester, seen: &[RuleObservation]) -> bool {
    let at =
        bench.measured_rules().iter().position(|s| s.module.is_empty() && s.rule.contains("-p 59"));
    at.is_some_and(|at| seen[at].has_ended_at_rule())
}

fn note(
    fact: &mut MatchFact,
    bench: &RuleEffectTester,
    which: usize,
    sample: &EffectTestPacket,
    seen: &RuleObservation,
) {
    fact.drops_matched |= seen.matched && seen.has_ended_at_rule();
    let Some((proto, offset, bytes)) = transport_of(&sample.bytes) else {
        fact.drops_odd |= seen.has_ended_at_rule();
        return;
    };
    let wanted = bench.parsed_rule(which).and_then(|r| r.base.proto);
    if wanted.is_none_or(|p| (p.proto == proto) != p.negated) {
        fact.cases.push(Case { bytes, offset, dropped: seen.has_ended_at_rule() });
    }
}

/// Protocol, offset in its datagram and bytes of what follows options and extension headers;
/// `None` if these are truncated.
fn transport_of(packet: &[u8]) -> Option<(u8, u16, usize)> {
    let be16 = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    if packet[0] >> 4 == 4 {
        let header = usize::from(packet[0] & 0x0f) * 4;
        return Some((packet[9], be16(6)? & 0x1fff, packet.len() - header));
    }
    let (mut proto, mut at) = (packet[6], 40);
    loop {
        let length = match proto {
            0 | 43 | 60 => (usize::from(*packet.get(at + 1)?) + 1) * 8,
            51 => (usize::from(*packet.get(at + 1)?) + 2) * 4,
            44 => 8,
            _ => return Some((proto, 0, packet.len() - at)),
        };
        let rest = packet.len().checked_sub(at + length)?;
        if proto == 44 && be16(at + 2)? >> 3 != 0 {
            return Some((packet[at], be16(at + 2)? >> 3, rest));
        }
        (proto, at) = (packet[at], at + length);
    }
}

/// Which fields the answers depend on.
fn see_reads(
    bench: &mut RuleEffectTester,
    own: &mut [Option<MatchFact>],
    pairs: &Flips,
    tally: &mut Tally,
) {
    let mut send = |sample: &EffectTestPacket| {
        let seen = bench.send_through_all_rules(sample).unwrap();
        tally.packets += 1;
        tally.copies += seen.len();
        seen
    };
    let base = send(&pairs.base);
    let again = [send(&pairs.base), send(&pairs.base)];
    for (i, fact) in own.iter_mut().enumerate() {
        let Some(fact) = fact else { continue };
        fact.varies |= again.iter().any(|a| a[i].matched != base[i].matched);
    }
    for (field, sample) in &pairs.flipped {
        let seen = send(sample);
        for (i, fact) in own.iter_mut().enumerate() {
            let Some(fact) = fact.as_mut().filter(|f| !f.varies) else { continue };
            let wanted = sample.packet.as_ref().map(|p| p.ct.state);
            let both = base[i].reached_rule && seen[i].reached_rule;
            let both = both && seen[i].ct_state.is_none_or(|s| Some(s) == wanted);
            if both && seen[i].matched != base[i].matched {
                fact.reads.insert(*field);
            }
        }
    }
}

/// Every target, in the family.
pub fn targets(session: &Session, family: Family, facts: &mut Vec<TargetFact>, tally: &mut Tally) {
    // No target reads ports, and few at what is not TCP.
    let mut all = generate_packets_without_ct_entry(family);
    let is_plain =
        |name: &str| ["icmp ", "ospf", "255", "ipip"].iter().any(|p| name.starts_with(p));
    all.retain(|s| !s.name.contains(" > ") && !is_plain(&s.name));
    for pairs in flips(family) {
        all.push(pairs.base);
    }
    let mut run = Run { family, facts, tally, alone: false, resets: false };
    run.bench(session, "targets", targets::plain(family), false, &all);
    let few: Vec<EffectTestPacket> = flips(family).into_iter().map(|f| f.base).collect();
    (run.alone, run.resets) = (true, true);
    run.bench(session, "sets", targets::sets(), false, &few[..2]);
    run.resets = false;
    let connected = states(family).into_iter().flat_map(|f| {
        std::iter::once(f.base).chain(f.flipped.into_iter().map(|(_, s)| s)).collect::<Vec<_>>()
    });
    let connected: Vec<EffectTestPacket> = connected.chain(few).collect();
    run.bench(session, "connections", targets::connections(family), true, &connected);
    // Apart: with nat in the way, connections of two zones that clash get other ports.
    run.bench(session, "translations", targets::translations(family), true, &connected);
}

struct Run<'r> {
    family: Family,
    facts: &'r mut Vec<TargetFact>,
    tally: &'r mut Tally,
    /// Targets change what copies have in common: each is sent by itself, with its control.
    alone: bool,
    /// What they change is sets.
    resets: bool,
}

impl Run<'_> {
    fn bench(
        &mut self,
        session: &Session,
        name: &str,
        subjects: Vec<RuleToMeasure>,
        connections: bool,
        samples: &[EffectTestPacket],
    ) {
        let name = format!("{name}-{:?}", self.family).to_lowercase();
        let probes = targets::probes(self.family, connections);
        // The interpreter asks about u32, whose answer is not known here.
        let silent = |p: &Probe| Probe { field: p.field.filter(|_| !p.is_asked), ..p.clone() };
        let said_probes: Vec<Probe> = probes.iter().map(silent).collect();
        let texts: Vec<String> = probes.iter().map(|p| p.rule.clone()).collect();
        let sets = rows::sets(self.family);
        let mut bench =
            RuleEffectTester::new(session, &name, self.family, subjects, &texts, &sets).unwrap();
        let firewall = bench.parsed_firewall().clone();
        let interpreter = Interpreter::new(&firewall);
        let mut own: Vec<Option<TargetFact>> = (0..bench.measured_rules().len())
            .map(|i| fact_of_target(&bench, self.family, i))
            .collect();
        self.tally.rules += bench.measured_rules().len();
        for sample in samples {
            self.tally.packets += 1;
            let seen = self.send(&mut bench, sample);
            for (i, (control, seen)) in seen.iter().enumerate() {
                let predicted = self.tally.compare(&bench, &interpreter, sample, i, seen);
                let Some(fact) = own[i].as_mut().filter(|_| seen.matched) else { continue };
                // An expectation is there for one packet: the other one is no longer RELATED.
                let alike = bench.measured_rules()[i].table == TableName::Raw;
                if !alike && control.ct_state != seen.ct_state {
                    continue;
                }
                see_writes(fact, &probes, control, seen);
                let nat = matches!(fact.target, Target::Nat(_));
                if let Some(predicted) = predicted.filter(|_| !nat) {
                    let said = &predicted.observation;
                    let unknown = find_changed_fields(&said_probes, said, seen);
                    if predicted.wrote_unknown_value {
                        fact.unknown.extend(unknown);
                    } else if !unknown.is_empty() {
                        let rule = &fact.rule;
                        let (said, left) = (&said.observed_bytes, &seen.observed_bytes);
                        self.tally.wrong(format!(
                            "{rule}: {}: {unknown:?} is not {said:02x?}, but {left:02x?}",
                            sample.name
                        ));
                    }
                }
            }
        }
        let tried = bench.measured_rules().iter().zip(&mut own);
        let tried = tried.filter_map(|(s, fact)| Some((s, &mut fact.as_mut()?.defragments)));
        try_fragments(session, self.family, connections, tried);
        self.facts.extend(own.into_iter().flatten());
    }

    /// What was seen of each rule's copy, and of its control's.
    fn send(
        &self,
        bench: &mut RuleEffectTester,
        sample: &EffectTestPacket,
    ) -> Vec<(RuleObservation, RuleObservation)> {
        let control = |bench: &RuleEffectTester, i: usize| {
            let of = &bench.measured_rules()[i];
            let same =
                |s: &RuleToMeasure| s.rule.is_empty() && (s.table, s.hook) == (of.table, of.hook);
            bench.measured_rules().iter().position(same).expect("a control")
        };
        let count = bench.measured_rules().len();
        if !self.alone {
            let seen = bench.send_through_all_rules(sample).unwrap();
            let pair = |i: usize| (seen[control(bench, i)].clone(), seen[i].clone());
            return (0..count).map(pair).collect();
        }
        let mut out = Vec::new();
        for i in 0..count {
            if self.resets {
                let reset = reset_sets(self.family);
                bench.namespace().run_command(&["ipset", "restore"], reset.as_bytes()).unwrap();
            }
            // The control comes first, and sees what the target has not changed yet.
            let both = match control(bench, i) {
                own if own == i => vec![i],
                control => vec![control, i],
            };
            let pair = bench.send_through_rules(sample, &both).unwrap();
            out.push((pair[0].clone(), pair[pair.len() - 1].clone()));
        }
        out
    }
}

fn reset_sets(family: Family) -> String {
    let addr = if family == Family::V4 { "192.0.2.1" } else { "2001:db8::1" };
    format!("flush grows\nflush shrinks\nadd shrinks {addr}\n")
}

fn fact_of_target(bench: &RuleEffectTester, family: Family, which: usize) -> Option<TargetFact> {
    let rule = bench.parsed_rule(which)?;
    let RuleToMeasure { table, hook, rule: text, .. } = &bench.measured_rules()[which];
    Some(TargetFact {
        rule: format!("{family:?} {table} {hook:?} {text}"),
        target: rule.target.clone(),
        writes: BTreeSet::new(),
        unknown: BTreeSet::new(),
        changes_sets: false,
        drops: false,
        goes_on: false,
        defragments: None,
    })
}

/// What differs between a copy that met the target and one that did not.
fn see_writes(
    fact: &mut TargetFact,
    probes: &[Probe],
    control: &RuleObservation,
    seen: &RuleObservation,
) {
    fact.goes_on |= seen.reached_next_rule;
    fact.drops |= !seen.reached_next_rule
        && control.observed_bytes.is_some()
        && seen.observed_bytes.is_none();
    fact.writes.extend(find_changed_fields(probes, control, seen));
    let sets = |a: &[bool], b: &[bool]| {
        probes.iter().zip(a.iter().zip(b)).any(|(p, (a, b))| p.field.is_none() && a != b)
    };
    fact.changes_sets |= seen.reached_next_rule && sets(&control.probe_hits, &seen.probe_hits);
    if let (Some(a), Some(b)) = (&control.final_probe_hits, &seen.final_probe_hits) {
        fact.changes_sets |= sets(a, b);
    }
}
