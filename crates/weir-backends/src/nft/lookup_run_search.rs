//! Runs: rules that one lookup can replace, found among the rules of a chain.

use weir_model::Family;

use super::lookup_class_rules::SharedAndRemainingClassRules;
use super::lookup_classes::{
    LookupClasses, LookupKey, MIN_RULES_PER_LOOKUP_RUN, RuleKeyValues, divide_rule_run_into_classes,
};
use super::lowered_rule::LoweredRule;

/// A run that was chosen.
pub(super) struct ChosenLookupRuleRun {
    pub lookup_key: LookupKey,
    pub len: usize,
    pub classes: LookupClasses,
    /// The protocol that all its rules ask for.
    pub port_protocol: Option<u128>,
}

impl ChosenLookupRuleRun {
    /// True where writing it splits its chain.
    pub fn would_split_chain(&self, items: &[LoweredRule]) -> bool {
        let stripped: Vec<LoweredRule> =
            items.iter().map(|i| self.lookup_key.strip_key_tests(i)).collect();
        self.classes
            .rule_lists
            .iter()
            .any(|list| SharedAndRemainingClassRules::new(&stripped, list).needs_exit_goto())
    }
}

/// How far the items from here lie on an axis.
#[derive(Clone, Default)]
pub(super) struct CachedKeyedRules {
    end_index: usize,
    keyed_rules: Vec<RuleKeyValues>,
    start_index: usize,
    /// No run on this axis needs to be tried before this position.
    retry_from: usize,
}

impl CachedKeyedRules {
    fn keyed_rules_from(
        &mut self,
        axis: &LookupKey,
        items: &[LoweredRule],
        at: usize,
    ) -> &[RuleKeyValues] {
        if at >= self.end_index {
            self.keyed_rules.clear();
            self.start_index = at;
            self.end_index = at;
            for item in &items[at..] {
                let Some(place) = axis.key_values_of_rule(item) else { break };
                if self.keyed_rules.first().is_some_and(|p| p.port_protocol != place.port_protocol)
                {
                    break;
                }
                self.keyed_rules.push(place);
                self.end_index += 1;
            }
            if self.end_index == at {
                self.end_index = at + 1;
            }
        }
        &self.keyed_rules[(at - self.start_index).min(self.keyed_rules.len())..]
    }
}

/// The run that saves most from `at` on, if any is worth a lookup.
pub(super) fn find_best_lookup_run(
    family: Family,
    axes: &[LookupKey],
    extents: &mut [CachedKeyedRules],
    items: &[LoweredRule],
    at: usize,
) -> Option<ChosenLookupRuleRun> {
    let mut best: Option<(f64, ChosenLookupRuleRun)> = None;
    for (axis, extent) in axes.iter().zip(extents) {
        if at < extent.retry_from {
            continue;
        }
        let places = extent.keyed_rules_from(axis, items, at);
        let whole = places.len();
        let mut len = whole;
        while len >= MIN_RULES_PER_LOOKUP_RUN
            && best.as_ref().is_none_or(|(gain, _)| *gain < len as f64)
        {
            if let Some((gain, run)) = build_lookup_run_and_estimate_savings(
                family,
                axis,
                &items[at..at + len],
                &places[..len],
            ) {
                if best.as_ref().is_none_or(|(other, _)| gain > *other) {
                    best = Some((gain, run));
                }
                break;
            }
            len = if len < 2 * MIN_RULES_PER_LOOKUP_RUN {
                MIN_RULES_PER_LOOKUP_RUN - 1
            } else {
                len / 2
            };
        }
        // Looking again one rule later would cost the square of a stretch without gain.
        if len < MIN_RULES_PER_LOOKUP_RUN {
            extent.retry_from = at + whole.div_ceil(4);
        }
    }
    best.map(|(_, run)| run)
}

/// The run, and how many rules it saves on average; `None` if its classes grow too long.
fn build_lookup_run_and_estimate_savings(
    family: Family,
    axis: &LookupKey,
    items: &[LoweredRule],
    places: &[RuleKeyValues],
) -> Option<(f64, ChosenLookupRuleRun)> {
    let decides: Vec<bool> = items
        .iter()
        .map(|i| i.action.is_end_of_chain_traversal() && axis.covers_all_tests(i))
        .collect();
    let refs: Vec<&RuleKeyValues> = places.iter().collect();
    let classes = divide_rule_run_into_classes(&refs, &decides, family)?;
    let lookup = if classes.has_interval_keys { 4.0 } else { 3.0 };
    let gain = items.len() as f64 - classes.mean_rules_per_element() - lookup;
    let proto = places[0].port_protocol;
    let run = ChosenLookupRuleRun {
        lookup_key: axis.clone(),
        len: items.len(),
        classes,
        port_protocol: proto,
    };
    (gain > 0.0).then_some((gain, run))
}
