//! A packet's path as short lines: what matched, how many rules did not, and the result of each
//! table.

use weir_model::Rule;
use weir_semantics::trace::{Trace, TraceStep};

use crate::explain::verdict_words;

/// The lines of a path.
pub(super) fn render_path_lines(trace: &Trace<'_>, words: &dyn Fn(&Rule) -> String) -> Vec<String> {
    let mut out = Vec::new();
    let mut missed = 0;
    let mut header = None;
    for step in &trace.steps {
        match step {
            TraceStep::EnterTable { hook, table, .. } => {
                header = Some(format!("{} {table}", hook.chain_name()));
                missed = 0;
            }
            TraceStep::TryRule { chain, number, rule, failed, .. } => {
                if failed.as_ref().is_some_and(|why| !why.hotdrop) {
                    missed += 1;
                    continue;
                }
                out.extend(header.take());
                push_missed_count(&mut out, &mut missed);
                // The reader sees a difference of files beside: no `+` and `-` here.
                let result = if failed.is_some() { "dropped by" } else { "matched" };
                out.push(format!("  {result} {chain} {number}: {}", words(rule)));
            }
            TraceStep::LeaveTable { table, chain, verdict, policy } => {
                // A table without a rule that matched, and with nothing to say, is omitted.
                if header.is_some() && missed == 0 && verdict_words(*verdict) == "accept" {
                    continue;
                }
                out.extend(header.take());
                push_missed_count(&mut out, &mut missed);
                let by = if *policy { format!(" (policy of {chain})") } else { String::new() };
                out.push(format!("  => {table}: {}{by}", verdict_words(*verdict)));
            }
        }
    }
    out
}

fn push_missed_count(out: &mut Vec<String>, missed: &mut u32) {
    match std::mem::take(missed) {
        0 => {}
        1 => out.push("  1 rule did not match".to_owned()),
        n => out.push(format!("  {n} rules did not match")),
    }
}
