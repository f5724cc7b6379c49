//! Past the rules before a rule.
//!
//! A packet that satisfies a rule and the jumps to it may still end before it: an earlier rule
//! drops what comes from its default device, a chain of hardware addresses lets only known ones
//! return. [`Reach`] sends the packet through the interpreter, looks where it ended, and tries
//! other devices, or to satisfy a RETURN of the chain that it died in. What helped for one rule of
//! a chain is tried first for the next, and applied to all later packets of the chain.

use std::collections::HashMap;

use weir_model::{Field, Packet, Rule, RuleId};

use super::Maker;
use super::dice::Dice;
use super::paths::{Paths, Reached};
use super::wish::Wish;
use crate::outcome::{Counted, Outcome};
use crate::{AlwaysFalse, Interpreter};

/// A change to a wish that lets its packet through; the default is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Help<'r> {
    /// An input device that no rule names.
    iif: bool,
    /// An output device that no rule names.
    oif: bool,
    /// The packet returns from a chain by this rule.
    by: Option<&'r Rule>,
}

/// Devices that no rule names, and what helped so far.
#[derive(Debug)]
pub(super) struct Reach<'r> {
    interpreter: Interpreter<'r>,
    strange: (String, String),
    /// By table at a hook and chain: what helped, and for how many rules in a row.
    helped: HashMap<(usize, usize), (Help<'r>, usize)>,
}

/// Tries for each rule, until it is reached.
const TRIES: usize = 6;
/// Rules in a row that the same helped, after which only one in so many is sent to make sure.
const SURE: usize = 8;

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

    fn help(
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

    fn send(&self, packet: &Packet, maker: &Maker<'r>) -> Outcome<'r> {
        self.interpreter.journey(packet, maker.options.entry, &mut AlwaysFalse)
    }
}

impl<'r> Maker<'r> {
    /// A packet that satisfies the rule and reaches it, if one is found; otherwise one that only
    /// satisfies it.
    pub(super) fn reach(&mut self, paths: &Paths<'r>, reached: &Reached<'r>) -> Option<Packet> {
        let id = reached.rule.credit.first().copied()?;
        let place = (reached.walk, reached.chain);
        let (known, row) = self.reach.helped.get(&place).copied().unwrap_or_default();
        let sure = row >= SURE && !self.dice.one_in(SURE);
        let mut helps = vec![
            Help { oif: true, ..Help::default() },
            Help { iif: true, oif: true, by: None },
            Help { iif: true, ..Help::default() },
            Help::default(),
            known,
        ];
        let mut first = None;
        for tries in 0..TRIES {
            let Some(help) = helps.pop() else { break };
            let Some(mut wish) = self.wish(paths, reached) else { return first };
            self.reach.help(help, &mut wish, paths, reached, &mut self.dice);
            let Some(packet) = wish.packet(&self.defaults, &mut self.dice) else { continue };
            if sure {
                return Some(packet);
            }
            let outcome = self.reach.send(&packet, self);
            if meets(&outcome, id) {
                let row = if tries == 0 { row + 1 } else { 1 };
                self.reach.helped.insert(place, (help, row));
                return Some(packet);
            }
            if let Some(by) = self.returning(paths, &outcome) {
                helps.push(Help { by: Some(by), ..help });
            }
            first = first.or(Some(packet));
        }
        first
    }

    /// A rule that returns from one of the chains that the packet died in.
    fn returning(&mut self, paths: &Paths<'r>, outcome: &Outcome<'r>) -> Option<&'r Rule> {
        let last = outcome.hits.last()?;
        let Counted::Rule { table, .. } = last.counted else { return None };
        let walk = paths.walks.iter().position(|w| w.table == table && w.hook == last.hook)?;
        for hit in outcome.hits.iter().rev().filter(|h| h.hook == last.hook) {
            let Counted::Rule { chain, .. } = hit.counted else { break };
            let returns = paths.returns(walk, chain);
            if let Some(rule) = self.dice.pick(returns) {
                return Some(*rule);
            }
        }
        None
    }
}

fn meets(outcome: &Outcome<'_>, id: RuleId) -> bool {
    outcome.hits.iter().any(|h| h.credit.first() == Some(&id))
}
