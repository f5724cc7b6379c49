//! Long runs of rules that differ in one field, which a tree, a set or a map would replace by one
//! lookup.

use weir_model::{Field, Predicate, Rule, Test, lower_to_tests};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(LINEAR_ADDRESSES, "linear-addresses", Note);
define_lint!(LINEAR_PORTS, "linear-ports", Note);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&LINEAR_ADDRESSES, &LINEAR_PORTS], run_lints };

/// Minimum number of consecutive rules that test one address each for which a tree or a set pays
/// off.
pub const MAX_UNREPORTED_LINEAR_ADDRESS_RULES: usize = 16;
/// The same for ports: below it, they fit into one multiport match.
const MAX_UNREPORTED_LINEAR_PORT_RULES: usize = 8;

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for at in 0..table.table.chains.len() {
            let addresses = longest_reachable_run_start_length(table, at, &|r| {
                has_positive_address_test(r, table)
            });
            if addresses.1 > MAX_UNREPORTED_LINEAR_ADDRESS_RULES {
                out.push(linear_run_finding(table, at, addresses, &LINEAR_ADDRESSES, "address"));
            }
            let ports = longest_reachable_run_start_length(table, at, &|r| {
                tests_port_or_range_without_address(r, table)
            });
            if ports.1 > MAX_UNREPORTED_LINEAR_PORT_RULES {
                out.push(linear_run_finding(table, at, ports, &LINEAR_PORTS, "port"));
            }
        }
    }
}

/// The longest row of such rules in a chain that packets come to: its first, and how many.
fn longest_reachable_run_start_length(
    table: &AnalyzedTable<'_>,
    at: usize,
    belongs_to_run: &dyn Fn(&Rule) -> bool,
) -> (usize, usize) {
    let (mut longest, mut run) = ((0, 0), (0, 0));
    for (i, rule) in table.chain_at(at).rules.iter().enumerate() {
        if !belongs_to_run(rule) || !table.is_reachable_rule((at, i)) {
            run = (0, 0);
            continue;
        }
        run = (if run.1 == 0 { i } else { run.0 }, run.1 + 1);
        if run.1 > longest.1 {
            longest = run;
        }
    }
    longest
}

fn linear_run_finding(
    table: &AnalyzedTable<'_>,
    at: usize,
    (first, rules): (usize, usize),
    lint: &'static crate::Lint,
    what: &str,
) -> Finding {
    let chain = &table.chain_at(at).name;
    let message = format!("{rules} consecutive rules of {chain} test one {what} each");
    let help = match what {
        "port" => "test up to 15 ports in one -m multiport, or use `weir compile --to nft`",
        _ => "replace them by one lookup: `weir compile --to tree`, `ipset` or `nft`",
    };
    table
        .new_rule_finding(lint, at, first, message)
        .with_related_place(table.related_place_of_rule(at, first + rules - 1, "last of them"))
        .with_help(help)
        .with_wasted_comparisons(rules)
}

fn has_positive_address_test(rule: &Rule, table: &AnalyzedTable<'_>) -> bool {
    lower_to_tests(rule, table.family()).iter().any(|t| {
        matches!(t, Test::Field { field: Field::Saddr | Field::Daddr, predicate, negated: false }
            if !matches!(predicate, Predicate::Masked { mask: 0, .. }))
    })
}

fn tests_port_or_range_without_address(rule: &Rule, table: &AnalyzedTable<'_>) -> bool {
    let tests = lower_to_tests(rule, table.family());
    let port = |t: &Test| {
        matches!(t, Test::Field { field: Field::Sport | Field::Dport, predicate, negated: false }
            if matches!(predicate, Predicate::InSpans(spans) if spans.len() == 1))
    };
    tests.iter().any(port) && !has_positive_address_test(rule, table)
}
