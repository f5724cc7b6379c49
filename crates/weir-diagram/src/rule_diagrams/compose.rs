//! Sequential composition of rules.
//!
//! Where the first part continues, the second follows, and effects accumulate. As long as the first
//! part does not change fields that the second tests, this is one traversal of both diagrams.
//! Otherwise the second is evaluated on the packet as it is *then*: its diagram with other bits in
//! place of those that changed ([`DiagramContext::evaluate_after_change`]), once for each different
//! change.
//!
//! Composition is associative, so thousands of rules can be merged as a balanced tree.

use std::collections::{BTreeMap, HashMap};

use weir_model::Field;

use crate::bdd::balanced_merge::{BalancedMerge, merge_balanced};
use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore, NonNodeWork, Operator};
use crate::packet_sets::free_variable::{FreeVariable, FreeVariableTable};
use crate::packet_sets::packet_space::PacketSpace;
use crate::packet_sets::variable_layout::LevelRange;
use crate::rule_diagrams::chain_cache::ChainCache;
use crate::rule_diagrams::packet_change::{PacketChange, TtlTransform, XorBitSource};
use crate::rule_diagrams::terminal::{PLACEHOLDER_LEAF, RuleExit, StatefulQuestion, TerminalTable};

/// Visited nodes that take about as long as a requested one.
const VISITS_PER_STEP: u64 = 8;

/// A space, and what its diagrams of rules end in.
#[derive(Debug)]
pub(crate) struct DiagramContext<'f> {
    pub space: PacketSpace<'f>,
    pub terminals: TerminalTable,
    pub chain_cache: ChainCache<'f>,
}

impl<'f> DiagramContext<'f> {
    pub fn new(space: PacketSpace<'f>) -> DiagramContext<'f> {
        let terminals = TerminalTable::new(&space.layout);
        DiagramContext { space, terminals, chain_cache: ChainCache::default() }
    }
}

/// The part of a change that another diagram sees: bits that it tests, and the questions in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ChangeSeenByDiagram {
    bits: Vec<(u32, Vec<u32>, bool)>,
    ttl: Option<u32>,
    /// All of the change, where there are stateless questions.
    change: u32,
    /// All previous questions, if such a question's own change depends on them.
    previous_stateful_questions_list: u32,
    /// How often its stateful tests were evaluated before, and the changes of what they read.
    stateful_test_occurrences: Vec<(u32, u32, u32)>,
}

/// The variables that a diagram tests.
#[derive(Debug, Default)]
pub(crate) struct Support {
    /// Levels of fields, ascending.
    pub levels: Vec<u32>,
    /// Free variables, by number.
    pub free_variables: Vec<u32>,
}

