//! Whether two rulesets mean the same for every packet, and if not, for which one.

use std::collections::HashMap;

use weir_model::{Family, Firewall, Hook, Packet};

use super::chain::Unknown;
use super::encode::{Assignment, decode};
use super::journey::{Side, pieces};
use super::layout::Order;
use super::order::orders;
use super::region::Region;
use super::space::{PacketSet, Space, SpaceOptions};
use super::store::{Full, Ref};
use super::terminal::Exit;
use super::then::Meaning;
use super::unsaid::Unsaid;
use super::who::Who;
use super::witness::{Opinion, Witness};
use crate::interpreter::{Entry, Interpreter};
use crate::outcome::{Difference, Verdict};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Level {
    /// What becomes of the packet.
    Verdict,
    /// That, what is done on the way and in which order, the packet as it leaves, and which
    /// stateful tests are asked in which order.
    #[default]
    Effects,
}

/// How far a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// The whole journey, for each of the three entries.
    #[default]
    Journey,
    /// One hook alone.
    Hook(Hook),
}

/// Which stateful tests of the two rulesets are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Identity {
    /// Those of rules that credit the same original rules: of a ruleset and what passes made of
    /// it. Rules without credit are known by their text.
    #[default]
    Credit,
    /// Those of rules that say the same in the same table, the first of one the first of the
    /// other: of two texts.
    Text,
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What is compared.
    pub level: Level,
    /// How far packets go.
    pub scope: Scope,
    /// Which stateful tests are the same.
    pub identity: Identity,
    /// Memory for the diagrams of one family and way, in bytes.
    pub memory_bytes: usize,
    /// Steps for one family and way, in all orders that are tried: nodes asked for. Counted and not
    /// timed, so that the answer is the same on every machine.
    pub steps_max: u64,
    /// How many regions of a difference are made.
    pub regions: usize,
    /// Conntrack is in use by other programs, whatever the rulesets ask for.
    pub conntrack: bool,
    /// Leave out packets whose transport header is cut short and TCP fragments at offset 1: forms
    /// that are no iptables treat them otherwise by nature.
    pub whole: bool,
    /// Only this family; else those of which a ruleset is there.
    pub family: Option<Family>,
    /// Only this entry of a journey; else all three.
    pub entry: Option<Entry>,
}

impl Default for CompareOptions {
    /// Effects of the journey, original rules, 2 GiB, 200 million steps, 10 regions.
    fn default() -> Self {
        CompareOptions {
            level: Level::default(),
            scope: Scope::default(),
            identity: Identity::default(),
            memory_bytes: 2 << 30,
            steps_max: 200_000_000,
            regions: 10,
            conntrack: false,
            whole: false,
            family: None,
            entry: None,
        }
    }
}

/// The way that packets of a [`Part`] take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// A journey.
    Entry(Entry),
    /// One hook.
    Hook(Hook),
}

/// What a comparison says, for each family and way.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// IPv4 first, then forward, input, output.
    pub parts: Vec<Part>,
}

impl Comparison {
    /// Whether all parts are proven equal.
    pub fn is_equal(&self) -> bool {
        self.parts.iter().all(|p| matches!(p.answer, Answer::Equal))
    }

    /// The parts that differ.
    pub fn differences(&self) -> impl Iterator<Item = (&Part, &Differs)> {
        self.parts.iter().filter_map(|p| match &p.answer {
            Answer::Differs(d) => Some((p, &**d)),
            _ => None,
        })
    }

    /// The parts that could not be decided, and why.
    pub fn unknowns(&self) -> impl Iterator<Item = (&Part, &str)> {
        self.parts.iter().filter_map(|p| match &p.answer {
            Answer::Unknown { why } => Some((p, why.as_str())),
            _ => None,
        })
    }
}

/// What a comparison says of one family and way.
#[derive(Clone, Debug)]
pub struct Part {
    /// The family.
    pub family: Family,
    /// The way.
    pub way: Way,
    /// Equal, different, or unknown.
    pub answer: Answer,
    /// What it took.
    pub statistics: Statistics,
}

