//! Chains that were made already.
//!
//! What a chain means depends on where it stands, on what its rules say, and on what the chains
//! that they jump to mean. So a chain whose rules say the same, and whose callees mean the same, is
//! not made again, whatever their names are and however the callees came to their meaning: chains
//! of the other ruleset that nobody touched, and those above a chain that was rewritten well.

use std::collections::HashMap;

use weir_model::{Base, Match, Rule, Target};

use crate::place::Place;
use crate::store::Ref;
use crate::who::Who;

/// What a chain means to a rule that jumps to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    /// Its rules as they are.
    pub rules: Ref,
    /// What returns goes on.
    pub jump: Ref,
    /// What returns, returns once more; made where some rule goes to the chain.
    pub goto: Option<Ref>,
}

/// The number of a [`Made`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Meant(usize);

/// All that the meaning of a chain depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Said<'f> {
    place: Place,
    /// Whose sets its rules look into, where they do.
    sets_of: Option<usize>,
    rules: Vec<SaidRule<'f>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SaidRule<'f> {
    base: &'f Base,
    matches: &'f [Match],
    does: Does<'f>,
    /// Whose its stateful tests are.
    who: u64,
}

/// A target, chains by their meaning.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Does<'f> {
    Jump(Option<Meant>),
    Goto(Option<Meant>),
    Otherwise(&'f Target),
}

impl<'f> Said<'f> {
    /// `meant` knows the chains that are jumped to; `sets_of` is whose sets are looked into.
    pub fn new(
        rules: &'f [Rule],
        (who, place, sets_of): (&Who, Place, usize),
        meant: impl Fn(&str) -> Option<Meant>,
    ) -> Said<'f> {
        let looks = rules.iter().flat_map(|r| &r.matches).any(|m| matches!(m, Match::Set(_)));
        let said = |rule: &'f Rule| SaidRule {
            base: &rule.base,
            matches: &rule.matches,
            does: match &rule.target {
                Target::Jump(name) => Does::Jump(meant(name)),
                Target::Goto(name) => Does::Goto(meant(name)),
                other => Does::Otherwise(other),
            },
            who: who.of(rule),
        };
        let rules = rules.iter().map(said).collect();
        Said { place, sets_of: looks.then_some(sets_of), rules }
    }
}

/// Chains by what they say, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct Library<'f> {
    known: HashMap<Said<'f>, Meant>,
    made: Vec<Made>,
    /// By their rules.
    numbers: HashMap<Ref, Meant>,
}

impl<'f> Library<'f> {
    /// The meaning of a chain that says the same as one before.
    pub fn find(&self, said: &Said<'f>) -> Option<Meant> {
        self.known.get(said).copied()
    }

    /// The meaning whose rules are this diagram.
    pub fn of_rules(&self, rules: Ref) -> Option<Meant> {
        self.numbers.get(&rules).copied()
    }

    /// A new meaning.
    pub fn add(&mut self, made: Made) -> Meant {
        let number = Meant(self.made.len());
        self.made.push(made);
        self.numbers.insert(made.rules, number);
        number
    }

    /// That this is what a chain says.
    pub fn note(&mut self, said: Said<'f>, meant: Meant) {
        self.known.insert(said, meant);
    }

    pub fn get(&self, meant: Meant) -> Made {
        self.made[meant.0]
    }

    pub fn set_goto(&mut self, meant: Meant, goto: Ref) {
        self.made[meant.0].goto = Some(goto);
    }

    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// All diagrams here, for a sweep that renumbers them; then [`renumber`](Library::renumber).
    pub fn roots(&self) -> impl Iterator<Item = Ref> + '_ {
        self.made.iter().flat_map(|m| [Some(m.rules), Some(m.jump), m.goto]).flatten()
    }

    /// The new numbers of [`roots`](Library::roots), in their order.
    pub fn renumber(&mut self, mut next: impl FnMut(&mut Ref)) {
        self.numbers.clear();
        for (at, made) in self.made.iter_mut().enumerate() {
            next(&mut made.rules);
            next(&mut made.jump);
            made.goto.iter_mut().for_each(&mut next);
            self.numbers.insert(made.rules, Meant(at));
        }
    }
}
