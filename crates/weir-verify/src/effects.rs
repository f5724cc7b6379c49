//! The effects of single rules on packets, measured in the kernel.
//!
//! A [`Bench`] loads many rules at once, each in its own chain, and sends one copy of a packet
//! through each of them. The copies differ only in their identification field (IPv4) or flow label
//! (IPv6), which the dispatch to the chains tests and the measured rules do not. Counters show for
//! each rule whether it matched, and whether the traversal continued after it; if neither, the
//! evaluation itself dropped the packet.
//!
//! Each rule is followed by *probes*, rules that each test one field. A copy without a rule goes
//! through the same probes: if the two differ, the rule's target modified the field. Further probes
//! are at the end of the journey, in mangle POSTROUTING.

mod sample;
mod subject;
mod text;

use std::collections::{HashMap, HashSet};

use weir_kernel::xtables::TableCounters;
use weir_kernel::{Namespace, Session, conntrack};
use weir_model::{Family, Firewall, Hook, Packet, TableName};
use weir_packet::{Ct, CtState};
use weir_semantics::{Counted, Entry, Interpreter, Oracle, Outcome, Question, Verdict, Write};

pub use sample::{Sample, samples};
pub use subject::MeasuredRule;
pub use text::MARKED;

use crate::VerifyError;
use crate::batch::{Batch, PacketPath, Prepared};
use crate::link_addresses::{FIREWALL_MAC, WORLD_MAC};
use crate::testbed::Testbed;

/// Maximum number of rules of one bench: one batch has a packet for each.
pub const SUBJECTS_MAX: usize = 800;

/// What a copy of a packet did at one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// It reached the rule.
    pub entered: bool,
    /// The rule counted it.
    pub matched: bool,
    /// The next rule of the chain counted it, too.
    pub went_on: bool,
    /// Which of the probes after the rule counted it.
    pub probes: Vec<bool>,
    /// Which of the probes at the end of the journey counted it; `None` if it did not come so far.
    pub late: Option<Vec<bool>>,
    /// Its first bytes from the network header on, as it left or was delivered.
    pub left: Option<Vec<u8>>,
    /// The mark that it left with.
    pub mark: u32,
    /// It reached the host itself.
    pub is_local: bool,
    /// What conntrack took it for, where it is in use.
    pub state: Option<CtState>,
}

impl Observed {
    /// The packet ended at the rule: the next one did not see it.
    pub fn is_dropped(&self) -> bool {
        self.entered && !self.went_on
    }
}

/// Rules that are measured together.
#[derive(Debug)]
pub struct Bench {
    subjects: Vec<MeasuredRule>,
    probes: usize,
    family: Family,
    firewall: Firewall,
    testbed: Testbed,
    tables: Vec<(TableName, TableCounters)>,
    /// Where a rule's counter is: table, chain, number.
    at: HashMap<(TableName, String, u32), (usize, usize)>,
    counts: Vec<Vec<u64>>,
}

impl Bench {
    /// Loads the rules, each followed by the probes. `sets` is text for `ipset restore`.
    ///
    /// # Errors
    /// If the kernel or weir does not accept a rule.
    ///
    /// # Panics
    /// Where there are more than [`SUBJECTS_MAX`] rules, or weir does not read one of them.
    pub fn new(
        session: &Session,
        name: &str,
        family: Family,
        subjects: Vec<MeasuredRule>,
        probes: &[String],
        sets: &str,
    ) -> Result<Bench, VerifyError> {
        assert!(subjects.len() <= SUBJECTS_MAX, "a batch holds a packet for each rule");
        let text = text::ruleset(family, &subjects, probes);
        let firewall = text::read(family, &text, sets);
        let tool = match family {
            Family::V4 => "iptables-legacy-restore",
            Family::V6 => "ip6tables-legacy-restore",
        };
        let fail = |source| VerifyError::Load { way: name.to_owned(), source };
        let tracked = Interpreter::new(&firewall).conntrack_in_use(family);
        let states = if tracked { &[family][..] } else { &[] };
        let testbed = Testbed::new(session, name, &[family], states, |ns| {
            if !sets.is_empty() {
                ns.run(&["ipset", "restore"], sets.as_bytes()).map_err(fail)?;
            }
            ns.run(&[tool], text.as_bytes()).map(drop).map_err(fail)
        })?;
        let mut bench = Bench {
            probes: probes.len(),
            subjects,
            family,
            firewall,
            testbed,
            tables: Vec::new(),
            at: HashMap::new(),
            counts: Vec::new(),
        };
        bench.find_counters()?;
        Ok(bench)
    }