/// Whether two rulesets mean the same.
#[derive(Clone, Debug)]
pub enum Answer {
    /// For every packet and whatever is answered.
    Equal,
    /// There are packets for which they do not.
    Differs(Box<Differs>),
    /// It could not be decided.
    Unknown {
        /// Why, in words.
        why: String,
    },
}

/// How two rulesets differ.
#[derive(Clone, Debug)]
pub struct Differs {
    /// Which part of all packets it is about, from 0 to 1.
    pub share: f64,
    /// How many headers (addresses, protocol, ports) that is.
    pub packets: f64,
    /// Where the packets lie, the biggest first; at most as many as were asked for.
    pub regions: Vec<Region>,
    /// One of them, with the answers that its difference needs. It was sent through both rulesets.
    pub witness: Witness,
    /// What differs for the witness.
    pub difference: Difference,
    /// The verdicts that the witness met, before and after.
    pub verdicts: (Verdict, Verdict),
    /// Where the verdict itself changed, by what it was and what it is: the biggest first. Empty
    /// where only effects differ.
    pub changes: Vec<VerdictChange>,
}

/// Packets whose verdict changed in one way.
#[derive(Clone, Debug)]
pub struct VerdictChange {
    /// What became of them.
    pub before: Verdict,
    /// What becomes of them now.
    pub after: Verdict,
    /// Which part of all packets they are, from 0 to 1.
    pub share: f64,
    /// How many headers that is.
    pub packets: f64,
    /// Where they lie, the biggest first.
    pub regions: Vec<Region>,
}

impl VerdictChange {
    /// What was not accepted and is now.
    pub fn newly_allowed(&self) -> bool {
        self.before != Verdict::Accept && self.after == Verdict::Accept
    }

    /// What was accepted and is no longer.
    pub fn newly_denied(&self) -> bool {
        self.before == Verdict::Accept && self.after != Verdict::Accept
    }
}

/// What a part of a comparison took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Nodes of both diagrams at the end, shared ones once.
    pub nodes: usize,
    /// Most nodes at one time.
    pub nodes_peak: usize,
    /// Memory of the diagrams, in bytes.
    pub memory_bytes: usize,
    /// Nodes asked for, in all orders that were tried.
    pub steps: u64,
    /// Outcomes told apart.
    pub outcomes: usize,
    /// The order of addresses and ports that was taken.
    pub order: Order,
}

/// Why a comparison failed. What could not be decided is no failure: [`Answer::Unknown`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The diagrams differ at a packet for which the interpreter sees no difference: a mistake of
    /// weir's.
    #[error("the diagrams differ at a packet for which the interpreter sees no difference: {0:?}")]
    NotReproduced(Box<Packet>),
}

/// Compares the meaning of two firewalls for all packets.
///
/// A part that differs comes with a packet that was sent through both rulesets by the
/// [`Interpreter`]: its difference is a fact, not a claim of the diagram's.
///
/// ```
/// use weir_model::{Chain, Family, Firewall, Hook, Policy, Ruleset, Table, TableName};
/// use weir_semantics::diagram::{CompareOptions, Scope, compare};
///
/// let firewall = |policy| {
///     let mut ruleset = Ruleset::new(Family::V4);
///     ruleset.tables.push(Table {
///         name: TableName::Filter,
///         chains: vec![Chain::new("FORWARD", Some(policy))],
///         leading_comments: vec![],
///         trailing_comments: vec![],
///     });
///     Firewall { v4: Some(ruleset), ..Firewall::default() }
/// };
/// let (open, shut) = (firewall(Policy::Accept), firewall(Policy::Drop));
/// let options = CompareOptions { scope: Scope::Hook(Hook::Forward), ..Default::default() };
/// assert!(compare(&open, &open, &options)?.is_equal());
/// let comparison = compare(&open, &shut, &options)?;
/// let (_, differs) = comparison.differences().next().expect("they differ");
/// assert_eq!(differs.regions[0].to_string(), "every packet");
/// assert!(differs.changes[0].newly_denied());
/// # Ok::<(), weir_semantics::diagram::CompareError>(())
/// ```
///
/// # Errors
/// [`CompareError`], which is a mistake in weir itself.
pub fn compare(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    compare_with(before, after, options, &mut |_, _| {})
}

