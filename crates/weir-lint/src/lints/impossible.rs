//! Rules whose own tests exclude each other.

use weir_model::{Field, Predicate, Test, tests_of};

use crate::context::LintContext;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(NEVER_MATCHES, "never-matches", Warning, fix);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&NEVER_MATCHES], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let seen = contradiction(&tests_of(rule, table.family()));
            let none = || table.flow.reach((chain, i)).cells.is_empty();
            let why = match seen {
                Some(why) => why,
                None if none() => "no packet satisfies all of its tests".to_owned(),
                None => continue,
            };
            let found = table
                .rule(&NEVER_MATCHES, chain, i, format!("this rule never matches: {why}"))
                .help("correct its tests, or remove it")
                .tried(1);
            // It may still drop what it cannot read, or evaluate a stateful match.
            out.push(match none() && table.flow.taken((chain, i)).is_some() {
                true => found.fix(vec![table.removal(chain, i)]),
                false => found,
            });
        }
    }
}

/// Two tests of one field that no value satisfies.
fn contradiction(tests: &[Test]) -> Option<String> {
    for (i, test) in tests.iter().enumerate() {
        let Test::Field { field, predicate, negated: false } = test else {
            if *test == Test::Never {
                return Some("a test requires an impossible value".to_owned());
            }
            continue;
        };
        if let Predicate::Masked { value, mask } = predicate
            && value & !mask != 0
        {
            return Some(format!("the test of {} requires bits outside its mask", name(*field)));
        }
        for other in &tests[i + 1..] {
            let Test::Field { field: f, predicate: p, negated } = other else { continue };
            if f == field && excludes(predicate, p, *negated) {
                return Some(format!("two tests of {} exclude each other", name(*field)));
            }
        }
    }
    None
}

fn name(field: Field) -> &'static str {
    match field {
        Field::TcpFlags => "tcp flags",
        other => other.row().name,
    }
}

/// Whether nothing satisfies `a` and (`negated`) `b`; false where that is not easily seen.
fn excludes(a: &Predicate, b: &Predicate, negated: bool) -> bool {
    match (a, b, negated) {
        (a, b, true) => a == b,
        (Predicate::In(a), Predicate::In(b), false) => {
            !a.iter().any(|(lo, hi)| b.iter().any(|(l, h)| lo <= h && l <= hi))
        }
        (
            Predicate::Masked { value: a, mask: m },
            Predicate::Masked { value: b, mask: n },
            false,
        ) => (a ^ b) & m & n != 0,
        (
            Predicate::Device { name: a, prefix: false },
            Predicate::Device { name: b, prefix: false },
            false,
        ) => a != b,
        _ => false,
    }
}
