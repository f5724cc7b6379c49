//! Decides whether two rulesets mean the same for every packet and, if not, for which packet they
//! differ.

use weir_model::effect::shared_objects::SharedObjects;
use weir_model::effect::{ConntrackDemand, total_conntrack_demand};
use weir_model::{Family, Field, Firewall, Hook, Policy, Ruleset, TableName, match_effects};
use weir_semantics::Interpreter;
use weir_semantics::JourneyKind;
use weir_semantics::{Outcome, OutcomeDifference, TraversalLog, Verdict};

use crate::chain::BuildError;
use crate::comparison_types::{
    CompareError, CompareLevel, CompareOptions, CompareScope, ComparedPart, ComparedPath,
    Comparison, ComparisonVerdict, CornerCase, DiagramStatistics, EffectChange, RulesetDifference,
    VerdictChange,
};
use crate::compose::DiagramContext;
use crate::evaluation_point::EvaluationPoint;
use crate::fragment_drops::{find_fragment_drop_rules, is_dropped_before_reassembly};
use crate::journey::{ComparedSide, list_journey_stages};
use crate::node_store::{DiagramRef, LimitReached};
use crate::packet_space::{PacketSet, PacketSpace, SpaceOptions};
use crate::reassembly_difference::find_reassembly_difference;
use crate::region::{ExamplePacket, Region};
use crate::state_id::StateIdResolver;
use crate::terminal::RuleExit;
use crate::variable_layout::VariableOrder;
use crate::variable_order_search::rank_variable_orders;
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
/// let parse_firewall = |policy| {
///     let mut ruleset = Ruleset::new(Family::V4);
///     ruleset.tables.push(Table {
///         name: TableName::Filter,
///         chains: vec![Chain::new("FORWARD", Some(policy))],
///         leading_comments: vec![],
///         trailing_comments: vec![],
///     });
///     Firewall { v4: Some(ruleset), ..Firewall::default() }
/// };
/// let (open_address_bits, shut) = (parse_firewall(Policy::Accept), parse_firewall(Policy::Drop));
/// let options = CompareOptions { scope: CompareScope::Hook(Hook::Forward), ..Default::default() };
/// assert!(compare(&open_address_bits, &open_address_bits, &options)?.is_equal());
/// let comparison_types = compare(&open_address_bits, &shut, &options)?;
/// let (_, differs) = comparison_types.differences().next().expect("they differ");
/// assert_eq!(differs.regions[0].to_string(), "every packet");
/// assert!(differs.changes[0].is_newly_denied());
/// # Ok::<(), weir_diagram::CompareError>(())
/// ```
///
/// # Errors
/// [`CompareError`]: one of the two does not load, or there is a mistake in weir itself.
pub fn compare_firewalls(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    compare_with_progress(before, after, options, &mut |_, _| {})
}

/// The same, and reports each part before it begins.
///
/// # Errors
/// As [`compare_firewalls`].
pub fn compare_with_progress(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    progress: &mut dyn FnMut(Family, ComparedPath),
) -> Result<Comparison, CompareError> {
    let ways: Vec<ComparedPath> = match options.scope {
        CompareScope::Hook(hook) => vec![ComparedPath::Hook(hook)],
        CompareScope::Journey => {
            let wanted = |e: &JourneyKind| options.entry.is_none_or(|o| o == *e);
            JourneyKind::ALL.into_iter().filter(wanted).map(ComparedPath::Entry).collect()
        }
    };
    check_both_load(before, after)?;
    let mut parts = Vec::new();
    let rules = |f: &Firewall| f.rulesets().map(|r| r.rules().count()).sum::<usize>();
    for family in [Family::V4, Family::V6] {
        let there = before.ruleset(family).is_some() || after.ruleset(family).is_some();
        if !there || options.family.is_some_and(|f| f != family) {
            continue;
        }
        let larger = if rules(before) < rules(after) { after } else { before };
        let orders = rank_variable_orders(family, larger, &ways);
        let fragments = find_reassembly_difference(before, after, family, options.conntrack_in_use);
        for way in &ways {
            progress(family, *way);
            let mut part = compare_part(
                &ComparedPair { before, after, options, family, path: *way },
                &orders,
            )?;
            if let (ComparisonVerdict::Equal, Some(fragments)) = (&part.verdict, &fragments) {
                part.verdict = ComparisonVerdict::ReassemblyDiffers(fragments.clone());
            }
            parts.push(part);
        }
        let pair =
            ComparedPair { before, after, options, family, path: ComparedPath::ReassembledInput };
        if ways.contains(&ComparedPath::Entry(JourneyKind::Input))
            && pair.is_reassembled_before_input()
        {
            let part = compare_part(&pair, &orders)?;
            if !matches!(part.verdict, ComparisonVerdict::Equal) {
                parts.push(part);
            }
        }
    }
    Ok(Comparison { parts })
}

