//! A packet's journey in words: `weir explain`.
//!
//! [`trace_to_rows`] lists the steps of a [`Trace`], each rule that did not match with the reason;
//! [`render_trace`] draws them as text.

mod mismatch_reason;
mod unspecified_fields;

use serde::Serialize;
use weir_model::{Rule, Target};

use weir_semantics::outcome::Verdict;
use weir_semantics::trace::{Trace, TraceStep};

use self::mismatch_reason::explain_mismatch;
pub use self::unspecified_fields::{UnspecifiedField, find_unspecified_fields};

/// A step as a row of a table or of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceStepRow {
    /// `PREROUTING`, …
    pub hook: &'static str,
    /// Table.
    pub table: &'static str,
    /// Chain.
    pub chain: String,
    /// Jumps from the built-in chain to this one.
    pub depth: usize,
    /// The rule's number from 1; `None` for a verdict.
    pub number: Option<u32>,
    /// `hit`, `miss`, `hotdrop`; for a verdict its name.
    pub outcome: String,
    /// Why it did not match; `policy` for a policy's verdict.
    pub reason: String,
}

/// The steps of a trace as rows, one for each rule tried and each verdict.
pub fn trace_to_rows(trace: &Trace<'_>) -> Vec<TraceStepRow> {
    let mut hook_now = "";
    let mut rows = Vec::new();
    for step in &trace.steps {
        match step {
            TraceStep::EnterTable { hook, .. } => hook_now = hook.chain_name(),
            TraceStep::TryRule { table, chain, depth, number, rule, failed } => {
                let outcome = match failed {
                    None => "hit",
                    Some(why) if why.hotdrop => "hotdrop",
                    Some(_) => "miss",
                };
                rows.push(TraceStepRow {
                    hook: hook_now,
                    table: table.as_str(),
                    chain: chain.to_string(),
                    depth: *depth,
                    number: Some(*number),
                    outcome: outcome.to_owned(),
                    reason: failed.as_ref().map(|f| explain_mismatch(rule, f)).unwrap_or_default(),
                });
            }
            TraceStep::LeaveTable { table, chain, verdict, policy } => rows.push(TraceStepRow {
                hook: hook_now,
                table: table.as_str(),
                chain: chain.to_string(),
                depth: 0,
                number: None,
                outcome: verdict_words(*verdict),
                reason: if *policy { "policy" } else { "" }.to_owned(),
            }),
        }
    }
    rows
}

/// A verdict in words.
pub fn verdict_words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject(with) => format!("reject ({with})"),
        Verdict::Divert(module) => format!("handed over ({module})"),
        Verdict::Unknown => "unknown (a target that weir does not know, or more chains than it \
                             follows a packet into)"
            .to_owned(),
        Verdict::Expired => "expired (TTL reached zero at routing)".to_owned(),
        Verdict::HeldForReassembly => {
            "held for reassembly (the other fragments of its datagram are missing)".to_owned()
        }
    }
}

/// Maximum number of consecutive non-matching rules that are all shown; of more, the first three
/// and the last one.
const MAX_SHOWN_CONSECUTIVE_MISSES: usize = 8;

/// Draws a trace as text, one line per rule. `words` gives a rule's words, as `iptables-save`
/// prints them after `-A CHAIN`.
pub fn render_trace(trace: &Trace<'_>, words: &dyn Fn(&Rule) -> String) -> String {
    let mut text = String::new();
    let mut rest = &trace.steps[..];
    let mut chain_now: Option<(&str, usize)> = None;
    while let Some((step, after)) = rest.split_first() {
        rest = after;
        match step {
            TraceStep::EnterTable { hook, table, .. } => {
                chain_now = None;
                // A table without a rule gets its own line only if it decided.
                text.push_str(&format!("{} {table}\n", hook.chain_name()));
            }
            TraceStep::TryRule { chain, depth, .. } => {
                if chain_now != Some((chain, *depth)) {
                    chain_now = Some((chain, *depth));
                    if *depth > 0 {
                        text.push_str(&format!("{}{chain}\n", indentation(*depth)));
                    }
                }
                let run = count_following_misses(step, rest);
                if run < MAX_SHOWN_CONSECUTIVE_MISSES {
                    render_rule_step(&mut text, step, words);
                    continue;
                }
                render_rule_step(&mut text, step, words);
                rest[..2].iter().for_each(|s| render_rule_step(&mut text, s, words));
                let more = format!("{}… {} more evaluated\n", indentation(*depth + 1), run - 3);
                text.push_str(&more);
                render_rule_step(&mut text, &rest[run - 1], words);
                rest = &rest[run..];
            }
            TraceStep::LeaveTable { table, chain, verdict, policy } => {
                let by = if *policy { format!(" (policy of {chain})") } else { String::new() };
                text.push_str(&format!("  => {table}: {}{by}\n", verdict_words(*verdict)));
            }
        }
    }
    let outcome = &trace.outcome;
    let tried = match outcome.rules_tried {
        1 => "1 rule".to_owned(),
        n => format!("{n} rules"),
    };
    text.push_str(&format!("verdict: {}, {tried} evaluated\n", verdict_words(outcome.verdict)));
    text
}

/// Chains that are indented within each other.
const INDENTED_DEPTH_MAX: usize = 40;

/// Chains in chains are indented up to a depth that can be read.
fn indentation(depth: usize) -> String {
    "  ".repeat(depth.min(INDENTED_DEPTH_MAX))
}

/// How many steps after a missed rule are missed rules of the same chain.
fn count_following_misses(step: &TraceStep<'_>, rest: &[TraceStep<'_>]) -> usize {
    let missed = |s: &TraceStep<'_>| match s {
        TraceStep::TryRule { chain, depth, failed: Some(w), .. } if !w.hotdrop => {
            Some((chain.to_string(), *depth))
        }
        _ => None,
    };
    let Some(first) = missed(step) else { return 0 };
    rest.iter().take_while(|s| missed(s).as_ref() == Some(&first)).count()
}

fn render_rule_step(text: &mut String, step: &TraceStep<'_>, words: &dyn Fn(&Rule) -> String) {
    let TraceStep::TryRule { depth, number, rule, failed, .. } = step else { return };
    let said = words(rule);
    let (sign, why) = match failed {
        None if matches!(rule.target, Target::None) => ("+", "counted".to_owned()),
        None => ("+", "matched".to_owned()),
        Some(failed) if failed.hotdrop => ("!", explain_mismatch(rule, failed)),
        Some(failed) => ("-", explain_mismatch(rule, failed)),
    };
    let line = format!("{}{sign} {number}  {said}", indentation(*depth + 1));
    // The reason is next to short rules, below long ones.
    match line.chars().count() {
        n if n <= 56 => text.push_str(&format!("{line:<58}{why}\n")),
        _ => text.push_str(&format!("{line}\n{}      {why}\n", indentation(*depth + 1))),
    }
}
