//! Decides whether two rulesets mean the same for every packet and, if not, for which packet they
//! differ.

use weir_model::effect::named::Objects;
use weir_model::effect::{Conntrack, conntrack_of_all};
use weir_model::{Family, Field, Firewall, Hook, Policy, Ruleset, TableName, match_effects};
use weir_semantics::Entry;
use weir_semantics::Interpreter;
use weir_semantics::{Log, Outcome, OutcomeDifference, Verdict};

use crate::assembled::{drops_of_fragments, is_dead};
use crate::at::At;
use crate::chain::Unknown;
use crate::comparison::{
    CompareError, CompareLevel, CompareOptions, CompareScope, ComparedPart, ComparedPath,
    Comparison, ComparisonVerdict, CornerCase, EffectChange, RulesetDifference, Statistics,
    VerdictChange,
};
use crate::compose::RulesetDiagram;
use crate::fragments::put_together_by_one;
use crate::journey::{ComparedSide, pieces};
use crate::layout::Order;
use crate::order::orders;
use crate::region::{ExamplePacket, Region};
use crate::space::{PacketSet, Space, SpaceOptions};
use crate::stateful_identity::StatefulIdentity;
use crate::store::{Full, Ref};
use crate::terminal::Exit;
use crate::witness::{Assumption, Witness};

/// Compares the meaning of two firewalls for all packets.
///
/// A part that differs has a packet that the [`Interpreter`] evaluated with both rulesets: its
/// difference is verified.
///
/// ```
/// use weir_model::{Chain, Family, Firewall, Hook, Policy, Ruleset, Table, TableName};
/// use weir_diagram::{CompareOptions, CompareScope, compare};
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
/// let options = CompareOptions { scope: CompareScope::Hook(Hook::Forward), ..Default::default() };
/// assert!(compare(&open, &open, &options)?.is_equal());
/// let comparison = compare(&open, &shut, &options)?;
/// let (_, differs) = comparison.differences().next().expect("they differ");
/// assert_eq!(differs.regions[0].to_string(), "every packet");
/// assert!(differs.changes[0].newly_denied());
/// # Ok::<(), weir_diagram::CompareError>(())
/// ```
///
/// # Errors
/// [`CompareError`]: one of the two does not load, or there is a mistake in weir itself.
pub fn compare(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    compare_with(before, after, options, &mut |_, _| {})
}

/// The same, and reports each part before it begins.
///
/// # Errors
/// As [`compare`].
pub fn compare_with(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    progress: &mut dyn FnMut(Family, ComparedPath),
) -> Result<Comparison, CompareError> {
    let ways: Vec<ComparedPath> = match options.scope {
        CompareScope::Hook(hook) => vec![ComparedPath::Hook(hook)],
        CompareScope::Journey => {
            let wanted = |e: &Entry| options.entry.is_none_or(|o| o == *e);
            Entry::ALL.into_iter().filter(wanted).map(ComparedPath::Entry).collect()
        }
    };
    both_load(before, after)?;
    let mut parts = Vec::new();
    let rules = |f: &Firewall| f.rulesets().map(|r| r.rules().count()).sum::<usize>();
    for family in [Family::V4, Family::V6] {
        let there = before.ruleset(family).is_some() || after.ruleset(family).is_some();
        if !there || options.family.is_some_and(|f| f != family) {
            continue;
        }
        let larger = if rules(before) < rules(after) { after } else { before };
        let orders = orders(family, larger, &ways);
        let fragments = put_together_by_one(before, after, family, options.conntrack);
        for way in &ways {
            progress(family, *way);
            let mut part = part(&Pair { before, after, options, family, way: *way }, &orders)?;
            if let (ComparisonVerdict::Equal, Some(fragments)) = (&part.answer, &fragments) {
                part.answer = ComparisonVerdict::Fragments(fragments.clone());
            }
            parts.push(part);
        }
        let pair = Pair { before, after, options, family, way: ComparedPath::Assembled };
        if ways.contains(&ComparedPath::Entry(Entry::Input)) && pair.assembles_behind_prerouting() {
            let part = part(&pair, &orders)?;
            if !matches!(part.answer, ComparisonVerdict::Equal) {
                parts.push(part);
            }
        }
    }
    Ok(Comparison { parts })
}

