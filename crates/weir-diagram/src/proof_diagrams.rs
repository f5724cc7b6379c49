//! Small diagrams of parts of rulesets, one pair after the other.
//!
//! Diagrams are of all packets at any point of a journey: a device or an address that is not known
//! there is one of the values that it may have, so what is equal here is equal at every hook.

use crate::compose::DiagramContext;
use crate::hook_context::HookContext;
use crate::node_store::{DiagramRef, LimitReached};
use crate::packet_space::{PacketSpaceBasis, PacketSpaceOptions};
use crate::rule_and_chain_diagrams::BuildError;
use crate::variable_layout::VariableOrder;

/// Visits of rules that take about as long as a requested node.
pub(crate) const VISITS_PER_STEP: u64 = 8;
/// With more nodes, diagrams are made anew.
const NODES_BEFORE_RECREATION_MAX: usize = 1 << 20;
/// Steps that one comparison may take.
const STEPS_PER_COMPARISON_MAX: u64 = 200_000;

/// Makes the diagrams of both sides, and compares them.
#[derive(Debug)]
pub(crate) struct ProofDiagrams<'f> {
    basis: &'f PacketSpaceBasis<'f>,
    memory_bytes: usize,
    /// Packets with a truncated header are not compared.
    headers_are_whole: bool,
    context: Option<DiagramContext<'f>>,
    /// How often diagrams were made anew.
    generation: u64,
    /// Nodes that were requested.
    pub steps: u64,
}

impl<'f> ProofDiagrams<'f> {
    pub fn new(
        basis: &'f PacketSpaceBasis<'f>,
        memory_bytes: usize,
        headers_are_whole: bool,
    ) -> ProofDiagrams<'f> {
        let (context, generation, steps) = (None, 0, 0);
        ProofDiagrams { basis, memory_bytes, headers_are_whole, context, generation, steps }
    }

    /// Prepares a comparison. Diagrams of the same generation may be used again; `None` if nothing
    /// can be made.
    pub fn begin(&mut self, visits_left: &u64) -> Option<u64> {
        if *visits_left < VISITS_PER_STEP {
            return None;
        }
        let is_large = |context: &DiagramContext<'_>| {
            context.space.store.node_count() > NODES_BEFORE_RECREATION_MAX
                || context.space.store.memory_bytes() > self.memory_bytes / 2
        };
        if self.context.as_ref().is_none_or(is_large) {
            let order = VariableOrder::default();
            let options = PacketSpaceOptions { order, memory_bytes: self.memory_bytes };
            let mut context = DiagramContext::new(self.basis.make_space(options).ok()?);
            context.terminals.distinguishes_effects = true;
            self.context = Some(context);
            self.generation += 1;
        }
        Some(self.generation)
    }

    /// Whether the diagrams of both sides are the same for all packets that are compared; no, if a
    /// limit is reached. What that takes is subtracted from `visits_left`.
    pub fn are_equal(
        &mut self,
        visits_left: &mut u64,
        mut build: impl FnMut(&mut DiagramContext<'f>, usize) -> Result<DiagramRef, BuildError>,
    ) -> bool {
        let Some(context) = &mut self.context else { return false };
        context.space.store.steps = 0;
        context.space.store.steps_max =
            STEPS_PER_COMPARISON_MAX.min(*visits_left / VISITS_PER_STEP);
        let mut compare = || {
            let (a, b) = (build(context, 0)?, build(context, 1)?);
            if a == b {
                return Ok(true);
            }
            let store = &mut context.space.store;
            let differ = store.disagreement(a, b)?;
            let mut differ = store.and(differ, context.space.possible_packets)?;
            if self.headers_are_whole {
                differ = store.minus(differ, context.space.presence.unreadable_header)?;
            }
            Ok::<bool, BuildError>(differ == DiagramRef::ZERO)
        };
        let are_equal = compare();
        let steps = context.space.store.steps;
        self.steps += steps;
        *visits_left = visits_left.saturating_sub(steps.saturating_mul(VISITS_PER_STEP));
        match are_equal {
            Ok(are_equal) => are_equal,
            Err(BuildError::LimitReached(LimitReached::Memory)) => {
                self.context = None;
                false
            }
            Err(_) => false,
        }
    }

    /// Where rules of these diagrams are.
    pub const HOOK_CONTEXT: HookContext = HookContext::EVERYTHING_KNOWN;
}
