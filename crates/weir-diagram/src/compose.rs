//! Sequential composition of rules.
//!
//! Where the first part continues, the second follows, and effects accumulate. As long as the first
//! part does not change fields that the second tests, this is one traversal of both diagrams.
//! Otherwise the second is evaluated on the packet as it is *then*: its diagram with other bits in
//! place of those that changed ([`RulesetDiagram::after`]), once for each different change.
//!
//! Composition is associative, so thousands of rules can be merged as a balanced tree.

use std::collections::{BTreeMap, HashMap};

use weir_model::Field;

use crate::change::{BitSource, PacketChange, TtlMap};
use crate::layout::Levels;
use crate::library::Library;
use crate::merging::{Merging, merge};
use crate::space::Space;
use crate::store::{Full, Operator, Ref, Store};
use crate::terminal::{Ask, Exit, HOLE, Terminals};
use crate::variable::{FreeVariable, FreeVariables};

/// A space, and what its diagrams of rules end in.
#[derive(Debug)]
pub(crate) struct RulesetDiagram<'f> {
    pub space: Space<'f>,
    pub terminals: Terminals,
    pub chains_made: Library<'f>,
}

impl<'f> RulesetDiagram<'f> {
    pub fn new(space: Space<'f>) -> RulesetDiagram<'f> {
        let terminals = Terminals::new(&space.layout);
        RulesetDiagram { space, terminals, chains_made: Library::default() }
    }
}

/// The part of a change that another diagram sees: bits that it tests, and the questions in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Glimpse {
    bits: Vec<(u32, Vec<u32>, bool)>,
    ttl: Option<u32>,
    /// All of the change, where there are stateless questions.
    change: u32,
    /// All previous questions, if such a question's own change depends on them.
    all_asked: u32,
    /// How often its stateful tests were evaluated before, and the changes of what they read.
    asked: Vec<(u32, u32, u32)>,
}

/// The variables that a diagram tests.
#[derive(Debug, Default)]
pub(crate) struct Support {
    /// Levels of fields, ascending.
    levels: Vec<u32>,
    /// Free variables, by number.
    pub questions: Vec<u32>,
}

