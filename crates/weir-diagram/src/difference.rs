//! Where two diagrams differ, a packet of it, and the verdicts there.

use std::collections::HashMap;

use weir_semantics::Verdict;

use crate::compose::RulesetDiagram;
use crate::encode::{Assignment, decode};
use crate::store::{Full, Ref};
use crate::terminal::Exit;
use crate::variable::FreeVariable;
use crate::witness::Witness;

impl RulesetDiagram<'_> {
    /// Where two diagrams differ; `None` where only packets do that are not possible.
    pub fn possibly_differ(&mut self, a: Ref, b: Ref) -> Result<Option<Ref>, Full> {
        if a == b {
            return Ok(None);
        }
        let store = &mut self.space.store;
        let differ = store.differ(a, b)?;
        let possible = store.and(differ, self.space.possible)?;
        Ok((possible != Ref::ZERO).then_some(differ))
    }

    /// A packet that leads to a terminal other than 0, with what was changed before it is asked.
    pub fn witness(&self, f: Ref) -> Witness {
        let (bits, mut assumptions) = self.space.pick_bits(f);
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
        let ttl = layout.field(weir_model::Field::Ttl);
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

    /// Packets that meet a verdict.
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
