//! Where two diagrams differ, a packet of the difference, and the verdicts for it.

use std::collections::HashMap;

use weir_model::Field;
use weir_semantics::Verdict;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::comparison_types::CornerCaseDifference;
use crate::outcome_changes::PacketsWithChange;
use crate::packet_sets::free_variable::FreeVariable;
use crate::packet_sets::packet_bit_codec::{FieldBitAssignment, decode_packet};
use crate::packet_sets::packet_space::PacketSet;
use crate::packet_sets::region::{ComparedExamplePacket, Region};
use crate::packet_sets::witness::Witness;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::terminal::RuleExit;

/// Packets of a region that are sent through both rulesets, so that the rules that decide it are
/// known, also where they are several.
const EXAMPLES_PER_REGION: usize = 8;

impl DiagramContext<'_> {
    /// A packet that leads to a terminal other than 0, with the changes before its evaluation.
    pub fn witness(&self, f: DiagramRef) -> Witness {
        self.witness_near_assignment(f, self.space.encode_usual_packet())
    }

    /// The same, with these bits as far as the set allows.
    fn witness_near_assignment(&self, f: DiagramRef, wanted: FieldBitAssignment) -> Witness {
        let (bits, mut assumptions) = self.space.pick_assignment_near(f, wanted);
        let answers: HashMap<FreeVariable, bool> =
            assumptions.iter().map(|o| (o.variable, o.answer)).collect();
        for assumption in &mut assumptions {
            let change = match assumption.variable {
                FreeVariable::StatelessTest { change, .. }
                | FreeVariable::StatelessTargetBit { change, .. } => change,
                FreeVariable::StatefulTest { state_input, .. } => state_input.change,
                FreeVariable::StatefulTargetBit { .. } => continue,
            };
            let changed = self.assignment_after_change(&bits, change, &answers);
            assumption.packet = Some(decode_packet(&self.space.layout, &changed));
        }
        Witness { packet: decode_packet(&self.space.layout, &bits), assumptions }
    }

    /// Packets that lead to a terminal other than 0: first one that looks as usual as it can, then
    /// some whose addresses, ports, protocols and states of connections differ.
    pub fn witnesses(&self, f: DiagramRef, count: usize) -> Vec<Witness> {
        let varied =
            [Field::Saddr, Field::Daddr, Field::Sport, Field::Dport, Field::Proto, Field::CtState];
        // xorshift: the same packets each time. This crate may not use weir-random, and nothing
        // that is stored depends on the numbers.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut bit = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 40 & 1 == 1
        };
        let mut out = vec![self.witness(f)];
        for _ in 1..count {
            let mut wanted = self.space.encode_usual_packet();
            for field in varied {
                let levels = self.space.layout.field_levels(field);
                wanted.0[levels.first as usize..levels.end() as usize].fill_with(&mut bit);
            }
            let witness = self.witness_near_assignment(f, wanted);
            if !out.contains(&witness) {
                out.push(witness);
            }
        }
        out
    }

    /// The regions of packets whose outcome changes in one way, each with packets that `reproduce`
    /// sent through both rulesets, and their corner cases.
    pub fn regions_and_corner_cases(
        &mut self,
        packets: &PacketsWithChange,
        count: usize,
        reproduce: &dyn Fn(Witness) -> Option<ComparedExamplePacket>,
    ) -> Result<(Vec<Region>, Vec<CornerCaseDifference>), LimitReached> {
        let PacketsWithChange { shown, has_ordinary, .. } = *packets;
        let mut regions = Vec::new();
        for (mut region, packets) in
            self.space.largest_regions_with_packet_sets(PacketSet(shown), count, has_ordinary)?
        {
            let witnesses = self.witnesses(packets, EXAMPLES_PER_REGION).into_iter();
            region.examples = witnesses.filter_map(reproduce).collect();
            regions.push(region);
        }
        let mut corners = Vec::new();
        for (corner_case_kind, packets) in &packets.corner_cases {
            let share = self.space.share_of_possible_packets(*packets);
            let example = reproduce(self.witness(*packets));
            let corner_case_kind = *corner_case_kind;
            corners.push(CornerCaseDifference { corner_case_kind, share, example });
        }
        Ok((regions, corners))
    }

    /// The bits of a packet after a change.
    pub(crate) fn assignment_after_change(
        &self,
        bits: &FieldBitAssignment,
        change: u32,
        answers: &HashMap<FreeVariable, bool>,
    ) -> FieldBitAssignment {
        let layout = &self.space.layout;
        let change = self.terminals.get_change(change);
        let value = |level: &u32| match level.checked_sub(layout.fields_end) {
            None => bits.0[*level as usize],
            Some(question) => {
                let variable =
                    self.space.free_variables.get(question).map(|(variable, _)| variable);
                variable.and_then(|u| answers.get(u)).copied().unwrap_or(false)
            }
        };
        let mut out = bits.clone();
        for (level, source) in &change.bit_sources {
            out.0[*level as usize] =
                source.xor_levels.iter().map(value).fold(source.is_inverted, |a, b| a ^ b);
        }
        let ttl = layout.field_levels(Field::Ttl);
        let before = out.value(ttl) as u8;
        out.set_value(ttl, change.ttl_transform.apply_to(before).into());
        out
    }

    /// Verdicts that a finished diagram ends in.
    pub fn verdicts_in_diagram(&mut self, f: DiagramRef) -> Vec<Verdict> {
        let mut out = Vec::new();
        let DiagramContext { space, terminals, .. } = self;
        space.store.visit_nodes_and_terminals(f, |_, at| {
            if at.is_leaf()
                && let RuleExit::Verdict(verdict) = terminals.terminal_of_leaf(at).exit
                && !out.contains(&verdict)
            {
                out.push(verdict);
            }
        });
        out
    }

    /// Packets with a verdict.
    pub fn packets_with_verdict(
        &mut self,
        f: DiagramRef,
        verdict: Verdict,
    ) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        space.store.map_terminals(code, f, &mut |leaf| match terminals.terminal_of_leaf(leaf).exit
            == RuleExit::Verdict(verdict)
        {
            true => DiagramRef::ONE,
            false => DiagramRef::ZERO,
        })
    }
}