impl RulesetDiagram<'_> {
    /// `f`, then `g`.
    pub fn then(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        if f == Ref::ZERO || g == Ref::ZERO {
            return Ok(if f == Ref::ZERO { g } else { f });
        }
        let groups = self.groups(f, g);
        if groups.is_empty() {
            return self.then_unseen(f, g);
        }
        let mut join = Groups { meaning: self, f, g, groups: groups.into_iter().collect() };
        let count = join.groups.len();
        merge(&mut join, count)
    }

    /// `f`, then `g`, where `g` sees nothing of what `f` changed.
    fn then_unseen(&mut self, f: Ref, g: Ref) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let mut op = Compose { terminals, questions: &mut space.variables };
        space.store.apply(&mut op, f, g)
    }

    /// The terminals of `f` by what `g` sees of them; nothing where it sees nothing of any.
    fn groups(&mut self, f: Ref, g: Ref) -> BTreeMap<Glimpse, Vec<Ref>> {
        let mut groups = BTreeMap::new();
        if !self.terminals.any_changed {
            return groups;
        }
        let mut leaves = Vec::new();
        self.space.store.visit(f, |_, at| {
            if at.is_leaf() {
                leaves.push(at);
            }
        });
        if !leaves.iter().any(|l| self.terminals.get(*l).goes_on_changed()) {
            return groups;
        }
        let support = self.support(g);
        leaves.sort_unstable();
        for leaf in leaves {
            groups.entry(self.seen(leaf, &support)).or_insert_with(Vec::new).push(leaf);
        }
        if groups.len() == 1 && groups.contains_key(&Glimpse::default()) {
            groups.clear();
        }
        groups
    }

    pub(crate) fn support(&mut self, g: Ref) -> Support {
        let end = self.space.layout.end;
        let mut levels = std::collections::BTreeSet::new();
        self.space.store.visit(g, |store, at| {
            if !at.is_leaf() {
                levels.insert(store.level(at));
            }
        });
        let questions = levels.split_off(&end).into_iter().map(|l| l - end).collect();
        Support { levels: levels.into_iter().collect(), questions }
    }

    /// What a diagram with that support sees of a terminal.
    fn seen(&mut self, leaf: Ref, support: &Support) -> Glimpse {
        let terminal = self.terminals.get(leaf);
        let mut seen = Glimpse::default();
        if !terminal.goes_on_changed() {
            return seen;
        }
        let change = self.terminals.change(terminal.change);
        for (level, source) in &change.bits {
            if support.levels.binary_search(level).is_ok() {
                seen.bits.push((*level, source.bits.clone(), source.flip));
            }
        }
        let ttl = self.space.layout.field(Field::Ttl);
        let asks_ttl = support.levels.iter().any(|l| (ttl.first..ttl.end()).contains(l));
        // Maps of the time to live are known by the change they are part of.
        seen.ttl = (asks_ttl && change.ttl != TtlMap::SAME).then_some(0);
        if seen.ttl.is_some() {
            let only = PacketChange { ttl: change.ttl, ..PacketChange::default() };
            seen.ttl = Some(self.terminals.change_number(&only));
        }
        let asked = self.terminals.asked(terminal.asked).to_vec();
        for question in &support.questions {
            match self.space.variables.get(*question) {
                Some((
                    variable @ (FreeVariable::Stateful { .. } | FreeVariable::Written { .. }),
                    _,
                )) => {
                    let (who, content, of) = match *variable {
                        FreeVariable::Stateful { who, content, of, .. }
                        | FreeVariable::Written { who, content, of, .. } => (who, content, of),
                        FreeVariable::Stateless { .. } | FreeVariable::Chosen { .. } => continue,
                    };
                    let same = |a: &&Ask| (a.who, a.content) == (who, content);
                    let before = asked.iter().filter(same).count() as u32;
                    let done = self.terminals.only(terminal.change, of.reads);
                    if before > 0 || done > 0 {
                        seen.asked.push((*question, before, done));
                    }
                    if self.terminals.has_questions(done) {
                        seen.all_asked = terminal.asked;
                    }
                }
                Some((
                    FreeVariable::Stateless { change, .. } | FreeVariable::Chosen { change, .. },
                    _,
                )) => {
                    seen.change = terminal.change;
                    if self.terminals.has_questions(*change) {
                        seen.all_asked = terminal.asked;
                    }
                }
                None => {}
            }
        }
        seen
    }

    /// `g` evaluated on the packet after a change and some questions, as a terminal says.
    fn after(&mut self, leaf: Ref, g: Ref) -> Result<Ref, Full> {
        let terminal = self.terminals.get(leaf);
        if !terminal.goes_on_changed() {
            return Ok(g);
        }
        let change = self.terminals.change(terminal.change).clone();
        let support = self.support(g);
        let end = self.space.layout.end;
        let mut places: HashMap<u32, BitSource> = HashMap::new();
        for level in &support.levels {
            if let Some(source) = change.bits.get(level) {
                places.insert(*level, source.clone());
            }
        }
        for question in support.questions {
            let RulesetDiagram { space, terminals, .. } = self;
            let (change, asked) = (terminal.change, terminal.asked);
            let renamed = terminals.renamed(question, change, asked, &mut space.variables);
            if renamed != question {
                places.insert(end + question, BitSource::bit(end + renamed, false));
            }
        }
        self.with_places(g, &places, change.ttl)
    }

    /// The diagram with other bits in place of some, and the time to live mapped.
    pub fn with_places(
        &mut self,
        g: Ref,
        places: &HashMap<u32, BitSource>,
        ttl: TtlMap,
    ) -> Result<Ref, Full> {
        let store = &mut self.space.store;
        let code = store.fresh_code();
        let ttl_levels = self.space.layout.field(Field::Ttl);
        Substitution { store, code, places, ttl, ttl_levels }.of(g)
    }
}

/// Merges the fillings of the places that belong to different changes.
struct Groups<'m, 'f> {
    meaning: &'m mut RulesetDiagram<'f>,
    f: Ref,
    g: Ref,
    groups: Vec<(Glimpse, Vec<Ref>)>,
}

impl Merging for Groups<'_, '_> {
    type Error = Full;

    fn store(&mut self) -> &mut Store {
        &mut self.meaning.space.store
    }

    fn leaf(&mut self, number: usize) -> Result<Ref, Full> {
        let leaves = &self.groups[number].1;
        let g = self.meaning.after(leaves[0], self.g)?;
        let store = &mut self.meaning.space.store;
        let code = store.fresh_code();
        let mut mine = |leaf| if leaves.binary_search(&leaf).is_ok() { leaf } else { HOLE };
        let f = store.map(code, self.f, &mut mine)?;
        self.meaning.then_unseen(f, g)
    }

    fn join(&mut self, first: Ref, second: Ref) -> Result<Ref, Full> {
        self.meaning.space.store.apply(&mut Fill, first, second)
    }

    fn is_full(error: &Full) -> bool {
        *error == Full::Memory
    }
}

