//! Comments that suppress findings.
//!
//! `# weir: allow(ID): reason` before a rule or before the line of a chain or set applies to what
//! follows it; before `*filter` it applies to the whole table. Several IDs are separated by commas.
//! A reason is required, so that somebody can later decide whether the comment is still needed.

use std::collections::{HashMap, HashSet};

use weir_model::{Family, Firewall, RuleId, Span, TableName};

use crate::finding::Finding;
use crate::lint_levels::{LintLevel, LintLevels};
use crate::lints::malformed_and_unused_weir_comments::{ALLOWS_NOTHING, BAD_COMMENT};
use crate::registry::find_lint;

/// A comment that allows something.
struct SuppressionComment {
    lint_ids: Vec<String>,
    scope: SuppressionScope,
    span: Span,
    is_used: bool,
}

/// What a comment speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SuppressionScope {
    Table(Family, TableName),
    RuleOrChain(RuleId),
    Set(Span),
}

/// What is not allowed, and how many findings are. Comments that allow nothing are findings.
pub(crate) fn apply_suppression_comments(
    firewall: &Firewall,
    all: Vec<Finding>,
    levels: &LintLevels,
) -> (Vec<Finding>, usize) {
    let mut bad = Vec::new();
    let mut comments = collect_suppressions(firewall, &mut bad);
    if comments.is_empty() && bad.is_empty() {
        return (all, 0);
    }
    let mut by_scope: HashMap<SuppressionScope, Vec<usize>> = HashMap::new();
    for (i, c) in comments.iter().enumerate() {
        by_scope.entry(c.scope.clone()).or_default().push(i);
    }
    let before = all.len();
    let mut kept: Vec<Finding> = all
        .into_iter()
        .filter(|f| {
            let mut allowed = false;
            for i in
                suppression_scopes_of_finding(f).iter().filter_map(|s| by_scope.get(s)).flatten()
            {
                if comments[*i].lint_ids.iter().any(|id| id == f.lint_id()) {
                    comments[*i].is_used = true;
                    allowed = true;
                }
            }
            !allowed
        })
        .collect();
    let suppressed = before - kept.len();
    for c in comments.iter().filter(|c| !c.is_used) {
        // A lint that does not speak cannot show whether it is allowed for a reason.
        let quiet = |id: &String| {
            find_lint(id).is_some_and(|l| levels.effective_level(l) == LintLevel::Allow)
        };
        if !c.lint_ids.iter().all(quiet) {
            bad.push(unused_suppression_finding(c));
        }
    }
    for mut f in bad {
        if let LintLevel::ReportAs(severity) = levels.effective_level(f.lint) {
            f.severity = severity;
            kept.push(f);
        }
    }
    (kept, suppressed)
}

/// The scopes that a finding is in: its own, and that of the rule to blame.
fn suppression_scopes_of_finding(f: &Finding) -> Vec<SuppressionScope> {
    let Some(place) = &f.place else { return vec![SuppressionScope::Set(f.span)] };
    let own = [
        SuppressionScope::RuleOrChain(place.clone()),
        SuppressionScope::Table(place.family, place.table),
    ];
    let blamed = f.root_cause.as_ref().and_then(|c| c.blamed_place.as_ref());
    own.into_iter()
        .chain(blamed.map(|(place, _)| SuppressionScope::RuleOrChain(place.clone())))
        .collect()
}

fn unused_suppression_finding(c: &SuppressionComment) -> Finding {
    let message = format!(
        "the comment before this allows {}, which does not occur here",
        c.lint_ids.join(", ")
    );
    place_finding_at_scope(Finding::new_with_span_only(&ALLOWS_NOTHING, c.span, message), &c.scope)
        .with_help("remove the comment")
}

fn place_finding_at_scope(mut f: Finding, scope: &SuppressionScope) -> Finding {
    match scope {
        SuppressionScope::Table(family, _) => f.family = Some(*family),
        SuppressionScope::RuleOrChain(id) => {
            (f.family, f.place) = (Some(id.family), Some(id.clone()))
        }
        SuppressionScope::Set(_) => {}
    }
    f
}

fn collect_suppressions(firewall: &Firewall, bad: &mut Vec<Finding>) -> Vec<SuppressionComment> {
    let mut out = Vec::new();
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        for table in &ruleset.tables {
            let span = table.chains.first().map_or(Span::NONE, |c| c.span);
            let scope = SuppressionScope::Table(family, table.name);
            parse_suppression_comments(&table.leading_comments, &scope, span, &mut out, bad);
            for chain in &table.chains {
                let scope = SuppressionScope::RuleOrChain(RuleId::for_policy(
                    family,
                    table.name,
                    &chain.name,
                ));
                parse_suppression_comments(
                    &chain.leading_comments,
                    &scope,
                    chain.span,
                    &mut out,
                    bad,
                );
                for (i, rule) in chain.rules.iter().enumerate() {
                    if !rule.leading_comments.is_empty() {
                        let id = RuleId::for_rule_at_index(family, table.name, &chain.name, i);
                        let scope = SuppressionScope::RuleOrChain(id);
                        parse_suppression_comments(
                            &rule.leading_comments,
                            &scope,
                            rule.span,
                            &mut out,
                            bad,
                        );
                    }
                }
            }
        }
    }
    for set in &firewall.sets {
        parse_suppression_comments(
            &set.leading_comments,
            &SuppressionScope::Set(set.span),
            set.span,
            &mut out,
            bad,
        );
    }
    out
}

fn parse_suppression_comments(
    comments: &[String],
    scope: &SuppressionScope,
    span: Span,
    out: &mut Vec<SuppressionComment>,
    bad: &mut Vec<Finding>,
) {
    for comment in comments {
        let Some(words) = comment.trim_start_matches('#').trim().strip_prefix("weir:") else {
            continue;
        };
        match parse_allow_or_describe_error(words.trim()) {
            Ok(ids) => out.push(SuppressionComment {
                lint_ids: ids,
                scope: scope.clone(),
                span,
                is_used: false,
            }),
            Err(message) => {
                let help = "write `# weir: allow(ID): reason`; `weir check --list` lists the IDs";
                bad.push(
                    place_finding_at_scope(
                        Finding::new_with_span_only(&BAD_COMMENT, span, message),
                        scope,
                    )
                    .with_help(help),
                );
            }
        }
    }
}

/// The ids of `allow(ID, ID): reason`.
fn parse_allow_or_describe_error(words: &str) -> Result<Vec<String>, String> {
    let rest = words.strip_prefix("allow(").and_then(|r| r.split_once(')'));
    let Some((ids, reason)) = rest else {
        return Err(format!("weir does not understand the comment before this: {words:?}"));
    };
    if reason.trim_start().strip_prefix(':').is_none_or(|why| why.trim().is_empty()) {
        return Err("the comment before this gives no reason".to_owned());
    }
    let ids: Vec<String> = ids.split(',').map(|id| id.trim().to_owned()).collect();
    let distinct: HashSet<&String> = ids.iter().collect();
    match distinct.into_iter().find(|id| find_lint(id).is_none()) {
        Some(id) => Err(format!("the comment before this allows {id:?}, which is not a lint")),
        None => Ok(ids),
    }
}
