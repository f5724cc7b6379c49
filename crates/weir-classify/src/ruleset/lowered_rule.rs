//! One rule: the packets that a look-up finds for it, and whether they are exactly its own.

use std::fmt;

use weir_model::effect::fields_written_for_later_rules;
use weir_model::ipset::SetDataType;
use weir_model::{
    Family, Field, FieldSet, Firewall, Layer, Match, Rule, Test, lower_to_tests_with_match_index,
};
use weir_partition::{BarrierReason, BoxLowering, HyperRect, find_barrier_reason};

use super::key_layout::count_conjunctions_for_number_fields;

/// The most filters that the look-up of one rule may take.
const FILTERS_PER_RULE_MAX: usize = 256;

/// Why a rule is evaluated itself after a look-up found that it may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvaluationReason {
    /// It is a barrier.
    StatefulOrOpaqueMatch(BarrierReason),
    /// Its tests are no box, or too many: a field that only some packets have under a mask, a set
    /// with counters or of unknown content, more than 64 boxes or 254 devices.
    NotBoxes,
}

impl fmt::Display for EvaluationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluationReason::StatefulOrOpaqueMatch(reason) => reason.fmt(f),
            EvaluationReason::NotBoxes => f.write_str("has tests that are not a few boxes"),
        }
    }
}

/// What a look-up needs to know of a rule.
pub(super) struct RuleForLookup {
    /// The packets that it matches; those for which it must be evaluated if there is a reason.
    pub matched_or_candidate_boxes: Vec<HyperRect>,
    /// The packets that it drops because it requires a truncated header; empty with a reason.
    pub truncated_header_drop_boxes: Vec<HyperRect>,
    pub evaluation_reason: Option<EvaluationReason>,
    /// Fields that these packets are told by.
    pub reads: FieldSet,
    /// Fields that rules after it may find changed by its matches or its target.
    pub writes: FieldSet,
}

/// Lowers a rule for look-ups.
pub(super) fn lower_rule_for_lookup(
    lowering: &mut BoxLowering<'_>,
    firewall: &Firewall,
    rule: &Rule,
) -> RuleForLookup {
    let family = lowering.family();
    let writes = fields_written_for_later_rules(rule);
    let boxes = lowering.lower_rule(rule);
    let tests = lower_to_tests_with_match_index(rule, family);
    let is_exact = boxes.is_exact
        && boxes.stateful_boxes.is_empty()
        && boxes.hotdrop_boxes_with_exactness.iter().all(|dropped| dropped.1)
        && !tests_mac_set(rule, firewall);
    let truncated_header_drop_boxes: Vec<HyperRect> =
        boxes.hotdrop_boxes_with_exactness.into_iter().map(|b| b.0).collect();
    if is_exact
        && fits_filter_limits(lowering, &boxes.matched_boxes)
        && fits_filter_limits(lowering, &truncated_header_drop_boxes)
    {
        let reads = collect_read_fields(tests.iter().map(|t| &t.1));
        return RuleForLookup {
            matched_or_candidate_boxes: boxes.matched_boxes,
            truncated_header_drop_boxes,
            evaluation_reason: None,
            reads,
            writes,
        };
    }
    // Evaluating a question or a counting set has effects of its own, so the rule is evaluated for
    // all packets that pass the matches before the first of these, or are dropped by them.
    let is_question = |test: &Test| matches!(test, Test::Opaque { .. } | Test::Set { .. });
    let first = tests.iter().position(|t| is_question(&t.1)).unwrap_or(tests.len());
    let mut prefix = rule.clone();
    if let Some((Some(index), _)) = tests.get(first) {
        prefix.matches.truncate(*index);
    }
    let before = lowering.lower_rule(&prefix);
    let mut matched_boxes = before.matched_boxes;
    matched_boxes.extend(before.hotdrop_boxes_with_exactness.into_iter().map(|b| b.0));
    if !fits_filter_limits(lowering, &matched_boxes) {
        matched_boxes = vec![lowering.all_packets_with_valid_codes()];
    }
    RuleForLookup {
        matched_or_candidate_boxes: matched_boxes,
        truncated_header_drop_boxes: Vec::new(),
        evaluation_reason: Some(find_evaluation_reason(rule, family)),
        reads: collect_read_fields(tests[..first].iter().map(|t| &t.1)),
        writes,
    }
}

fn find_evaluation_reason(rule: &Rule, family: Family) -> EvaluationReason {
    match find_barrier_reason(rule, family) {
        Some(
            reason @ (BarrierReason::StatefulMatch
            | BarrierReason::OpaqueMatch
            | BarrierReason::IpsetMatch),
        ) => EvaluationReason::StatefulOrOpaqueMatch(reason),
        _ => EvaluationReason::NotBoxes,
    }
}

fn fits_filter_limits(lowering: &BoxLowering<'_>, boxes: &[HyperRect]) -> bool {
    let all = lowering.all_packets_with_valid_codes();
    let filters = boxes.iter().map(|packets| count_conjunctions_for_number_fields(packets, &all));
    boxes.len() <= FILTERS_PER_RULE_MAX && filters.sum::<usize>() <= FILTERS_PER_RULE_MAX
}

/// Whether it tests a set of MAC addresses: a packet does not say its destination's.
fn tests_mac_set(rule: &Rule, firewall: &Firewall) -> bool {
    let has_macs = |m: &Match| match m {
        Match::Set(m) => firewall
            .find_set(&m.name)
            .is_some_and(|set| set.kind.data_types.contains(&SetDataType::Mac)),
        _ => false,
    };
    rule.matches.iter().any(has_macs)
}

/// The fields whose change could change which tests hold. How much of a transport header there is
/// depends on the length.
fn collect_read_fields<'t>(tests: impl Iterator<Item = &'t Test>) -> FieldSet {
    let ports = FieldSet::from_fields(&[Field::Sport, Field::Dport, Field::Length]);
    let of_test = |test: &Test| match test {
        Test::Field { field, .. } if field.row().layer == Layer::Transport => {
            ports.union(FieldSet::from_fields(&[*field]))
        }
        Test::Field { field, .. } => FieldSet::from_fields(&[*field]),
        Test::EitherPort { .. } => ports,
        // What a set of packets is told by depends on its type.
        Test::Set { .. } => FieldSet::ALL,
        Test::Opaque { .. } | Test::Never => FieldSet::NONE,
    };
    tests.map(of_test).fold(FieldSet::NONE, FieldSet::union)
}