/// A ruleset that the kernel refuses has no meaning that could be equal to that of another.
fn both_load(before: &Firewall, after: &Firewall) -> Result<(), CompareError> {
    let [old, new] = [before, after].map(|f| Objects::of(f.rulesets()));
    let Some((family, object)) = old.missing_in_one(&new) else { return Ok(()) };
    let first = old.missing().any(|missing| missing == (family, object));
    let which = if first { "first" } else { "second" };
    let tool = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    Err(CompareError::DoesNotLoad { which, tool, object: object.to_string() })
}

/// What is compared in one part.
struct Pair<'f> {
    before: &'f Firewall,
    after: &'f Firewall,
    options: &'f CompareOptions,
    family: Family,
    way: ComparedPath,
}

/// Tries one order after the other until the memory suffices.
fn part(pair: &Pair<'_>, orders: &[Order]) -> Result<ComparedPart, CompareError> {
    let mut statistics = Statistics::default();
    let mut why = String::new();
    for order in orders {
        statistics.order = *order;
        match pair.diagrams(*order, &mut statistics) {
            Ok(answer) => return Ok(pair.part(answer?, statistics)),
            Err(Unknown::Full(Full::Memory)) => {
                let mib = pair.options.memory_bytes >> 20;
                why = format!("the diagrams need more than the allowed {mib} MiB");
            }
            Err(Unknown::Full(Full::Steps)) => {
                let millions = pair.options.steps_max as f64 / 1e6;
                why = format!("not proven within the allowed {millions} million steps");
                break;
            }
            Err(Unknown::Why(other)) => {
                why = other;
                break;
            }
        }
    }
    Ok(pair.part(ComparisonVerdict::Unknown { why }, statistics))
}

impl<'f> Pair<'f> {
    /// Whether rules see the fragments of a datagram in PREROUTING, and the whole in INPUT: the
    /// fragments' journey says little about the datagram's.
    fn assembles_behind_prerouting(&self) -> bool {
        let rulesets =
            || [self.before, self.after].into_iter().flat_map(|f| f.ruleset(self.family));
        let defragments =
            |r: &Ruleset| conntrack_of_all(r.rules().map(|(_, _, rule)| rule)) != Conntrack::No;
        let is_met = |name: TableName| {
            let chains = rulesets().filter_map(|r| r.table(&name)?.chain(Hook::Prerouting.chain()));
            chains.into_iter().any(|c| !c.rules.is_empty() || c.policy == Some(Policy::Drop))
        };
        let met = || is_met(TableName::Raw) || is_met(TableName::Mangle);
        self.family == Family::V4
            && !self.options.conntrack
            && met()
            && !rulesets().any(defragments)
    }

    /// Whether a match of some rule writes the packet's mark: no effect shows it.
    fn marks_by_match(&self) -> bool {
        let writes = |m| match_effects(m, self.family).writes.contains(Field::Mark);
        let rulesets = [self.before, self.after].into_iter().flat_map(|f| f.ruleset(self.family));
        rulesets.into_iter().any(|r| r.rules().any(|(_, _, rule)| rule.matches.iter().any(writes)))
    }

    fn part(&self, answer: ComparisonVerdict, statistics: Statistics) -> ComparedPart {
        ComparedPart { family: self.family, way: self.way, answer, statistics }
    }