    /// The rules that are measured.
    pub fn subjects(&self) -> &[MeasuredRule] {
        &self.subjects
    }

    /// The namespace in which the rules are.
    pub fn namespace(&self) -> &Namespace {
        &self.testbed.firewall
    }

    /// The rule of a subject as weir reads it; `None` for the empty one.
    pub fn rule(&self, which: usize) -> Option<&weir_model::Rule> {
        let subject = &self.subjects[which];
        let ruleset = self.firewall.rulesets().next()?;
        let table = ruleset.tables.iter().find(|t| t.name == subject.table)?;
        let chain = table.chains.iter().find(|c| *c.name == *text::chain(which))?;
        chain.rules.first().filter(|_| !subject.rule.is_empty())
    }

    /// The loaded rules as weir reads them.
    pub fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    fn find_counters(&mut self) -> Result<(), VerifyError> {
        for ruleset in self.firewall.rulesets() {
            for name in ruleset.tables.iter().map(|t| t.name) {
                let counters =
                    TableCounters::open(&self.testbed.firewall, self.family, name.as_str())?;
                for (i, place) in counters.places().iter().enumerate() {
                    if let Some(number) = place.number {
                        let key = (name, place.chain.clone(), number);
                        self.at.insert(key, (self.tables.len(), i));
                    }
                }
                self.counts.push(vec![0; counters.places().len()]);
                self.tables.push((name, counters));
            }
        }
        self.read().map(drop)
    }

    /// Packets counted since the last reading.
    fn read(&mut self) -> Result<Vec<Vec<u64>>, VerifyError> {
        let mut since = Vec::new();
        for ((_, table), before) in self.tables.iter_mut().zip(&mut self.counts) {
            let now: Vec<u64> = table.read()?.iter().map(|c| c.packets).collect();
            since.push(now.iter().zip(before.iter()).map(|(n, b)| n.wrapping_sub(*b)).collect());
            *before = now;
        }
        Ok(since)
    }

    /// Sends a copy of the packet through every rule, and says what each did to it.
    ///
    /// # Errors
    /// Where packets cannot be sent, or are lost.
    pub fn send(&mut self, sample: &Sample) -> Result<Vec<Observed>, VerifyError> {
        let all: Vec<usize> = (0..self.subjects.len()).collect();
        self.send_to(sample, &all)
    }

    /// The same for some rules alone.
    ///
    /// # Errors
    /// As [`send`](Bench::send).
    pub fn send_to(
        &mut self,
        sample: &Sample,
        which: &[usize],
    ) -> Result<Vec<Observed>, VerifyError> {
        let batch = self.batch(sample, which);
        let seen = self.testbed.send(&batch)?;
        let counts = self.read()?;
        let lost = seen.begun.iter().filter(|b| !**b).count();
        if lost > 0 && !sample.may_be_refused {
            return Err(VerifyError::Lost { way: self.testbed.name.clone(), lost });
        }
        let mut out = Vec::new();
        for ((i, left), state) in which.iter().zip(seen.left).zip(seen.states) {
            let subject = &self.subjects[*i];
            let chain = text::chain(*i);
            let count = |table: TableName, chain: &str, number: u32| {
                let (table, at) = self.at[&(table, chain.to_owned(), number)];
                counts[table][at] > 0
            };
            let (group, number) = text::jump(&self.subjects, *i);
            let first = 1 + u32::from(!subject.rule.is_empty());
            let next = |k: usize| count(subject.table, &chain, first + k as u32);
            let late = text::late_chain(*i);
            let is_late = self.probes > 0 && count(TableName::Mangle, &late, 1);
            let is_late = is_late.then(|| {
                (0..self.probes).map(|k| count(TableName::Mangle, &late, k as u32 + 2)).collect()
            });
            out.push(Observed {
                entered: count(subject.table, &group, number),
                matched: first == 2 && count(subject.table, &chain, 1),
                went_on: next(0),
                probes: (0..self.probes).map(|k| next(k + 1)).collect(),
                late: is_late,
                mark: left.as_ref().map_or(0, |l| l.mark),
                is_local: left.as_ref().is_some_and(|l| l.is_local),
                left: left.map(|l| l.bytes),
                state,
            });
        }
        Ok(out)
    }

