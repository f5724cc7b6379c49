//! The jumps between the chains of a table as a graph: order, reachability, depth, loops.
//!
//! Chains are numbered as they stand in their table; an edge is a rule whose target is another
//! chain. Jumps to chains that the table does not have are omitted. Every walk is iterative: a
//! table may nest chains as deeply as it has chains.

use std::collections::{HashMap, VecDeque};

use crate::ruleset::{Chain, Table};

/// A rule that leads to a chain, by `-j` or `-g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainJump {
    /// The chain that the rule stands in.
    pub from: usize,
    /// The rule, an index into that chain.
    pub rule: usize,
    /// The chain that it leads to.
    pub to: usize,
}

/// The jumps between the chains of a table.
///
/// ```
/// use weir_model::{Chain, ChainGraph, Policy, Rule, Target};
///
/// let mut forward = Chain::new("FORWARD", Some(Policy::Drop));
/// forward.rules.push(Rule::unconditional(Target::Jump("tcp".into())));
/// let chains = [forward, Chain::new("tcp", None), Chain::new("unused", None)];
/// let graph = ChainGraph::new(&chains);
/// assert_eq!(graph.reachable_from([0]), [true, true, false]);
/// assert_eq!(graph.callees_first_from(0), Ok(vec![1, 0]));
/// assert_eq!(graph.max_jump_or_goto_depth(0), Ok(1));
/// ```
#[derive(Clone, Debug)]
pub struct ChainGraph<'n> {
    index_by_name: HashMap<&'n str, usize>,
    /// By chain, in the order of its rules.
    jumps: Vec<Vec<ChainJump>>,
}

/// How far a depth-first walk is with a chain.
#[derive(Clone, Copy, PartialEq)]
enum DepthFirstState {
    Unvisited,
    OnWalkPath,
    Finished,
}

impl<'n> ChainGraph<'n> {
    /// The graph of these chains.
    pub fn new(chains: &'n [Chain]) -> Self {
        let index: HashMap<&str, usize> = chains.iter().map(|c| &*c.name).zip(0..).collect();
        let of = |(from, chain): (usize, &Chain)| {
            let to = chain.rules.iter().enumerate().filter_map(|(rule, r)| {
                let to = *index.get(&**r.target.jump_target()?)?;
                Some(ChainJump { from, rule, to })
            });
            to.collect()
        };
        let jumps = chains.iter().enumerate().map(of).collect();
        ChainGraph { index_by_name: index, jumps }
    }

