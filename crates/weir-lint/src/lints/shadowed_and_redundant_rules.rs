//! Shadowed rules, redundant rules, and rules that overlap.

use std::collections::HashSet;

use weir_model::{Target, lower_to_tests};

use super::never_matches::NEVER_MATCHES;
use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::{Finding, RelatedPlace};
use crate::lint::{Lint, Severity, define_lint};
use crate::lint_family::LintFamily;
use crate::packet_set_flow::{Decider, RulePosition};
use crate::root_cause::RootCause;

define_lint!(DUPLICATE_RULE, "duplicate-rule", Note, fix);
define_lint!(SHADOWED_RULE, "shadowed-rule", Note, fix);
define_lint!(JUMP_NEVER_MATCHES, "jump-never-matches", Warning, fix);
define_lint!(REDUNDANT_RULE, "redundant-rule", Note, fix);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily {
    lints: &[&DUPLICATE_RULE, &SHADOWED_RULE, &JUMP_NEVER_MATCHES, &REDUNDANT_RULE],
    run_lints,
};

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        let judged = |at: &RulePosition| {
            table.is_reachable_rule(*at)
                && table.packet_set_flow.rule_boxes(*at).boxes_maybe_matched().len() > 0
        };
        let all: Vec<RulePosition> = table.rules().map(|(c, i, _)| (c, i)).filter(judged).collect();
        let mut ghosts = HashSet::new();
        for at in &all {
            if let Some(by) = table.packet_set_flow.shadowing_rules(*at) {
                ghosts.insert(*at);
                out.push(shadowed_rule_finding(table, *at, &by));
            }
        }
        // A last rule for all that is left is how a chain is written, whatever its policy says.
        let catches_all =
            |at: &RulePosition| table.catch_all_rules[at.0].is_some_and(|by| by.rule == at.1);
        for at in all.iter().filter(|at| !ghosts.contains(at) && !catches_all(at)) {
            if let Some(by) = table.packet_set_flow.deciders_without_rule(*at, &ghosts) {
                out.push(redundant_rule_finding(table, *at, &by));
            }
        }
    }
}

/// A rule that no packet reaches, by the rules that decide all that it matches.
fn shadowed_rule_finding(
    table: &AnalyzedTable<'_>,
    at: RulePosition,
    by: &[RulePosition],
) -> Finding {
    let [first, ..] = by else { return never_matching_rule_finding(table, at) };
    let (chain, i) = at;
    let rules = &table.chain_at(chain).rules;
    let one = by.len() == 1 && first.0 == chain;
    let same_target = by.iter().all(|b| table.chain_at(b.0).rules[b.1].target == rules[i].target);
    let who = match by {
        [b] => describe_rule_position(table, *b, chain),
        _ => format!("{} earlier rules together", by.len()),
    };
    let matches = if by.len() == 1 { "matches" } else { "match" };
    let (lint, message) =
        match (one && have_same_tests(table, at, *first), rules[i].target.jump_target()) {
            (true, _) if same_target => (&DUPLICATE_RULE, format!("duplicate of {who}")),
            (true, _) => (&DUPLICATE_RULE, format!("same tests as {who}, which comes first")),
            (false, Some(to)) => (
                &JUMP_NEVER_MATCHES,
                format!(
                    "no packet reaches this jump to {to}: {who} {matches} all of its packets first"
                ),
            ),
            (false, None) => (
                &SHADOWED_RULE,
                format!("no packet reaches this rule: {who} {matches} all of its packets first"),
            ),
        };
    let help = match same_target {
        true => "remove it: no packet reaches it, and the target is the same",
        false => "remove it, or move it before the rules that shadow it",
    };
    let mut writers = by.iter().map(|b| table.program_of_rule(*b));
    let program = writers.try_fold(None, |_, writer| writer.map(Some)).flatten();
    let mut found = table
        .new_rule_finding(lint, chain, i, message)
        .with_blamed_program(program)
        .with_help(help)
        .with_wasted_comparisons(1)
        .with_fix(vec![table.edit_removing_rule(chain, i)])
        .with_root_cause(shadowing_root_cause(table, lint, by, (same_target, &who)));
    if !same_target {
        found.severity = Severity::Warning;
    }
    let label = match (lint.id == DUPLICATE_RULE.id, by.len()) {
        (true, _) => "the same tests",
        (false, 1) => "matches all of its packets first",
        (false, _) => "matches some of its packets first",
    };
    by.iter().fold(found, |f, b| f.with_related_place(table.related_place_of_rule(b.0, b.1, label)))
}