impl DiagramContext<'_> {
    /// `f`, then `g`.
    pub fn compose_sequential(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        if f == DiagramRef::ZERO || g == DiagramRef::ZERO {
            return Ok(if f == DiagramRef::ZERO { g } else { f });
        }
        let groups = self.group_terminals_by_seen_change(f, g)?;
        if groups.is_empty() {
            return self.compose_independent(f, g);
        }
        let mut join =
            ChangeGroupBalancedMerge { context: self, f, g, groups: groups.into_iter().collect() };
        let count = join.groups.len();
        merge_balanced(&mut join, count)
    }

    /// `f`, then `g`, where `g` sees nothing state_input what `f` changed.
    fn compose_independent(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let mut op = ComposeOperator { terminals, free_variables: &mut space.free_variables };
        space.store.apply_operator(&mut op, f, g)
    }

    /// The terminals of `f` by what `g` sees of them; nothing where it sees nothing of any.
    fn group_terminals_by_seen_change(
        &mut self,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<BTreeMap<ChangeSeenByDiagram, Vec<DiagramRef>>, LimitReached> {
        let mut groups = BTreeMap::new();
        if !self.terminals.has_change_or_question_terminals {
            return Ok(groups);
        }
        let (mut leaves, mut visited) = (Vec::new(), 0);
        self.space.store.visit_nodes_and_terminals(f, |_, at| {
            visited += 1;
            if at.is_leaf() {
                leaves.push(at);
            }
        });
        let visits = NonNodeWork { steps: visited / VISITS_PER_STEP, bytes: 0 };
        self.space.store.count_non_node_work(visits)?;
        if !leaves
            .iter()
            .any(|l| self.terminals.terminal_of_leaf(*l).continues_with_change_or_question())
        {
            return Ok(groups);
        }
        let support = self.support(g);
        leaves.sort_unstable();
        for leaf in leaves {
            self.space.store.count_step()?;
            groups
                .entry(self.change_seen_by_diagram(leaf, &support))
                .or_insert_with(Vec::new)
                .push(leaf);
        }
        if groups.len() == 1 && groups.contains_key(&ChangeSeenByDiagram::default()) {
            groups.clear();
        }
        self.space.store.count_non_node_work(self.terminals.take_non_node_work())?;
        Ok(groups)
    }

    pub(crate) fn support(&mut self, g: DiagramRef) -> Support {
        let end = self.space.layout.fields_end;
        let mut levels = std::collections::BTreeSet::new();
        self.space.store.visit_nodes_and_terminals(g, |store, at| {
            if !at.is_leaf() {
                levels.insert(store.level(at));
            }
        });
        let questions = levels.split_off(&end).into_iter().map(|l| l - end).collect();
        Support { levels: levels.into_iter().collect(), free_variables: questions }
    }

    /// What a diagram with that support sees of a terminal.
    fn change_seen_by_diagram(
        &mut self,
        leaf: DiagramRef,
        support: &Support,
    ) -> ChangeSeenByDiagram {
        let terminal = self.terminals.terminal_of_leaf(leaf);
        let mut seen = ChangeSeenByDiagram::default();
        if !terminal.continues_with_change_or_question() {
            return seen;
        }
        let change = self.terminals.get_change(terminal.change);
        for (level, source) in &change.bit_sources {
            if support.levels.binary_search(level).is_ok() {
                seen.bits.push((*level, source.xor_levels.clone(), source.is_inverted));
            }
        }
        let ttl = self.space.layout.field_levels(Field::Ttl);
        let asks_ttl = support.levels.iter().any(|l| (ttl.first..ttl.end()).contains(l));
        // Maps of the time to live are known by the change they are part of.
        seen.ttl = (asks_ttl && change.ttl_transform != TtlTransform::IDENTITY).then_some(0);
        if seen.ttl.is_some() {
            let only =
                PacketChange { ttl_transform: change.ttl_transform, ..PacketChange::default() };
            seen.ttl = Some(self.terminals.intern_change(&only));
        }
        let asked = self.terminals.list_questions(terminal.stateful_questions).to_vec();
        for question in &support.free_variables {
            match self.space.free_variables.get(*question) {
                Some((
                    variable @ (FreeVariable::StatefulTest { .. }
                    | FreeVariable::StatefulTargetBit { .. }),
                    _,
                )) => {
                    let (question_id, state_input) = match *variable {
                        FreeVariable::StatefulTest {
                            state_id,
                            content_digest,
                            state_input,
                            ..
                        }
                        | FreeVariable::StatefulTargetBit {
                            state_id,
                            content_digest,
                            state_input,
                            ..
                        } => ((state_id, content_digest), state_input),
                        FreeVariable::StatelessTest { .. }
                        | FreeVariable::StatelessTargetBit { .. } => continue,
                    };
                    let same =
                        |a: &&StatefulQuestion| (a.state_id, a.content_digest) == question_id;
                    let before = asked.iter().filter(same).count() as u32;
                    let done = self
                        .terminals
                        .restrict_change_to_fields(terminal.change, state_input.read_fields);
                    if before > 0 || done > 0 {
                        seen.stateful_test_occurrences.push((*question, before, done));
                    }
                    if self.terminals.does_change_use_free_variables(done) {
                        seen.previous_stateful_questions_list = terminal.stateful_questions;
                    }
                }
                Some((
                    FreeVariable::StatelessTest { change, .. }
                    | FreeVariable::StatelessTargetBit { change, .. },
                    _,
                )) => {
                    seen.change = terminal.change;
                    if self.terminals.does_change_use_free_variables(*change) {
                        seen.previous_stateful_questions_list = terminal.stateful_questions;
                    }
                }
                None => {}
            }
        }
        seen
    }

    /// `g` evaluated on the packet after a change and some questions, as a terminal says.
    fn evaluate_after_change(
        &mut self,
        leaf: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let terminal = self.terminals.terminal_of_leaf(leaf);
        if !terminal.continues_with_change_or_question() {
            return Ok(g);
        }
        let change = self.terminals.get_change(terminal.change).clone();
        let support = self.support(g);
        let end = self.space.layout.fields_end;
        let mut places: HashMap<u32, XorBitSource> = HashMap::new();
        for level in &support.levels {
            if let Some(source) = change.bit_sources.get(level) {
                places.insert(*level, source.clone());
            }
        }
        for question in support.free_variables {
            let DiagramContext { space, terminals, .. } = self;
            let (change, asked) = (terminal.change, terminal.stateful_questions);
            let renamed = terminals.free_variable_after_change(
                question,
                change,
                asked,
                &mut space.free_variables,
            );
            if renamed != question {
                places.insert(end + question, XorBitSource::from_level(end + renamed, false));
            }
        }
        self.space.store.count_non_node_work(self.terminals.take_non_node_work())?;
        self.substitute_bits(g, &places, change.ttl_transform)
    }

    /// The diagram with other bits in place of some, and the time to live mapped.
    pub fn substitute_bits(
        &mut self,
        g: DiagramRef,
        places: &HashMap<u32, XorBitSource>,
        ttl: TtlTransform,
    ) -> Result<DiagramRef, LimitReached> {
        let store = &mut self.space.store;
        let code = store.fresh_cache_code();
        let ttl_levels = self.space.layout.field_levels(Field::Ttl);
        BitSubstitution {
            store,
            cache_code: code,
            cache_codes_by_bit: HashMap::new(),
            replacements: places,
            ttl_transform: ttl,
            ttl_levels,
        }
        .substitute(g)
    }
}

