//! Interval decision diagrams: Compact Filter, the (multi-terminal) IDD of Christiansen and Fleury.
//!
//! A list of rules is a nested if-then-else: if the packet matches the first rule, that rule, else
//! what the others say. An interval decision diagram is that expression brought into one form: a
//! node tests one field, cut into intervals with a child each; fields come in the same order on all
//! paths; adjacent intervals have different children; a node with one interval is omitted; and no
//! two nodes are equal. A look-up is one binary search per field, whatever the number of rules.
//!
//! *Construction.* Each filter is a small diagram. Two diagrams are combined by *apply*, which
//! walks both at once and keeps its result for every pair of nodes; new nodes are looked up in a
//! table of all nodes, so equal ones are one. Neighbouring parts of the list are combined pairwise,
//! as in a tournament: combining each rule with all that follow would copy the large root every
//! time.
//!
//! *All matches.* The published filter knows the first match. For all matches, a second diagram has
//! lists of rules as terminals, and *apply* unites them. Where it exceeds a quarter of the limits,
//! all matches are found by reading the rules in order.
//!
//! *Order of fields.* It changes the size by a factor of 30 on ClassBench, and no order suits all
//! sets. Two are tried, addresses first and addresses last, and the smaller diagram is kept.
//!
//! *Cost.* Where filters that are wide in different fields cross, each combination is a node: the
//! number of rules to the power of the number of fields at worst. Lists of all matches explode
//! earlier: millions at 10,000 rules. A change of the rules needs a new diagram.
//!
//! # Source
//! M. Christiansen, E. Fleury: An MTIDD Based Firewall Using Decision Diagrams for Packet
//! Filtering, Telecommunication Systems 27 (2004); An Interval Decision Diagram Based Firewall,
//! BRICS RS-02-43. K. Strehl, L. Thiele: Interval Diagrams, IEEE TCAD 19(8), 2000.

mod diagram;

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey, collect_deciding_rules};
use crate::engines::dimension::list_constrained_dimensions;
use crate::engines::filter_test_rows::FilterTestRows;
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

use self::diagram::{IntervalDiagram, TerminalKind};

/// The diagrams of a filter set.
#[derive(Clone, Debug)]
pub struct IntervalDecisionDiagramClassifier {
    first: IntervalDiagram,
    all_matches_diagram: Option<IntervalDiagram>,
    /// Read for all matches if there is no diagram of them.
    filters: FilterTestRows,
    deciding_rules: Vec<u32>,
}

impl IntervalDecisionDiagramClassifier {
    /// The diagrams of a filter set.
    ///
    /// # Errors
    /// The diagram of first matches exceeds a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<IntervalDecisionDiagramClassifier, ClassifierBuildError> {
        let first = build_with_smaller_field_order(filters, TerminalKind::FirstDeciding, limits)?;
        let all_matches_diagram = build_with_smaller_field_order(
            filters,
            TerminalKind::AllMatching,
            &limits.limits_of_all_matches_structure(),
        );
        Ok(IntervalDecisionDiagramClassifier {
            first,
            all_matches_diagram: all_matches_diagram.ok(),
            filters: FilterTestRows::new(filters),
            deciding_rules: collect_deciding_rules(filters),
        })
    }
}

/// The smaller of the diagrams with the fields in order and in reverse, half of the steps for each.
fn build_with_smaller_field_order(
    filters: &FilterSet,
    kind: TerminalKind,
    limits: &BuildLimits,
) -> Result<IntervalDiagram, ClassifierBuildError> {
    let limits = BuildLimits { steps_max: limits.steps_max / 2, ..*limits };
    let mut dimensions = list_constrained_dimensions(filters);
    let in_order = IntervalDiagram::build(filters, dimensions.clone(), kind, &limits);
    dimensions.reverse();
    // The second order is of use only if it is smaller.
    let memory_bytes_max = match &in_order {
        Ok(diagram) => limits.memory_bytes_max.min(4 * diagram.memory_bytes()),
        Err(_) => limits.memory_bytes_max,
    };
    let limits = BuildLimits { memory_bytes_max, ..limits };
    let reversed = IntervalDiagram::build(filters, dimensions, kind, &limits);
    match (in_order, reversed) {
        (Ok(a), Ok(b)) => Ok(if b.memory_bytes() < a.memory_bytes() { b } else { a }),
        (Err(_), Ok(diagram)) | (Ok(diagram), Err(_)) => Ok(diagram),
        (Err(error), Err(_)) => Err(error),
    }
}

impl Classifier for IntervalDecisionDiagramClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (key, first) in keys.keys().zip(first) {
            *first = self.first.find_rules(key).first().copied().unwrap_or(NO_RULE);
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            match &self.all_matches_diagram {
                Some(diagram) => diagram.find_rules(key).iter().for_each(|rule| lists.push(*rule)),
                None => self.filters.push_matching_rules(key, lists),
            }
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        let all_matches_diagram =
            self.all_matches_diagram.as_ref().map(IntervalDiagram::memory_bytes);
        self.first.memory_bytes()
            + all_matches_diagram.unwrap_or_else(|| self.filters.memory_bytes())
    }
}
