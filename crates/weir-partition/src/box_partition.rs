//! A run of rules as boxes.
//!
//! The packets are divided into boxes on which the matching rules, their order and the deciding
//! rule are constant. The simple method keeps a list of boxes and splits each by the boxes of one
//! rule after the other. Packets that a rule decides are finished and not considered again; packets
//! that it only counts stay in the list, separated from those that it does not match. So the boxes
//! never overlap, and their union is all packets.
//!
//! Rules that differ in several fields can split the packets into very many boxes: about the number
//! of rules to the power of the number of fields. So there is a budget. If it is exceeded, the
//! error names the rule, and the rules before it form their own run. A run over a single field is
//! split much faster by [`split_elementary_intervals`](crate::split_elementary_intervals).

use thiserror::Error;
use weir_model::Rule;

use crate::box_lowering::{BoxLowering, RulePacketBoxes};
use crate::hyper_rect::HyperRect;
use crate::rule_barrier::{BarrierReason, find_barrier_reason};

/// What a partition may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxBudget {
    /// Boxes, finished or not, at any time.
    pub boxes_max: usize,
    /// Pairs of boxes that are compared: time is proportional to them.
    pub comparisons_max: usize,
}

impl Default for BoxBudget {
    fn default() -> Self {
        BoxBudget { boxes_max: 16_384, comparisons_max: 16_000_000 }
    }
}

/// Why a run has no partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// A rule is a barrier: no set of packets says what it matches.
    #[error("rule {rule} {why}")]
    Barrier {
        /// Index in the run.
        rule: usize,
        /// Why.
        why: BarrierReason,
    },
    /// A rule tests something that a rule of the table may change, or that by itself gives too many
    /// boxes.
    #[error("the packets that rule {rule} matches are not known exactly")]
    InexactRule {
        /// Index in the run.
        rule: usize,
    },
    /// The budget is exceeded.
    #[error("rule {rule} cuts the packets into too many boxes")]
    BudgetExceeded {
        /// Index in the run.
        rule: usize,
    },
}

impl PartitionError {
    /// The first rule that does not fit; those before it have a partition.
    pub const fn failing_rule(self) -> usize {
        match self {
            PartitionError::Barrier { rule, .. }
            | PartitionError::InexactRule { rule }
            | PartitionError::BudgetExceeded { rule } => rule,
        }
    }
}

/// What ends the traversal of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoxDecision {
    /// The target of a rule, by index in the run. The rule counts the packet.
    DecidedByRule(usize),
    /// A rule reads a transport header that is truncated: the packet is dropped, and the rule does
    /// not count it.
    TruncatedHeaderDrop(usize),
    /// Nothing: the packet continues after the run.
    ContinueAfterRun,
}

/// Packets to which a run does the same.
#[derive(Clone, Debug, PartialEq)]
pub struct RunBox {
    /// The packets.
    pub packets: HyperRect,
    /// Rules that match before the deciding one, in order, by index in the run. Each counts the
    /// packet, unless a jump among those before it leads to where the packet is decided.
    pub rules_matched_before_decision: Vec<usize>,
    /// What decides.
    pub decision: BoxDecision,
}

