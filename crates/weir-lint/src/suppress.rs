//! Comments that suppress findings.
//!
//! `# weir: allow(ID): reason` before a rule or before the line of a chain or set applies to what
//! follows it; before `*filter` it applies to the whole table. Several IDs are separated by commas.
//! A reason is required, so that somebody can later decide whether the comment is still needed.

use std::collections::{HashMap, HashSet};

use weir_model::{Family, Firewall, RuleId, Span, TableName};

use crate::finding::Finding;
use crate::levels::{Level, LintLevels};
use crate::lints::comment::{ALLOWS_NOTHING, BAD_COMMENT};
use crate::registry::lint;

/// A comment that allows something.
struct Allowed {
    ids: Vec<String>,
    scope: Scope,
    span: Span,
    used: bool,
}

/// What a comment speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Table(Family, TableName),
    Rule(RuleId),
    Set(Span),
}

/// What is not allowed, and how many findings are. Comments that allow nothing are findings.
pub(crate) fn sift(
    firewall: &Firewall,
    all: Vec<Finding>,
    levels: &LintLevels,
) -> (Vec<Finding>, usize) {
    let mut bad = Vec::new();
    let mut comments = collect(firewall, &mut bad);
    if comments.is_empty() && bad.is_empty() {
        return (all, 0);
    }
    let mut by_scope: HashMap<Scope, Vec<usize>> = HashMap::new();
    for (i, c) in comments.iter().enumerate() {
        by_scope.entry(c.scope.clone()).or_default().push(i);
    }
    let before = all.len();
    let mut kept: Vec<Finding> = all
        .into_iter()
        .filter(|f| {
            let mut allowed = false;
            for i in scopes(f).iter().filter_map(|s| by_scope.get(s)).flatten() {
                if comments[*i].ids.iter().any(|id| id == f.id()) {
                    comments[*i].used = true;
                    allowed = true;
                }
            }
            !allowed
        })
        .collect();
    let suppressed = before - kept.len();
    for c in comments.iter().filter(|c| !c.used) {
        // A lint that does not speak cannot show whether it is allowed for a reason.
        let quiet = |id: &String| lint(id).is_some_and(|l| levels.of(l) == Level::Allow);
        if !c.ids.iter().all(quiet) {
            bad.push(unused(c));
        }
    }
    for mut f in bad {
        if let Level::Report(severity) = levels.of(f.lint) {
            f.severity = severity;
            kept.push(f);
        }
    }
    (kept, suppressed)
}

/// The scopes that a finding is in: its own, and that of the rule to blame.
fn scopes(f: &Finding) -> Vec<Scope> {
    let Some(place) = &f.place else { return vec![Scope::Set(f.span)] };
    let own = [Scope::Rule(place.clone()), Scope::Table(place.family, place.table)];
    let blamed = f.cause.as_ref().and_then(|c| c.at.as_ref());
    own.into_iter().chain(blamed.map(|(place, _)| Scope::Rule(place.clone()))).collect()
}

fn unused(c: &Allowed) -> Finding {
    let message =
        format!("the comment before this allows {}, which does not occur here", c.ids.join(", "));
    at(Finding::about(&ALLOWS_NOTHING, c.span, message), &c.scope).help("remove the comment")
}

fn at(mut f: Finding, scope: &Scope) -> Finding {
    match scope {
        Scope::Table(family, _) => f.family = Some(*family),
        Scope::Rule(id) => (f.family, f.place) = (Some(id.family), Some(id.clone())),
        Scope::Set(_) => {}
    }
    f
}

fn collect(firewall: &Firewall, bad: &mut Vec<Finding>) -> Vec<Allowed> {
    let mut out = Vec::new();
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        for table in &ruleset.tables {
            let span = table.chains.first().map_or(Span::NONE, |c| c.span);
            let scope = Scope::Table(family, table.name);
            read(&table.leading_comments, &scope, span, &mut out, bad);
            for chain in &table.chains {
                let scope = Scope::Rule(RuleId::policy(family, table.name, &chain.name));
                read(&chain.leading_comments, &scope, chain.span, &mut out, bad);
                for (i, rule) in chain.rules.iter().enumerate() {
                    if !rule.leading_comments.is_empty() {
                        let id = RuleId::rule(family, table.name, &chain.name, i);
                        let scope = Scope::Rule(id);
                        read(&rule.leading_comments, &scope, rule.span, &mut out, bad);
                    }
                }
            }
        }
    }
    for set in &firewall.sets {
        read(&set.leading_comments, &Scope::Set(set.span), set.span, &mut out, bad);
    }
    out
}

fn read(
    comments: &[String],
    scope: &Scope,
    span: Span,
    out: &mut Vec<Allowed>,
    bad: &mut Vec<Finding>,
) {
    for comment in comments {
        let Some(words) = comment.trim_start_matches('#').trim().strip_prefix("weir:") else {
            continue;
        };
        match parse(words.trim()) {
            Ok(ids) => out.push(Allowed { ids, scope: scope.clone(), span, used: false }),
            Err(message) => {
                let help = "write `# weir: allow(ID): reason`; `weir check --list` lists the IDs";
                bad.push(at(Finding::about(&BAD_COMMENT, span, message), scope).help(help));
            }
        }
    }
}

/// The ids of `allow(ID, ID): reason`.
fn parse(words: &str) -> Result<Vec<String>, String> {
    let rest = words.strip_prefix("allow(").and_then(|r| r.split_once(')'));
    let Some((ids, reason)) = rest else {
        return Err(format!("weir does not understand the comment before this: {words:?}"));
    };
    if reason.trim_start().strip_prefix(':').is_none_or(|why| why.trim().is_empty()) {
        return Err("the comment before this gives no reason".to_owned());
    }
    let ids: Vec<String> = ids.split(',').map(|id| id.trim().to_owned()).collect();
    let distinct: HashSet<&String> = ids.iter().collect();
    match distinct.into_iter().find(|id| lint(id).is_none()) {
        Some(id) => Err(format!("the comment before this allows {id:?}, which is not a lint")),
        None => Ok(ids),
    }
}
