//! The comparison: rounds of packets through every firewall.

mod packets;
mod tested;

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use weir_backends::artefact;
use weir_kernel::xtables::Count;
use weir_kernel::{Session, interrupt};
use weir_model::{CtState, Family, Firewall, RuleId};
use weir_packet::Packet;
use weir_semantics::{Entry, Interpreter, Outcome};

use crate::answers::Known;
use crate::arm::{Arm, Seen};
use crate::batch::{Batch, Maker, PACKETS_MAX, Way};
use crate::counters::{Originals, tool};
use crate::differ::{self, Expected, tally};
use crate::{VerifyError, VerifyOptions, VerifyReport};

use self::tested::Tested;

/// Packets that are sent between two readings of the counters.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub batches: Vec<(Batch, Vec<Expected>)>,
}

impl Round {
    fn len(&self) -> usize {
        self.batches.iter().map(|(b, _)| b.packets.len()).sum()
    }
}

struct Run<'f> {
    interpreter: Interpreter<'f>,
    options: &'f VerifyOptions,
    originals: Originals,
    /// The original of each rule, by family.
    rules: HashMap<(Family, RuleId), usize>,
    empty: Arm,
    tested: Vec<Tested>,
    maker: Maker,
    report: VerifyReport,
    hit: Vec<bool>,
}

