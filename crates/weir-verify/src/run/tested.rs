//! One ruleset under test: its firewall, its counters, and the differences found.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use weir_artefact::{Deviation, FileKind, Manifest, Stored};
use weir_kernel::xtables::Count;
use weir_kernel::{KernelError, Namespace, Session};
use weir_model::{Family, Firewall};
use weir_semantics::{Entry, Interpreter};

use crate::batch::Batch;
use crate::counters::{Credits, Originals};
use crate::differ::{self, Expected, Tally};
use crate::link_addresses::FIREWALL_MAC;
use crate::testbed::{LeftPacket, Testbed};
use crate::{Difference, VerifyError, WayReport};

use super::intended_differences;
use super::round::{Round, path_name};

/// A difference, and the packet as an Ethernet frame.
#[derive(Debug)]
pub(crate) struct FoundDifference {
    pub difference: Difference,
    pub frame: Vec<u8>,
}

/// How often packets are sent that are lost before the first hook.
const ATTEMPTS_MAX: u32 = 3;
/// A reading that takes longer is not repeated for packets that may differ anyway.
const CHEAP_READING: Duration = Duration::from_millis(20);

/// A ruleset under test.
pub(crate) struct Tested<'f> {
    testbed: Testbed,
    credits: Credits,
    /// Its intended differences.
    deviations: &'f [Deviation],
    /// The form, if a pass treats some packets differently on purpose.
    intended: Option<Interpreter<'f>>,
    pub report: WayReport,
    /// How long the last reading of the counters took.
    reading: Duration,
}

