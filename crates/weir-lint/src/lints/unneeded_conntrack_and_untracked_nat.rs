//! Conntrack that nothing needs, and address translation without conntrack.

use std::collections::HashSet;

use weir_model::effect::is_conntrack_enabling_rule;
use weir_model::{Effect, Family, Rule, RuleId, TableName, Target, Test, lower_to_tests};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::{Finding, RulesetEdit};
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(CONNTRACK_UNNEEDED, "conntrack-unneeded", Note);
define_lint!(NAT_WITHOUT_TRACKING, "nat-without-tracking", Warning);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily {
    lints: &[&CONNTRACK_UNNEEDED, &NAT_WITHOUT_TRACKING],
    run_lints: run_untracked_nat_lint,
};

fn run_untracked_nat_lint(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for raw in context.tables.iter().filter(|t| t.table.name == TableName::Raw) {
        let same =
            |t: &&AnalyzedTable<'_>| t.family() == raw.family() && t.table.name == TableName::Nat;
        let Some(nat) = context.tables.iter().find(same) else { continue };
        for hook in ["PREROUTING", "OUTPUT"] {
            report_nat_of_untracked(raw, nat, hook, out);
        }
    }
}

/// Translations that only packets without an entry would match: they never do.
fn report_nat_of_untracked(
    raw: &AnalyzedTable<'_>,
    nat: &AnalyzedTable<'_>,
    hook: &str,
    out: &mut Vec<Finding>,
) {
    let at = |t: &AnalyzedTable<'_>| t.table.chains.iter().position(|c| &*c.name == hook);
    let (Some(from), Some(to)) = (at(raw), at(nat)) else { return };
    // What an earlier rule decides is tracked.
    let notrack = raw.chain_at(from).rules.iter().enumerate();
    let first = notrack.take_while(|(_, r)| r.target.falls_through() && r.target != Target::None);
    for (n, rule) in first.filter(|(_, r)| is_notrack_rule(r)) {
        let excluded = lower_to_tests(rule, raw.family());
        let opaque = |t: &Test| {
            use weir_model::Test;
            matches!(t, Test::Opaque { .. } | Test::Set { .. } | Test::Never)
        };
        if excluded.iter().any(opaque) {
            continue;
        }
        for (i, rule) in nat.chain_at(to).rules.iter().enumerate() {
            let tests = lower_to_tests(rule, nat.family());
            if matches!(rule.target, Target::Nat(_)) && excluded.iter().all(|t| tests.contains(t)) {
                let notrack = format!("rule {} of raw {hook}", n + 1);
                let message = format!(
                    "no packet reaches this rule: {notrack} exempts all that it matches from \
                     conntrack"
                );
                let one =
                    format!("{notrack} exempts packets from conntrack that nat should translate");
                let cause = RootCause::new(
                    raw.root_cause_key(from, Some(n)),
                    one.clone(),
                    "never translates",
                );
                out.push(
                    nat.new_rule_finding(&NAT_WITHOUT_TRACKING, to, i, message)
                        .with_blamed_program(raw.program_of_rule((from, n)))
                        .with_root_cause(
                            cause.with_blamed_place(
                                raw.rule_or_chain_id_and_span(from, Some(n)),
                                one,
                            ),
                        )
                        .with_help("narrow the NOTRACK rule, or remove the translation"),
                );
            }
        }
    }
}

fn is_notrack_rule(rule: &Rule) -> bool {
    matches!(&rule.target, Target::Effect(e) if matches!(**e, Effect::Notrack | Effect::CtNotrack { .. }))
}

/// Families in which all rules that use conntrack can go, by what was found.
pub(crate) fn find_conntrack_used_only_by_removable_rules(
    context: &AnalyzedFirewall<'_>,
    found: &[Finding],
) -> Vec<Finding> {
    let edits = found.iter().filter_map(|f| f.fix.as_ref()).flat_map(|x| &x.edits);
    let gone: HashSet<&RuleId> = edits
        .filter_map(|edit| match edit {
            RulesetEdit::RemoveRule { rule } => Some(rule),
            _ => None,
        })
        .collect();
    let mut out = Vec::new();
    for family in [Family::V4, Family::V6] {
        let tables = || context.tables.iter().filter(move |t| t.family() == family);
        let mut users = tables().flat_map(|t| {
            t.rules()
                .filter(|(_, _, r)| is_conntrack_enabling_rule(r))
                .map(move |(c, i, _)| (t, c, i))
        });
        let Some((table, chain, i)) = users.next() else { continue };
        let goes = |(t, c, i): (&AnalyzedTable<'_>, usize, usize)| {
            !t.reachable_chains[c] || gone.contains(&t.rule_or_policy_id(c, Some(i)))
        };
        if goes((table, chain, i)) && users.all(goes) {
            let message =
                "every packet is tracked, but no rule that uses conntrack changes anything";
            let help = "remove the rules that use conntrack, unless another program needs it; then \
                        fragments are no longer reassembled either";
            out.push(
                table.new_rule_finding(&CONNTRACK_UNNEEDED, chain, i, message).with_help(help),
            );
        }
    }
    out
}
