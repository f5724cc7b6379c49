//! Finds packets that get past the rules before a rule.
//!
//! A packet that satisfies a rule and the jumps to it may still be decided before it: an earlier
//! rule drops packets from its default device, or a chain of MAC addresses returns only for known
//! ones. [`ReachHints`] remembers what was tried: the generator evaluates the packet, looks where
//! it was decided, and tries other devices, or satisfies a RETURN of the chain in which it was
//! decided. What helped for one rule of a chain is tried first for the next, and applied to all
//! later packets of the chain.

use std::collections::HashMap;

use weir_model::{Field, Packet, Rule};
use weir_random::Rng;
use weir_semantics::{AlwaysFalse, Entry, Interpreter, Outcome};

use crate::constraints::PacketConstraints;
use crate::paths::{Paths, Reached};

/// A change to constraints that gets their packet through; the default is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Help<'r> {
    /// An input device that no rule names.
    pub iif: bool,
    /// An output device that no rule names.
    pub oif: bool,
    /// The packet returns from a chain by this rule.
    pub by: Option<&'r Rule>,
}

/// Devices that no rule names, and what helped so far.
#[derive(Debug)]
pub(crate) struct ReachHints<'r> {
    interpreter: Interpreter<'r>,
    strange: (String, String),
    /// By table at a hook and chain: what helped, and for how many rules in a row.
    pub helped: HashMap<(usize, usize), (Help<'r>, usize)>,
}

impl<'r> ReachHints<'r> {
    pub fn new(interpreter: Interpreter<'r>, named: impl Fn(&str) -> bool) -> Self {
        let mut names = ["eth0", "eth1", "eth8", "eth9", "dev8", "dev9"]
            .into_iter()
            .filter(|n| !named(n))
            .map(str::to_owned);
        let strange =
            (names.next().unwrap_or("weir0".into()), names.next().unwrap_or("weir1".into()));
        ReachHints { interpreter, strange, helped: HashMap::new() }
    }

    /// Applies what helped last in the rule's chain.
    pub fn apply(
        &self,
        constraints: &mut PacketConstraints,
        paths: &Paths<'r>,
        reached: &Reached<'r>,
        rng: &mut Rng,
    ) {
        let helped = self.helped.get(&(reached.walk, reached.chain));
        if let Some((help, _)) = helped.copied() {
            self.help(help, constraints, paths, reached, rng);
        }
    }

    /// Applies one change to constraints.
    pub fn help(
        &self,
        help: Help<'r>,
        constraints: &mut PacketConstraints,
        paths: &Paths<'r>,
        reached: &Reached<'r>,
        rng: &mut Rng,
    ) {
        if help.iif && constraints.leaves_open(Field::Iif) {
            constraints.set_device(Field::Iif, &self.strange.0);
        }
        if help.oif && constraints.leaves_open(Field::Oif) {
            constraints.set_device(Field::Oif, &self.strange.1);
        }
        if let Some(rule) = help.by {
            let hook = paths.walks[reached.walk].hook;
            constraints.rule(rule, hook, &HashMap::new(), rng);
        }
    }

    /// The outcome of a packet.
    pub fn send(&self, packet: &Packet, entry: Entry) -> Outcome<'r> {
        self.interpreter.journey(packet, entry, &mut AlwaysFalse)
    }
}