impl<'f> Tested<'f> {
    /// The original, loaded by the tools whose text it is.
    pub fn original(
        session: &Session,
        firewall: &Firewall,
        families: &[Family],
        originals: &Originals,
    ) -> Result<Tested<'f>, VerifyError> {
        let name = "linear";
        let load = |ns: &Namespace| {
            load_original(ns, firewall)
                .map_err(|source| VerifyError::Load { way: name.into(), source })
        };
        let testbed = Testbed::new(session, name, families, &[], load)?;
        let own = originals.own_credit();
        let credits = Credits::new(name, &testbed.firewall, originals, &own, &[])?;
        Ok(Tested::with(testbed, credits))
    }

    /// A form, loaded by its own script; `intended` as of [`intended_differences::form`].
    pub fn form(
        session: &Session,
        (stored, intended): &'f (Stored, Option<Firewall>),
        families: &[Family],
        originals: &Originals,
    ) -> Result<Tested<'f>, VerifyError> {
        let Manifest { form, counters, summed, deviations, .. } = &stored.artefact.manifest;
        // The same form may be there twice, compiled with other options.
        let alike = |n: &String| n.contains(&format!("-fw-{form}"));
        let count = session.namespaces().into_iter().filter(alike).count();
        let name = match count {
            0 => form.to_string(),
            n => format!("{form}-{n}"),
        };
        let script = stored.path(FileKind::Load);
        let load = |ns: &Namespace| {
            // The folder is tested in its current state, edited or not.
            ns.run(&["sh", &script.to_string_lossy(), "--allow-edited"], b"")
                .map(drop)
                .map_err(|source| VerifyError::Load { way: name.clone(), source })
        };
        let testbed = Testbed::new(session, &name, families, &[], load)?;
        let credits = Credits::new(&name, &testbed.firewall, originals, counters, summed)?;
        let intended = intended.as_ref().map(Interpreter::new);
        Ok(Tested { deviations, intended, ..Tested::with(testbed, credits) })
    }

    fn with(testbed: Testbed, credits: Credits) -> Tested<'f> {
        let report = WayReport { name: testbed.name.clone(), ..WayReport::default() };
        Tested {
            testbed,
            credits,
            deviations: &[],
            intended: None,
            report,
            reading: Duration::ZERO,
        }
    }

    /// What is expected of a packet here.
    fn item<'r>(
        &self,
        batch: &'r Batch,
        at: usize,
        original: &'r Expected,
        originals: &Originals,
    ) -> ExpectedPacket<'r> {
        let intended = self.intended.as_ref();
        match intended
            .and_then(|form| intended_differences::expected(form, batch, at, original, originals))
        {
            Some((expected, why)) => {
                ExpectedPacket { batch, at, expected: Cow::Owned(expected), intended: Some(why) }
            }
            None => ExpectedPacket { batch, at, expected: Cow::Borrowed(original), intended: None },
        }
    }

    fn all_items<'r>(&self, round: &'r Round, originals: &Originals) -> Vec<ExpectedPacket<'r>> {
        let each = round.batches.iter().flat_map(|(batch, expected)| {
            expected.iter().enumerate().map(move |(at, e)| (batch, at, e))
        });
        each.map(|(batch, at, e)| self.item(batch, at, e, originals)).collect()
    }

    /// Sends a round, compares, and looks closely at what differs; at most `room` differences
    /// return.
    pub fn round(
        &mut self,
        round: &Round,
        originals: &Originals,
        room: usize,
    ) -> Result<Vec<FoundDifference>, VerifyError> {
        let mut found = Vec::new();
        // What a form may treat in its own way is counted separately from what it may not.
        let (strict, lenient): (Vec<_>, Vec<_>) =
            self.all_items(round, originals).into_iter().partition(|i| self.deviation(i).is_none());
        for items in [strict, lenient] {
            if !items.is_empty() {
                self.items(&items, originals, room, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Sends a round and says whether all is as expected, without noting what is not.
    pub fn holds(&mut self, round: &Round, originals: &Originals) -> Result<bool, VerifyError> {
        let items = self.all_items(round, originals);
        let (left, counts) = self.pass(&sent(&items))?;
        let ends =
            items.iter().zip(&left).all(|(i, l)| i.expected.end_differs(l.as_ref()).is_none());
        let holds =
            ends && Tally::of(items.iter().map(|i| &*i.expected), &self.credits).holds(&counts);
        if holds {
            self.note(&items);
        }
        Ok(holds)
    }

    fn items(
        &mut self,
        items: &[ExpectedPacket<'_>],
        originals: &Originals,
        room: usize,
        found: &mut Vec<FoundDifference>,
    ) -> Result<(), VerifyError> {
        self.note(items);
        let (left, counts) = self.pass(&sent(items))?;
        let expected = Tally::of(items.iter().map(|i| &*i.expected), &self.credits);
        let mut ended = 0;
        for (item, left) in items.iter().zip(&left) {
            let Some(what) = item.expected.end_differs(left.as_ref()) else { continue };
            if !self.name_deviation(item) {
                ended += 1;
                self.report.verdict_differences += 1;
                if found.len() < room {
                    found.push(self.difference(item, vec![what]));
                }
            }
        }
        if ended == 0 && !expected.holds(&counts) {
            if items.iter().all(|i| self.deviation(i).is_some()) {
                return self.halve_named(items, originals);
            }
            self.halve(items, originals, room, found)?;
        }
        Ok(())
    }

    /// Counts the packets whose counters differ in the way that the form allows: one by one if
    /// reading counters is cheap, otherwise all of them together.
    fn halve_named(
        &mut self,
        items: &[ExpectedPacket<'_>],
        originals: &Originals,
    ) -> Result<(), VerifyError> {
        if self.reading < CHEAP_READING {
            return self.halve(items, originals, usize::MAX, &mut Vec::new());
        }
        for item in items {
            self.name_deviation(item);
        }
        Ok(())
    }

    /// Finds the packets that are counted otherwise: sends halves again, and halves of those that
    /// differ, until single packets are left.
    fn halve(
        &mut self,
        items: &[ExpectedPacket<'_>],
        originals: &Originals,
        room: usize,
        found: &mut Vec<FoundDifference>,
    ) -> Result<(), VerifyError> {
        let mut open: Vec<&[ExpectedPacket<'_>]> = vec![items];
        while let Some(some) = open.pop() {
            let (_, counts) = self.pass(&sent(some))?;
            let expected = Tally::of(some.iter().map(|i| &*i.expected), &self.credits);
            if expected.holds(&counts) {
                continue;
            }
            if some.len() > 1 && found.len() < room {
                let (a, b) = some.split_at(some.len() / 2);
                open.extend([b, a]);
                continue;
            }
            // With enough examples, a part that differs counts as one.
            if !some.iter().all(|i| self.name_deviation(i)) {
                self.report.counter_differences += 1;
                if found.len() < room {
                    let lines = expected.differs(&counts, originals);
                    found.push(self.difference(&some[0], lines));
                }
            }
        }
        Ok(())
    }

    /// Sends packets in their batches, and reads arrivals and counters. If some were lost before
    /// the first hook, all are sent again.
    fn pass(
        &mut self,
        items: &[Sent<'_>],
    ) -> Result<(Vec<Option<LeftPacket>>, Vec<Count>), VerifyError> {
        let mut families: Vec<Family> = items.iter().map(|i| i.batch.path.family).collect();
        families.dedup();
        for attempt in 1.. {
            let (mut left, mut lost) = (Vec::with_capacity(items.len()), 0);
            for same in items.chunk_by(|a, b| std::ptr::eq(a.batch, b.batch)) {
                let batch = same[0].batch.only(same.iter().map(|i| i.at));
                let mut seen = self.testbed.send(&batch)?;
                // The firewall without rules took every one of them.
                lost += seen.begun.iter().filter(|b| !**b).count();
                left.append(&mut seen.left);
            }
            let began = Instant::now();
            let counts = self.credits.since_last(&families)?;
            self.reading = began.elapsed();
            self.report.counter_readings += 1;
            if lost == 0 {
                return Ok((left, counts));
            }
            if attempt == ATTEMPTS_MAX {
                return Err(VerifyError::Lost { way: self.testbed.name.clone(), lost });
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Sends one packet, and reads its arrival and counters.
    pub fn alone(
        &mut self,
        batch: &Batch,
    ) -> Result<(Option<LeftPacket>, Vec<Count>), VerifyError> {
        let (mut left, counts) = self.pass(&[Sent { batch, at: 0 }])?;
        Ok((left.remove(0), counts))
    }

    /// Whether one packet that was sent alone did as expected.
    pub fn agrees(
        &self,
        batch: &Batch,
        expected: &Expected,
        left: Option<&LeftPacket>,
        counts: &[Count],
        originals: &Originals,
    ) -> bool {
        let item = self.item(batch, 0, expected, originals);
        let wanted = Tally::of([&*item.expected], &self.credits);
        item.expected.end_differs(left).is_none() && wanted.holds(counts)
    }

    /// Compares one packet that was sent alone.
    pub fn judge(
        &mut self,
        batch: &Batch,
        expected: &Expected,
        left: Option<&LeftPacket>,
        counts: &[Count],
        originals: &Originals,
    ) -> Option<FoundDifference> {
        let item = self.item(batch, 0, expected, originals);
        self.note(std::slice::from_ref(&item));
        let wanted = Tally::of([&*item.expected], &self.credits);
        let end = item.expected.end_differs(left);
        if end.is_none() && wanted.holds(counts) || self.name_deviation(&item) {
            return None;
        }
        if end.is_some() {
            self.report.verdict_differences += 1;
        } else {
            self.report.counter_differences += 1;
        }
        let lines = wanted.differs(counts, originals);
        Some(self.difference(&item, end.into_iter().chain(lines).collect()))
    }

    /// Notes packets as compared, and those among them that differ as intended.
    fn note(&mut self, items: &[ExpectedPacket<'_>]) {
        self.report.compared += items.len() as u64;
        for why in items.iter().filter_map(|i| i.intended) {
            differ::tally(&mut self.report.named, why);
        }
    }

    /// Counts a difference under its name, where it has one.
    fn name_deviation(&mut self, item: &ExpectedPacket<'_>) -> bool {
        let Some(deviation) = self.deviation(item) else { return false };
        differ::tally(&mut self.report.named, deviation.id());
        true
    }

    /// Which of the form's deviations may apply to a packet.
    fn deviation(&self, item: &ExpectedPacket<'_>) -> Option<&'f Deviation> {
        differ::deviation(self.deviations, &item.batch.packets[item.at].packet)
    }

    fn difference(&self, item: &ExpectedPacket<'_>, what: Vec<String>) -> FoundDifference {
        let prepared = &item.batch.packets[item.at];
        let path = &item.batch.path;
        let frame = match path.entry {
            Entry::Output => prepared.packet.to_frame(FIREWALL_MAC),
            Entry::Forward | Entry::Input => prepared.frame.clone(),
        };
        let difference = Difference {
            way: self.testbed.name.clone(),
            packet: differ::describe(&prepared.packet, &path_name(path)),
            what,
            frame: 0,
        };
        FoundDifference { difference, frame }
    }
}

/// One packet of a batch.
#[derive(Clone, Copy, Debug)]
struct Sent<'r> {
    batch: &'r Batch,
    at: usize,
}

fn sent<'r>(items: &[ExpectedPacket<'r>]) -> Vec<Sent<'r>> {
    items.iter().map(|i| Sent { batch: i.batch, at: i.at }).collect()
}

/// One packet of a batch, with what is expected of it.
#[derive(Clone, Debug)]
struct ExpectedPacket<'r> {
    batch: &'r Batch,
    expected: Cow<'r, Expected>,
    at: usize,
    /// Why other counters are expected than the original's.
    intended: Option<&'static str>,
}

/// Loads sets and rules with the tools that wrote such text.
fn load_original(ns: &Namespace, firewall: &Firewall) -> Result<(), KernelError> {
    if !firewall.sets.is_empty() {
        let text = weir_syntax::ipset::print(&firewall.sets);
        ns.run(&["ipset", "restore"], text.as_bytes())?;
    }
    for ruleset in firewall.rulesets() {
        let tool = match ruleset.family {
            Family::V4 => "iptables-legacy-restore",
            Family::V6 => "ip6tables-legacy-restore",
        };
        let text = weir_syntax::iptables::print(ruleset, false);
        ns.run(&[tool], text.as_bytes())?;
    }
    Ok(())
}