    /// The graph of chains that are not those of a [`Table`]: their names, and for each of them the
    /// rules that lead to others, in order.
    pub fn from_names_and_jumps<C>(names: impl IntoIterator<Item = &'n str>, mut calls: C) -> Self
    where
        C: FnMut(usize) -> Vec<(usize, &'n str)>,
    {
        let names: Vec<&str> = names.into_iter().collect();
        let mut jumps = vec![Vec::new(); names.len()];
        let index: HashMap<&str, usize> = names.into_iter().zip(0..).collect();
        for (from, jumps) in jumps.iter_mut().enumerate() {
            let to = |(rule, name)| Some(ChainJump { from, rule, to: *index.get(name)? });
            jumps.extend(calls(from).into_iter().filter_map(to));
        }
        ChainGraph { index_by_name: index, jumps }
    }

    /// The number of the chain of that name.
    pub fn chain_index(&self, name: &str) -> Option<usize> {
        self.index_by_name.get(name).copied()
    }

    /// How many chains there are.
    pub fn len(&self) -> usize {
        self.jumps.len()
    }

    /// True for a table without chains.
    pub fn is_empty(&self) -> bool {
        self.jumps.is_empty()
    }

    /// The jumps of a chain, in the order of its rules.
    pub fn jumps_from(&self, chain: usize) -> &[ChainJump] {
        &self.jumps[chain]
    }

    /// All jumps, chain by chain.
    pub fn all_jumps(&self) -> impl Iterator<Item = &ChainJump> {
        self.jumps.iter().flatten()
    }

    /// The chain that a rule leads to.
    pub fn chain_entered_by_rule(&self, chain: usize, rule: usize) -> Option<usize> {
        let jumps = &self.jumps[chain];
        let at = jumps.partition_point(|j| j.rule < rule);
        jumps.get(at).filter(|j| j.rule == rule).map(|j| j.to)
    }

    /// For each chain the jumps that lead to it, chain by chain.
    pub fn jumps_by_callee(&self) -> Vec<Vec<ChainJump>> {
        let mut callers = vec![Vec::new(); self.len()];
        self.all_jumps().for_each(|j| callers[j.to].push(*j));
        callers
    }

    /// Which chains a walk that begins in some of them may enter, those included.
    pub fn reachable_from(&self, starts: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut reached = vec![false; self.len()];
        self.mark_newly_reachable(starts, &mut reached, |_| true);
        reached
    }

    /// Marks the chains that a walk from `starts` enters by jumps that `follows` lets through, and
    /// gives those that were not marked before. Behind a marked chain nothing is followed again.
    pub fn mark_newly_reachable(
        &self,
        starts: impl IntoIterator<Item = usize>,
        reached: &mut [bool],
        follows: impl Fn(&ChainJump) -> bool,
    ) -> Vec<usize> {
        let mut is_new = |chain: &usize| !std::mem::replace(&mut reached[*chain], true);
        let mut open: Vec<usize> = starts.into_iter().filter(&mut is_new).collect();
        let mut entered = Vec::new();
        while let Some(chain) = open.pop() {
            entered.push(chain);
            let followed = self.jumps[chain].iter().filter(|j| follows(j));
            open.extend(followed.map(|j| j.to).filter(&mut is_new));
        }
        entered
    }

    /// The chains that `start` reaches with the fewest jumps to each, nearest first.
    pub fn chains_by_jump_distance_from(&self, start: usize) -> Vec<(usize, usize)> {
        let mut seen = vec![false; self.len()];
        seen[start] = true;
        let (mut open, mut out) = (VecDeque::from([(start, 0)]), Vec::new());
        while let Some((chain, distance)) = open.pop_front() {
            out.push((chain, distance));
            for jump in &self.jumps[chain] {
                if !std::mem::replace(&mut seen[jump.to], true) {
                    open.push_back((jump.to, distance + 1));
                }
            }
        }
        out
    }

    /// The chains that `start` reaches, each after those that it leads to, `start` last.
    ///
    /// # Errors
    /// A chain that reaches itself.
    pub fn callees_first_from(&self, start: usize) -> Result<Vec<usize>, usize> {
        let (mut order, mut closing) = (Vec::new(), None);
        let mut states = vec![DepthFirstState::Unvisited; self.len()];
        self.push_depth_first_postorder_from(start, &mut states, &mut order, &mut |j| {
            closing.get_or_insert(j.to);
        });
        closing.map_or(Ok(order), Err)
    }

    /// All chains, each after those that it leads to, but for the jumps that close a loop.
    pub fn all_callees_first(&self) -> Vec<usize> {
        self.depth_first_postorder_of_all(&mut |_| {})
    }

    /// The jumps that close a loop in a depth-first walk through the table: none where the kernel
    /// would load it.
    pub fn back_edges(&self) -> Vec<ChainJump> {
        let mut closing = Vec::new();
        self.depth_first_postorder_of_all(&mut |jump| closing.push(*jump));
        closing
    }

    /// Whether some chain reaches itself: the kernel refuses to load such a table.
    pub fn has_loop(&self) -> bool {
        !self.back_edges().is_empty()
    }

    /// The most jumps that a walk from `start` can follow one inside the other.
    ///
    /// # Errors
    /// A chain that reaches itself.
    pub fn max_jump_or_goto_depth(&self, start: usize) -> Result<usize, usize> {
        let mut depths = vec![0; self.len()];
        for chain in self.callees_first_from(start)? {
            depths[chain] = self.jumps[chain].iter().map(|j| depths[j.to] + 1).max().unwrap_or(0);
        }
        Ok(depths[start])
    }

    fn depth_first_postorder_of_all(&self, closes: &mut dyn FnMut(&ChainJump)) -> Vec<usize> {
        let (mut order, mut states) = (Vec::new(), vec![DepthFirstState::Unvisited; self.len()]);
        for start in 0..self.len() {
            if states[start] == DepthFirstState::Unvisited {
                self.push_depth_first_postorder_from(start, &mut states, &mut order, closes);
            }
        }
        order
    }

    /// Adds each chain that `start` reaches and that is new to `order` when all of its jumps are
    /// done; a jump to a chain that is still open closes a loop.
    fn push_depth_first_postorder_from(
        &self,
        start: usize,
        states: &mut [DepthFirstState],
        order: &mut Vec<usize>,
        closes: &mut dyn FnMut(&ChainJump),
    ) {
        states[start] = DepthFirstState::OnWalkPath;
        let mut stack = vec![(start, 0)];
        while let Some((chain, next)) = stack.last_mut() {
            let Some(jump) = self.jumps[*chain].get(*next) else {
                states[*chain] = DepthFirstState::Finished;
                order.push(*chain);
                stack.pop();
                continue;
            };
            *next += 1;
            match states[jump.to] {
                DepthFirstState::Unvisited => {
                    states[jump.to] = DepthFirstState::OnWalkPath;
                    stack.push((jump.to, 0));
                }
                DepthFirstState::OnWalkPath => closes(jump),
                DepthFirstState::Finished => {}
            }
        }
    }
}

impl Table {
    /// The jumps between its chains.
    pub fn chain_graph(&self) -> ChainGraph<'_> {
        ChainGraph::new(&self.chains)
    }

    /// The chains that a walk from chains of these names may enter, those included.
    pub fn chains_reachable_from_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Vec<&Chain> {
        let graph = self.chain_graph();
        let starts = names.into_iter().filter_map(|name| graph.chain_index(name));
        let reached = graph.reachable_from(starts);
        self.chains.iter().zip(reached).filter(|(_, is)| *is).map(|(chain, _)| chain).collect()
    }
}
