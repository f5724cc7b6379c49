//! Rules whose own tests exclude each other.

use weir_model::{Field, Predicate, Test, lower_to_tests};

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(NEVER_MATCHES, "never-matches", Warning, fix);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily { lints: &[&NEVER_MATCHES], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let seen = describe_contradicting_tests(&lower_to_tests(rule, table.family()));
            let none =
                || table.packet_set_flow.rule_boxes((chain, i)).boxes_maybe_matched().len() == 0;
            let why = match seen {
                Some(why) => why,
                None if none() => "no packet satisfies all of its tests".to_owned(),
                None => continue,
            };
            let found = table
                .new_rule_finding(
                    &NEVER_MATCHES,
                    chain,
                    i,
                    format!("this rule never matches: {why}"),
                )
                .with_help("correct its tests, or remove it")
                .with_wasted_comparisons(1);
            // It may still drop what it cannot read, or evaluate a stateful match.
            out.push(match none() && table.packet_set_flow.shadowing_rules((chain, i)).is_some() {
                true => found.with_fix(vec![table.edit_removing_rule(chain, i)]),
                false => found,
            });
        }
    }
}

/// Two tests of one field that no value satisfies.
fn describe_contradicting_tests(tests: &[Test]) -> Option<String> {
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
            return Some(format!(
                "the test of {} requires bits outside its mask",
                field_name(*field)
            ));
        }
        for other in &tests[i + 1..] {
            let Test::Field { field: f, predicate: p, negated } = other else { continue };
            if f == field && are_predicates_disjoint(predicate, p, *negated) {
                return Some(format!("two tests of {} exclude each other", field_name(*field)));
            }
        }
    }
    None
}

fn field_name(field: Field) -> &'static str {
    match field {
        Field::TcpFlags => "tcp flags",
        other => other.row().name,
    }
}

/// Whether nothing satisfies `a` and (`b_is_negated`) `b`; false where that is not easily seen.
fn are_predicates_disjoint(a: &Predicate, b: &Predicate, b_is_negated: bool) -> bool {
    match (a, b, b_is_negated) {
        (a, b, true) => a == b,
        (Predicate::InSpans(a), Predicate::InSpans(b), false) => {
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