/// A ruleset that the kernel refuses has no meaning that could be equal to that of another.
fn check_both_load(before: &Firewall, after: &Firewall) -> Result<(), CompareError> {
    let [old, new] = [before, after].map(|f| SharedObjects::from_rulesets(f.rulesets()));
    let Some((family, object)) = old.first_missing_difference(&new) else { return Ok(()) };
    let first = old.missing_objects().any(|missing| missing == (family, object));
    let which = if first { "first" } else { "second" };
    let tool = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    Err(CompareError::DoesNotLoad { which, tool, object: object.to_string() })
}

/// What is compared in one part.
struct ComparedPair<'f> {
    before: &'f Firewall,
    after: &'f Firewall,
    options: &'f CompareOptions,
    family: Family,
    path: ComparedPath,
}

/// Tries one order after the other until the memory suffices.
fn compare_part(
    pair: &ComparedPair<'_>,
    orders: &[VariableOrder],
) -> Result<ComparedPart, CompareError> {
    let mut statistics = DiagramStatistics::default();
    let mut why = String::new();
    for order in orders {
        statistics.order = *order;
        match pair.compare_with_variable_order(*order, &mut statistics) {
            Ok(answer) => return Ok(pair.make_part(answer?, statistics)),
            Err(BuildError::LimitReached(LimitReached::Memory)) => {
                let mib = pair.options.memory_bytes >> 20;
                why = format!("the diagrams need more than the allowed {mib} MiB");
            }
            Err(BuildError::LimitReached(LimitReached::Steps)) => {
                let millions = pair.options.steps_max as f64 / 1e6;
                why = format!("not proven within the allowed {millions} million steps");
                break;
            }
            Err(BuildError::OtherReason(other)) => {
                why = other;
                break;
            }
        }
    }
    Ok(pair.make_part(ComparisonVerdict::Undecided { why }, statistics))
}

impl<'f> ComparedPair<'f> {
    /// Whether rules see the fragments of a datagram in PREROUTING, and the whole in INPUT: the
    /// fragments' journey says little about the datagram's.
    fn is_reassembled_before_input(&self) -> bool {
        let rulesets =
            || [self.before, self.after].into_iter().flat_map(|f| f.ruleset(self.family));
        let defragments = |r: &Ruleset| {
            total_conntrack_demand(r.rules().map(|(_, _, rule)| rule)) != ConntrackDemand::Nothing
        };
        let is_met = |name: TableName| {
            let chains =
                rulesets().filter_map(|r| r.table(&name)?.chain(Hook::Prerouting.chain_name()));
            chains.into_iter().any(|c| !c.rules.is_empty() || c.policy == Some(Policy::Drop))
        };
        let met = || is_met(TableName::Raw) || is_met(TableName::Mangle);
        self.family == Family::V4
            && !self.options.conntrack_in_use
            && met()
            && !rulesets().any(defragments)
    }

