//! What happens to packets after a rule.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use weir_model::{Policy, Target};
use weir_partition::HyperRect;

use super::{
    BoxNumber, MAX_BOXES_PER_SET, MAX_CALLERS_FOLLOWED, MAX_JUMP_DEPTH, PacketSetFlow,
    RulePosition, WholeOrPartialBox, subtract_box_and_report_cut,
};

/// Rules after one that are compared with it without a search.
const MAX_RULES_SCANNED_WITHOUT_INDEX: usize = 256;
/// Pairs of boxes that are compared without a search: rules with lists of ports have many boxes.
const MAX_BOX_PAIRS_SCANNED_WITHOUT_INDEX: usize = 1024;

/// The required outcome of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RequiredOutcome<'a> {
    /// The table decides so.
    DecidedByTarget(&'a Target),
    /// The chain leaves them undecided.
    ReturnedToCaller,
}

/// The question of a sweep.
#[derive(Clone, Copy)]
struct OutcomeSweepContext<'a> {
    required: RequiredOutcome<'a>,
    rules_shadowed_before_removal: &'a HashSet<RulePosition>,
    /// What decides the packets.
    deciders: &'a RefCell<BTreeSet<Decider>>,
}

/// What decides packets that a rule no longer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decider {
    /// A rule.
    Rule(RulePosition),
    /// The policy of a chain.
    Policy(usize),
}

impl RequiredOutcome<'_> {
    fn is_decision_by_target(self, target: &Target) -> bool {
        matches!(self, RequiredOutcome::DecidedByTarget(fate) if fate == target)
    }
}

