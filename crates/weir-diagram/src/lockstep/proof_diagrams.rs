//! Small diagrams of parts of rulesets, which are compared in pairs.
//!
//! The diagrams cover all packets at any hook: a device or an address that is unknown at a hook has
//! one of its possible values, so parts that are equal here are equal at every hook.

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_space::{PacketSpaceBasis, PacketSpaceOptions};
use crate::packet_sets::variable_layout::VariableOrder;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;

/// Number of rule visits that take about as long as requesting a node.
pub(crate) const VISITS_PER_STEP: u64 = 8;
/// With more nodes, diagrams are recreated.
const NODES_BEFORE_RECREATION_MAX: usize = 1 << 20;
/// Steps that one comparison may take.
const STEPS_PER_COMPARISON_MAX: u64 = 200_000;

/// Builds and compares diagrams of both sides.
#[derive(Debug)]
pub(crate) struct ProofDiagrams<'f> {
    basis: &'f PacketSpaceBasis<'f>,
    memory_bytes: usize,
    /// Packets with a truncated header are not compared.
    headers_are_whole: bool,
    context: Option<DiagramContext<'f>>,
    /// How often the diagrams were recreated.
    generation: u64,
    /// Number of requested nodes.
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

    /// Prepares a comparison and returns the generation of the diagrams. Diagrams of the same
    /// generation may be reused. `None` if a limit is reached.
    pub fn prepare_context_and_get_generation(&mut self, visits_left: &u64) -> Option<u64> {
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

    /// Whether the diagrams of both sides are equal for all compared packets; false if a limit is
    /// reached. The cost is subtracted from `visits_left`.
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

    /// The hook context of these diagrams.
    pub const HOOK_CONTEXT: HookContext = HookContext::EVERYTHING_KNOWN;
}