    fn diagrams(
        &self,
        order: Order,
        statistics: &mut Statistics,
    ) -> Result<Result<ComparisonVerdict, CompareError>, Unknown> {
        let options = SpaceOptions { order, memory_bytes: self.options.memory_bytes };
        let mut space = Space::with(self.family, &[self.before, self.after], options)?;
        if self.options.whole {
            space.possible = space.store.minus(space.possible, space.presence.cut)?;
        }
        if self.way == ComparedPath::Assembled {
            // Conntrack is not in use.
            space.possible = space.store.minus(space.possible, space.presence.entry)?;
        }
        let mut meaning = RulesetDiagram::new(space);
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

    fn answer(
        &self,
        meaning: &mut RulesetDiagram<'f>,
    ) -> Result<Result<ComparisonVerdict, CompareError>, Unknown> {
        meaning.terminals.with_effects = self.options.level == CompareLevel::Effects;
        let dead = self.dead_fragments(meaning)?;
        let all_ways = dead[0] != dead[1];
        let from = meaning.space.store.len();
        let sides = [(0, self.before), (1, self.after)].map(|(number, firewall)| {
            let who = StatefulIdentity::new(firewall, self.options.identity);
            ComparedSide::new(firewall, self.family, number, who, self.options.conntrack)
        });
        let pieces = pieces(self.way, &sides);
        // Table by table: if all are equal, so is the journey.
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
        let first = match different.first() {
            _ if all_ways => 0,
            Some((first, _)) => *first,
            None => return Ok(Ok(ComparisonVerdict::Equal)),
        };
        // Up to the first that differs, packets and effects are the same.
        for i in 0..first {
            keep[i] = meaning.without_effects(keep[i])?;
            keep[count + i] = keep[i];
        }
        // If there is no other, all is the same outside of its difference.
        if let ([(only, differ)], false) = (&different[..], all_ways) {
            let (only, differ) = (*only, *differ);
            for i in [only, count + only] {
                keep[i] = meaning.only_within(keep[i], differ)?;
            }
        }
        for _ in 0..2 {
            let way = meaning.way(self.way, &pieces, &mut keep, from)?;
            keep.insert(0, way);
        }
        let drop = meaning.terminals.exit(Exit::Verdict(Verdict::Drop));
        let mut ways = (keep[0], keep[1]);
        if all_ways {
            let store = &mut meaning.space.store;
            ways.0 = store.either(dead[0], drop, ways.0)?;
            ways.1 = store.either(dead[1], drop, ways.1)?;
        }
        let before = meaning.finished(ways.0, self.options.level)?;
        let after = meaning.finished(ways.1, self.options.level)?;
        let mut differ = meaning.possibly_differ(before, after)?;
        if differ.is_none() && self.options.level == CompareLevel::Effects && self.marks_by_match()
        {
            differ = self.marks_differ(meaning, ways)?;
        }
        match differ {
            None => Ok(Ok(ComparisonVerdict::Equal)),
            Some(differ) => self.differs(meaning, differ, before, after),
        }
    }

    /// The datagrams that are never put together, on either side: PREROUTING drops all fragments.
    /// What both sides never put together is taken as not possible.
    fn dead_fragments(&self, meaning: &mut RulesetDiagram<'f>) -> Result<[Ref; 2], Full> {
        let mut dead = [Ref::ZERO; 2];
        if self.way != ComparedPath::Assembled {
            return Ok(dead);
        }
        let space = &mut meaning.space;
        for (dead, firewall) in dead.iter_mut().zip([self.before, self.after]) {
            for rule in drops_of_fragments(firewall) {
                let of = space.of_rule(rule, At::hook(Hook::Prerouting))?;
                *dead = space.store.over(*dead, of.0)?;
            }
        }
        let both = space.store.and(dead[0], dead[1])?;
        space.possible = space.store.minus(space.possible, both)?;
        Ok(dead)
    }

    /// Where the mark of a packet that leaves differs, in some bit.
    fn marks_differ(
        &self,
        meaning: &mut RulesetDiagram<'f>,
        (before, after): (Ref, Ref),
    ) -> Result<Option<Ref>, Unknown> {
        let levels = meaning.space.layout.field(Field::Mark);
        let set = meaning.terminals.exit(Exit::Verdict(Verdict::Drop));
        for bit in 0..levels.bits {
            let shown = meaning.space.store.node(levels.of_bit(bit), Ref::ZERO, set)?;
            let mut shows = |way| {
                let way = meaning.then(way, shown)?;
                meaning.finished(way, self.options.level)
            };
            let (before, after) = (shows(before)?, shows(after)?);
            if let Some(differ) = meaning.possibly_differ(before, after)? {
                return Ok(Some(differ));
            }
        }
        Ok(None)
    }

    fn differs(
        &self,
        meaning: &mut RulesetDiagram<'f>,
        differ: Ref,
        before: Ref,
        after: Ref,
    ) -> Result<Result<ComparisonVerdict, CompareError>, Unknown> {
        let possible = meaning.space.store.and(differ, meaning.space.possible)?;
        let witness = meaning.witness(possible);
        let Some((difference, verdicts)) = self.reproduce(&witness) else {
            // The packets that two translations or changes lead to may be the same one.
            if witness.assumptions.iter().any(Assumption::is_of_a_changed_packet) {
                let why = "they differ only if a test that is evaluated twice on one packet gives \
                           different results";
                return Ok(Ok(ComparisonVerdict::Unknown { why: why.to_owned() }));
            }
            return Ok(Err(CompareError::NotReproduced(Box::new(witness.packet))));
        };
        let changes = self.changes(meaning, before, after)?;
        let effects = self.effects(meaning, differ, (before, after))?;
        let set = PacketSet(differ);
        let space = &mut meaning.space;
        Ok(Ok(ComparisonVerdict::Differs(Box::new(RulesetDifference {
            share: space.share(set)?,
            packets: space.count(set)?,
            regions: space.regions(set, self.options.regions)?,
            witness,
            difference,
            verdicts,
            changes,
            effects,
        }))))
    }

    /// Sends a witness through both; `None` if nothing differs.
    fn reproduce(&self, witness: &Witness) -> Option<(OutcomeDifference, (Verdict, Verdict))> {
        let run = |firewall: &'f Firewall, other: &Firewall| {
            let mut interpreter = Interpreter::comparing(firewall, other);
            if self.options.conntrack {
                interpreter = interpreter.with_conntrack();
            }
            let mut answers = witness.answers(firewall, self.options.identity);
            if self.way == ComparedPath::Assembled && is_dead(firewall, &witness.packet) {
                let (verdict, packet) = (Verdict::Drop, witness.packet.clone());
                let Log { hits, effects, asked, tried } = Log::default();
                return (Outcome { verdict, effects, hits, asked, tried, packet }, Vec::new());
            }
            let outcome = match self.way {
                ComparedPath::Entry(entry) => {
                    interpreter.journey(&witness.packet, entry, &mut answers)
                }
                ComparedPath::Hook(hook) => {
                    interpreter.at_hook(&witness.packet, hook, &mut answers)
                }
                ComparedPath::Assembled => {
                    interpreter.at_hook(&witness.packet, Hook::Input, &mut answers)
                }
            };
            (outcome, answers.asked)
        };
        let (a, asked_a) = run(self.before, self.after);
        let (b, asked_b) = run(self.after, self.before);
        let difference = if a.verdict != b.verdict {
            OutcomeDifference::Verdict
        } else if self.options.level == CompareLevel::Verdict {
            return None;
        } else if a.effects != b.effects {
            OutcomeDifference::Effects
        } else if asked_a != asked_b {
            OutcomeDifference::Stateful
        } else if a.verdict == Verdict::Accept && a.packet.mark != b.packet.mark {
            OutcomeDifference::Packet
        } else {
            return None;
        };
        Some((difference, (a.verdict, b.verdict)))
    }