pub(crate) fn run(
    firewall: &Firewall,
    dirs: &[&Path],
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<VerifyReport, VerifyError> {
    let began = Instant::now();
    let mut manifests = Vec::new();
    for dir in dirs {
        let manifest = artefact::read_manifest(dir)
            .map_err(|source| VerifyError::Artefact { path: dir.to_path_buf(), source })?;
        manifests.push((*dir, manifest));
    }
    progress("making namespaces and loading rulesets", 0.0);
    let session = Session::new()?;
    let interpreter = Interpreter::new(firewall);
    let originals = Originals::new(firewall);
    let families: Vec<Family> = firewall.rulesets().map(|r| r.family).collect();
    let tracked: Vec<Family> =
        families.iter().copied().filter(|f| interpreter.conntrack_in_use(*f)).collect();
    let empty = Arm::new(&session, "empty", &families, &tracked, |_| Ok(()))?;
    let mut tested = vec![Tested::original(&session, firewall, &families, &originals)?];
    for (dir, manifest) in &manifests {
        tested.push(Tested::form(&session, dir, manifest, &families, &originals)?);
    }
    let mut run = Run {
        rules: rules(firewall, &originals),
        maker: Maker::new(packets::lengths_matter(firewall)),
        report: VerifyReport { seed: options.seed, ..VerifyReport::default() },
        hit: vec![false; originals.keys.len()],
        interpreter,
        options,
        originals,
        empty,
        tested,
    };
    let ways = packets::by_way(firewall, options);
    run.report.generated = ways.iter().map(|(_, p)| p.len() as u64).sum();
    run.rounds(ways, progress)?;
    drop(session);
    run.finish(began)
}

/// The original of each rule.
fn rules(firewall: &Firewall, originals: &Originals) -> HashMap<(Family, RuleId), usize> {
    let at: HashMap<&str, usize> =
        originals.keys.iter().enumerate().map(|(i, k)| (k.as_str(), i)).collect();
    let mut out = HashMap::new();
    for ruleset in firewall.rulesets() {
        for table in &ruleset.tables {
            for chain in &table.chains {
                for (i, rule) in chain.rules.iter().enumerate() {
                    let (family, number) = (ruleset.family, i + 1);
                    let key = format!("{}/{}/{}/{number}", tool(family), table.name, chain.name);
                    let original = at.get(key.as_str()).copied();
                    out.extend(rule.credit.first().zip(original).map(|(id, o)| ((family, *id), o)));
                }
            }
        }
    }
    out
}

impl Run<'_> {
    fn rounds(
        &mut self,
        ways: Vec<(Way, Vec<Packet>)>,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(), VerifyError> {
        let (mut round, mut done) = (Round::default(), 0);
        for (way, packets) in ways {
            let mut packets = packets.into_iter().peekable();
            while packets.peek().is_some() {
                let room = PACKETS_MAX - round.len();
                let batch = self.maker.batch(way.clone(), packets.by_ref().take(room));
                done += batch.packets.len();
                self.add(&mut round, batch)?;
                if round.len() >= PACKETS_MAX * 9 / 10 {
                    self.compare(&mut round)?;
                    let part = done as f64 / self.report.generated.max(1) as f64;
                    progress(&format!("{} packets compared", self.report.compared), part);
                }
                if interrupt::requested() {
                    return Err(VerifyError::Interrupted);
                }
            }
        }
        self.compare(&mut round)
    }

    /// Sends a batch through the firewall without rules, and adds what is to be compared to the
    /// round. What only the kernel can answer is compared at once, packet by packet.
    fn add(&mut self, round: &mut Round, mut batch: Batch) -> Result<(), VerifyError> {
        let seen = self.empty.send(&batch)?;
        let tracked = self.interpreter.conntrack_in_use(batch.way.family);
        let (mut plain, mut single) = (Vec::new(), Vec::new());
        for at in 0..batch.packets.len() {
            let packet = &mut batch.packets[at].packet;
            if seen.left[at].is_none() {
                self.report.exclude(undelivered(packet, &seen, at, tracked), 1);
                continue;
            }
            // Without conntrack every packet is INVALID: it has no entry.
            packet.ct.state = seen.states[at].unwrap_or(CtState::Invalid);
            if packet.ct.state != CtState::Established && packet.ct.state != CtState::Related {
                packet.ct.reply = false;
            }
            let mut known = Known::by_place(batch.way.entry);
            let outcome = self.interpreter.journey(packet, batch.way.entry, &mut known);
            if known.open {
                single.push(at);
            } else if let Some(cause) = differ::out_of_reach(&outcome) {
                self.report.exclude(cause, 1);
            } else {
                plain.push((at, Expected::of(&outcome, packet, &self.originals)));
            }
        }
        let only = batch.only(plain.iter().map(|(at, _)| *at));
        if !plain.is_empty() {
            round.batches.push((only, plain.into_iter().map(|(_, e)| e).collect()));
        }
        if !single.is_empty() {
            // The readings of single packets must not meet those of the round.
            self.compare(round)?;
        }
        for at in single {
            self.single(&batch.only([at]))?;
        }
        Ok(())
    }

    /// Sends a round through every ruleset and compares.
    fn compare(&mut self, round: &mut Round) -> Result<(), VerifyError> {
        let round = std::mem::take(round);
        if round.len() == 0 {
            return Ok(());
        }
        for (batch, expected) in &round.batches {
            for (prepared, expected) in batch.packets.iter().zip(expected) {
                self.note(&prepared.packet, &batch.way, expected);
            }
        }
        for tested in &mut self.tested {
            let room = self.options.differences_max.saturating_sub(self.report.differences.len());
            let mut found = tested.round(&round, &self.originals, room)?;
            self.report.differences.append(&mut found);
        }
        Ok(())
    }

    /// One packet whose way depends on what only the kernel can say.
    fn single(&mut self, batch: &Batch) -> Result<(), VerifyError> {
        if self.report.singles as usize >= self.options.singles_max {
            self.report.exclude("beyond the number of packets tried one at a time", 1);
            return Ok(());
        }
        let (packet, entry) = (&batch.packets[0].packet, batch.way.entry);
        let family = packet.family;
        let mut noted = None;
        for i in 0..self.tested.len() {
            let (seen, counts) = self.tested[i].alone(batch)?;
            let counted = self.counted(family, &counts);
            let mut known = Known::by_counters(entry, &counted);
            let outcome = self.interpreter.journey(packet, entry, &mut known);
            if is_ambiguous(&outcome, &counted) {
                self.report.exclude("a stateful rule was asked twice and held once", 1);
                return Ok(());
            }
            if let Some(cause) = differ::out_of_reach(&outcome) {
                self.report.exclude(cause, 1);
                return Ok(());
            }
            let expected = Expected::of(&outcome, packet, &self.originals);
            let room = self.options.differences_max.saturating_sub(self.report.differences.len());
            let found = self.tested[i].judge(batch, &expected, &seen, &counts, &self.originals);
            self.report.differences.extend(found.into_iter().take(room));
            noted.get_or_insert(expected);
        }
        if let Some(expected) = noted {
            self.report.singles += 1;
            self.note(packet, &batch.way, &expected);
        }
        Ok(())
    }

    /// How often each rule counted, by its identity.
    fn counted(&self, family: Family, counts: &[Count]) -> HashMap<RuleId, u64> {
        let of_family = self.rules.iter().filter(|((f, _), _)| *f == family);
        of_family
            .map(|((_, id), at)| (*id, counts[*at].packets))
            .filter(|(_, packets)| *packets > 0)
            .collect()
    }

    fn note(&mut self, packet: &Packet, way: &Way, expected: &Expected) {
        self.report.compared += 1;
        tally(&mut self.report.compared_by_way, &way_name(way));
        tally(&mut self.report.compared_by_state, differ::state_name(packet.ct.state));
        for at in &expected.hits {
            self.hit[*at] = true;
        }
    }

    fn finish(mut self, began: Instant) -> Result<VerifyReport, VerifyError> {
        let hit = self.hit.iter().filter(|h| **h).count() as u64;
        let mut frames = Vec::new();
        for tested in self.tested {
            let mut way = tested.report;
            (way.counters, way.counters_hit) = (self.originals.keys.len() as u64, hit);
            self.report.ways.push(way);
            frames.extend(tested.frames);
        }
        if let Some(path) = self.options.pcap.as_ref().filter(|_| !frames.is_empty()) {
            weir_packet::pcap::write(path, &frames)
                .map_err(|source| VerifyError::Write { path: path.clone(), source })?;
        }
        for (i, difference) in self.report.differences.iter_mut().enumerate() {
            difference.frame = if self.options.pcap.is_some() { i as u64 + 1 } else { 0 };
        }
        self.report.not_compared.push(
            "answers that the firewall sends by itself (REJECT, echo replies) end before OUTPUT"
                .to_owned(),
        );
        self.report.seconds = began.elapsed().as_secs_f64();
        Ok(self.report)
    }
}

/// `ipv4 forward`.
pub(crate) fn way_name(way: &Way) -> String {
    let family = match way.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let entry = match way.entry {
        Entry::Forward => "forward",
        Entry::Input => "input",
        Entry::Output => "output",
    };
    format!("{family} {entry}")
}

/// Why the host itself does not deliver a packet.
fn undelivered(packet: &Packet, seen: &Seen, at: usize, tracked: bool) -> &'static str {
    if packet.is_fragment() && tracked {
        return "a fragment waits for its datagram where conntrack is in use";
    }
    if !seen.begun[at] {
        return "not taken by the host: malformed, or no way to it";
    }
    "not delivered by an empty ruleset: martians, broadcasts, time to live"
}

/// Whether a rule was asked more often than it counted, and yet counted.
fn is_ambiguous(outcome: &Outcome<'_>, counted: &HashMap<RuleId, u64>) -> bool {
    outcome.asked.iter().any(|asked| {
        let Some(id) = asked.credit.first() else { return false };
        let hits = outcome.hits.iter().filter(|h| h.credit.first() == Some(id)).count() as u64;
        let counted = counted.get(id).copied().unwrap_or(0);
        counted > 0 && hits > counted
    })
}
