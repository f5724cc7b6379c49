//! A run of rules over the values of one field.
//!
//! All rules of the run test the same field by intervals. A packet has one value of the field, so
//! only rules whose test contains that value can match it. The values are divided into
//! split_elementary_intervals on which the list of these rules is constant: nothing changes between
//! two neighbouring ends of the rules' intervals. Equal lists are one *class*. This is the
//! partition of a run into boxes for a single field, in the time that sorting takes.
//!
//! A list ends after the first rule that decides regardless of other fields, because later rules
//! cannot match there. The lists of deeply nested prefixes can still add up to the square of the
//! number of rules, so they have a budget.

use std::collections::{BTreeSet, HashMap};

use thiserror::Error;

use crate::interval::Interval;

/// The lists of a run are longer together than was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the lists of rules exceed a total length of {budget}")]
pub struct RuleListsTooLong {
    /// What was allowed.
    pub budget: usize,
}

/// Lists of rules, each known by a number: its class.
#[derive(Clone, Debug)]
pub struct RuleListInterner<'a> {
    is_deciding: &'a [bool],
    class_by_list: HashMap<Vec<u32>, usize>,
    lists: Vec<Vec<u32>>,
    budget: usize,
    remaining_budget: usize,
}

impl<'a> RuleListInterner<'a> {
    /// An empty list, for a run whose i-th rule decides every packet that it matches if
    /// `decides[i]`. `budget`: total number of rules in all lists.
    pub fn new(decides: &'a [bool], budget: usize) -> Self {
        RuleListInterner {
            is_deciding: decides,
            class_by_list: HashMap::new(),
            lists: Vec::new(),
            budget,
            remaining_budget: budget,
        }
    }

    /// The class of some rules, which come in order.
    ///
    /// # Errors
    /// The lists became too long.
    pub fn intern_up_to_deciding_rule(
        &mut self,
        rules: impl Iterator<Item = u32>,
    ) -> Result<usize, RuleListsTooLong> {
        let too_long = RuleListsTooLong { budget: self.budget };
        let mut list = Vec::new();
        for i in rules {
            list.push(i);
            if self.is_deciding[i as usize] {
                break;
            }
        }
        if let Some(&class) = self.class_by_list.get(&list) {
            self.remaining_budget =
                self.remaining_budget.checked_sub(list.len() / 64).ok_or(too_long)?;
            return Ok(class);
        }
        self.remaining_budget = self.remaining_budget.checked_sub(list.len()).ok_or(too_long)?;
        self.lists.push(list.clone());
        self.class_by_list.insert(list, self.lists.len() - 1);
        Ok(self.lists.len() - 1)
    }

    /// The lists by class.
    pub fn into_lists(self) -> Vec<Vec<u32>> {
        self.lists
    }
}

/// The values of one field, cut where the list of rules changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementaryIntervals {
    /// Each distinct list of rules that may match, by their index in the run.
    pub rule_lists: Vec<Vec<u32>>,
    /// Values, in order, and the class of their list. Values that no rule tests for are omitted;
    /// neighbours may be of one class.
    pub intervals: Vec<(Interval, usize)>,
}

/// Cuts the values of one field where the rules that may match change.
///
/// `rules[i]`: the values of the i-th rule. `decides[i]`: it decides for every packet with one of
/// them. `budget`: rules that all lists may hold together.
///
/// ```
/// use weir_partition::split_elementary_intervals;
/// // 10-29 logs, 20-24 accepts, 10-29 drops.
/// let rules = [vec![(10, 29)], vec![(20, 24)], vec![(10, 29)]];
/// let found = split_elementary_intervals(&rules, &[false, true, true], 100).unwrap();
/// assert_eq!(found.intervals, [((10, 19), 0), ((20, 24), 1), ((25, 29), 0)]);
/// assert_eq!(found.rule_lists, [vec![0, 2], vec![0, 1]]);
/// ```
///
/// # Errors
/// The lists became too long.
pub fn split_elementary_intervals(
    rules: &[Vec<Interval>],
    decides: &[bool],
    budget: usize,
) -> Result<ElementaryIntervals, RuleListsTooLong> {
    let mut starts = Vec::new();
    let mut events: Vec<(u128, bool, u32)> = Vec::new();
    for (i, intervals) in rules.iter().enumerate() {
        for &(lo, hi) in intervals {
            events.push((lo, true, i as u32));
            starts.push(lo);
            if let Some(after) = hi.checked_add(1) {
                events.push((after, false, i as u32));
                starts.push(after);
            }
        }
    }
    starts.sort_unstable();
    starts.dedup();
    events.sort_unstable();
    let mut lists = RuleListInterner::new(decides, budget);
    let mut active = BTreeSet::new();
    let mut next = 0;
    let mut stretches = Vec::new();
    for (n, &start) in starts.iter().enumerate() {
        // At one value all ends come before all starts: false sorts first.
        while let Some(&(at, opens, i)) = events.get(next).filter(|e| e.0 == start) {
            debug_assert_eq!(at, start);
            if opens {
                active.insert(i);
            } else {
                active.remove(&i);
            }
            next += 1;
        }
        if active.is_empty() {
            continue;
        }
        let last = starts.get(n + 1).map_or(u128::MAX, |s| s - 1);
        stretches.push(((start, last), lists.intern_up_to_deciding_rule(active.iter().copied())?));
    }
    Ok(ElementaryIntervals { rule_lists: lists.into_lists(), intervals: stretches })
}
