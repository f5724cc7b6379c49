//! Where two diagrams differ, a packet of the difference, and the verdicts for it.

use std::collections::HashMap;

use weir_model::Field;
use weir_semantics::Verdict;

use crate::comparison::CornerCase;
use crate::compose::RulesetDiagram;
use crate::encode::{Assignment, decode};
use crate::region::{ExamplePacket, Region};
use crate::space::PacketSet;
use crate::store::{Full, Ref};
use crate::terminal::Exit;
use crate::variable::FreeVariable;
use crate::witness::Witness;

/// Packets of a region that are sent through both rulesets, so that the rules that decide it are
/// known, also where they are several.
const EXAMPLES: usize = 8;

impl RulesetDiagram<'_> {
    /// Where two diagrams differ; `None` if only packets do that are not possible.
    pub fn possibly_differ(&mut self, a: Ref, b: Ref) -> Result<Option<Ref>, Full> {
        if a == b {
            return Ok(None);
        }
        let store = &mut self.space.store;
        let differ = store.differ(a, b)?;
        let possible = store.and(differ, self.space.possible)?;
        Ok((possible != Ref::ZERO).then_some(differ))
    }

    /// A packet that leads to a terminal other than 0, with the changes before its evaluation.
    pub fn witness(&self, f: Ref) -> Witness {
        self.witness_near(f, self.space.usual())
    }

    /// The same, with these bits as far as the set allows.
    fn witness_near(&self, f: Ref, wanted: Assignment) -> Witness {
        let (bits, mut assumptions) = self.space.pick_near(f, wanted);
        let answers: HashMap<FreeVariable, bool> =
            assumptions.iter().map(|o| (o.variable, o.answer)).collect();
        for assumption in &mut assumptions {
            let change = match assumption.variable {
                FreeVariable::Stateless { change, .. } | FreeVariable::Chosen { change, .. } => {
                    change
                }
                FreeVariable::Stateful { of, .. } => of.change,
                FreeVariable::Written { .. } => continue,
            };
            let changed = self.changed(&bits, change, &answers);
            assumption.packet = Some(decode(&self.space.layout, &changed));
        }
        Witness { packet: decode(&self.space.layout, &bits), assumptions }
    }

    /// Packets that lead to a terminal other than 0: first one that looks as usual as it can, then
    /// some whose addresses, ports, protocols and states of connections differ.
    pub fn witnesses(&self, f: Ref, count: usize) -> Vec<Witness> {
        let varied =
            [Field::Saddr, Field::Daddr, Field::Sport, Field::Dport, Field::Proto, Field::CtState];
        // xorshift: the same packets each time.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut bit = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 40 & 1 == 1
        };
        let mut out = vec![self.witness(f)];
        for _ in 1..count {
            let mut wanted = self.space.usual();
            for field in varied {
                let levels = self.space.layout.field(field);
                wanted.0[levels.first as usize..levels.end() as usize].fill_with(&mut bit);
            }
            let witness = self.witness_near(f, wanted);
            if !out.contains(&witness) {
                out.push(witness);
            }
        }
        out
    }

    /// The regions of a set without its corner cases, each with packets that `reproduce` sent
    /// through both rulesets, and its corner cases. Those are regions where there is nothing else.
    pub fn regions_and_corners(
        &mut self,
        set: Ref,
        (count, journey): (usize, bool),
        reproduce: &dyn Fn(Witness) -> Option<ExamplePacket>,
    ) -> Result<(Vec<Region>, Vec<CornerCase>), Full> {
        let all = self.space.corners(journey)?;
        // What is not possible stays in: it would only lengthen the words of regions.
        let mut ordinary = set;
        for (_, corner) in &all {
            ordinary = self.space.store.minus(ordinary, *corner)?;
        }
        let is_ordinary = !self.space.is_empty(PacketSet(ordinary))?;
        let shown = PacketSet(if is_ordinary { ordinary } else { set });
        let mut regions = Vec::new();
        for (mut region, packets) in self.space.regions_with_sets(shown, count, is_ordinary)? {
            let witnesses = self.witnesses(packets, EXAMPLES).into_iter();
            region.examples = witnesses.filter_map(reproduce).collect();
            regions.push(region);
        }
        let mut corners = Vec::new();
        for (corner, packets) in all {
            let inside = self.space.store.and(set, packets)?;
            let inside = self.space.store.and(inside, self.space.possible)?;
            if is_ordinary && inside != Ref::ZERO {
                let share = self.space.share(PacketSet(inside))?;
                let example = reproduce(self.witness(inside));
                corners.push(CornerCase { corner, share, example });
            }
        }
        Ok((regions, corners))
    }

    /// The packets of a set whose verdict is the same in both diagrams.
    pub fn within_same_verdict(&mut self, set: Ref, (a, b): (Ref, Ref)) -> Result<Ref, Full> {
        let mut rest = set;
        for verdict in self.verdicts(a) {
            let (was, is) = (self.where_verdict(a, verdict)?, self.where_verdict(b, verdict)?);
            let changed = self.space.store.minus(was, is)?;
            rest = self.space.store.minus(rest, changed)?;
        }
        Ok(rest)
    }

    /// The bits of a packet after a change.
    pub(crate) fn changed(
        &self,
        bits: &Assignment,
        change: u32,
        answers: &HashMap<FreeVariable, bool>,
    ) -> Assignment {
        let layout = &self.space.layout;
        let change = self.terminals.change(change);
        let value = |level: &u32| match level.checked_sub(layout.end) {
            None => bits.0[*level as usize],
            Some(question) => {
                let variable = self.space.variables.get(question).map(|(variable, _)| variable);
                variable.and_then(|u| answers.get(u)).copied().unwrap_or(false)
            }
        };
        let mut out = bits.clone();
        for (level, source) in &change.bits {
            out.0[*level as usize] = source.bits.iter().map(value).fold(source.flip, |a, b| a ^ b);
        }
        let ttl = layout.field(Field::Ttl);
        let before = out.value(ttl) as u8;
        out.put(ttl, change.ttl.of(before).into());
        out
    }

    /// Verdicts that a finished diagram ends in.
    pub fn verdicts(&mut self, f: Ref) -> Vec<Verdict> {
        let mut out = Vec::new();
        let RulesetDiagram { space, terminals, .. } = self;
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

    /// Packets with a verdict.
    pub fn where_verdict(&mut self, f: Ref, verdict: Verdict) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        space.store.map(code, f, &mut |leaf| match terminals.get(leaf).exit
            == Exit::Verdict(verdict)
        {
            true => Ref::ONE,
            false => Ref::ZERO,
        })
    }
}