/// The same, and says before each part which one comes.
///
/// # Errors
/// As [`compare`].
pub fn compare_with(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    progress: &mut dyn FnMut(Family, Way),
) -> Result<Comparison, CompareError> {
    let ways: Vec<Way> = match options.scope {
        Scope::Hook(hook) => vec![Way::Hook(hook)],
        Scope::Journey => {
            let wanted = |e: &Entry| options.entry.is_none_or(|o| o == *e);
            Entry::ALL.into_iter().filter(wanted).map(Way::Entry).collect()
        }
    };
    let mut parts = Vec::new();
    let rules = |f: &Firewall| f.rulesets().map(|r| r.rules().count()).sum::<usize>();
    for family in [Family::V4, Family::V6] {
        let there = before.ruleset(family).is_some() || after.ruleset(family).is_some();
        if !there || options.family.is_some_and(|f| f != family) {
            continue;
        }
        let larger = if rules(before) < rules(after) { after } else { before };
        let orders = orders(family, larger, &ways);
        for way in &ways {
            progress(family, *way);
            parts.push(part(&Pair { before, after, options, family, way: *way }, &orders)?);
        }
    }
    Ok(Comparison { parts })
}

/// What is compared in one part.
struct Pair<'f> {
    before: &'f Firewall,
    after: &'f Firewall,
    options: &'f CompareOptions,
    family: Family,
    way: Way,
}

/// Tries one order after the other until the memory suffices.
fn part(pair: &Pair<'_>, orders: &[Order]) -> Result<Part, CompareError> {
    let mut statistics = Statistics::default();
    let mut why = String::new();
    for order in orders {
        statistics.order = *order;
        match pair.diagrams(*order, &mut statistics) {
            Ok(answer) => return Ok(pair.part(answer?, statistics)),
            Err(Unknown::Full(Full::Memory)) => {
                let mib = pair.options.memory_bytes >> 20;
                why = format!("the diagrams take more than the {mib} MiB that are allowed");
            }
            Err(Unknown::Full(Full::Steps)) => {
                let millions = pair.options.steps_max as f64 / 1e6;
                why = format!("not proven within the {millions} million steps that are allowed");
                break;
            }
            Err(Unknown::Why(other)) => {
                why = other;
                break;
            }
        }
    }
    Ok(pair.part(Answer::Unknown { why }, statistics))
}

impl<'f> Pair<'f> {
    fn part(&self, answer: Answer, statistics: Statistics) -> Part {
        Part { family: self.family, way: self.way, answer, statistics }
    }

    fn diagrams(
        &self,
        order: Order,
        statistics: &mut Statistics,
    ) -> Result<Result<Answer, CompareError>, Unknown> {
        let options = SpaceOptions { order, memory_bytes: self.options.memory_bytes };
        let mut space = Space::with(self.family, &[self.before, self.after], options)?;
        if self.options.whole {
            space.possible = space.store.minus(space.possible, space.presence.cut)?;
        }
        let mut meaning = Meaning::new(space);
        meaning.space.store.steps = statistics.steps;
        meaning.space.store.steps_max = self.options.steps_max;
        let answer = self.answer(&mut meaning);
        let store = &meaning.space.store;
        statistics.nodes = store.len();
        statistics.nodes_peak = statistics.nodes_peak.max(store.nodes_peak);
        statistics.memory_bytes = statistics.memory_bytes.max(store.bytes());
        statistics.steps = store.steps;
        statistics.outcomes = meaning.terminals.len();
        answer
    }

