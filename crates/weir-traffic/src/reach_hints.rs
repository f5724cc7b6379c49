//! Finds packets that get past the rules before a rule.
//!
//! A packet that satisfies a rule and the jumps to it may still be decided before it: an earlier
//! rule drops packets from its default device, or a chain of MAC addresses returns only for known
//! ones. [`ChainReachHints`] remembers what was tried: the generator evaluates the packet, looks
//! where it was decided, and tries other devices, or satisfies a RETURN of the chain in which it
//! was decided. What helped for one rule of a chain is tried first for the next, and applied to all
//! later packets of the chain.

use std::collections::HashMap;

use weir_model::{Field, Packet, Rule};
use weir_random::Rng;
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Outcome};

use crate::packet_constraints::PacketConstraints;
use crate::rule_paths::{ReachableRule, RulePaths};

/// A change to constraints that gets their packet through; the default is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceOrReturnRuleHint<'r> {
    /// An input device that no rule names.
    pub use_unnamed_iif: bool,
    /// An output device that no rule names.
    pub use_unnamed_oif: bool,
    /// The packet returns from a chain by this rule.
    pub return_rule: Option<&'r Rule>,
}

/// Devices that no rule names, and what helped so far.
#[derive(Debug)]
pub(crate) struct ChainReachHints<'r> {
    interpreter: Interpreter<'r>,
    unnamed_devices: (String, String),
    /// By table at a hook and chain: what helped, and for how many rules in a row.
    pub successful_hints: HashMap<(usize, usize), (DeviceOrReturnRuleHint<'r>, usize)>,
}

impl<'r> ChainReachHints<'r> {
    pub fn new(interpreter: Interpreter<'r>, named: impl Fn(&str) -> bool) -> Self {
        let mut names = ["eth0", "eth1", "eth8", "eth9", "dev8", "dev9"]
            .into_iter()
            .filter(|n| !named(n))
            .map(str::to_owned);
        let strange =
            (names.next().unwrap_or("weir0".into()), names.next().unwrap_or("weir1".into()));
        ChainReachHints { interpreter, unnamed_devices: strange, successful_hints: HashMap::new() }
    }

    /// Applies what helped last in the rule's chain.
    pub fn apply_chain_hint(
        &self,
        constraints: &mut PacketConstraints,
        paths: &RulePaths<'r>,
        reached: &ReachableRule<'r>,
        rng: &mut Rng,
    ) {
        let helped = self.successful_hints.get(&(reached.table_hook_index, reached.chain_index));
        if let Some((help, _)) = helped.copied() {
            self.apply_hint(help, constraints, paths, reached, rng);
        }
    }

    /// Applies one change to constraints.
    pub fn apply_hint(
        &self,
        help: DeviceOrReturnRuleHint<'r>,
        constraints: &mut PacketConstraints,
        paths: &RulePaths<'r>,
        reached: &ReachableRule<'r>,
        rng: &mut Rng,
    ) {
        if help.use_unnamed_iif && constraints.has_no_test_or_forced_value(Field::Iif) {
            constraints.force_device(Field::Iif, &self.unnamed_devices.0);
        }
        if help.use_unnamed_oif && constraints.has_no_test_or_forced_value(Field::Oif) {
            constraints.force_device(Field::Oif, &self.unnamed_devices.1);
        }
        if let Some(rule) = help.return_rule {
            let hook = paths.table_hook_paths[reached.table_hook_index].hook;
            constraints.require_lowered_tests_of_rule(rule, hook, &HashMap::new(), rng);
        }
    }

    /// The outcome of a packet.
    pub fn packet_outcome(&self, packet: &Packet, entry: JourneyKind) -> Outcome<'r> {
        self.interpreter.evaluate_journey(packet, entry, &mut AlwaysFalseOracle)
    }
}
