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
//! split much faster by [`stretches`](crate::stretches()).

use thiserror::Error;
use weir_model::Rule;

use crate::barrier::{Barrier, barrier};
use crate::match_space::{Lowering, MatchSpace};
use crate::rect::HyperRect;

/// What a partition may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxBudget {
    /// Boxes, finished or not, at any time.
    pub boxes: usize,
    /// Pairs of boxes that are compared: time is proportional to them.
    pub comparisons: usize,
}

impl Default for BoxBudget {
    fn default() -> Self {
        BoxBudget { boxes: 16_384, comparisons: 16_000_000 }
    }
}

/// Why a run has no partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotPartitioned {
    /// A rule is a barrier: no set of packets says what it matches.
    #[error("rule {rule} {why}")]
    Barrier {
        /// Index in the run.
        rule: usize,
        /// Why.
        why: Barrier,
    },
    /// A rule tests something that a rule of the table may change, or that by itself gives too many
    /// boxes.
    #[error("the packets that rule {rule} matches are not known exactly")]
    Inexact {
        /// Index in the run.
        rule: usize,
    },
    /// The budget is exceeded.
    #[error("rule {rule} cuts the packets into too many boxes")]
    TooMany {
        /// Index in the run.
        rule: usize,
    },
}

impl NotPartitioned {
    /// The first rule that does not fit; those before it have a partition.
    pub const fn rule(self) -> usize {
        match self {
            NotPartitioned::Barrier { rule, .. }
            | NotPartitioned::Inexact { rule }
            | NotPartitioned::TooMany { rule } => rule,
        }
    }
}

/// What ends the traversal of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The target of a rule, by index in the run. The rule counts the packet.
    Rule(usize),
    /// A rule reads a transport header that is truncated: the packet is dropped, and the rule does
    /// not count it.
    CutHeader(usize),
    /// Nothing: the packet continues after the run.
    None,
}

/// Packets to which a run does the same.
#[derive(Clone, Debug, PartialEq)]
pub struct RunBox {
    /// The packets.
    pub packets: HyperRect,
    /// Rules that match before the deciding one, in order, by index in the run. Each counts the
    /// packet, unless a jump among those before it leads to where the packet is decided.
    pub credited: Vec<usize>,
    /// What decides.
    pub decision: Decision,
}

/// Cuts all packets into boxes over which a run of rules does the same.
///
/// ```
/// use weir_model::matching::ProtoMatch;
/// use weir_model::{
///     Chain, Family, Firewall, Policy, Rule, Ruleset, Table, TableName, Target,
/// };
/// use weir_partition::{BoxBudget, Decision, Lowering, partition};
/// let mut tcp = Rule::new(Target::Accept);
/// tcp.base.proto = Some(ProtoMatch { negated: false, proto: 6 });
/// let rules = vec![Rule::new(Target::None), tcp];
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
/// let mut lowering = Lowering::new(&firewall, &ruleset, table);
/// let boxes = partition(&mut lowering, &table.chains[0].rules, BoxBudget::default()).unwrap();
/// let decisions: Vec<_> = boxes.iter().map(|b| (&b.credited[..], b.decision)).collect();
/// // TCP, and the protocols below and above it.
/// let other = (&[0][..], Decision::None);
/// assert_eq!(decisions, [(&[0][..], Decision::Rule(1)), other, other]);
/// ```
///
/// # Errors
/// The first rule that does not fit, and why.
pub fn partition(
    lowering: &mut Lowering<'_>,
    rules: &[Rule],
    budget: BoxBudget,
) -> Result<Vec<RunBox>, NotPartitioned> {
    let mut cutter = Cutter { finished: Vec::new(), comparisons: 0 };
    let (packets, credited) = (lowering.world(), Vec::new());
    let mut open = vec![RunBox { packets, credited, decision: Decision::None }];
    for (rule, of) in rules.iter().enumerate() {
        if let Some(why) = barrier(of, lowering.family()) {
            return Err(NotPartitioned::Barrier { rule, why });
        }
        let space = lowering.reach(of);
        if !is_exact(&space) {
            return Err(NotPartitioned::Inexact { rule });
        }
        open = cutter.cut(open, rule, &space, of.target.leaves_chain());
        let boxes = open.len() + cutter.finished.len();
        if boxes > budget.boxes || cutter.comparisons > budget.comparisons {
            return Err(NotPartitioned::TooMany { rule });
        }
    }
    cutter.finished.extend(open);
    Ok(cutter.finished)
}

fn is_exact(space: &MatchSpace) -> bool {
    space.exact && space.asks.is_empty() && space.hot.iter().all(|(_, exact)| *exact)
}

struct Cutter {
    finished: Vec<RunBox>,
    comparisons: usize,
}

impl Cutter {
    /// The boxes after a rule, of those before it.
    fn cut(
        &mut self,
        open: Vec<RunBox>,
        rule: usize,
        space: &MatchSpace,
        leaves: bool,
    ) -> Vec<RunBox> {
        let mut behind = Vec::with_capacity(open.len());
        for RunBox { packets, credited, decision } in open {
            self.comparisons += space.hot.len() + space.cells.len();
            let mut left = vec![packets];
            for (hot, _) in &space.hot {
                let (credited, decision) = (&credited, Decision::CutHeader(rule));
                let of = |packets| RunBox { packets, credited: credited.clone(), decision };
                self.finished.extend(split(&mut left, hot).into_iter().map(of));
            }
            for cell in &space.cells {
                let inside = split(&mut left, cell).into_iter();
                if leaves {
                    let (credited, decision) = (&credited, Decision::Rule(rule));
                    let of = |packets| RunBox { packets, credited: credited.clone(), decision };
                    self.finished.extend(inside.map(of));
                } else {
                    let credited = [&credited[..], &[rule]].concat();
                    let of = |packets| RunBox { packets, credited: credited.clone(), decision };
                    behind.extend(inside.map(of));
                }
            }
            let of = |packets| RunBox { packets, credited: credited.clone(), decision };
            behind.extend(left.into_iter().map(of));
        }
        behind
    }
}

/// Takes what is inside of a box out of some boxes that do not overlap.
fn split(boxes: &mut Vec<HyperRect>, by: &HyperRect) -> Vec<HyperRect> {
    let mut inside = Vec::new();
    let mut outside = Vec::with_capacity(boxes.len());
    for rect in boxes.drain(..) {
        inside.extend(rect.and(by));
        rect.minus(by, &mut outside);
    }
    *boxes = outside;
    inside
}
