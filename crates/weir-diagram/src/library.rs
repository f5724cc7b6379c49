//! Chains that were already built.
//!
//! The meaning of a chain depends on its position, on its rules, and on the meaning of the chains
//! that they jump to. A chain with the same rules and callees of the same meaning is not built
//! again, whatever their names are: chains of the other ruleset that were not changed, and chains
//! above one that was rewritten correctly.

use std::collections::HashMap;

use weir_model::{Base, Match, Rule, Target};

use crate::place::TablePlace;
use crate::stateful_identity::StatefulIdentity;
use crate::store::Ref;

/// What a chain means to a rule that jumps to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainDiagrams {
    /// Its rules unchanged.
    pub rules: Ref,
    /// What returns continues.
    pub jump: Ref,
    /// Packets that return, return once more; built if a goto leads to the chain.
    pub goto: Option<Ref>,
}

/// The number of a [`ChainDiagrams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainId(usize);

/// All that the meaning of a chain depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainKey<'f> {
    place: TablePlace,
    /// The owner of the sets that its rules test, if they do.
    sets_of: Option<usize>,
    rules: Vec<RuleKey<'f>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RuleKey<'f> {
    base: &'f Base,
    matches: &'f [Match],
    does: Does<'f>,
    /// Whose its stateful tests are.
    who: u64,
}

/// A target, chains by their meaning.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Does<'f> {
    Jump(Option<ChainId>),
    Goto(Option<ChainId>),
    Otherwise(&'f Target),
}

impl<'f> ChainKey<'f> {
    /// `meant` knows the chains that are jumped to; `sets_of` is whose sets are looked into.
    pub fn new(
        rules: &'f [Rule],
        (who, place, sets_of): (&StatefulIdentity, TablePlace, usize),
        meant: impl Fn(&str) -> Option<ChainId>,
    ) -> ChainKey<'f> {
        let looks = rules.iter().flat_map(|r| &r.matches).any(|m| matches!(m, Match::Set(_)));
        let said = |rule: &'f Rule| RuleKey {
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
        ChainKey { place, sets_of: looks.then_some(sets_of), rules }
    }
}

/// Chains by what they say, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct Library<'f> {
    known: HashMap<ChainKey<'f>, ChainId>,
    made: Vec<ChainDiagrams>,
    /// By their rules.
    numbers: HashMap<Ref, ChainId>,
}

impl<'f> Library<'f> {
    /// The meaning of a chain that says the same as one before.
    pub fn find(&self, said: &ChainKey<'f>) -> Option<ChainId> {
        self.known.get(said).copied()
    }

    /// The meaning whose rules are this diagram.
    pub fn of_rules(&self, rules: Ref) -> Option<ChainId> {
        self.numbers.get(&rules).copied()
    }

    /// A new meaning.
    pub fn add(&mut self, made: ChainDiagrams) -> ChainId {
        let number = ChainId(self.made.len());
        self.made.push(made);
        self.numbers.insert(made.rules, number);
        number
    }

    /// That this is what a chain says.
    pub fn note(&mut self, said: ChainKey<'f>, meant: ChainId) {
        self.known.insert(said, meant);
    }

    pub fn get(&self, meant: ChainId) -> ChainDiagrams {
        self.made[meant.0]
    }

    pub fn set_goto(&mut self, meant: ChainId, goto: Ref) {
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
            self.numbers.insert(made.rules, ChainId(at));
        }
    }
}
