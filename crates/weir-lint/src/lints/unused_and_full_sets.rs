//! Sets that are unused, unknown, empty or full.

use std::collections::HashSet;

use weir_model::effect::list_target_sets_with_write_flags;
use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::managing_programs::program_of_chain_or_set;
use weir_model::{ChangingSets, ElementPart, IpSet, Match, SetOption, SharedName};

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::{Finding, RulesetEdit};
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(UNUSED_SET, "unused-set", Note, fix);
define_lint!(UNKNOWN_SET, "unknown-set", Warning);
define_lint!(EMPTY_SET, "empty-set", Note);
define_lint!(FULL_SET, "full-set", Warning);
define_lint!(SET_OF_OTHER_FAMILY, "set-of-other-family", Warning);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily {
    lints: &[&UNUSED_SET, &UNKNOWN_SET, &EMPTY_SET, &FULL_SET, &SET_OF_OTHER_FAMILY],
    run_lints,
};

/// Sets are judged where there are any.
fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    let firewall = context.firewall;
    if firewall.sets.is_empty() {
        return;
    }
    let changing = ChangingSets::from_firewall(firewall);
    let mut used: HashSet<SharedName> = HashSet::new();
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            used.extend(
                list_target_sets_with_write_flags(&rule.target).into_iter().map(|(name, _)| name),
            );
            for m in &rule.matches {
                let Match::Set(m) = m else { continue };
                used.insert(m.name.clone());
                let (lint, message, help) = match firewall.find_set(&m.name) {
                    None => (
                        &UNKNOWN_SET,
                        format!("set {} is not among the given sets", m.name),
                        "pass the complete output of `ipset save`",
                    ),
                    Some(set) if set.family.is_some_and(|f| f != table.family()) => (
                        &SET_OF_OTHER_FAMILY,
                        format!("set {} holds addresses of the other family", m.name),
                        "use a set that was created for the family of these rules",
                    ),
                    Some(set) if set.elements.is_empty() && !changing.contains(&m.name) => (
                        &EMPTY_SET,
                        format!("set {} has no elements", m.name),
                        "find the program that fills it, or remove the rule and the set",
                    ),
                    Some(_) => continue,
                };
                let cause = RootCause::new(
                    &*m.name,
                    format!("{message} ({{n}} rules test it)"),
                    "and here",
                );
                out.push(
                    table
                        .new_rule_finding(lint, chain, i, message)
                        .with_help(help)
                        .with_root_cause(cause),
                );
            }
        }
    }
    let members = firewall.sets.iter().flat_map(|s| s.elements.iter()).flat_map(|e| &e.parts);
    used.extend(members.filter_map(|p| match p {
        ElementPart::MemberSet(name) => Some(name.clone()),
        _ => None,
    }));
    for set in &firewall.sets {
        if !used.contains(&set.name) {
            out.push(unused_set_finding(set));
        }
        out.extend(find_nearly_full_set(set));
    }
}

fn unused_set_finding(set: &IpSet) -> Finding {
    let name = &set.name;
    let message = format!("no rule names set {name} ({} elements)", set.elements.len());
    let program = program_of_chain_or_set(name);
    let found = Finding::new_with_span_only(&UNUSED_SET, set.span, message)
        .with_blamed_program(program)
        .with_help(format!("remove it (`ipset destroy {name}`), unless another program uses it"));
    match program.is_some() {
        true => found,
        false => found.with_fix(vec![RulesetEdit::RemoveSet { set: name.clone() }]),
    }
}

/// Sets that are full or nearly full: adding fails with `Hash is full`.
fn find_nearly_full_set(set: &IpSet) -> Option<Finding> {
    if set.kind.storage != SetStorage::Hash || set.options.contains(&SetOption::ForceAdd) {
        return None;
    }
    let max = set.maxelem_or_default();
    let elements = set.elements.len();
    // A set that weir or another program made to measure is not meant to grow.
    if elements < 1024 || elements * 10 < max * 9 || set.kind.data_types.contains(&SetDataType::Set)
    {
        return None;
    }
    let message = format!("set {} holds {elements} of at most {max} elements", set.name);
    let help = "create it with a larger maxelem";
    Some(Finding::new_with_span_only(&FULL_SET, set.span, message).with_help(help))
}