/// Duplicates are to blame themselves; else it is the rule that decides first, if it is one.
fn shadowing_root_cause(
    table: &AnalyzedTable<'_>,
    lint: &Lint,
    by: &[RulePosition],
    (same_target, who): (bool, &str),
) -> RootCause {
    let places: Vec<String> = by.iter().map(|b| table.root_cause_key(b.0, Some(b.1))).collect();
    let key = format!("{same_target} {}", places.join(" "));
    let jumps = lint.id == JUMP_NEVER_MATCHES.id;
    let rules = if jumps { "jumps" } else { "rules" };
    let unless = if same_target { " (same target)" } else { "" };
    match by {
        _ if lint.id == DUPLICATE_RULE.id => {
            let many = match same_target {
                true => format!("{{n}} duplicates of {who}"),
                false => format!("{{n}} rules have the same tests as {who}, which comes first"),
            };
            RootCause::new(key, many, "another one").with_help("remove them")
        }
        [(chain, i)] => {
            let named = format!("rule {} of {}", i + 1, table.chain_at(*chain).name);
            let rule = if jumps { "jump" } else { "rule" };
            let one = format!("{named} shadows a later {rule}{unless}");
            let many = format!("{named} shadows {{n}} later {rules}{unless}");
            let help = match same_target {
                true => format!("remove the shadowed {rules}"),
                false => format!("remove the shadowed {rules}, or move them before this rule"),
            };
            let label = format!("no packet reaches this {rule}");
            RootCause::new(key, many, label)
                .with_blamed_place(table.rule_or_chain_id_and_span(*chain, Some(*i)), one)
                .with_help(help)
        }
        _ => {
            let many =
                format!("no packet reaches {{n}} {rules}: {who} match all of their packets first");
            RootCause::new(key, many, "no packet reaches it")
                .with_help("remove them, or move them up")
        }
    }
}

/// A rule that matches nothing of what its callers let in.
fn never_matching_rule_finding(table: &AnalyzedTable<'_>, at: RulePosition) -> Finding {
    let (chain, i) = at;
    let name = &table.chain_at(chain).name;
    let (lint, rules) = match table.chain_at(chain).rules[i].target.jump_target() {
        Some(_) => (&JUMP_NEVER_MATCHES, "jumps"),
        None => (&NEVER_MATCHES, "rules"),
    };
    let message = format!("this rule never matches: no packet that enters {name} passes its tests");
    let many = format!("{{n}} {rules} of {name} match no packet that enters it");
    let found = table
        .new_rule_finding(lint, chain, i, message)
        .with_wasted_comparisons(1)
        .with_fix(vec![table.edit_removing_rule(chain, i)])
        .with_help("correct its tests or those of the jumps, or remove it")
        .with_root_cause(RootCause::new(
            table.root_cause_key(chain, None),
            many,
            "never matches either",
        ));
    let callers = table.packet_set_flow.callers_of_chain(chain).iter();
    callers.fold(found, |f, c| {
        f.with_related_place(table.related_place_of_rule(c.0, c.1, "lets packets in"))
    })
}

/// `rule 3`, or `rule 3 of web` from another chain.
fn describe_rule_position(
    table: &AnalyzedTable<'_>,
    (chain, i): RulePosition,
    from: usize,
) -> String {
    match chain == from {
        true => format!("rule {}", i + 1),
        false => format!("rule {} of {}", i + 1, table.chain_at(chain).name),
    }
}

fn have_same_tests(table: &AnalyzedTable<'_>, a: RulePosition, b: RulePosition) -> bool {
    let tests =
        |at: RulePosition| lower_to_tests(&table.chain_at(at.0).rules[at.1], table.family());
    let (a, b) = (tests(a), tests(b));
    a.len() == b.len() && a.iter().all(|t| b.contains(t))
}

/// A rule without which its packets have the same outcome, grouped by what decides them then.
fn redundant_rule_finding(
    table: &AnalyzedTable<'_>,
    (chain, i): RulePosition,
    by: &[Decider],
) -> Finding {
    let (one, fate) = match &table.chain_at(chain).rules[i].target {
        Target::Accept => ("accepted", "accept"),
        Target::Return => ("returned to the caller", "return"),
        Target::Drop => ("dropped", "drop"),
        _ => ("rejected", "reject"),
    };
    let mut places = Vec::new();
    let mut beside = Vec::new();
    for decider in by {
        let (c, rule, label) = match decider {
            Decider::Rule((c, rule)) => (*c, Some(*rule), "does the same to its packets"),
            Decider::Policy(c) => (*c, None, "its policy does the same to its packets"),
        };
        places.push(table.root_cause_key(c, rule));
        let (place, span) = table.rule_or_chain_id_and_span(c, rule);
        beside.push(RelatedPlace { place, span, label: label.to_owned() });
    }
    let name = &table.chain_at(chain).name;
    let message = format!("without this rule, its packets are {one} as well");
    let many = format!("{{n}} rules of {name} {fate} what is {one} without them as well");
    let cause = RootCause::new(
        format!("{} {fate} {}", table.root_cause_key(chain, None), places.join(" ")),
        many,
        "redundant, too",
    )
    .with_help("remove them, unless you need their counters or their early positions");
    let found = table
        .new_rule_finding(&REDUNDANT_RULE, chain, i, message)
        .with_help("remove it, unless you need its counter or its early position")
        .with_wasted_comparisons(1)
        .with_counter_changing_fix(vec![table.edit_removing_rule(chain, i)])
        .with_root_cause(cause);
    beside.into_iter().fold(found, Finding::with_related_place)
}
