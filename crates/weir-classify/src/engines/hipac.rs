//! nf-HiPAC: nested range trees, changed rule by rule.
//!
//! The fields have a fixed order, and a tree has a level for each. A node cuts its field at the
//! ends of the rules that reach it; each interval leads to a node of a later field, or to a leaf. A
//! look-up is a binary search per field that rules test on its path, whatever the number of rules.
//!
//! *Wildcard pointers.* A rule that does not test a field would be copied into every interval of
//! its nodes. Nodes of the source and the destination address have another subtree in addition to
//! the intervals, for exactly these rules. A look-up follows both, so it ends in at most four
//! leaves. In other fields such a rule is copied.
//!
//! *Leaves.* A leaf keeps its rules in order and, apart, the first that decides. nf-HiPAC keeps the
//! first terminal rule and the non-terminal ones before it. Those after it are kept here as well:
//! all matches need them, and a removal then does not search for what the removed rule hid.
//!
//! *Updates.* To insert a rule, the nodes of its fields are cut at both ends of its intervals, and
//! the rule descends into every interval within. The subtree of an interval that is cut belongs to
//! both parts. Nodes are reference counted and copied before they are written if a second part, or
//! a reader's copy of the tree, holds them; an update ends with one store of the top. A clone of
//! the classifier is thus a reader's snapshot. To remove a rule is the inverse; neighbouring
//! intervals found equal are merged. That cut subtrees are shared until they differ is an
//! improvement over the published structure, which copies them at once.
//!
//! *Cost.* Rules that are wide in one field and cut in the next multiply: their number to the power
//! of the number of fields at worst. An address prefix of 8 bits is copied into each interval below
//! it, since only rules without any test use the wildcard pointers. An update copies the array of
//! every node on its path.
//!
//! # Source
//! M. Bellion, T. Heinz: nf-HiPAC, <http://www.hipac.org>, 2002–2005. A. Feldmann,
//! S. Muthukrishnan: Tradeoffs for Packet Classification, INFOCOM 2000.

mod range_tree;

use std::collections::BTreeMap;

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{
    Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError,
};
use crate::engines::build_budget::BuildBudget;
use crate::engines::dimension::{Dimension, list_dimensions};
use crate::engines::filter_test_rows::filters_with_is_deciding;
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::{KeySchema, KeyTable, KeyWordTestMethod};

use self::range_tree::{RangeTree, RuleBox, TreeAxis, TreeChange};

const ENGINE_NAME: &str = "hipac";

/// The tree of a filter set. A clone shares its nodes.
#[derive(Clone, Debug)]
pub struct HipacClassifier {
    schema: KeySchema,
    tree: RangeTree,
    limits: BuildLimits,
    boxes_of_rule: BTreeMap<u32, (bool, Vec<RuleBox>)>,
}

impl HipacClassifier {
    /// The tree of a filter set, made by inserting its rules.
    ///
    /// # Errors
    /// It exceeds a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<HipacClassifier, ClassifierBuildError> {
        let mut tree = RangeTree::new(list_axes_in_hipac_order(filters.schema()));
        let mut boxes_of_rule: BTreeMap<u32, (bool, Vec<RuleBox>)> = BTreeMap::new();
        for (filter, is_deciding) in filters_with_is_deciding(filters) {
            let of_rule = boxes_of_rule.entry(filter.rule).or_insert((is_deciding, vec![]));
            of_rule.1.push(tree.list_constraints(filter.tests));
        }
        tree.cut_first_field_at_ends(boxes_of_rule.values().flat_map(|of| &of.1));
        let mut budget = BuildBudget::new(ENGINE_NAME, limits);
        for (&rule, (is_deciding, boxes)) in &boxes_of_rule {
            for of_rule in boxes {
                tree.change_leaves_in_box(
                    TreeChange::Insert { rule, is_deciding: *is_deciding },
                    of_rule,
                    &mut budget,
                )?;
            }
        }
        Ok(HipacClassifier {
            schema: filters.schema().clone(),
            tree,
            limits: *limits,
            boxes_of_rule,
        })
    }
}

/// Connection state, addresses, devices, protocol, ports: the order of nf-HiPAC.
fn list_axes_in_hipac_order(schema: &KeySchema) -> Vec<TreeAxis> {
    let rank = |of: &Dimension| {
        let word = &schema.words()[of.word as usize];
        match word.name.as_str() {
            _ if word.kind == KeyWordTestMethod::Bits => 0,
            name if name.starts_with("saddr") => 1,
            name if name.starts_with("daddr") => 2,
            "proto" => 4,
            "dport" => 5,
            "sport" => 6,
            _ => 3,
        }
    };
    let mut dimensions = list_dimensions(schema);
    dimensions.sort_by_key(rank);
    // Of an IPv6 address the first word: with more, the number of leaves would double for each.
    let has_wildcard_subtree = |of: &Dimension| {
        let name = schema.words()[of.word as usize].name.as_str();
        matches!(name, "saddr" | "daddr" | "saddr[0]" | "daddr[0]")
    };
    dimensions
        .into_iter()
        .map(|of| TreeAxis { dimension: of, has_wildcard_subtree: has_wildcard_subtree(&of) })
        .collect()
}

impl UpdatableClassifier for HipacClassifier {
    fn insert(&mut self, update: SingleFilterRule<'_>) -> Result<(), UpdateError> {
        let SingleFilterRule { rule, is_deciding, tests_by_word: tests } = update;
        assert_eq!(tests.len(), self.schema.word_count(), "a test for each word");
        if self.boxes_of_rule.contains_key(&rule) {
            return Err(UpdateError::DuplicateRule(rule));
        }
        let of_rule = self.tree.list_constraints(tests);
        let mut next = self.tree.clone();
        let mut budget = BuildBudget::new(ENGINE_NAME, &self.limits);
        next.change_leaves_in_box(TreeChange::Insert { rule, is_deciding }, &of_rule, &mut budget)
            .map_err(|limit| UpdateError::LimitReached { rule, limit: limit.to_string() })?;
        self.tree = next;
        self.boxes_of_rule.insert(rule, (is_deciding, vec![of_rule]));
        Ok(())
    }

    fn remove(&mut self, rule: u32) -> Result<(), UpdateError> {
        let (_, boxes) = self.boxes_of_rule.get(&rule).ok_or(UpdateError::MissingRule(rule))?;
        let mut next = self.tree.clone();
        // A removal must not fail for want of memory.
        let limits = BuildLimits { memory_bytes_max: usize::MAX, steps_max: u64::MAX };
        let mut budget = BuildBudget::new(ENGINE_NAME, &limits);
        let decides = |rule: u32| self.boxes_of_rule.get(&rule).is_some_and(|of| of.0);
        for of_rule in boxes {
            next.change_leaves_in_box(
                TreeChange::Remove { rule, decides: &decides },
                of_rule,
                &mut budget,
            )
            .map_err(|limit| UpdateError::LimitReached { rule, limit: limit.to_string() })?;
        }
        self.tree = next;
        self.boxes_of_rule.remove(&rule);
        Ok(())
    }
}

impl Classifier for HipacClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (key, first) in keys.keys().zip(first) {
            *first = NO_RULE;
            self.tree.visit_leaves(key, &mut |leaf| *first = (*first).min(leaf.first_deciding));
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            self.tree.visit_leaves(key, &mut |leaf| {
                leaf.rules.iter().for_each(|rule| lists.push(*rule));
            });
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.boxes_of_rule.get(&rule).is_some_and(|of| of.0)
    }

    fn memory_bytes(&self) -> usize {
        self.tree.count_bytes()
    }
}
