//! Decides whether two rulesets are equal on one path and, if not, for which packet they differ.

use std::cell::OnceCell;

use weir_model::effect::{ConntrackDemand, total_conntrack_demand};
use weir_model::{Family, Field, Firewall, Hook, Policy, Ruleset, TableName, match_effects};
use weir_semantics::Interpreter;
use weir_semantics::{Outcome, OutcomeDifference, TraversalLog, Verdict};

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::compared_ruleset::{ComparedRuleset, list_journey_stages};
use crate::comparison_types::{
    CompareError, CompareLevel, CompareOptions, ComparedPath, ComparisonVerdict,
    CornerCaseDifference, DiagramSizeAndSteps, EffectChange, FamilyPathComparison,
    RulesetDifference, VerdictChange,
};
use crate::ipv4_fragment_drops::{
    find_leading_drops_of_all_fragments, is_dropped_before_reassembly,
};
use crate::outcome_changes::{
    DifferenceByChange, DifferenceByChangeAndCornerCase, OutcomeChange, PacketsWithChange,
};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_space::{
    PacketSet, PacketSpace, PacketSpaceBasis, PacketSpaceOptions,
};
use crate::packet_sets::region::{ComparedExamplePacket, Region};
use crate::packet_sets::variable_layout::VariableOrder;
use crate::packet_sets::witness::{Assumption, Witness};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::rule_diagrams::terminal::RuleExit;
use crate::stateful_test_id::StatefulTestIdResolver;

/// What is compared in one part.
#[derive(Clone, Copy)]
pub(crate) struct ComparedPair<'f> {
    /// The whole firewalls: single packets are sent through these.
    pub before: &'f Firewall,
    pub after: &'f Firewall,
    /// The rules of which diagrams are built.
    pub sides: &'f [ComparedRuleset<'f>; 2],
    /// Of the whole firewalls.
    pub space_basis: &'f PacketSpaceBasis<'f>,
    /// Of the whole firewalls, made when the first packet is sent.
    pub interpreters: &'f OnceCell<[Interpreter<'f>; 2]>,
    pub options: &'f CompareOptions,
    /// The steps of this part: of those of the options, what it may use.
    pub steps_max: u64,
    pub family: Family,
    pub path: ComparedPath,
    /// PREROUTING is proven to be the same: both sides drop the fragments of the same datagrams.
    pub is_prerouting_same: bool,
}

/// Both sides of a comparison, with all of their rules.
pub(crate) fn make_compared_rulesets<'f>(
    firewalls: [&'f Firewall; 2],
    family: Family,
    options: &CompareOptions,
) -> [ComparedRuleset<'f>; 2] {
    [0, 1].map(|side| {
        let firewall = firewalls[side];
        let state_ids = StatefulTestIdResolver::new(firewall, options.stateful_pairing);
        ComparedRuleset::new(firewall, family, side, state_ids, options.conntrack_in_use)
    })
}

/// Whether rules see the fragments of a datagram in PREROUTING, and the whole in INPUT: the
/// fragments' journey says little about the datagram's.
pub(crate) fn do_prerouting_rules_see_fragments(
    firewalls: [&Firewall; 2],
    family: Family,
    options: &CompareOptions,
) -> bool {
    let rulesets = || firewalls.into_iter().flat_map(|f| f.ruleset(family));
    let defragments = |r: &Ruleset| {
        total_conntrack_demand(r.rules_with_table_and_chain().map(|(_, _, rule)| rule))
            != ConntrackDemand::Nothing
    };
    let is_met = |name: TableName| {
        let chains =
            rulesets().filter_map(|r| r.table(&name)?.chain(Hook::Prerouting.chain_name()));
        chains.into_iter().any(|c| !c.rules.is_empty() || c.policy == Some(Policy::Drop))
    };
    let met = || is_met(TableName::Raw) || is_met(TableName::Mangle);
    family == Family::V4 && !options.conntrack_in_use && met() && !rulesets().any(defragments)
}

/// Bits that a change may alter before a test is evaluated: a packet is tried for each of so many.
const ALTERATIONS_TRIED_MAX: usize = 128;

impl<'f> ComparedPair<'f> {
    /// Whether a match of some rule writes the packet's mark: no effect shows it.
    fn has_mark_writing_match(&self) -> bool {
        let writes = |m| match_effects(m, self.family).writes.contains(Field::Mark);
        let rulesets = [self.before, self.after].into_iter().flat_map(|f| f.ruleset(self.family));
        rulesets.into_iter().any(|r| {
            r.rules_with_table_and_chain().any(|(_, _, rule)| rule.matches.iter().any(writes))
        })
    }