    /// Whether a match of some rule writes the packet's mark: no effect shows it.
    fn has_mark_writing_match(&self) -> bool {
        let writes = |m| match_effects(m, self.family).writes.contains(Field::Mark);
        let rulesets = [self.before, self.after].into_iter().flat_map(|f| f.ruleset(self.family));
        rulesets.into_iter().any(|r| r.rules().any(|(_, _, rule)| rule.matches.iter().any(writes)))
    }

    fn make_part(&self, answer: ComparisonVerdict, statistics: DiagramStatistics) -> ComparedPart {
        ComparedPart { family: self.family, path: self.path, verdict: answer, statistics }
    }

    fn compare_with_variable_order(
        &self,
        order: VariableOrder,
        statistics: &mut DiagramStatistics,
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        let options = SpaceOptions { order, memory_bytes: self.options.memory_bytes };
        let mut space =
            PacketSpace::for_firewalls(self.family, &[self.before, self.after], options)?;
        if self.options.exclude_truncated {
            space.possible_packets =
                space.store.minus(space.possible_packets, space.presence.unreadable_header)?;
        }
        if self.path == ComparedPath::ReassembledInput {
            // Conntrack is not in use.
            space.possible_packets =
                space.store.minus(space.possible_packets, space.presence.ct_entry)?;
        }
        let mut meaning = DiagramContext::new(space);
        meaning.space.store.steps = statistics.steps;
        meaning.space.store.steps_max = self.options.steps_max;
        let answer = self.decide_equality(&mut meaning);
        let store = &meaning.space.store;
        statistics.nodes = store.node_count();
        statistics.nodes_peak = statistics.nodes_peak.max(store.nodes_peak);
        statistics.memory_bytes = statistics.memory_bytes.max(store.memory_bytes());
        statistics.steps = store.steps;
        statistics.outcomes = meaning.terminals.len();
        answer
    }

