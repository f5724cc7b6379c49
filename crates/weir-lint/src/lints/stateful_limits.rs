//! Stateful matches with a limit or a list: which packets they count, and when they are reset.

use std::collections::BTreeSet;

use weir_model::effect::match_module_name;
use weir_model::rule_match::{ExtensionValue, StatefulMatch};
use weir_model::{Match, Predicate, Rule, Target, Test, lower_to_tests};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(BUDGET_BEFORE_TESTS, "budget-before-tests", Warning);
define_lint!(BUDGET_AFTER_ACCEPT, "budget-after-accept", Note, off);
define_lint!(SLOW_BUCKET, "slow-bucket", Note);
define_lint!(RECENT_NEVER_SET, "recent-never-set", Warning);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily {
    lints: &[&BUDGET_BEFORE_TESTS, &BUDGET_AFTER_ACCEPT, &SLOW_BUCKET, &RECENT_NEVER_SET],
    run_lints,
};

/// Milliseconds that a bucket may take to fill before a reload is worth a word.
const SLOW_LIMIT_BUCKET_FILL_MS: u64 = 3_600_000;
/// `--limit-burst` if it is not named (net/netfilter/xt_limit.c's user side).
const DEFAULT_LIMIT_BURST: u64 = 5;

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            out.extend(find_limit_before_tests(table, chain, i, rule));
            out.extend(find_limit_after_partial_accept(table, chain, i));
            for m in rule.matches.iter().filter_map(as_stateful_match) {
                out.extend(find_slow_bucket(table, chain, i, m));
            }
        }
    }
    find_recent_never_set(context, out);
}

fn as_stateful_match(m: &Match) -> Option<&StatefulMatch> {
    match m {
        Match::Stateful(s) => Some(s),
        _ => None,
    }
}

/// Tests to the right of a budget: packets that fail them have spent it.
fn find_limit_before_tests(
    table: &AnalyzedTable<'_>,
    chain: usize,
    i: usize,
    rule: &Rule,
) -> Option<Finding> {
    let at = rule.matches.iter().position(|m| {
        as_stateful_match(m).is_some_and(|s| matches!(s.module, "limit" | "hashlimit" | "quota"))
    })?;
    let family = table.family();
    // A real test, not a bare `-m tcp` or a comment.
    let tests = |m: &Match| {
        let mut alone = Rule::unconditional(Target::None);
        alone.matches.push(m.clone());
        lower_to_tests(&alone, family)
            .iter()
            .any(|t| !matches!(t, Test::Field { predicate: Predicate::Present, .. }))
    };
    let later =
        rule.matches[at + 1..].iter().find(|m| as_stateful_match(m).is_none() && tests(m))?;
    let name = match_module_name(later, family);
    let budget = match_module_name(&rule.matches[at], family);
    let message = format!("-m {budget} is spent on packets that -m {name} then rejects");
    let help = format!("write -m {budget} last, directly before -j");
    Some(table.new_rule_finding(&BUDGET_BEFORE_TESTS, chain, i, message).with_help(help))
}

/// Rules before a budget that accept some of the packets it is about.
fn find_limit_after_partial_accept(
    table: &AnalyzedTable<'_>,
    chain: usize,
    i: usize,
) -> Option<Finding> {
    let boxes = table.packet_set_flow.rule_boxes((chain, i));
    let asks = boxes.stateful();
    if asks.len() == 0 || boxes.is_approximated() {
        return None;
    }
    let first = (0..i).find(|e| {
        let rule = &table.chain_at(chain).rules[*e];
        let boxes = table.packet_set_flow.rule_boxes((chain, *e));
        let cells = boxes.boxes_maybe_matched();
        rule.target == Target::Accept
            && !boxes.is_approximated()
            && asks.clone().any(|a| cells.clone().any(|c| c.intersects(a)))
    })?;
    let message = format!("packets that rule {} accepts do not reach this limit", first + 1);
    let found = table.new_rule_finding(&BUDGET_AFTER_ACCEPT, chain, i, message);
    Some(
        found
            .with_related_place(table.related_place_of_rule(
                chain,
                first,
                "accepts some of its packets first",
            ))
            .with_help("move the rule up if the limit should cover them"),
    )
}

/// A bucket that fills slowly is full again after every reload.
fn find_slow_bucket(
    table: &AnalyzedTable<'_>,
    chain: usize,
    i: usize,
    m: &StatefulMatch,
) -> Option<Finding> {
    if m.module != "limit" {
        return None;
    }
    let value = |name: &str| m.options.iter().find(|o| o.name == name).map(|o| &o.value);
    let Some(ExtensionValue::RateCountPerMilliseconds(count, unit)) = value("limit") else {
        return None;
    };
    let burst = match value("limit-burst") {
        Some(ExtensionValue::Number(n)) => *n,
        _ => DEFAULT_LIMIT_BURST,
    };
    let fills_ms = unit.checked_div(*count)?.saturating_mul(burst);
    if fills_ms < SLOW_LIMIT_BUCKET_FILL_MS {
        return None;
    }
    let hours = fills_ms / SLOW_LIMIT_BUCKET_FILL_MS;
    let message =
        format!("the limit's bucket takes {hours} h to fill; every reload fills it at once");
    let help = "use -m hashlimit, whose buckets survive a reload";
    Some(table.new_rule_finding(&SLOW_BUCKET, chain, i, message).with_help(help))
}

/// Lists that are tested, but that no rule fills.
fn find_recent_never_set(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    let list = |s: &StatefulMatch| {
        let named = s.options.iter().find(|o| o.name == "name").map(|o| &o.value);
        match named {
            Some(ExtensionValue::Text(name)) => name.clone(),
            _ => "DEFAULT".to_owned(),
        }
    };
    let sets = |s: &StatefulMatch| s.options.iter().any(|o| o.name == "set");
    let mut set: BTreeSet<String> = BTreeSet::new();
    for table in &context.tables {
        let all = table.rules().flat_map(|(_, _, r)| &r.matches).filter_map(as_stateful_match);
        set.extend(all.filter(|s| s.module == "recent" && sets(s)).map(&list));
    }
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let asked = rule.matches.iter().filter_map(as_stateful_match);
            let mut asked = asked.filter(|s| s.module == "recent" && !sets(s)).map(&list);
            if let Some(name) = asked.find(|name| !set.contains(name)) {
                let message = format!("no rule adds to the list {name} of -m recent");
                let help = "add a rule with --set, or find the program that writes to the list";
                let many = format!("{message} ({{n}} rules test it)");
                let cause = RootCause::new(name, many, "tests it as well");
                out.push(
                    table
                        .new_rule_finding(&RECENT_NEVER_SET, chain, i, message)
                        .with_help(help)
                        .with_root_cause(cause),
                );
            }
        }
    }
}