    pub fn make_family_path_comparison(
        &self,
        answer: ComparisonVerdict,
        statistics: DiagramSizeAndSteps,
    ) -> FamilyPathComparison {
        FamilyPathComparison { family: self.family, path: self.path, verdict: answer, statistics }
    }

    pub fn compare_with_variable_order(
        &self,
        order: VariableOrder,
        statistics: &mut DiagramSizeAndSteps,
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        let space = self.make_packet_space(order)?;
        let mut context = DiagramContext::new(space);
        context.space.store.steps = statistics.steps;
        context.space.store.steps_max = self.steps_max;
        let answer = self.decide_equality(&mut context);
        statistics.record_context_size_and_steps(&context);
        answer
    }

    /// The space of both rulesets, and its possible packets.
    pub fn make_packet_space(&self, order: VariableOrder) -> Result<PacketSpace<'f>, LimitReached> {
        let options = PacketSpaceOptions { order, memory_bytes: self.options.memory_bytes };
        let mut space = self.space_basis.make_space(options)?;
        if self.options.exclude_unreadable_headers {
            space.possible_packets =
                space.store.minus(space.possible_packets, space.presence.unreadable_header)?;
        }
        if self.path == ComparedPath::ReassembledInput {
            // Conntrack is not in use.
            space.possible_packets =
                space.store.minus(space.possible_packets, space.presence.ct_entry)?;
            space.possible_packets =
                space.store.minus(space.possible_packets, space.presence.later_fragment)?;
        }
        Ok(space)
    }

    fn decide_equality(
        &self,
        context: &mut DiagramContext<'f>,
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        context.terminals.distinguishes_effects = self.options.level == CompareLevel::Effects;
        let dead = self.find_and_exclude_datagrams_dropped_before_reassembly(context)?;
        let all_ways = dead[0] != dead[1];
        let from = context.space.store.node_count();
        let sides = self.sides;
        let pieces = list_journey_stages(self.path, sides);
        // Table by table: if all are equal, so is the journey.
        let mut live_diagrams = Vec::new();
        for side in sides {
            for piece in &pieces {
                let made = context.build_stage(side, *piece, &mut live_diagrams, from)?;
                live_diagrams.push(made);
                context.sweep_if_needed(&mut live_diagrams, from);
            }
        }
        let count = pieces.len();
        let different =
            unify_equal_stages_and_list_differing(&mut context.space, &mut live_diagrams)?;
        let first = match different.first() {
            _ if all_ways => 0,
            Some((first, _)) => *first,
            None => return Ok(Ok(ComparisonVerdict::Equal)),
        };
        // Up to the first that differs, packets and effects are the same.
        for i in 0..first {
            live_diagrams[i] = context.strip_effects(live_diagrams[i])?;
            live_diagrams[count + i] = live_diagrams[i];
        }
        // If there is no other, all is the same outside of its difference.
        let mut start = None;
        if let ([(only, differ)], false) = (&different[..], all_ways) {
            let (only, differ) = (*only, *differ);
            start = Some(only);
            for i in [only, count + only] {
                live_diagrams[i] = context.restrict_to_difference(live_diagrams[i], differ)?;
            }
        }
        for _ in 0..2 {
            let way =
                context.compose_stages((self.path, &pieces), start, &mut live_diagrams, from)?;
            live_diagrams.insert(0, way);
        }
        let drop = context.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
        let mut ways = (live_diagrams[0], live_diagrams[1]);
        if all_ways {
            let store = &mut context.space.store;
            ways.0 = store.ite(dead[0], drop, ways.0)?;
            ways.1 = store.ite(dead[1], drop, ways.1)?;
        }
        let before = context.convert_terminals_to_outcomes(ways.0, self.options.level)?;
        let after = context.convert_terminals_to_outcomes(ways.1, self.options.level)?;
        let mut differ = context.find_difference_by_change([before, after])?;
        if differ.is_none()
            && self.options.level == CompareLevel::Effects
            && self.has_mark_writing_match()
        {
            differ = self.find_packet_mark_difference(context, ways)?;
        }
        match differ {
            None => Ok(Ok(ComparisonVerdict::Equal)),
            Some(differ) => {
                self.reproduce_and_describe_difference(context, differ, [before, after])
            }
        }
    }

    /// The datagrams that are known never to be reassembled, on each side, because PREROUTING drops
    /// all their fragments. A datagram that neither side reassembles is considered impossible: what
    /// is known of one side holds for the other if PREROUTING is the same.
    fn find_and_exclude_datagrams_dropped_before_reassembly(
        &self,
        context: &mut DiagramContext<'f>,
    ) -> Result<[DiagramRef; 2], LimitReached> {
        let mut dead = [DiagramRef::ZERO; 2];
        if self.path != ComparedPath::ReassembledInput {
            return Ok(dead);
        }
        let space = &mut context.space;
        for (dead, firewall) in dead.iter_mut().zip([self.before, self.after]) {
            for rule in find_leading_drops_of_all_fragments(firewall) {
                let of =
                    space.packets_matching_rule(rule, HookContext::at_hook(Hook::Prerouting))?;
                *dead = space.store.first_nonzero(*dead, of.0)?;
            }
        }
        let both = match self.is_prerouting_same {
            true => space.store.first_nonzero(dead[0], dead[1])?,
            false => space.store.and(dead[0], dead[1])?,
        };
        space.possible_packets = space.store.minus(space.possible_packets, both)?;
        Ok(if self.is_prerouting_same { [DiagramRef::ZERO; 2] } else { dead })
    }

    /// Where the mark of a packet that leaves differs, in some bit.
    fn find_packet_mark_difference(
        &self,
        context: &mut DiagramContext<'f>,
        (before, after): (DiagramRef, DiagramRef),
    ) -> Result<Option<DifferenceByChange>, BuildError> {
        let levels = context.space.layout.field_levels(Field::Mark);
        let set = context.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
        for bit in 0..levels.bit_count {
            let shown = context.space.store.make_node(
                levels.level_of_bit_from_lowest(bit),
                DiagramRef::ZERO,
                set,
            )?;
            let mut shows = |way| {
                let way = context.compose_sequential(way, shown)?;
                context.convert_terminals_to_outcomes(way, self.options.level)
            };
            let (before, after) = (shows(before)?, shows(after)?);
            if let Some(differ) = context.find_difference_by_change([before, after])? {
                let differ = context.assignments_of_difference(&differ)?;
                return Ok(Some(context.make_difference_of_effects_alone(differ)?));
            }
        }
        Ok(None)
    }

    fn reproduce_and_describe_difference(
        &self,
        context: &mut DiagramContext<'f>,
        differ: DifferenceByChange,
        outcomes: [DiagramRef; 2],
    ) -> Result<Result<ComparisonVerdict, CompareError>, BuildError> {
        let mut witness = context.witness(differ.possible());
        let mut reproduced = self.reproduce_witness(&witness);
        let mut has_tests_after_changes = false;
        if reproduced.is_none() {
            // The packets that two translations or changes lead to may be the same one.
            let possible = context.possible_packets_of_difference(&differ)?;
            let [a, b] = outcomes.map(|side| context.space.store.and(possible, side));
            let alterations = context.list_packets_altered_before_stateful_tests([a?, b?])?;
            has_tests_after_changes = alterations.is_some();
            for altered in alterations.into_iter().flatten().take(ALTERATIONS_TRIED_MAX) {
                let among = context.space.store.and(altered, possible)?;
                if reproduced.is_none() && among != DiagramRef::ZERO {
                    witness = context.witness(among);
                    reproduced = self.reproduce_witness(&witness);
                }
            }
        }
        let Some((difference, verdicts)) = reproduced else {
            if has_tests_after_changes
                || witness.assumptions.iter().any(Assumption::is_about_changed_packet)
            {
                let why = "they differ only if a test that is evaluated twice on one packet gives \
                           different results";
                return Ok(Ok(ComparisonVerdict::Undecided { why: why.to_owned() }));
            }
            return Ok(Err(CompareError::WitnessNotReproduced(Box::new(witness.packet))));
        };
        let set = PacketSet(context.assignments_of_difference(&differ)?);
        let share = context.space.share_of_possible_packets(differ.possible());
        let is_journey = matches!(self.path, ComparedPath::WholeJourney(_));
        let differ = context.divide_by_corner_cases(differ, is_journey)?;
        let verdict_changes = self.find_verdict_changes(context, &differ)?;
        let effect_change = self.find_effect_change(context, &differ)?;
        Ok(Ok(ComparisonVerdict::Differs(Box::new(RulesetDifference {
            share,
            packet_count: context.space.packet_count_of_share(share),
            regions: context.space.largest_regions(set, self.options.regions_max)?,
            witness,
            difference,
            verdicts,
            verdict_changes,
            effect_change,
        }))))
    }

    /// Sends a witness through both; `None` if nothing differs.
    pub fn reproduce_witness(
        &self,
        witness: &Witness,
    ) -> Option<(OutcomeDifference, (Verdict, Verdict))> {
        let interpreters = self.interpreters.get_or_init(|| {
            [(self.before, self.after), (self.after, self.before)].map(|(firewall, other)| {
                let interpreter = Interpreter::new_for_comparison_with(firewall, other);
                match self.options.conntrack_in_use {
                    true => interpreter.with_conntrack_in_use(),
                    false => interpreter,
                }
            })
        });
        let run = |side: usize, firewall: &'f Firewall| {
            let interpreter = &interpreters[side];
            let mut answers = witness.to_oracle(self.sides[side].state_ids());
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
                ComparedPath::WholeJourney(entry) => {
                    interpreter.evaluate_journey(&witness.packet, entry, &mut answers)
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
        let (a, asked_a) = run(0, self.before);
        let (b, asked_b) = run(1, self.after);
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
        context: &mut DiagramContext<'f>,
        differ: &DifferenceByChangeAndCornerCase,
    ) -> Result<Option<EffectChange>, BuildError> {
        let packets = context.packets_with_change(differ, OutcomeChange::EffectsAlone)?;
        let Some(packets) = packets else { return Ok(None) };
        let share = context.space.share_of_possible_packets(packets.possible);
        let packet_count = context.space.packet_count_of_share(share);
        let (regions, corner_cases) =
            self.regions_and_corner_cases_with_examples(context, &packets)?;
        Ok(Some(EffectChange { share, packet_count, regions, corner_cases }))
    }

    /// The regions of a change and its corner cases, with packets that were sent through both.
    fn regions_and_corner_cases_with_examples(
        &self,
        context: &mut DiagramContext<'f>,
        packets: &PacketsWithChange,
    ) -> Result<(Vec<Region>, Vec<CornerCaseDifference>), LimitReached> {
        context.regions_and_corner_cases(packets, self.options.regions_max, &|witness| {
            let (difference, verdicts) = self.reproduce_witness(&witness)?;
            Some(ComparedExamplePacket { witness, difference, verdicts })
        })
    }

    /// The kinds of changes of verdicts.
    fn find_verdict_changes(
        &self,
        context: &mut DiagramContext<'f>,
        differ: &DifferenceByChangeAndCornerCase,
    ) -> Result<Vec<VerdictChange>, BuildError> {
        let mut out = Vec::new();
        for change in differ.changes() {
            let OutcomeChange::Verdict { before, after } = *change else { continue };
            let Some(packets) = context.packets_with_change(differ, *change)? else { continue };
            let share = context.space.share_of_possible_packets(packets.possible);
            let packet_count = context.space.packet_count_of_share(share);
            let (regions, corner_cases) =
                self.regions_and_corner_cases_with_examples(context, &packets)?;
            out.push(VerdictChange { before, after, share, packet_count, regions, corner_cases });
        }
        out.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(out)
    }
}