/// Merges the fillings of the places that belong to different changes.
struct ChangeGroupBalancedMerge<'m, 'f> {
    context: &'m mut DiagramContext<'f>,
    f: DiagramRef,
    g: DiagramRef,
    groups: Vec<(ChangeSeenByDiagram, Vec<DiagramRef>)>,
}

impl BalancedMerge for ChangeGroupBalancedMerge<'_, '_> {
    type Error = LimitReached;

    fn node_store(&mut self) -> &mut NodeStore {
        &mut self.context.space.store
    }

    fn build_operand(&mut self, number: usize) -> Result<DiagramRef, LimitReached> {
        let leaves = &self.groups[number].1;
        let g = self.context.evaluate_after_change(leaves[0], self.g)?;
        let store = &mut self.context.space.store;
        let code = store.fresh_cache_code();
        let mut mine =
            |leaf| if leaves.binary_search(&leaf).is_ok() { leaf } else { PLACEHOLDER_LEAF };
        let f = store.map_terminals(code, self.f, &mut mine)?;
        self.context.compose_independent(f, g)
    }

    fn join_diagrams(
        &mut self,
        first: DiagramRef,
        second: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        self.context.space.store.apply_operator(&mut FillPlaceholderOperator, first, second)
    }

    fn is_memory_limit(error: &LimitReached) -> bool {
        *error == LimitReached::Memory
    }
}

/// Sequential composition of terminals.
struct ComposeOperator<'t> {
    terminals: &'t mut TerminalTable,
    free_variables: &'t mut FreeVariableTable,
}

impl Operator for ComposeOperator<'_> {
    fn take_non_node_work(&mut self) -> NonNodeWork {
        self.terminals.take_non_node_work()
    }

    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(4)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        if f == DiagramRef::ZERO {
            return Some(g);
        }
        if g == DiagramRef::ZERO {
            return Some(f);
        }
        if !f.is_leaf() {
            return None;
        }
        if self.terminals.terminal_of_leaf(f).exit != RuleExit::Continue {
            return Some(f);
        }
        g.is_leaf().then(|| self.terminals.compose_sequential(f, g, self.free_variables))
    }
}

/// What the holes of one have in the other.
struct FillPlaceholderOperator;

impl Operator for FillPlaceholderOperator {
    fn cache_code(&self, store: &NodeStore) -> u32 {
        store.fixed_cache_code(5)
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        match (f, g) {
            (PLACEHOLDER_LEAF, _) => Some(g),
            (_, PLACEHOLDER_LEAF) => Some(f),
            _ if f.is_leaf() => Some(f),
            _ => None,
        }
    }
}

/// Other bits in place of some.
struct BitSubstitution<'s> {
    store: &'s mut NodeStore,
    cache_code: u32,
    /// Of [`BitSubstitution::select_by_bit`].
    cache_codes_by_bit: HashMap<u32, u32>,
    replacements: &'s HashMap<u32, XorBitSource>,
    ttl_transform: TtlTransform,
    ttl_levels: LevelRange,
}

