//! What happens to packets after a rule.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use weir_model::{Policy, Target};
use weir_partition::HyperRect;

use super::{CALLERS, CELLS, DEPTH, Flow, FlowPosition};

/// The required outcome of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate<'a> {
    /// The table decides so.
    Decided(&'a Target),
    /// The chain leaves them undecided.
    Returned,
}

/// The question of a sweep.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    fate: Fate<'a>,
    ghosts: &'a HashSet<FlowPosition>,
    /// What decides the packets.
    by: &'a RefCell<BTreeSet<Decider>>,
}

/// What decides packets that a rule no longer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decider {
    /// A rule.
    Rule(FlowPosition),
    /// The policy of a chain.
    Policy(usize),
}

impl Fate<'_> {
    fn is(self, target: &Target) -> bool {
        matches!(self, Fate::Decided(fate) if fate == target)
    }
}

impl Flow<'_> {
    /// The rules that decide everything that a rule matches or drops, if without the rule that has
    /// the same outcome, with no effect, counting rule or stateful match in between.
    ///
    /// `ghosts` are rules that never act while this one exists. Some may act once it is removed, so
    /// they must have the same outcome; but they will be removed as well, so nothing may depend on
    /// them.
    pub fn same_without(
        &self,
        at: FlowPosition,
        ghosts: &HashSet<FlowPosition>,
    ) -> Option<Vec<Decider>> {
        let rule = self.rule(at);
        let reach = self.reach(at);
        if self.opaque || !reach.asks.is_empty() || reach.cells.is_empty() {
            return None;
        }
        let fate = match (&rule.target, self.table.chains[at.0].policy) {
            (Target::Accept | Target::Drop | Target::Reject(_), _) => Fate::Decided(&rule.target),
            (Target::Return, None) => Fate::Returned,
            (Target::Return, Some(policy)) => Fate::Decided(decision(policy)),
            _ => return None,
        };
        // Packets that the rule drops by hotdrop are dropped before it, or after it.
        let mut by = Vec::new();
        let hot = reach.hot.iter().map(|(cell, _)| cell.clone());
        let hot: Vec<HyperRect> = hot.flat_map(|cell| self.drain(at, cell, &mut by)).collect();
        let deciders = RefCell::new(BTreeSet::new());
        let drop = Sweep { fate: Fate::Decided(&Target::Drop), ghosts, by: &deciders };
        let same = self.meets(at, reach.cells.clone(), Sweep { fate, ..drop }, 0)
            && (hot.is_empty() || self.meets(at, hot, drop, 0));
        same.then(|| deciders.into_inner().into_iter().collect())
    }

    /// Whether all of a set has the outcome, from after a rule on.
    fn meets(
        &self,
        (chain, rule): FlowPosition,
        cells: Vec<HyperRect>,
        sweep: Sweep<'_>,
        depth: usize,
    ) -> bool {
        let Some(left) = self.sweep(chain, rule + 1, cells, sweep, depth) else { return false };
        if left.is_empty() {
            return true;
        }
        let Fate::Decided(target) = sweep.fate else { return true };
        if let Some(policy) = self.table.chains[chain].policy {
            sweep.by.borrow_mut().insert(Decider::Policy(chain));
            return decision(policy) == target;
        }
        let callers = &self.callers[chain];
        if depth == DEPTH || callers.is_empty() || callers.len() > CALLERS {
            return false;
        }
        callers.iter().all(|caller| match self.through(*caller, &left) {
            Some(cells) if cells.is_empty() => true,
            Some(cells) => {
                matches!(self.rule(*caller).target, Target::Jump(_))
                    && self.meets(*caller, cells, sweep, depth + 1)
            }
            None => false,
        })
    }

    /// The part of a set that leaves a chain undecided; `None` if some of it may have another
    /// outcome.
    fn sweep(
        &self,
        chain: usize,
        from: usize,
        mut cells: Vec<HyperRect>,
        sweep: Sweep<'_>,
        depth: usize,
    ) -> Option<Vec<HyperRect>> {
        if cells.len() > CELLS || depth == DEPTH {
            return None;
        }
        let mut rules: Vec<usize> = cells.iter().flat_map(|c| self.meeting(chain, c)).collect();
        rules.retain(|rule| *rule >= from);
        rules.sort_unstable();
        rules.dedup();
        if self.spend(1 + rules.len()) {
            return None;
        }
        let fate = sweep.fate;
        let mut returned = Vec::new();
        for rule in rules {
            let at = (chain, rule);
            let reach = self.reach(at);
            let acts = !sweep.ghosts.contains(&at);
            if touches(&reach.asks, &cells) {
                return None;
            }
            for (hot, exact) in &reach.hot {
                if cells.iter().any(|c| c.meets(hot)) {
                    if !fate.is(&Target::Drop) {
                        return None;
                    }
                    sweep.by.borrow_mut().insert(Decider::Rule(at));
                    if *exact && acts {
                        cells = without(&cells, std::slice::from_ref(hot));
                    }
                }
            }
            if !touches(&reach.cells, &cells) {
                continue;
            }
            let met = self.through(at, &cells)?;
            let back = match &self.rule(at).target {
                target if fate.is(target) => {
                    sweep.by.borrow_mut().insert(Decider::Rule(at));
                    Vec::new()
                }
                Target::Return => {
                    returned.extend(met);
                    Vec::new()
                }
                Target::Jump(_) => {
                    self.sweep(self.graph.callee(chain, rule)?, 0, met, sweep, depth + 1)?
                }
                _ => return None,
            };
            if reach.exact && acts {
                cells = without(&cells, &reach.cells);
                cells.extend(back);
            }
            if cells.len() + returned.len() > CELLS || self.spend(cells.len()) {
                return None;
            }
        }
        cells.extend(returned);
        Some(cells)
    }
}

fn decision(policy: Policy) -> &'static Target {
    match policy {
        Policy::Accept => &Target::Accept,
        Policy::Drop => &Target::Drop,
    }
}

fn touches(a: &[HyperRect], b: &[HyperRect]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.meets(y)))
}

/// What of some cells others leave.
fn without(cells: &[HyperRect], others: &[HyperRect]) -> Vec<HyperRect> {
    let mut left = cells.to_vec();
    for other in others {
        let mut next = Vec::new();
        left.iter().for_each(|cell| cell.minus(other, &mut next));
        left = next;
    }
    left
}