impl PacketSetFlow<'_> {
    /// The rules that decide everything that a rule matches or drops, if without the rule that has
    /// the same outcome, with no effect, counting rule or stateful match in between.
    ///
    /// `shadowed_rules` are rules that never act while this one exists. Some may act once it is
    /// removed, so they must have the same outcome; but they will be removed as well, so nothing
    /// may depend on them.
    pub fn deciders_without_rule(
        &self,
        at: RulePosition,
        shadowed_rules: &HashSet<RulePosition>,
    ) -> Option<Vec<Decider>> {
        let rule = self.rule(at);
        let boxes = self.rule_boxes(at);
        if self.has_loop_or_unknown_target
            || self.is_over_budget()
            || boxes.stateful().len() > 0
            || boxes.boxes_maybe_matched().len() == 0
        {
            return None;
        }
        let fate = match (&rule.target, self.table.chains[at.0].policy) {
            (Target::Accept | Target::Drop | Target::Reject(_), _) => {
                RequiredOutcome::DecidedByTarget(&rule.target)
            }
            (Target::Return, None) => RequiredOutcome::ReturnedToCaller,
            (Target::Return, Some(policy)) => {
                RequiredOutcome::DecidedByTarget(policy_target(policy))
            }
            _ => return None,
        };
        let deciders = RefCell::new(BTreeSet::new());
        let drop = OutcomeSweepContext {
            required: RequiredOutcome::DecidedByTarget(&Target::Drop),
            rules_shadowed_before_removal: shadowed_rules,
            deciders: &deciders,
        };
        let matched = boxes.boxes_maybe_matched().cloned().collect();
        let required = OutcomeSweepContext { required: fate, ..drop };
        if !self.all_boxes_get_outcome_after(at, matched, required, 0) {
            return None;
        }
        // Packets that the rule drops by hotdrop are dropped before it, or after it.
        let before = |number: &BoxNumber| {
            self.subtract_earlier_rules(at, WholeOrPartialBox::Numbered(*number), &mut Vec::new())
        };
        let hot: Vec<HyperRect> = boxes.hotdrop_numbers().iter().flat_map(before).collect();
        let same = hot.is_empty() || self.all_boxes_get_outcome_after(at, hot, drop, 0);
        same.then(|| deciders.into_inner().into_iter().collect())
    }

    /// Whether all of a set has the outcome, from after a rule on.
    fn all_boxes_get_outcome_after(
        &self,
        (chain, rule): RulePosition,
        cells: Vec<HyperRect>,
        sweep: OutcomeSweepContext<'_>,
        depth: usize,
    ) -> bool {
        let Some(left) = self.boxes_undecided_after_chain(chain, rule + 1, cells, sweep, depth)
        else {
            return false;
        };
        if left.is_empty() {
            return true;
        }
        let RequiredOutcome::DecidedByTarget(target) = sweep.required else { return true };
        if let Some(policy) = self.table.chains[chain].policy {
            sweep.deciders.borrow_mut().insert(Decider::Policy(chain));
            return policy_target(policy) == target;
        }
        let callers = &self.callers[chain];
        if depth == MAX_JUMP_DEPTH || callers.is_empty() || callers.len() > MAX_CALLERS_FOLLOWED {
            return false;
        }
        callers.iter().all(|caller| match self.intersect_with_matched_boxes(*caller, &left) {
            Some(cells) if cells.is_empty() => true,
            Some(cells) => {
                matches!(self.rule(*caller).target, Target::Jump(_))
                    && self.all_boxes_get_outcome_after(*caller, cells, sweep, depth + 1)
            }
            None => false,
        })
    }

    /// The rules of a chain, from one on, whose matches may overlap a set, in their order.
    ///
    /// Near rules answer most questions. They are listed without the index, which would have to
    /// open every node that has rules before and after the first one.
    fn rules_maybe_overlapping(
        &self,
        chain: usize,
        from: usize,
        cells: &[HyperRect],
    ) -> impl Iterator<Item = usize> + use<'_> {
        let near = if from == 0 { 0 } else { MAX_RULES_SCANNED_WITHOUT_INDEX };
        let mut pairs_left = MAX_BOX_PAIRS_SCANNED_WITHOUT_INDEX;
        let near = self.chain_boxes[chain].rules_from(from).take(near).take_while(|rule| {
            let pairs = cells.len() * rule.boxes_maybe_matched().len().max(1);
            let is_within = pairs <= pairs_left;
            pairs_left = pairs_left.saturating_sub(pairs);
            is_within
        });
        let end = from + near.count();
        let cells = cells.to_vec();
        let rules = end..self.chain_boxes[chain].rule_count();
        let search = move || {
            let index = self.overlap_index(chain);
            index.rules_overlapping(cells.iter(), rules, &self.examined_box_counter)
        };
        (from..end).chain(std::iter::once_with(search).flatten())
    }

    /// The part of a set that leaves a chain undecided; `None` if some of it may have another
    /// outcome.
    fn boxes_undecided_after_chain(
        &self,
        chain: usize,
        from: usize,
        mut cells: Vec<HyperRect>,
        sweep: OutcomeSweepContext<'_>,
        depth: usize,
    ) -> Option<Vec<HyperRect>> {
        if cells.len() > MAX_BOXES_PER_SET || depth == MAX_JUMP_DEPTH {
            return None;
        }
        let fate = sweep.required;
        let mut returned = Vec::new();
        for rule in self.rules_maybe_overlapping(chain, from, &cells) {
            if cells.is_empty() {
                break;
            }
            let at = (chain, rule);
            let boxes = self.rule_boxes(at);
            let acts = || !sweep.rules_shadowed_before_removal.contains(&at);
            if do_boxes_overlap(boxes.stateful(), &cells) {
                return None;
            }
            for (number, hot) in boxes.boxes_maybe_dropped().enumerate() {
                if cells.iter().any(|c| c.intersects(hot)) {
                    if !fate.is_decision_by_target(&Target::Drop) {
                        return None;
                    }
                    sweep.deciders.borrow_mut().insert(Decider::Rule(at));
                    if number < boxes.exact_hotdrop().len() && acts() {
                        cells = subtract_boxes(&cells, std::iter::once(hot));
                    }
                }
            }
            if !do_boxes_overlap(boxes.boxes_maybe_matched(), &cells) {
                continue;
            }
            let met = self.intersect_with_matched_boxes(at, &cells)?;
            let back = match &self.rule(at).target {
                target if fate.is_decision_by_target(target) => {
                    sweep.deciders.borrow_mut().insert(Decider::Rule(at));
                    Vec::new()
                }
                Target::Return => {
                    returned.extend(met);
                    Vec::new()
                }
                Target::Jump(_) => self.boxes_undecided_after_chain(
                    self.chain_graph.chain_entered_by_rule(chain, rule)?,
                    0,
                    met,
                    sweep,
                    depth + 1,
                )?,
                _ => return None,
            };
            if boxes.is_exact() && acts() {
                cells = subtract_boxes(&cells, boxes.boxes_maybe_matched());
                cells.extend(back);
            }
            if cells.len() + returned.len() > MAX_BOXES_PER_SET
                || self.is_over_budget_counting_boxes(1)
                || self.is_over_budget_counting_tests_of_boxes(&cells)
            {
                return None;
            }
        }
        cells.extend(returned);
        Some(cells)
    }
}

fn policy_target(policy: Policy) -> &'static Target {
    match policy {
        Policy::Accept => &Target::Accept,
        Policy::Drop => &Target::Drop,
    }
}

fn do_boxes_overlap<'b>(mut a: impl Iterator<Item = &'b HyperRect>, b: &[HyperRect]) -> bool {
    a.any(|x| b.iter().any(|y| x.intersects(y)))
}

/// What of some cells others leave.
fn subtract_boxes<'b>(
    cells: &[HyperRect],
    others: impl Iterator<Item = &'b HyperRect>,
) -> Vec<HyperRect> {
    let mut left = cells.to_vec();
    for other in others {
        subtract_box_and_report_cut(&mut left, other);
    }
    left
}