    fn answer(&self, meaning: &mut Meaning<'f>) -> Result<Result<Answer, CompareError>, Unknown> {
        meaning.terminals.with_effects = self.options.level == Level::Effects;
        let from = meaning.space.store.len();
        let sides = [(0, self.before), (1, self.after)].map(|(number, firewall)| {
            let who = Who::new(firewall, self.options.identity);
            Side::new(firewall, self.family, number, who, self.options.conntrack)
        });
        let pieces = pieces(self.way, &sides);
        // Table by table: where all are equal, so is the way that they make up.
        let mut keep = Vec::new();
        for side in &sides {
            for piece in &pieces {
                let made = meaning.piece(side, *piece, &mut keep, from)?;
                keep.push(made);
                meaning.sweep_all(&mut keep, from);
            }
        }
        let count = pieces.len();
        let mut different = Vec::new();
        for i in 0..count {
            if keep[i] != keep[count + i] {
                let store = &mut meaning.space.store;
                let differ = store.differ(keep[i], keep[count + i])?;
                match store.and(differ, meaning.space.possible)? {
                    Ref::ZERO => keep[count + i] = keep[i],
                    _ => different.push((i, differ)),
                }
            }
        }
        let Some((first, _)) = different.first().copied() else {
            return Ok(Ok(Answer::Equal));
        };
        // Up to the first that differs, packets and effects are the same.
        for i in 0..first {
            keep[i] = meaning.without_effects(keep[i])?;
            keep[count + i] = keep[i];
        }
        // If there is no other, all is the same outside of its difference.
        if let [(only, differ)] = different[..] {
            for i in [only, count + only] {
                keep[i] = meaning.only_within(keep[i], differ)?;
            }
        }
        for _ in 0..2 {
            let way = meaning.way(self.way, &pieces, &mut keep, from)?;
            let way = meaning.finished(way, self.options.level)?;
            keep.insert(0, way);
        }
        let (before, after) = (keep[0], keep[1]);
        if before == after {
            return Ok(Ok(Answer::Equal));
        }
        let store = &mut meaning.space.store;
        let differ = store.differ(before, after)?;
        if store.and(differ, meaning.space.possible)? == Ref::ZERO {
            return Ok(Ok(Answer::Equal));
        }
        self.differs(meaning, differ, before, after)
    }

    fn differs(
        &self,
        meaning: &mut Meaning<'f>,
        differ: Ref,
        before: Ref,
        after: Ref,
    ) -> Result<Result<Answer, CompareError>, Unknown> {
        let possible = meaning.space.store.and(differ, meaning.space.possible)?;
        let witness = meaning.witness(possible);
        let Some((difference, verdicts)) = self.reproduce(&witness) else {
            // The packets that two translations or changes lead to may be the same one.
            if witness.opinions.iter().any(Opinion::is_of_a_changed_packet) {
                let why = "they differ only if a test answers twice, otherwise each time, \
                           for one packet";
                return Ok(Ok(Answer::Unknown { why: why.to_owned() }));
            }
            return Ok(Err(CompareError::NotReproduced(Box::new(witness.packet))));
        };
        let changes = self.changes(meaning, before, after)?;
        let set = PacketSet(differ);
        let space = &mut meaning.space;
        Ok(Ok(Answer::Differs(Box::new(Differs {
            share: space.share(set)?,
            packets: space.count(set)?,
            regions: space.regions(set, self.options.regions)?,
            witness,
            difference,
            verdicts,
            changes,
        }))))
    }

