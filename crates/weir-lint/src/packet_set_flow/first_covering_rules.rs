//! The first rule of a chain that takes all packets of a box, remembered for each box.
//!
//! Which rule that is depends on the box alone, so it is searched once for all rules that have the
//! box. If no rule is found, a later rule with the same box continues where the search ended.

use std::ops::Range;

use super::chain_boxes::BoxNumber;

/// What is known of the boxes of a chain, by their numbers.
#[derive(Default)]
pub(super) struct FirstCoveringRules {
    searched: Vec<SearchedRules>,
}

/// How far the rules were searched for one that takes all packets of a box.
#[derive(Clone, Default)]
struct SearchedRules {
    /// All rules before this one were searched.
    searched_before: usize,
    covering_rule: Option<usize>,
}

impl FirstCoveringRules {
    pub fn of_boxes(count: usize) -> FirstCoveringRules {
        FirstCoveringRules { searched: vec![SearchedRules::default(); count] }
    }

    /// The first rule before `at` that takes all packets of a box. `search` finds it in a range of
    /// rules, or gives up with `Err`.
    pub fn find_or_search(
        &mut self,
        number: BoxNumber,
        at: usize,
        search: impl FnOnce(Range<usize>) -> Result<Option<usize>, SearchAbandoned>,
    ) -> Result<Option<usize>, SearchAbandoned> {
        let known = &mut self.searched[number as usize];
        if known.covering_rule.is_none() && known.searched_before < at {
            known.covering_rule = search(known.searched_before..at)?;
            known.searched_before = at;
        }
        Ok(known.covering_rule.filter(|rule| *rule < at))
    }
}

/// The work limit was reached before the search ended.
pub(super) struct SearchAbandoned;