impl BitSubstitution<'_> {
    fn substitute(&mut self, g: DiagramRef) -> Result<DiagramRef, LimitReached> {
        if g.is_leaf() {
            return Ok(g);
        }
        if let Some(result) = self.store.lookup_computed(self.cache_code, g, DiagramRef::ZERO) {
            return Ok(result);
        }
        let level = self.store.level(g);
        let in_ttl = (self.ttl_levels.first..self.ttl_levels.end()).contains(&level);
        let result = if in_ttl && self.ttl_transform != TtlTransform::IDENTITY {
            self.substitute_ttl(g)?
        } else {
            let (low, high) = self.store.branches(g);
            match self.replacements.get(&level) {
                Some(source) if source.xor_levels.is_empty() => {
                    self.substitute(if source.is_inverted { high } else { low })?
                }
                Some(source) => {
                    let (low, high) = (self.substitute(low)?, self.substitute(high)?);
                    self.select_by_source(source, low, high)?
                }
                None => {
                    let (low, high) = (self.substitute(low)?, self.substitute(high)?);
                    self.select_by_bit(level, low, high)?
                }
            }
        };
        self.store.insert_computed(self.cache_code, g, DiagramRef::ZERO, result);
        Ok(result)
    }

    /// `high` where the source of a bit is 1, else `low`.
    fn select_by_source(
        &mut self,
        source: &XorBitSource,
        low: DiagramRef,
        high: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        if let [level] = source.xor_levels[..] {
            let (low, high) = if source.is_inverted { (high, low) } else { (low, high) };
            return self.select_by_bit(level, low, high);
        }
        let condition = self.build_xor_condition(source)?;
        self.store.ite(condition, high, low)
    }

    /// `high` where a bit is 1, else `low`: a node, if the bit is above both. Otherwise it is moved
    /// down in one traversal of both, where [`NodeStore::ite`] takes three.
    fn select_by_bit(
        &mut self,
        level: u32,
        low: DiagramRef,
        high: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        if low == high {
            return Ok(low);
        }
        let top = self.store.level(low).min(self.store.level(high));
        if level <= top {
            let (low, _) = self.store.cofactors(low, level);
            let (_, high) = self.store.cofactors(high, level);
            return self.store.make_node(level, low, high);
        }
        let code = match self.cache_codes_by_bit.get(&level) {
            Some(code) => *code,
            None => {
                let code = self.store.fresh_cache_code();
                self.cache_codes_by_bit.insert(level, code);
                code
            }
        };
        if let Some(result) = self.store.lookup_computed(code, low, high) {
            return Ok(result);
        }
        let (low_0, low_1) = self.store.cofactors(low, top);
        let (high_0, high_1) = self.store.cofactors(high, top);
        let at_0 = self.select_by_bit(level, low_0, high_0)?;
        let at_1 = self.select_by_bit(level, low_1, high_1)?;
        let result = self.store.make_node(top, at_0, at_1)?;
        self.store.insert_computed(code, low, high, result);
        Ok(result)
    }

    fn build_xor_condition(&mut self, source: &XorBitSource) -> Result<DiagramRef, LimitReached> {
        let mut out = if source.is_inverted { DiagramRef::ONE } else { DiagramRef::ZERO };
        for level in source.xor_levels.iter().rev() {
            let bit = self.store.make_node(*level, DiagramRef::ZERO, DiagramRef::ONE)?;
            out = self.store.disagreement(bit, out)?;
        }
        Ok(out)
    }

    /// A node that tests the TTL: by its 256 values.
    fn substitute_ttl(&mut self, g: DiagramRef) -> Result<DiagramRef, LimitReached> {
        let mut leads = [DiagramRef::ZERO; 256];
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
            let at = self.substitute(leads[self.ttl_transform.apply_to(ttl) as usize])?;
            row.push(at);
        }
        for bit in 0..8 {
            let level = self.ttl_levels.level_of_bit_from_lowest(bit);
            let mut next = Vec::with_capacity(row.len() / 2);
            for pair in row.chunks(2) {
                next.push(match self.replacements.get(&level) {
                    Some(source) => self.select_by_source(source, pair[0], pair[1])?,
                    None => self.select_by_bit(level, pair[0], pair[1])?,
                });
            }
            row = next;
        }
        Ok(row[0])
    }
}
