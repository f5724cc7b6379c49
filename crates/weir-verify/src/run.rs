//! The comparison: rounds of packets through every firewall.

mod cause;
mod intended_differences;
mod packets;
mod round;
mod tested;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_kernel::xtables::Count;
use weir_kernel::{Session, interrupt};
use weir_model::{CtState, Family, Firewall, RuleIndex};
use weir_packet::{Ct, Packet};
use weir_semantics::Interpreter;

use crate::batch::{Batch, BatchMaker, PACKETS_MAX, PacketPath};
use crate::counters::Originals;
use crate::diagrams::Diagrams;
use crate::differ::{self, Expected, tally};
use crate::oracle::{Guesses, Known};
use crate::testbed::Testbed;
use crate::{VerifyError, VerifyOptions, VerifyReport};

use self::cause::{is_ambiguous, not_comparable, out_of_reach, undelivered};
use self::round::{Round, path_name};
use self::tested::{FoundDifference, Tested};

/// Cause of exclusion: see [`VerifyOptions::singles_max`] and [`VerifyOptions::singles_time`].
const BEYOND: &str = "skipped: single-packet limit reached";
/// Rounds of guesses that are no larger are tried one packet at a time.
const GUESS_MIN: usize = 4;

/// What is to be compared next.
#[derive(Debug, Default)]
struct Rounds {
    /// Packets whose way the interpreter knows.
    plain: Round,
    /// Packets whose way depends on what only the kernel can say.
    guessed: Round,
}

impl Rounds {
    fn len(&self) -> usize {
        self.plain.len() + self.guessed.len()
    }
}

struct VerifyRun<'f> {
    interpreter: Interpreter<'f>,
    diagrams: Diagrams<'f>,
    options: &'f VerifyOptions,
    originals: Originals,
    /// The original of each rule, by family.
    rules: HashMap<(Family, RuleIndex), usize>,
    /// Families in which datagrams are put together although conntrack is not in use.
    assembles: Vec<Family>,
    empty: Testbed,
    tested: Vec<Tested<'f>>,
    maker: BatchMaker,
    report: VerifyReport,
    hit: Vec<bool>,
    /// Packets that went through the firewall without rules.
    done: u64,
    guesses: Guesses,
    found: Vec<FoundDifference>,
    /// Time that packets took which were tried one at a time, and what led to it.
    spent: Duration,
}