    fn decide_equality(
        &self,
        meaning: &mut DiagramContext<'f>,
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        meaning.terminals.with_effects = self.options.level == CompareLevel::Effects;
        let dead = self.datagrams_never_reassembled(meaning)?;
        let all_ways = dead[0] != dead[1];
        let from = meaning.space.store.node_count();
        let sides = [(0, self.before), (1, self.after)].map(|(number, firewall)| {
            let who = StateIdResolver::new(firewall, self.options.stateful_pairing);
            ComparedSide::new(firewall, self.family, number, who, self.options.conntrack_in_use)
        });
        let pieces = list_journey_stages(self.path, &sides);
        // Table by table: if all are equal, so is the journey.
        let mut keep = Vec::new();
        for side in &sides {
            for piece in &pieces {
                let made = meaning.build_stage(side, *piece, &mut keep, from)?;
                keep.push(made);
                meaning.sweep_if_needed(&mut keep, from);
            }
        }
        let count = pieces.len();
        let mut different = Vec::new();
        for i in 0..count {
            if keep[i] != keep[count + i] {
                let store = &mut meaning.space.store;
                let differ = store.disagreement(keep[i], keep[count + i])?;
                match store.and(differ, meaning.space.possible_packets)? {
                    DiagramRef::ZERO => keep[count + i] = keep[i],
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
            keep[i] = meaning.strip_effects(keep[i])?;
            keep[count + i] = keep[i];
        }
        // If there is no other, all is the same outside of its difference.
        if let ([(only, differ)], false) = (&different[..], all_ways) {
            let (only, differ) = (*only, *differ);
            for i in [only, count + only] {
                keep[i] = meaning.restrict_to_difference(keep[i], differ)?;
            }
        }
        for _ in 0..2 {
            let way = meaning.compose_stages(self.path, &pieces, &mut keep, from)?;
            keep.insert(0, way);
        }
        let drop = meaning.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
        let mut ways = (keep[0], keep[1]);
        if all_ways {
            let store = &mut meaning.space.store;
            ways.0 = store.ite(dead[0], drop, ways.0)?;
            ways.1 = store.ite(dead[1], drop, ways.1)?;
        }
        let before = meaning.finalize_outcomes(ways.0, self.options.level)?;
        let after = meaning.finalize_outcomes(ways.1, self.options.level)?;
        let mut differ = meaning.find_possible_difference(before, after)?;
        if differ.is_none()
            && self.options.level == CompareLevel::Effects
            && self.has_mark_writing_match()
        {
            differ = self.find_mark_difference(meaning, ways)?;
        }
        match differ {
            None => Ok(Ok(ComparisonVerdict::Equal)),
            Some(differ) => self.describe_difference(meaning, differ, before, after),
        }
    }

    /// The datagrams that are never put together, on either side: PREROUTING drops all fragments.
    /// What both sides never put together is taken as not possible.
    fn datagrams_never_reassembled(
        &self,
        meaning: &mut DiagramContext<'f>,
    ) -> Result<[DiagramRef; 2], LimitReached> {
        let mut dead = [DiagramRef::ZERO; 2];
        if self.path != ComparedPath::ReassembledInput {
            return Ok(dead);
        }
        let space = &mut meaning.space;
        for (dead, firewall) in dead.iter_mut().zip([self.before, self.after]) {
            for rule in find_fragment_drop_rules(firewall) {
                let of = space
                    .packets_matching_rule(rule, EvaluationPoint::at_hook(Hook::Prerouting))?;
                *dead = space.store.overlay(*dead, of.0)?;
            }
        }
        let both = space.store.and(dead[0], dead[1])?;
        space.possible_packets = space.store.minus(space.possible_packets, both)?;
        Ok(dead)
    }

    /// Where the mark of a packet that leaves differs, in some bit.
    fn find_mark_difference(
        &self,
        meaning: &mut DiagramContext<'f>,
        (before, after): (DiagramRef, DiagramRef),
    ) -> Result<Option<DiagramRef>, BuildError> {
        let levels = meaning.space.layout.field_levels(Field::Mark);
        let set = meaning.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
        for bit in 0..levels.bit_count {
            let shown =
                meaning.space.store.make_node(levels.level_of_bit(bit), DiagramRef::ZERO, set)?;
            let mut shows = |way| {
                let way = meaning.compose_sequential(way, shown)?;
                meaning.finalize_outcomes(way, self.options.level)
            };
            let (before, after) = (shows(before)?, shows(after)?);
            if let Some(differ) = meaning.find_possible_difference(before, after)? {
                return Ok(Some(differ));
            }
        }
        Ok(None)
    }

    fn describe_difference(
        &self,
        meaning: &mut DiagramContext<'f>,
        differ: DiagramRef,
        before: DiagramRef,
        after: DiagramRef,
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        let possible = meaning.space.store.and(differ, meaning.space.possible_packets)?;
        let witness = meaning.witness(possible);
        let Some((difference, verdicts)) = self.reproduce_witness(&witness) else {
            // The packets that two translations or changes lead to may be the same one.
            if witness.assumptions.iter().any(Assumption::is_of_a_changed_packet) {
                let why = "they differ only if a test that is evaluated twice on one packet gives \
                           different results";
                return Ok(Ok(ComparisonVerdict::Undecided { why: why.to_owned() }));
            }
            return Ok(Err(CompareError::NotReproduced(Box::new(witness.packet))));
        };
        let changes = self.find_verdict_changes(meaning, before, after)?;
        let effects = self.find_effect_change(meaning, differ, (before, after))?;
        let set = PacketSet(differ);
        let space = &mut meaning.space;
        Ok(Ok(ComparisonVerdict::Differs(Box::new(RulesetDifference {
            share: space.packet_share(set)?,
            packet_count: space.packet_count(set)?,
            regions: space.regions(set, self.options.regions_max)?,
            witness,
            difference,
            verdicts,
            verdict_changes: changes,
            effect_change: effects,
        }))))
    }

    /// Sends a witness through both; `None` if nothing differs.
    fn reproduce_witness(
        &self,
        witness: &Witness,
    ) -> Option<(OutcomeDifference, (Verdict, Verdict))> {
        let run = |firewall: &'f Firewall, other: &Firewall| {
            let mut interpreter = Interpreter::new_for_comparison(firewall, other);
            if self.options.conntrack_in_use {
                interpreter = interpreter.with_conntrack_in_use();
            }
            let mut answers = witness.to_oracle(firewall, self.options.stateful_pairing);
            if self.path == ComparedPath::ReassembledInput
                && is_dropped_before_reassembly(firewall, &witness.packet)
            {
                let (verdict, packet) = (Verdict::Drop, witness.packet.clone());
                let TraversalLog { hits, effects, questions: asked, rules_tried: tried } =
                    TraversalLog::default();
                return (
                    Outcome {
                        verdict,
                        effects,
                        hits,
                        questions: asked,
                        rules_tried: tried,
                        packet,
                    },
                    Vec::new(),
                );
            }
            let outcome = match self.path {
                ComparedPath::Entry(entry) => {
                    interpreter.journey(&witness.packet, entry, &mut answers)
                }
                ComparedPath::Hook(hook) => {
                    interpreter.traverse_hook(&witness.packet, hook, &mut answers)
                }
                ComparedPath::ReassembledInput => {
                    interpreter.traverse_hook(&witness.packet, Hook::Input, &mut answers)
                }
            };
            (outcome, answers.stateful_evaluations)
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
            OutcomeDifference::StatefulQuestions
        } else if a.verdict == Verdict::Accept && a.packet.mark != b.packet.mark {
            OutcomeDifference::Packet
        } else {
            return None;
        };
        Some((difference, (a.verdict, b.verdict)))
    }

    /// Where the verdict is the same and something else is not.
    fn find_effect_change(
        &self,
        meaning: &mut DiagramContext<'f>,
        differ: DiagramRef,
        (before, after): (DiagramRef, DiagramRef),
    ) -> Result<Option<EffectChange>, BuildError> {
        let rest = meaning.restrict_to_same_verdict(differ, (before, after))?;
        let set = PacketSet(rest);
        if meaning.space.is_empty_set(set)? {
            return Ok(None);
        }
        let (share, packets) = (meaning.space.packet_share(set)?, meaning.space.packet_count(set)?);
        let (regions, corners) = self.regions_with_examples(meaning, rest)?;
        Ok(Some(EffectChange { share, packet_count: packets, regions, corner_cases: corners }))
    }

    /// The regions of a set and its corner cases, with packets that were sent through both.
    fn regions_with_examples(
        &self,
        meaning: &mut DiagramContext<'f>,
        set: DiagramRef,
    ) -> Result<(Vec<Region>, Vec<CornerCase>), LimitReached> {
        let journey = matches!(self.path, ComparedPath::Entry(_));
        meaning.regions_and_corners(set, (self.options.regions_max, journey), &|witness| {
            let (difference, verdicts) = self.reproduce_witness(&witness)?;
            Some(ExamplePacket { witness, difference, verdicts })
        })
    }

    /// The kinds of changes of verdicts.
    fn find_verdict_changes(
        &self,
        meaning: &mut DiagramContext<'f>,
        before: DiagramRef,
        after: DiagramRef,
    ) -> Result<Vec<VerdictChange>, BuildError> {
        let mut out = Vec::new();
        let verdicts = [before, after].map(|f| meaning.reachable_verdicts(f));
        for a in &verdicts[0] {
            let was = meaning.packets_with_verdict(before, *a)?;
            for b in verdicts[1].iter().filter(|b| *b != a) {
                let is = meaning.packets_with_verdict(after, *b)?;
                let both = PacketSet(meaning.space.store.and(was, is)?);
                let space = &mut meaning.space;
                if space.is_empty_set(both)? {
                    continue;
                }
                let (share, packets) = (space.packet_share(both)?, space.packet_count(both)?);
                let (regions, corners) = self.regions_with_examples(meaning, both.0)?;
                let (before, after) = (*a, *b);
                out.push(VerdictChange {
                    before,
                    after,
                    share,
                    packet_count: packets,
                    regions,
                    corner_cases: corners,
                });
            }
        }
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(out)
    }
}
