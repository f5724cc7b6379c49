//! Past the rules before a rule.
//!
//! A packet that satisfies a rule and the jumps to it may still end before it: an earlier rule
//! drops what comes from its default device, a chain of hardware addresses lets only known ones
//! return. [`Reach`] knows what was tried before: the maker sends the packet through the interpreter, looks where it ended, and tries
//! other devices, or to satisfy a RETURN of the chain that it died in. What helped for one rule of
//! a chain is tried first for the next, and applied to all later packets of the chain.

use std::collections::HashMap;

use weir_model::{Field, Packet, Rule};
use weir_semantics::{AlwaysFalse, Entry, Interpreter, Outcome};

use crate::dice::Dice;
use crate::paths::{Paths, Reached};
use crate::wish::Wish;

/// A change to a wish that lets its packet through; the default is none.
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
pub(crate) struct Reach<'r> {
    interpreter: Interpreter<'r>,
    strange: (String, String),
    /// By table at a hook and chain: what helped, and for how many rules in a row.
    pub helped: HashMap<(usize, usize), (Help<'r>, usize)>,
}

impl<'r> Reach<'r> {
    pub fn new(interpreter: Interpreter<'r>, named: impl Fn(&str) -> bool) -> Self {
        let mut names = ["eth0", "eth1", "eth8", "eth9", "dev8", "dev9"]
            .into_iter()
            .filter(|n| !named(n))
            .map(str::to_owned);
        let strange =
            (names.next().unwrap_or("weir0".into()), names.next().unwrap_or("weir1".into()));
        Reach { interpreter, strange, helped: HashMap::new() }
    }

    /// Applies what helped last in the rule's chain.
    pub fn apply(
        &self,
        wish: &mut Wish,
        paths: &Paths<'r>,
        reached: &Reached<'r>,
        dice: &mut Dice,
    ) {
        let helped = self.helped.get(&(reached.walk, reached.chain));
        if let Some((help, _)) = helped.copied() {
            self.help(help, wish, paths, reached, dice);
        }
    }

    /// Applies one change to a wish.
    pub fn help(
        &self,
        help: Help<'r>,
        wish: &mut Wish,
        paths: &Paths<'r>,
        reached: &Reached<'r>,
        dice: &mut Dice,
    ) {
        if help.iif && wish.leaves_open(Field::Iif) {
            wish.set_device(Field::Iif, &self.strange.0);
        }
        if help.oif && wish.leaves_open(Field::Oif) {
            wish.set_device(Field::Oif, &self.strange.1);
        }
        if let Some(rule) = help.by {
            let hook = paths.walks[reached.walk].hook;
            wish.rule(rule, hook, &HashMap::new(), dice);
        }
    }

    /// What becomes of a packet.
    pub fn send(&self, packet: &Packet, entry: Entry) -> Outcome<'r> {
        self.interpreter.journey(packet, entry, &mut AlwaysFalse)
    }
}
