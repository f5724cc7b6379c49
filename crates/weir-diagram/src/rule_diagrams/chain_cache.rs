//! Chains that were already built.
//!
//! The meaning of a chain depends on its position, on its rules, and on the meaning of the chains
//! that they jump to. A chain with the same rules and callees of the same meaning is not built
//! again, whatever their names are: chains of the other ruleset that were not changed, and chains
//! above one that was rewritten correctly.

use std::collections::HashMap;

use weir_model::{BaseMatch, Match, Rule, Target};

use crate::bdd::node_store::DiagramRef;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::stateful_test_id::StatefulTestIdResolver;

/// What a chain means to a rule that jumps to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiagramsOfOneChain {
    /// Its rules unchanged.
    pub rules: DiagramRef,
    /// What returns continues.
    pub jump: DiagramRef,
    /// Packets that return, return once more; built if a goto leads to the chain.
    pub goto: Option<DiagramRef>,
}

/// The number of a [`DiagramsOfOneChain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainDiagramId(usize);

/// All that the meaning of a chain depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainCacheKey<'f> {
    place: TableHookContext,
    /// The owner of the sets that its rules test, if they do.
    ipset_owner_index: Option<usize>,
    rules: Vec<RuleCacheKey<'f>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RuleCacheKey<'f> {
    base: &'f BaseMatch,
    matches: &'f [Match],
    target: ResolvedTarget<'f>,
    /// Whose its stateful tests are.
    state_id: u64,
}

/// A target, chains by their meaning.
#[derive(Debug, PartialEq, Eq, Hash)]
enum ResolvedTarget<'f> {
    Jump(Option<ChainDiagramId>),
    Goto(Option<ChainDiagramId>),
    NonChainTarget(&'f Target),
}

impl<'f> ChainCacheKey<'f> {
    /// `find_chain_id` knows the chains that are jumped to; `sets_of` is whose sets are looked
    /// into.
    pub fn new(
        rules: &'f [Rule],
        (state_ids, place, sets_of): (&StatefulTestIdResolver, TableHookContext, usize),
        find_chain_id: impl Fn(&str) -> Option<ChainDiagramId>,
    ) -> ChainCacheKey<'f> {
        let looks = rules.iter().flat_map(|r| &r.matches).any(|m| matches!(m, Match::Set(_)));
        let rule_key = |rule: &'f Rule| RuleCacheKey {
            base: &rule.base,
            matches: &rule.matches,
            target: match &rule.target {
                Target::Jump(name) => ResolvedTarget::Jump(find_chain_id(name)),
                Target::Goto(name) => ResolvedTarget::Goto(find_chain_id(name)),
                other => ResolvedTarget::NonChainTarget(other),
            },
            state_id: state_ids.stateful_test_id(rule),
        };
        let rules = rules.iter().map(rule_key).collect();
        ChainCacheKey { place, ipset_owner_index: looks.then_some(sets_of), rules }
    }
}

/// Chains by what they say, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct ChainCache<'f> {
    ids_by_key: HashMap<ChainCacheKey<'f>, ChainDiagramId>,
    diagrams: Vec<DiagramsOfOneChain>,
    /// By their rules.
    ids_by_rules: HashMap<DiagramRef, ChainDiagramId>,
}

impl<'f> ChainCache<'f> {
    /// The meaning of a chain that says the same as one before.
    pub fn find_by_key(&self, key: &ChainCacheKey<'f>) -> Option<ChainDiagramId> {
        self.ids_by_key.get(key).copied()
    }

    /// The meaning whose rules are this diagram.
    pub fn find_by_rules_diagram(&self, rules: DiagramRef) -> Option<ChainDiagramId> {
        self.ids_by_rules.get(&rules).copied()
    }

    /// A new meaning.
    pub fn insert_diagrams(&mut self, made: DiagramsOfOneChain) -> ChainDiagramId {
        let number = ChainDiagramId(self.diagrams.len());
        self.diagrams.push(made);
        self.ids_by_rules.insert(made.rules, number);
        number
    }

    /// That this is what a chain says.
    pub fn associate_key(&mut self, key: ChainCacheKey<'f>, chain_id: ChainDiagramId) {
        self.ids_by_key.insert(key, chain_id);
    }

    pub fn diagrams_by_id(&self, chain_id: ChainDiagramId) -> DiagramsOfOneChain {
        self.diagrams[chain_id.0]
    }

    pub fn set_goto_diagram(&mut self, chain_id: ChainDiagramId, goto: DiagramRef) {
        self.diagrams[chain_id.0].goto = Some(goto);
    }

    pub fn is_empty(&self) -> bool {
        self.diagrams.is_empty()
    }

    /// All diagrams here, for a sweep that renumbers them; then
    /// [`renumber_roots`](ChainCache::renumber_roots).
    pub fn roots_for_sweep(&self) -> impl Iterator<Item = DiagramRef> + '_ {
        self.diagrams.iter().flat_map(|m| [Some(m.rules), Some(m.jump), m.goto]).flatten()
    }

    /// The new numbers of [`roots_for_sweep`](ChainCache::roots_for_sweep), in their order.
    pub fn renumber_roots(&mut self, mut next: impl FnMut(&mut DiagramRef)) {
        self.ids_by_rules.clear();
        for (at, made) in self.diagrams.iter_mut().enumerate() {
            next(&mut made.rules);
            next(&mut made.jump);
            made.goto.iter_mut().for_each(&mut next);
            self.ids_by_rules.insert(made.rules, ChainDiagramId(at));
        }
    }
}