/// Sequential composition of terminals.
struct Compose<'t> {
    terminals: &'t mut Terminals,
    questions: &'t mut FreeVariables,
}

impl Operator for Compose<'_> {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(4)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        if f == Ref::ZERO {
            return Some(g);
        }
        if g == Ref::ZERO {
            return Some(f);
        }
        if !f.is_leaf() {
            return None;
        }
        if self.terminals.get(f).exit != Exit::Continue {
            return Some(f);
        }
        g.is_leaf().then(|| self.terminals.then(f, g, self.questions))
    }
}

/// What the holes of one have in the other.
struct Fill;

impl Operator for Fill {
    fn code(&self, store: &Store) -> u32 {
        store.fixed_code(5)
    }

    fn known(&mut self, f: Ref, g: Ref) -> Option<Ref> {
        match (f, g) {
            (HOLE, _) => Some(g),
            (_, HOLE) => Some(f),
            _ if f.is_leaf() => Some(f),
            _ => None,
        }
    }
}

/// Other bits in place of some.
struct Substitution<'s> {
    store: &'s mut Store,
    code: u32,
    places: &'s HashMap<u32, BitSource>,
    ttl: TtlMap,
    ttl_levels: Levels,
}

impl Substitution<'_> {
    fn of(&mut self, g: Ref) -> Result<Ref, Full> {
        if g.is_leaf() {
            return Ok(g);
        }
        if let Some(result) = self.store.recall(self.code, g, Ref::ZERO) {
            return Ok(result);
        }
        let level = self.store.level(g);
        let in_ttl = (self.ttl_levels.first..self.ttl_levels.end()).contains(&level);
        let result = if in_ttl && self.ttl != TtlMap::SAME {
            self.mapped_ttl(g)?
        } else {
            let (low, high) = self.store.branches(g);
            match self.places.get(&level) {
                Some(source) if source.bits.is_empty() => {
                    self.of(if source.flip { high } else { low })?
                }
                Some(source) => {
                    let condition = self.condition(source)?;
                    let (low, high) = (self.of(low)?, self.of(high)?);
                    self.choose(condition, high, low)?
                }
                None => {
                    let (low, high) = (self.of(low)?, self.of(high)?);
                    self.asked(level, low, high)?
                }
            }
        };
        self.store.remember(self.code, g, Ref::ZERO, result);
        Ok(result)
    }

    /// A node of a level that may now be below its branches.
    fn asked(&mut self, level: u32, low: Ref, high: Ref) -> Result<Ref, Full> {
        if level < self.store.level(low) && level < self.store.level(high) {
            return self.store.node(level, low, high);
        }
        let bit = self.store.node(level, Ref::ZERO, Ref::ONE)?;
        self.choose(bit, high, low)
    }

    fn condition(&mut self, source: &BitSource) -> Result<Ref, Full> {
        let mut out = if source.flip { Ref::ONE } else { Ref::ZERO };
        for level in source.bits.iter().rev() {
            let bit = self.store.node(*level, Ref::ZERO, Ref::ONE)?;
            out = self.store.differ(bit, out)?;
        }
        Ok(out)
    }

    /// `yes` if the condition holds, else `no`. Unlike [`Store::either`], what is 0 on one side is
    /// not filled from the other: each is cut out by its own condition.
    fn choose(&mut self, condition: Ref, yes: Ref, no: Ref) -> Result<Ref, Full> {
        self.store.either(condition, yes, no)
    }

    /// A node that tests the TTL: by its 256 values.
    fn mapped_ttl(&mut self, g: Ref) -> Result<Ref, Full> {
        let mut leads = [Ref::ZERO; 256];
        for (ttl, lead) in leads.iter_mut().enumerate() {
            let mut at = g;
            while self.store.level(at) < self.ttl_levels.end() {
                let bit = self.ttl_levels.end() - 1 - self.store.level(at);
                let (low, high) = self.store.branches(at);
                at = if ttl >> bit & 1 == 1 { high } else { low };
            }
            *lead = at;
        }
        let mut row = Vec::with_capacity(256);
        for ttl in 0..=255u8 {
            let at = self.of(leads[self.ttl.of(ttl) as usize])?;
            row.push(at);
        }
        for bit in 0..8 {
            let level = self.ttl_levels.of_bit(bit);
            let mut next = Vec::with_capacity(row.len() / 2);
            for pair in row.chunks(2) {
                next.push(match self.places.get(&level) {
                    Some(source) => {
                        let condition = self.condition(source)?;
                        self.choose(condition, pair[1], pair[0])?
                    }
                    None => self.asked(level, pair[0], pair[1])?,
                });
            }
            row = next;
        }
        Ok(row[0])
    }
}