    /// Sends a witness through both; `None` where nothing differs.
    fn reproduce(&self, witness: &Witness) -> Option<(Difference, (Verdict, Verdict))> {
        let run = |firewall: &'f Firewall| {
            let mut interpreter = Interpreter::new(firewall);
            if self.options.conntrack {
                interpreter = interpreter.with_conntrack();
            }
            let mut answers = witness.answers(firewall, self.options.identity);
            let outcome = match self.way {
                Way::Entry(entry) => interpreter.journey(&witness.packet, entry, &mut answers),
                Way::Hook(hook) => interpreter.at_hook(&witness.packet, hook, &mut answers),
            };
            (outcome, answers.asked)
        };
        let (a, asked_a) = run(self.before);
        let (b, asked_b) = run(self.after);
        let difference = if a.verdict != b.verdict {
            Difference::Verdict
        } else if self.options.level == Level::Verdict {
            return None;
        } else if a.effects != b.effects {
            Difference::Effects
        } else if asked_a != asked_b {
            Difference::Stateful
        } else {
            return None;
        };
        Some((difference, (a.verdict, b.verdict)))
    }

    /// The ways in which verdicts changed.
    fn changes(
        &self,
        meaning: &mut Meaning<'f>,
        before: Ref,
        after: Ref,
    ) -> Result<Vec<VerdictChange>, Unknown> {
        let mut out = Vec::new();
        let verdicts = [before, after].map(|f| meaning.verdicts(f));
        for a in &verdicts[0] {
            let was = meaning.where_verdict(before, *a)?;
            for b in verdicts[1].iter().filter(|b| *b != a) {
                let is = meaning.where_verdict(after, *b)?;
                let both = PacketSet(meaning.space.store.and(was, is)?);
                let space = &mut meaning.space;
                if space.is_empty(both)? {
                    continue;
                }
                out.push(VerdictChange {
                    before: *a,
                    after: *b,
                    share: space.share(both)?,
                    packets: space.count(both)?,
                    regions: space.regions(both, self.options.regions)?,
                });
            }
        }
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(out)
    }
}

impl Meaning<'_> {
    /// A packet that leads to a terminal other than 0, with what was changed before it is asked.
    fn witness(&self, f: Ref) -> Witness {
        let (bits, mut opinions) = self.space.pick_bits(f);
        let answers: HashMap<Unsaid, bool> =
            opinions.iter().map(|o| (o.unsaid, o.answer)).collect();
        for opinion in &mut opinions {
            let change = match opinion.unsaid {
                Unsaid::Stateless { change, .. } | Unsaid::Chosen { change, .. } => change,
                Unsaid::Stateful { .. } => continue,
            };
            let changed = self.changed(&bits, change, &answers);
            opinion.packet = Some(decode(&self.space.layout, &changed));
        }
        Witness { packet: decode(&self.space.layout, &bits), opinions }
    }

    /// The bits of a packet after a change.
    pub(super) fn changed(
        &self,
        bits: &Assignment,
        change: u32,
        answers: &HashMap<Unsaid, bool>,
    ) -> Assignment {
        let layout = &self.space.layout;
        let change = self.terminals.change(change);
        let value = |level: &u32| match level.checked_sub(layout.end) {
            None => bits.0[*level as usize],
            Some(question) => {
                let unsaid = self.space.unsaid.get(question).map(|(unsaid, _)| unsaid);
                unsaid.and_then(|u| answers.get(u)).copied().unwrap_or(false)
            }
        };
        let mut out = bits.clone();
        for (level, source) in &change.bits {
            out.0[*level as usize] = source.bits.iter().map(value).fold(source.flip, |a, b| a ^ b);
        }
        let ttl = layout.field(weir_model::Field::Ttl);
        out.put(ttl, change.ttl.of(bits.value(ttl) as u8).into());
        out
    }

    /// Verdicts that a finished diagram ends in.
    fn verdicts(&mut self, f: Ref) -> Vec<Verdict> {
        let mut out = Vec::new();
        let Meaning { space, terminals, .. } = self;
        space.store.visit(f, |_, at| {
            if at.is_leaf()
                && let Exit::Verdict(verdict) = terminals.get(at).exit
                && !out.contains(&verdict)
            {
                out.push(verdict);
            }
        });
        out
    }

    /// Packets that meet a verdict.
    fn where_verdict(&mut self, f: Ref, verdict: Verdict) -> Result<Ref, Full> {
        let Meaning { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        space.store.map(code, f, &mut |leaf| match terminals.get(leaf).exit
            == Exit::Verdict(verdict)
        {
            true => Ref::ONE,
            false => Ref::ZERO,
        })
    }
}