    fn batch(&self, sample: &Sample, which: &[usize]) -> Batch {
        let path = PacketPath {
            family: self.family,
            entry: Entry::Forward,
            iif: text::IIF.to_owned(),
            oif: text::OIF.to_owned(),
            own: false,
        };
        let mut connections: Vec<conntrack::ConntrackEntry> = sample.connections();
        let placeholder = Packet::new(self.family, weir_model::Addr(0), weir_model::Addr(0), 59);
        let each = which.iter().map(|i| {
            let number = *i as u32 + 1;
            let prepared = Prepared {
                packet: placeholder.clone(),
                frame: sample.frame(FIREWALL_MAC, WORLD_MAC, number),
                connections: std::mem::take(&mut connections),
                is_local: false,
            };
            (number, prepared)
        });
        Batch::of(path, each)
    }

    /// The interpreter's result for a copy; `None` if the packet cannot be modelled. `matched`
    /// answers questions about the rule.
    pub fn expected(
        &self,
        interpreter: &Interpreter<'_>,
        sample: &Sample,
        which: usize,
        seen: &Observed,
    ) -> Option<Predicted> {
        let mut packet = sample.packet.clone()?;
        packet.ct = match seen.state {
            Some(state) if state == packet.ct.state => packet.ct,
            Some(state) => Ct::of(state),
            None => Ct::of(CtState::Invalid),
        };
        packet.iif = text::IIF.to_owned();
        packet.oif = text::OIF.to_owned();
        packet.smac = Some(sample.smac.unwrap_or(WORLD_MAC));
        let mut answers = Dispatch { which, seen, asked: false, wrote: false };
        let outcome = interpreter.journey(&packet, Entry::Forward, &mut answers);
        let Dispatch { asked, wrote, .. } = answers;
        let observed = self.predicted(&outcome, which);
        Some(Predicted { observed, asked, wrote, verdict: format!("{:?}", outcome.verdict) })
    }

    fn predicted(&self, outcome: &Outcome<'_>, which: usize) -> Observed {
        let subject = &self.subjects[which];
        let hits: HashSet<(TableName, &str, u32)> = outcome
            .hits
            .iter()
            .filter_map(|h| match h.counted {
                Counted::Rule { table, chain, number } => Some((table, &**chain, number)),
                _ => None,
            })
            .collect();
        let count = |table, chain: &str, number| hits.contains(&(table, chain, number));
        let (group, number) = text::jump(&self.subjects, which);
        let chain = text::chain(which);
        let first = 1 + u32::from(!subject.rule.is_empty());
        let late = text::late_chain(which);
        let is_late = self.probes > 0 && count(TableName::Mangle, &late, 1);
        let is_late = is_late.then(|| {
            (0..self.probes).map(|k| count(TableName::Mangle, &late, k as u32 + 2)).collect()
        });
        Observed {
            entered: count(subject.table, &group, number),
            matched: first == 2 && count(subject.table, &chain, 1),
            went_on: count(subject.table, &chain, first),
            probes: (0..self.probes)
                .map(|k| count(subject.table, &chain, first + 1 + k as u32))
                .collect(),
            late: is_late,
            left: (outcome.verdict == Verdict::Accept).then(|| outcome.packet.to_bytes()),
            mark: outcome.packet.mark,
            is_local: outcome.hits.iter().any(|h| h.hook == Hook::Input),
            state: None,
        }
    }
}

/// The interpreter's result for a copy.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// What should be seen of it.
    pub observed: Observed,
    /// The rule's own test was put to the caller.
    pub asked: bool,
    /// Its target wrote a value for which the caller was asked, who left it unchanged.
    pub wrote: bool,
    /// The verdict in words.
    pub verdict: String,
}

/// The oracle for the copy of one rule: the dispatch leads only to that rule, and observations
/// answer questions about it.
struct Dispatch<'s> {
    which: usize,
    seen: &'s Observed,
    asked: bool,
    wrote: bool,
}

impl Oracle for Dispatch<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        match question.rule.target.chain() {
            Some(chain) if text::is_dispatch(chain) => text::leads_to(chain, self.which),
            _ => {
                self.asked = true;
                self.seen.matched
            }
        }
    }

    fn drops(&mut self, question: &Question<'_>) -> bool {
        let is_own = question.rule.target.chain().is_none_or(|c| !text::is_dispatch(c));
        is_own && self.seen.is_dropped()
    }

    fn write(&mut self, write: &Write<'_>) -> u128 {
        self.wrote = true;
        write.old
    }
}