    /// Where the verdict is the same and something else is not.
    fn effects(
        &self,
        meaning: &mut RulesetDiagram<'f>,
        differ: Ref,
        (before, after): (Ref, Ref),
    ) -> Result<Option<EffectChange>, Unknown> {
        let rest = meaning.within_same_verdict(differ, (before, after))?;
        let set = PacketSet(rest);
        if meaning.space.is_empty(set)? {
            return Ok(None);
        }
        let (share, packets) = (meaning.space.share(set)?, meaning.space.count(set)?);
        let (regions, corners) = self.regions(meaning, rest)?;
        Ok(Some(EffectChange { share, packets, regions, corners }))
    }

    /// The regions of a set and its corner cases, with packets that were sent through both.
    fn regions(
        &self,
        meaning: &mut RulesetDiagram<'f>,
        set: Ref,
    ) -> Result<(Vec<Region>, Vec<CornerCase>), Full> {
        let journey = matches!(self.way, ComparedPath::Entry(_));
        meaning.regions_and_corners(set, (self.options.regions, journey), &|witness| {
            let (difference, verdicts) = self.reproduce(&witness)?;
            Some(ExamplePacket { witness, difference, verdicts })
        })
    }

    /// The kinds of changes of verdicts.
    fn changes(
        &self,
        meaning: &mut RulesetDiagram<'f>,
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
                let (share, packets) = (space.share(both)?, space.count(both)?);
                let (regions, corners) = self.regions(meaning, both.0)?;
                let (before, after) = (*a, *b);
                out.push(VerdictChange { before, after, share, packets, regions, corners });
            }
        }
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(out)
    }
}
