//! Rules that do not do what they seem to say: duplicates, rules behind a catch-all, jumps into
//! nothing, tests that exclude each other, modules that weir does not know.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use weir_model::{Chain, Field, Match, Predicate, Rule, Target, Test, tests_of};

use super::counts::{match_name, target_name};
use super::{Report, Said, Severity};

/// Looks through every chain.
pub(super) fn look(found: &mut Report<'_>) {
    for chain in 0..found.table.chains.len() {
        look_chain(found, chain);
    }
    policies(found);
}

fn look_chain(found: &mut Report<'_>, at: usize) {
    let family = found.ruleset.family;
    let table = found.table;
    let chain = &table.chains[at];
    let mut catch_all = None;
    let mut earlier: HashMap<String, usize> = HashMap::new();
    for (i, rule) in chain.rules.iter().enumerate() {
        let tests = tests_of(rule, family);
        if let Some(by) = catch_all {
            found.rule(at, i, after_catch_all(chain, by));
            // One finding says it for all that follow.
            break;
        }
        if decides(rule) && tests.is_empty() {
            catch_all = Some(i);
        }
        duplicate(found, at, i, &mut earlier);
        if let Some(why) = contradiction(&tests) {
            let message = format!("the rule never matches: {why}");
            let help = "remove it, or correct one of the two tests".to_owned();
            let said = Said { id: "never-matches", severity: Severity::Warning, message, help };
            found.rule(at, i, said);
        }
        opaque(found, at, i);
    }
}

/// True where the walk of this chain never goes on behind the rule once it matched.
fn decides(rule: &Rule) -> bool {
    rule.target.decides() || matches!(rule.target, Target::Return | Target::Goto(_))
}

fn after_catch_all(chain: &Chain, by: usize) -> Said {
    let target = target_name(&chain.rules[by].target);
    let more = chain.rules.len() - by - 1;
    let rules = if more == 1 { "this rule".to_owned() } else { format!("{more} rules from here") };
    Said {
        id: "rule-after-catch-all",
        severity: Severity::Warning,
        message: format!(
            "no packet reaches {rules}: rule {} of {} takes every packet ({target})",
            by + 1,
            chain.name
        ),
        help: format!("move rule {} to the end, or remove what follows it", by + 1),
    }
}

/// A rule that repeats an earlier one which decided; the same rule without deciding counts twice,
/// which may be meant.
fn duplicate(found: &mut Report<'_>, at: usize, i: usize, earlier: &mut HashMap<String, usize>) {
    let rule = &found.table.chains[at].rules[i];
    let stateful = rule.matches.iter().any(|m| {
        matches!(m, Match::Stateful(_) | Match::Host(_) | Match::Opaque(_) | Match::Set(_))
    });
    // What an effect in between changes (a mark, a set) may make the second one match.
    if matches!(rule.target, Target::Effect(_) | Target::Opaque(_) | Target::Jump(_)) {
        earlier.clear();
        return;
    }
    if stateful || !decides(rule) {
        return;
    }
    match earlier.entry(key(rule)) {
        Entry::Vacant(slot) => {
            slot.insert(i);
        }
        Entry::Occupied(slot) => {
            let first = *slot.get();
            let same = found.table.chains[at].rules[first].target == rule.target;
            let what = if same { "repeats" } else { "has the tests of" };
            let message = format!("the rule {what} rule {}, which decides first", first + 1);
            let help = format!("remove it, or rule {}", first + 1);
            let severity = if same { Severity::Note } else { Severity::Warning };
            found.rule(at, i, Said { id: "duplicate-rule", severity, message, help });
        }
    }
}

/// The tests of a rule as text; comments test nothing.
fn key(rule: &Rule) -> String {
    use std::fmt::Write;
    let mut key = format!("{:?}", rule.base);
    for m in rule.matches.iter().filter(|m| !matches!(m, Match::Comment(_))) {
        let _ = write!(key, "{m:?}");
    }
    key
}

/// Two tests of one field that no value satisfies.
fn contradiction(tests: &[Test]) -> Option<String> {
    for (i, test) in tests.iter().enumerate() {
        let Test::Field { field, predicate, negated: false } = test else {
            if *test == Test::Never {
                return Some("the value it asks for cannot be".to_owned());
            }
            continue;
        };
        if let Predicate::Masked { value, mask } = predicate
            && value & !mask != 0
        {
            return Some(format!("{} wants bits that its mask leaves out", name(*field)));
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

fn opaque(found: &mut Report<'_>, at: usize, i: usize) {
    let rule = &found.table.chains[at].rules[i];
    let family = found.ruleset.family;
    let unknown = rule.matches.iter().find(|m| matches!(m, Match::Opaque(_)));
    let module = match (unknown, &rule.target) {
        (Some(m), _) => format!("match {}", match_name(m, family)),
        (None, Target::Opaque(o)) => format!("target {}", o.name),
        (None, _) => return,
    };
    let message = format!("weir does not know the {module}");
    let help = "the rule stays in its place, as it is, in every form".to_owned();
    found.rule(at, i, Said { id: "opaque-module", severity: Severity::Note, message, help });
}

/// INPUT or FORWARD that accepts what no rule decided, although its rules drop.
fn policies(found: &mut Report<'_>) {
    if found.table.name != weir_model::TableName::Filter {
        return;
    }
    for at in 0..found.table.chains.len() {
        let chain = &found.table.chains[at];
        let guarded = matches!(&*chain.name, "INPUT" | "FORWARD");
        if !guarded || chain.policy != Some(weir_model::Policy::Accept) || chain.rules.is_empty() {
            continue;
        }
        let family = found.ruleset.family;
        let last = chain.rules.iter().rev().find(|r| !r.target.falls_through());
        let catches = last.is_some_and(|r| {
            decides(r) && r.target != Target::Return && tests_of(r, family).is_empty()
        });
        let accepts = chain.rules.iter().filter(|r| r.target == Target::Accept).count();
        if catches || accepts == 0 {
            continue;
        }
        let message = format!(
            "{} accepts what no rule decided: its policy is ACCEPT and no rule at its end drops",
            chain.name
        );
        let help = format!("set the policy to DROP (`-P {} DROP`), or end with a DROP", chain.name);
        found.chain(at, Said { id: "no-final-drop", severity: Severity::Warning, message, help });
    }
}