impl DiagramSizeAndSteps {
    /// Adds what a comparison took; its steps began with those of before.
    pub(crate) fn record_context_size_and_steps(&mut self, context: &DiagramContext<'_>) {
        let store = &context.space.store;
        self.nodes = store.node_count();
        self.nodes_peak = self.nodes_peak.max(store.nodes_peak);
        self.memory_bytes = self.memory_bytes.max(store.memory_bytes());
        self.steps = store.steps;
        self.outcomes = context.terminals.len();
    }
}

/// The stages that differ for a possible packet, by number, and where. Of a stage that differs for
/// other packets only, both sides keep the diagram of the first.
fn unify_equal_stages_and_list_differing(
    space: &mut PacketSpace<'_>,
    stages: &mut [DiagramRef],
) -> Result<Vec<(usize, DiagramRef)>, LimitReached> {
    let mut different = Vec::new();
    let (before, after) = stages.split_at_mut(stages.len() / 2);
    for (i, (before, after)) in before.iter().zip(after).enumerate() {
        if before == after {
            continue;
        }
        let differ = space.store.disagreement(*before, *after)?;
        match space.store.and(differ, space.possible_packets)? {
            DiagramRef::ZERO => *after = *before,
            _ => different.push((i, differ)),
        }
    }
    Ok(different)
}