pub(crate) fn run(
    firewall: &Firewall,
    dirs: &[&Path],
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<VerifyReport, VerifyError> {
    let began = Instant::now();
    let mut forms = Vec::new();
    for dir in dirs {
        let stored = weir_artefact::read(dir)
            .map_err(|source| VerifyError::Artefact { path: dir.to_path_buf(), source })?;
        let intended = intended_differences::form(&stored, firewall)?;
        forms.push((stored, intended));
    }
    progress("creating namespaces and loading rulesets", 0.0);
    let session = Session::new()?;
    let interpreter = Interpreter::new(firewall);
    let originals = Originals::new(firewall);
    let families: Vec<Family> = firewall.rulesets().map(|r| r.family).collect();
    let tracked: Vec<Family> =
        families.iter().copied().filter(|f| interpreter.conntrack_in_use(*f)).collect();
    let empty = Testbed::new(&session, "empty", &families, &tracked, |_| Ok(()))?;
    let mut tested = vec![Tested::original(&session, firewall, &families, &originals)?];
    for form in &forms {
        tested.push(Tested::form(&session, form, &families, &originals)?);
    }
    let mut run = VerifyRun {
        rules: rules(firewall, &originals),
        maker: BatchMaker::new(packets::lengths_matter(firewall)),
        report: VerifyReport { seed: options.seed, ..VerifyReport::default() },
        hit: vec![false; originals.keys.len()],
        done: 0,
        guesses: Guesses::new(),
        found: Vec::new(),
        spent: Duration::ZERO,
        assembles: packets::assembling(firewall),
        interpreter,
        diagrams: Diagrams::of(firewall, options.diagrams),
        options,
        originals,
        empty,
        tested,
    };
    let paths = packets::by_path(firewall, options);
    run.report.generated = paths.iter().map(|(_, p)| p.len() as u64).sum();
    run.rounds(paths, progress)?;
    drop(session);
    run.finish(began)
}

/// The original of each rule.
fn rules(firewall: &Firewall, originals: &Originals) -> HashMap<(Family, RuleIndex), usize> {
    let mut out = HashMap::new();
    for ruleset in firewall.rulesets() {
        for (id, rule) in ruleset.rule_ids() {
            let original = originals.at(&id);
            let index = rule.credit.first().zip(original);
            out.extend(index.map(|(index, at)| ((ruleset.family, *index), at)));
        }
    }
    out
}

impl VerifyRun<'_> {
    fn rounds(
        &mut self,
        paths: Vec<(PacketPath, VecDeque<Packet>)>,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(), VerifyError> {
        let mut rounds = Rounds::default();
        for (path, mut packets) in paths {
            while !packets.is_empty() {
                let room = PACKETS_MAX - rounds.len();
                let batch = self.maker.batch(path.clone(), &mut packets, room);
                self.done += batch.packets.len() as u64;
                self.add(&mut rounds, batch)?;
                if rounds.len() >= PACKETS_MAX * 9 / 10 {
                    self.flush(&mut rounds)?;
                    let part = self.done as f64 / self.report.generated.max(1) as f64;
                    progress(&format!("{} packets compared", self.report.compared), part);
                }
                if interrupt::requested() {
                    return Err(VerifyError::Interrupted);
                }
            }
        }
        self.flush(&mut rounds)
    }

    /// Sends a batch through the firewall without rules, and adds what is to be compared to the
    /// rounds.
    fn add(&mut self, rounds: &mut Rounds, mut batch: Batch) -> Result<(), VerifyError> {
        let seen = self.empty.send(&batch)?;
        let tracked = self.interpreter.conntrack_in_use(batch.path.family);
        let (mut plain, mut guessed, mut sample) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..batch.packets.len() {
            let prepared = &mut batch.packets[at];
            let packet = &mut prepared.packet;
            if packet.is_fragment() && !tracked && self.assembles.contains(&packet.family) {
                self.report
                    .exclude("skipped: TPROXY or -m socket causes reassembly of fragments", 1);
                continue;
            }
            let Some(left) = &seen.left[at] else {
                self.report.exclude(undelivered(packet, &seen, at, tracked), 1);
                continue;
            };
            if left.is_astray {
                self.report.exclude("skipped: routed to another device than the packet's oif", 1);
                continue;
            }
            if let Some(cause) = not_comparable(packet, &batch.path) {
                self.report.exclude(cause, 1);
                continue;
            }
            if !prepared.connections.is_empty() && seen.states[at] == Some(CtState::New) {
                // Its connection clashes with another one: alone it might be taken otherwise.
                self.report.exclude("skipped: its connection could not be created beforehand", 1);
                continue;
            }
            take_state(packet, seen.states[at]);
            prepared.is_local = left.is_local;
            let known = Known::by_place(&batch.path, packet, left.is_local);
            let mut known = known.and_guesses(&self.guesses);
            let (outcome, looked) =
                self.diagrams.journey(&self.interpreter, packet, batch.path.entry, &mut known);
            if let Some(cause) = out_of_reach(&known, &outcome, packet) {
                self.report.exclude(&cause, 1);
                continue;
            }
            let mut expected = Expected::of(&outcome, packet, &known.maybe, &self.originals);
            expected.diagram = looked;
            match (known.open, known.maybe.is_empty()) {
                (true, _) => guessed.push((at, expected)),
                (false, false) if self.is_sample() => sample.push(at),
                (false, _) => plain.push((at, expected)),
            }
        }
        for at in sample {
            self.single(&batch.only([at]))?;
        }
        rounds.plain.push(&batch, plain);
        rounds.guessed.push(&batch, guessed);
        Ok(())
    }

    /// Whether a packet whose counters are only known within bounds is tried separately.
    fn is_sample(&self) -> bool {
        self.singles_left() > self.singles_max() * 3 / 4
    }

    fn flush(&mut self, rounds: &mut Rounds) -> Result<(), VerifyError> {
        let Rounds { plain, guessed } = std::mem::take(rounds);
        if plain.len() > 0 {
            self.compare(&plain)?;
        }
        self.guess(guessed)
    }

    /// Packets whose way depends on what only the kernel can say: sent together as if every rule
    /// answered as it did last. Where the counters bear that out in every ruleset, that is what the
    /// kernel answered; else halves are tried, and in the end one packet at a time.
    fn guess(&mut self, round: Round) -> Result<(), VerifyError> {
        let mut open = vec![round];
        while let Some(round) = open.pop() {
            if round.len() == 0 || interrupt::requested() {
                continue;
            }
            if round.len() > GUESS_MIN || self.singles_left() == 0 {
                let mut holds = true;
                let began = Instant::now();
                for tested in &mut self.tested {
                    holds = holds && tested.holds(&round, &self.originals)?;
                }
                // What was sent in vain is part of what single packets cost.
                self.spent += if holds { Duration::ZERO } else { began.elapsed() };
                if holds {
                    self.note_all(&round);
                    continue;
                }
            }
            if self.singles_left() == 0 {
                self.report.exclude(BEYOND, round.len() as u64);
                continue;
            }
            if round.len() > GUESS_MIN {
                let [a, b] = round.halves();
                open.extend([b, a]);
                continue;
            }
            for (batch, _) in &round.batches {
                for at in 0..batch.packets.len() {
                    self.single(&batch.only([at]))?;
                }
            }
        }
        Ok(())
    }

    /// How many packets may have been tried one at a time by now: in step with all packets, so
    /// that every way has its share.
    fn singles_max(&self) -> u64 {
        let part = self.done as f64 / self.report.generated.max(1) as f64;
        (self.options.singles_max as f64 * part) as u64
    }

    /// How many more may be tried now; none where they have taken their time.
    fn singles_left(&self) -> u64 {
        let part = self.done as f64 / self.report.generated.max(1) as f64;
        if self.spent > self.options.singles_time.mul_f64(part) {
            return 0;
        }
        self.singles_max().saturating_sub(self.report.singles)
    }

    /// Sends a round through every ruleset and compares.
    fn compare(&mut self, round: &Round) -> Result<(), VerifyError> {
        self.note_all(round);
        for tested in &mut self.tested {
            let room = self.options.differences_max.saturating_sub(self.found.len());
            self.found.append(&mut tested.round(round, &self.originals, room)?);
        }
        Ok(())
    }

    /// How many more differences are looked at closely.
    fn room(&self) -> usize {
        self.options.differences_max.saturating_sub(self.found.len())
    }

    fn note_all(&mut self, round: &Round) {
        for (batch, expected) in &round.batches {
            for (prepared, expected) in batch.packets.iter().zip(expected) {
                self.note(&prepared.packet, &batch.path, expected);
            }
        }
    }

    /// One packet whose way depends on what only the kernel can say.
    fn single(&mut self, batch: &Batch) -> Result<(), VerifyError> {
        if self.singles_left() == 0 {
            self.report.exclude(BEYOND, 1);
            return Ok(());
        }
        let began = Instant::now();
        let done = self.try_single(batch);
        self.spent += began.elapsed();
        done
    }

    fn try_single(&mut self, batch: &Batch) -> Result<(), VerifyError> {
        let (packet, entry) = (&batch.packets[0].packet, batch.path.entry);
        let family = packet.family;
        let mut noted = None;
        for i in 0..self.tested.len() {
            let (left, counts) = self.tested[i].alone(batch)?;
            let counted = self.counted(family, &counts);
            let mut script = Vec::new();
            let expected = loop {
                let known = Known::by_place(&batch.path, packet, batch.packets[0].is_local);
                let mut known = known.and_counters(&counted).with_script(&script);
                let (outcome, looked) =
                    self.diagrams.journey(&self.interpreter, packet, entry, &mut known);
                for asked in &outcome.asked {
                    let answers = asked.credit.iter().map(|id| ((family, *id), asked.answer));
                    self.guesses.extend(answers);
                }
                let cause = match is_ambiguous(&outcome, &counted) {
                    true => Some(
                        "skipped: a stateful rule was evaluated twice and matched once".to_owned(),
                    ),
                    false => out_of_reach(&known, &outcome, packet),
                };
                if let Some(cause) = cause {
                    self.report.exclude(&cause, 1);
                    return Ok(());
                }
                let mut expected = Expected::of(&outcome, packet, &[], &self.originals);
                expected.diagram = looked;
                let open = known.left_open;
                let agrees = open == 0
                    || self.tested[i].agrees(
                        batch,
                        &expected,
                        left.as_ref(),
                        &counts,
                        &self.originals,
                    );
                if agrees || !next_script(&mut script, open) {
                    break expected;
                }
            };
            let left = left.as_ref();
            let found = self.tested[i].judge(batch, &expected, left, &counts, &self.originals);
            self.found.extend(found.into_iter().take(self.room()));
            noted.get_or_insert(expected);
        }
        if let Some(expected) = noted {
            self.report.singles += 1;
            self.note(packet, &batch.path, &expected);
        }
        Ok(())
    }

    /// How often each rule counted, by its identity.
    fn counted(&self, family: Family, counts: &[Count]) -> HashMap<RuleIndex, u64> {
        let of_family = self.rules.iter().filter(|((f, _), _)| *f == family);
        of_family
            .map(|((_, id), at)| (*id, counts[*at].packets))
            .filter(|(_, packets)| *packets > 0)
            .collect()
    }

    fn note(&mut self, packet: &Packet, path: &PacketPath, expected: &Expected) {
        self.report.compared += 1;
        tally(&mut self.report.compared_by_way, &path_name(path));
        tally(&mut self.report.compared_by_state, differ::state_name(packet.ct.state));
        self.report.look(packet, expected.diagram.as_ref(), self.options.differences_max);
        for at in &expected.hits {
            self.hit[*at] = true;
        }
    }

    fn finish(mut self, began: Instant) -> Result<VerifyReport, VerifyError> {
        let hit = self.hit.iter().filter(|h| **h).count() as u64;
        for tested in self.tested {
            let mut way = tested.report;
            (way.counters, way.counters_hit) = (self.originals.keys.len() as u64, hit);
            self.report.ways.push(way);
        }
        if let Some(path) = self.options.pcap.as_ref().filter(|_| !self.found.is_empty()) {
            weir_packet::pcap::write(path, self.found.iter().map(|f| &f.frame))
                .map_err(|source| VerifyError::Write { path: path.clone(), source })?;
        }
        for (i, FoundDifference { mut difference, .. }) in self.found.into_iter().enumerate() {
            difference.frame = if self.options.pcap.is_some() { i as u64 + 1 } else { 0 };
            self.report.differences.push(difference);
        }
        self.report
            .not_compared
            .push("skipped: incoming packets have no mark and no translated connection".to_owned());
        self.report.not_compared.push(
            "replies that the firewall itself sends (REJECT, echo replies) are dropped before \
             OUTPUT"
                .to_owned(),
        );
        self.report.seconds = began.elapsed().as_secs_f64();
        Ok(self.report)
    }
}

/// What conntrack takes the packet for; INVALID, without an entry, where it is not in use.
fn take_state(packet: &mut Packet, state: Option<CtState>) {
    let state = state.unwrap_or(CtState::Invalid);
    let made = packet.ct;
    packet.ct = Ct::of(state);
    if state == CtState::Established && made.state == state {
        (packet.ct.reply, packet.ct.mark) = (made.reply, made.mark);
    }
}

/// The next answers to try where counters left some open: all of `open` questions in turn, as a
/// number counts. False where all were tried.
fn next_script(script: &mut Vec<bool>, open: usize) -> bool {
    script.resize(open.max(script.len()), false);
    for answer in script.iter_mut() {
        *answer = !*answer;
        if *answer {
            return true;
        }
    }
    false
}
