//! Rules whose packets are taken before they are tried, rules that change nothing, and rules that
//! overlap.

use std::collections::HashSet;

use weir_model::{Target, tests_of};

use super::impossible::NEVER_MATCHES;
use crate::context::{Context, TableContext};
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::flow::At;
use crate::lint::Severity;
use crate::lint::define;

define!(DUPLICATE_RULE, "duplicate-rule", Note, fix);
define!(SHADOWED_RULE, "shadowed-rule", Note, fix);
define!(JUMP_NEVER_MATCHES, "jump-never-matches", Warning, fix);
define!(REDUNDANT_RULE, "redundant-rule", Note, fix);

pub(crate) static FAMILY: LintFamily = LintFamily {
    lints: &[&DUPLICATE_RULE, &SHADOWED_RULE, &JUMP_NEVER_MATCHES, &REDUNDANT_RULE],
    look,
};

/// Other places that are named at most.
const NAMED: usize = 3;

fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        let judged = |(chain, i): &At| {
            table.reachable[*chain]
                && table.catch_all[*chain].is_none_or(|by| *i <= by)
                && !table.flow.reach((*chain, *i)).cells.is_empty()
        };
        let all: Vec<At> = table.rules().map(|(c, i, _)| (c, i)).filter(judged).collect();
        let mut ghosts = HashSet::new();
        for at in &all {
            if let Some(by) = table.flow.taken(*at) {
                ghosts.insert(*at);
                out.push(taken(table, *at, &by));
            }
        }
        // A last rule for all that is left is how a chain is written, whatever its policy says.
        let catches_all = |at: &At| table.catch_all[at.0] == Some(at.1);
        for at in all.iter().filter(|at| !ghosts.contains(at) && !catches_all(at)) {
            if table.flow.same_without(*at, &ghosts) {
                out.push(redundant(table, *at));
            }
        }
    }
}

fn taken(table: &TableContext<'_>, at: At, by: &[At]) -> Finding {
    let (chain, i) = at;
    let rules = &table.chain(chain).rules;
    let jump = rules[i].target.chain();
    let fix = vec![table.removal(chain, i)];
    let [first, ..] = by else {
        let name = &table.chain(chain).name;
        let message = format!("the rule never matches: no packet that {name} sees is such a one");
        let lint = if jump.is_some() { &JUMP_NEVER_MATCHES } else { &NEVER_MATCHES };
        let callers = table.flow.callers(chain).iter().take(NAMED);
        let found = table.rule(lint, chain, i, message).tried(1).fix(fix);
        return callers
            .fold(found, |f, c| f.also(table.beside(c.0, c.1, "lets these packets in")))
            .help("remove it, or correct its tests");
    };
    let here = by.iter().all(|b| b.0 == chain);
    let one = by.len() == 1 && here;
    let same_target = by.iter().all(|b| table.chain(b.0).rules[b.1].target == rules[i].target);
    let same_tests = one && same_tests(table, at, *first);
    let who = match by {
        [b] if here => format!("rule {}", b.1 + 1),
        [b] => format!("rule {} of {}", b.1 + 1, table.chain(b.0).name),
        _ => format!("{} rules together", by.len()),
    };
    let takes = if by.len() == 1 { "takes" } else { "take" };
    let (lint, message) = match (same_tests, same_target, jump) {
        (true, true, _) => (&DUPLICATE_RULE, format!("the rule repeats {who}")),
        (true, false, _) => {
            (&DUPLICATE_RULE, format!("the rule has the tests of {who}, which decides"))
        }
        (false, _, Some(to)) => (
            &JUMP_NEVER_MATCHES,
            format!("no packet jumps to {to} from here: {who} {takes} all that would"),
        ),
        (false, true, None) => (
            &SHADOWED_RULE,
            format!("{who} {} the rule already", if by.len() == 1 { "covers" } else { "cover" }),
        ),
        (false, false, None) => (
            &SHADOWED_RULE,
            format!("no packet reaches the rule: {who} {takes} all that it would match"),
        ),
    };
    let help = match same_target {
        true => "remove it: it never counts".to_owned(),
        false if here => format!("move it before {who} if it is meant, or remove it"),
        false => "remove it, or let these packets come so far".to_owned(),
    };
    let mut found = table.rule(lint, chain, i, message).help(help).tried(1).fix(fix);
    if !same_target {
        found.severity = Severity::Warning;
    }
    let label = if by.len() == 1 { "takes its packets" } else { "takes some of its packets" };
    for b in by.iter().take(NAMED) {
        found = found.also(table.beside(b.0, b.1, label));
    }
    found
}

fn same_tests(table: &TableContext<'_>, a: At, b: At) -> bool {
    let tests = |at: At| tests_of(&table.chain(at.0).rules[at.1], table.family());
    let (a, b) = (tests(a), tests(b));
    a.len() == b.len() && a.iter().all(|t| b.contains(t))
}

fn redundant(table: &TableContext<'_>, (chain, i): At) -> Finding {
    let target = &table.chain(chain).rules[i].target;
    let fate = match target {
        Target::Accept => "accepted",
        Target::Return => "left to the caller",
        _ => "dropped in the same way",
    };
    let message = format!("what the rule matches is {fate} without it, too");
    table
        .rule(&REDUNDANT_RULE, chain, i, message)
        .help("remove it, unless its counter or its place near the head is wanted")
        .tried(1)
        .fix_with_counters(vec![table.removal(chain, i)])
}