/// Cuts all packets into boxes over which a run of rules does the same.
///
/// ```
/// use weir_model::rule_match::ProtoMatch;
/// use weir_model::{
///     Chain, Family, Firewall, Policy, Rule, Ruleset, Table, TableName, Target,
/// };
/// use weir_partition::{BoxBudget, BoxDecision, BoxLowering, partition_run};
/// let mut tcp = Rule::unconditional(Target::Accept);
/// tcp.base.proto = Some(ProtoMatch { negated: false, proto: 6 });
/// let rules = vec![Rule::unconditional(Target::None), tcp];
/// let chain = Chain { rules, ..Chain::new("FORWARD", Some(Policy::Drop)) };
/// let table = Table {
///     name: TableName::Filter,
///     chains: vec![chain],
///     leading_comments: vec![],
///     trailing_comments: vec![],
/// };
/// let ruleset = Ruleset { tables: vec![table], ..Ruleset::new(Family::V4) };
/// let firewall = Firewall { v4: Some(ruleset.clone()), ..Firewall::default() };
///
/// let table = &ruleset.tables[0];
/// let mut lowering = BoxLowering::for_table(&firewall, &ruleset, table);
/// let boxes = partition_run(&mut lowering, &table.chains[0].rules, BoxBudget::default()).unwrap();
/// let decisions: Vec<_> = boxes.iter().map(|b| (&b.rules_matched_before_decision[..], b.decision)).collect();
/// // TCP, and the protocols below and above it.
/// let other = (&[0][..], BoxDecision::ContinueAfterRun);
/// assert_eq!(decisions, [(&[0][..], BoxDecision::DecidedByRule(1)), other, other]);
/// ```
///
/// # Errors
/// The first rule that does not fit, and why.
pub fn partition_run(
    lowering: &mut BoxLowering<'_>,
    rules: &[Rule],
    budget: BoxBudget,
) -> Result<Vec<RunBox>, PartitionError> {
    let mut cutter = BoxPartitioner { finished_boxes: Vec::new(), comparisons: 0 };
    let (packets, credited) = (lowering.all_packets_with_valid_codes(), Vec::new());
    let mut open = vec![RunBox {
        packets,
        rules_matched_before_decision: credited,
        decision: BoxDecision::ContinueAfterRun,
    }];
    for (rule, of) in rules.iter().enumerate() {
        if let Some(why) = find_barrier_reason(of, lowering.family()) {
            return Err(PartitionError::Barrier { rule, why });
        }
        let space = lowering.lower_rule(of);
        if !has_exact_stateless_boxes(&space) {
            return Err(PartitionError::InexactRule { rule });
        }
        open = cutter.split_by_rule(open, rule, &space, of.target.leaves_chain());
        let boxes = open.len() + cutter.finished_boxes.len();
        if boxes > budget.boxes_max || cutter.comparisons > budget.comparisons_max {
            return Err(PartitionError::BudgetExceeded { rule });
        }
    }
    cutter.finished_boxes.extend(open);
    Ok(cutter.finished_boxes)
}

fn has_exact_stateless_boxes(space: &RulePacketBoxes) -> bool {
    space.is_exact
        && space.stateful_boxes.is_empty()
        && space.hotdrop_boxes_with_exactness.iter().all(|(_, exact)| *exact)
}

struct BoxPartitioner {
    finished_boxes: Vec<RunBox>,
    comparisons: usize,
}

impl BoxPartitioner {
    /// The boxes after a rule, of those before it.
    fn split_by_rule(
        &mut self,
        open: Vec<RunBox>,
        rule: usize,
        space: &RulePacketBoxes,
        leaves: bool,
    ) -> Vec<RunBox> {
        let mut behind = Vec::with_capacity(open.len());
        for RunBox { packets, rules_matched_before_decision: credited, decision } in open {
            self.comparisons +=
                space.hotdrop_boxes_with_exactness.len() + space.matched_boxes.len();
            let mut left = vec![packets];
            for (hot, _) in &space.hotdrop_boxes_with_exactness {
                let (credited, decision) = (&credited, BoxDecision::TruncatedHeaderDrop(rule));
                let of = |packets| RunBox {
                    packets,
                    rules_matched_before_decision: credited.clone(),
                    decision,
                };
                self.finished_boxes
                    .extend(extract_parts_inside_box(&mut left, hot).into_iter().map(of));
            }
            for cell in &space.matched_boxes {
                let inside = extract_parts_inside_box(&mut left, cell).into_iter();
                if leaves {
                    let (credited, decision) = (&credited, BoxDecision::DecidedByRule(rule));
                    let of = |packets| RunBox {
                        packets,
                        rules_matched_before_decision: credited.clone(),
                        decision,
                    };
                    self.finished_boxes.extend(inside.map(of));
                } else {
                    let credited = [&credited[..], &[rule]].concat();
                    let of = |packets| RunBox {
                        packets,
                        rules_matched_before_decision: credited.clone(),
                        decision,
                    };
                    behind.extend(inside.map(of));
                }
            }
            let of = |packets| RunBox {
                packets,
                rules_matched_before_decision: credited.clone(),
                decision,
            };
            behind.extend(left.into_iter().map(of));
        }
        behind
    }
}

/// Takes what is inside of a box out of some boxes that do not overlap.
fn extract_parts_inside_box(boxes: &mut Vec<HyperRect>, by: &HyperRect) -> Vec<HyperRect> {
    let mut inside = Vec::new();
    let mut outside = Vec::with_capacity(boxes.len());
    for rect in boxes.drain(..) {
        inside.extend(rect.and(by));
        rect.minus(by, &mut outside);
    }
    *boxes = outside;
    inside
}
