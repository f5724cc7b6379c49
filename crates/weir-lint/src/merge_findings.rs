//! Merges findings of one cause into one finding with several places.
//!
//! Lints consider one rule at a time, and so do comments, baselines and fixes. People think in
//! causes: a rule that decides all packets of a hundred others is one mistake. So each finding may
//! have a [`RootCause`](crate::root_cause::RootCause), and findings with the same cause are merged
//! last.

use std::collections::HashMap;

use weir_model::Family;

use crate::finding::{Finding, Fix, RelatedPlace};

/// Merges findings of the same cause, each at the position of the first.
pub(crate) fn merge_by_root_cause(all: Vec<Finding>) -> Vec<Finding> {
    let mut groups: Vec<Vec<Finding>> = Vec::new();
    let mut by_key: HashMap<(&'static str, Option<Family>, String), usize> = HashMap::new();
    for f in all {
        let Some(cause) = &f.root_cause else {
            groups.push(vec![f]);
            continue;
        };
        let key = (f.lint.id, f.family, cause.grouping_key.clone());
        match by_key.get(&key) {
            Some(at) => groups[*at].push(f),
            None => {
                by_key.insert(key, groups.len());
                groups.push(vec![f]);
            }
        }
    }
    groups.into_iter().filter_map(merge_finding_group).collect()
}

fn merge_finding_group(group: Vec<Finding>) -> Option<Finding> {
    let n = group.len();
    let mut rest = group.into_iter();
    let mut first = rest.next()?;
    let Some(cause) = first.root_cause.take() else { return Some(first) };
    let mut also = Vec::new();
    let own = |f: &Finding| {
        let (place, span) = (f.place.clone()?, f.span);
        Some(RelatedPlace { place, span, label: cause.label.clone() })
    };
    match &cause.blamed_place {
        Some((place, span)) => {
            also.extend(own(&first).filter(|a| a.place != *place));
            (first.place, first.span) = (Some(place.clone()), *span);
            if let Some(one) = &cause.message_for_one {
                first.message.clone_from(one);
            }
        }
        None if n == 1 => return Some(first),
        None => {}
    }
    if n > 1 {
        first.message = cause.message_for_many.replace("{n}", &n.to_string());
    }
    if let Some(help) = &cause.help {
        first.help.clone_from(help);
    }
    for f in rest {
        also.extend(own(&f).filter(|a| first.place.as_ref() != Some(&a.place)));
        first.severity = first.severity.max(f.severity);
        first.wasted_comparisons = first.wasted_comparisons.saturating_add(f.wasted_comparisons);
        for other in f.related_places {
            if !first.related_places.contains(&other) {
                first.related_places.push(other);
            }
        }
        if let Some(more) = f.fix {
            let fix = first.fix.get_or_insert(Fix { edits: Vec::new(), changes_counters: false });
            fix.edits.extend(more.edits);
            fix.changes_counters |= more.changes_counters;
        }
    }
    let blamed = first.place.clone();
    let others = std::mem::take(&mut first.related_places).into_iter();
    also.extend(others.filter(|a| Some(&a.place) != blamed.as_ref()));
    first.related_places = also;
    Some(first)
}
