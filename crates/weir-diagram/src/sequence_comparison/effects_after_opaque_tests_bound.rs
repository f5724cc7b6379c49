//! How many rules that act after an opaque test one packet can reach.
//!
//! Each such rule doubles the number of outcomes that a whole diagram tells apart, but only for
//! packets that reach them all: a thousand networks with a limited LOG rule each are cheap, twelve
//! such rules in a row are not. This is an upper bound, from the rules' tests alone: whatever a
//! packet reaches in a chain can be reached together, pair by pair.

use weir_model::{Chain, Family, Rule, RuleTests, Ruleset, Table, Target, Test, lower_to_tests};
use weir_partition::predicate_relations::is_disjoint;

/// Pairs of rules that are examined in a chain before it counts as one long overlap.
const EXAMINED_PAIRS_MAX: usize = 5_000_000;

/// A rule by which a packet may reach such rules: itself, or in the chain that it enters.
struct RuleLeadingToOpaqueTestEffects {
    tests: RuleTests,
    /// How many a packet that matches may reach.
    effects_after_opaque_tests_max: usize,
}

/// How many rules of a ruleset do not act after an opaque test: what a whole diagram takes grows
/// with them, the others multiply it.
pub(crate) fn count_rules_without_effect_after_opaque_test(
    ruleset: &Ruleset,
    family: Family,
) -> usize {
    let rules = ruleset.rules_with_table_and_chain();
    rules.filter(|r| !has_effect_after_opaque_test(r.2, &lower_to_tests(r.2, family))).count()
}

/// Whether some packet may reach at least `count` rules of a table that do something after a test
/// that no field decides, and let the packet go on. "Yes" may be wrong, "no" is not.
pub(crate) fn may_packet_reach_many_effects_after_opaque_tests(
    table: &Table,
    family: Family,
    count: usize,
) -> bool {
    let graph = table.chain_graph();
    let mut met = vec![0; table.chains.len()];
    for at in graph.all_callees_first() {
        let chain = &table.chains[at];
        let effects_after_opaque_tests_max = |(index, rule): (usize, &Rule)| {
            let below = graph.chain_entered_by_rule(at, index).map_or(0, |callee| met[callee]);
            let tests = lower_to_tests(rule, family);
            let effects_after_opaque_tests_max =
                below + usize::from(has_effect_after_opaque_test(rule, &tests));
            (effects_after_opaque_tests_max > 0)
                .then_some(RuleLeadingToOpaqueTestEffects { tests, effects_after_opaque_tests_max })
        };
        let rules: Vec<RuleLeadingToOpaqueTestEffects> =
            enumerate_rules(chain).filter_map(effects_after_opaque_tests_max).collect();
        met[at] = max_effects_after_opaque_tests_of_one_packet(&rules, family, count);
        if met[at] >= count {
            return true;
        }
    }
    false
}

fn enumerate_rules(chain: &Chain) -> impl Iterator<Item = (usize, &Rule)> {
    chain.rules.iter().enumerate()
}

/// Whether a rule does something after an opaque test and lets the packet go on.
fn has_effect_after_opaque_test(rule: &Rule, tests: &RuleTests) -> bool {
    let goes_on =
        !matches!(rule.target, Target::None | Target::Accept | Target::Drop | Target::Return)
            && !matches!(rule.target, Target::Reject(_) | Target::Jump(_) | Target::Goto(_));
    goes_on && tests.iter().any(|test| matches!(test, Test::Opaque { .. }))
}

/// The largest total weight of a rule and those that some packet may match in addition to it; at
/// most `enough`.
fn max_effects_after_opaque_tests_of_one_packet(
    rules: &[RuleLeadingToOpaqueTestEffects],
    family: Family,
    enough: usize,
) -> usize {
    let mut largest = 0;
    for (index, rule) in rules.iter().enumerate() {
        if index * rules.len() > EXAMINED_PAIRS_MAX {
            return enough;
        }
        let mut total = 0;
        for other in rules {
            if may_match_together(&rule.tests, &other.tests, family) {
                total += other.effects_after_opaque_tests_max;
            }
            if total >= enough {
                return enough;
            }
        }
        largest = largest.max(total);
    }
    largest
}

fn may_match_together(a: &RuleTests, b: &RuleTests, family: Family) -> bool {
    !a.iter().any(|test| {
        let Test::Field { field, predicate, negated: false } = test else { return false };
        b.iter().any(|other| match other {
            Test::Field { field: of, predicate: and, negated: false } if of == field => {
                is_disjoint(predicate, and, *field, family)
            }
            _ => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::TableName;
    use weir_syntax::iptables::{ParserSettings, parse};

    fn may_reach(rules: &str, count: usize) -> bool {
        let text = format!("*filter\n:FORWARD ACCEPT\n:a -\n:b -\n{rules}COMMIT\n");
        let ruleset = parse(&text, &ParserSettings::default()).expect("a ruleset");
        let table = ruleset.table(&TableName::Filter).expect("the table");
        may_packet_reach_many_effects_after_opaque_tests(table, Family::V4, count)
    }

    #[test]
    fn effects_of_consecutive_rules_add_up() {
        let rules = "-A FORWARD -m limit --limit 5/min -j LOG\n".repeat(3);
        assert!(may_reach(&rules, 3));
        assert!(!may_reach(&rules, 4));
    }

    #[test]
    fn effects_of_rules_for_disjoint_packets_do_not_add_up() {
        let rule = |net| format!("-A FORWARD -s 10.{net}.0.0/16 -m limit --limit 5/min -j LOG\n");
        let rules: String = (0..20).map(rule).collect();
        assert!(!may_reach(&rules, 2));
        assert!(may_reach(&(rules + "-A FORWARD -m limit --limit 5/min -j LOG\n"), 2));
    }

    #[test]
    fn a_jump_counts_the_effects_of_its_chain() {
        let log = "-A b -m limit --limit 5/min -j LOG\n";
        let rules = format!("-A FORWARD -j a\n-A a -i eth0 -j b\n-A a -i eth1 -j b\n{log}{log}");
        assert!(may_reach(&rules, 2));
        assert!(!may_reach(&rules, 3));
    }

    #[test]
    fn rules_without_opaque_tests_or_without_effects_do_not_count() {
        assert!(!may_reach("-A FORWARD -j LOG\n-A FORWARD -m limit --limit 1/s -j DROP\n", 1));
    }
}
