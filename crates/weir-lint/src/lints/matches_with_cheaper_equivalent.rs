//! Matches that cost more than equivalent ones.

use weir_model::effect::match_module_name;
use weir_model::rule_match::{
    ConntrackMatch, ExtensionValue, TypedExtensionOption, UnmodelledInputMatch,
};
use weir_model::{Family, Match, Rule, Target, Test, U32HeaderTest, lower_to_tests};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::{Finding, RulesetEdit};
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(U32_FOR_HEADER, "u32-for-header", Note);
define_lint!(STRING_BY_KMP, "string-by-kmp", Note);
define_lint!(UNBOUNDED_STRING_SEARCH, "string-over-all", Note);
define_lint!(REPEATED_TEST, "repeated-test", Note, fix);
define_lint!(STATE_MODULE, "state-module", Note, off, fix);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily {
    lints: &[
        &U32_FOR_HEADER,
        &STRING_BY_KMP,
        &UNBOUNDED_STRING_SEARCH,
        &REPEATED_TEST,
        &STATE_MODULE,
    ],
    run_lints,
};

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let say = |lint, message: String, help: &str| {
                table.new_rule_finding(lint, chain, i, message).with_help(help)
            };
            for m in &rule.matches {
                let Match::UnmodelledInput(host) = m else { continue };
                let header_test = U32HeaderTest::from_match(m);
                if let Some((test, _)) = header_test.filter(|_| table.family() == Family::V4) {
                    let plain = test.plain_match();
                    let message = format!("-m u32 tests what {plain} can test");
                    out.push(say(&U32_FOR_HEADER, message, "use the plain match"));
                }
                if string_match_algorithm(host) == Some("kmp") {
                    let message = "-m string --algo kmp examines every byte".to_owned();
                    let help = "use --algo bm, which skips most bytes but misses a pattern that \
                                crosses two memory fragments of a packet";
                    out.push(say(&STRING_BY_KMP, message, help));
                }
                if host.module == "string" && !has_search_bounds(host) {
                    let message = "-m string searches the whole packet".to_owned();
                    let help = "add --from and --to, and test protocol and port first";
                    out.push(say(&UNBOUNDED_STRING_SEARCH, message, help));
                }
            }
            out.extend(find_test_repeated_in_rule(table, chain, i, rule));
            out.extend(find_obsolete_state_match(table, chain, i, rule));
        }
    }
}

fn find_match_option_by_name<'a>(
    host: &'a UnmodelledInputMatch,
    name: &str,
) -> Option<&'a TypedExtensionOption> {
    host.options.iter().find(|o| o.name == name)
}

fn string_match_algorithm(host: &UnmodelledInputMatch) -> Option<&str> {
    match &find_match_option_by_name(host, "algo").filter(|_| host.module == "string")?.value {
        ExtensionValue::Keyword(w) => Some(w),
        ExtensionValue::Text(t) => Some(t),
        _ => None,
    }
}

fn has_search_bounds(host: &UnmodelledInputMatch) -> bool {
    find_match_option_by_name(host, "from").is_some()
        || find_match_option_by_name(host, "to").is_some()
}

/// A match that says again what the rule says already.
fn find_test_repeated_in_rule(
    table: &AnalyzedTable<'_>,
    chain: usize,
    i: usize,
    rule: &Rule,
) -> Option<Finding> {
    let family = table.family();
    let tests = |matches: &[Match], base: bool| {
        let mut part = Rule::unconditional(Target::None);
        if base {
            part.base = rule.base.clone();
        }
        part.matches = matches.to_vec();
        lower_to_tests(&part, family)
    };
    let at = (1..=rule.matches.len()).rev().map(|n| n - 1).find(|n| {
        let m = &rule.matches[*n];
        let says = tests(std::slice::from_ref(m), false);
        // A truncated header is dropped by the first that reads it, so the first must stay, and a
        // match of the same kind must be before it.
        let twin = rule.matches[..*n]
            .iter()
            .any(|e| match_module_name(e, family) == match_module_name(m, family));
        let before = tests(&rule.matches[..*n], true);
        let lasts = |t: &Test| matches!(t, Test::Field { .. } | Test::EitherPort { .. });
        twin && !says.is_empty() && says.iter().all(|t| lasts(t) && before.contains(t))
    })?;
    let mut shorter = rule.clone();
    shorter.matches.remove(at);
    if at < shorter.match_and_target_spans.len() {
        shorter.match_and_target_spans.remove(at);
    }
    let name = match_module_name(&rule.matches[at], family);
    let message = format!("-m {name} repeats a test of this rule");
    let edit = RulesetEdit::ReplaceRule {
        rule: table.rule_or_policy_id(chain, Some(i)),
        by: Box::new(shorter),
    };
    Some(
        table
            .new_rule_finding(&REPEATED_TEST, chain, i, message)
            .with_help("remove it")
            .with_fix(vec![edit]),
    )
}

/// `-m state`, which is `-m conntrack --ctstate` by its old name.
fn find_obsolete_state_match(
    table: &AnalyzedTable<'_>,
    chain: usize,
    i: usize,
    rule: &Rule,
) -> Option<Finding> {
    if !rule.matches.iter().any(|m| matches!(m, Match::State(_))) {
        return None;
    }
    let mut newer = rule.clone();
    for m in &mut newer.matches {
        if let Match::State(state) = m {
            let state = Some(state.clone());
            let conntrack = ConntrackMatch { state, ..Default::default() };
            *m = Match::Conntrack(Box::new(conntrack));
        }
    }
    let edit = RulesetEdit::ReplaceRule {
        rule: table.rule_or_policy_id(chain, Some(i)),
        by: Box::new(newer),
    };
    let message = "-m state is the old name of -m conntrack --ctstate";
    let found = table.new_rule_finding(&STATE_MODULE, chain, i, message);
    Some(found.with_help("use -m conntrack --ctstate").with_fix(vec![edit]))
}
