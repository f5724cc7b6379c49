//! Rules that do not do what they seem to say: behind a catch-all, with tests that exclude each
//! other, of modules that weir does not know; chains that accept what no rule decided.

use std::collections::HashMap;

use weir_model::{Chain, Field, Match, Predicate, Rule, Table, Target, Test, tests_of};

use super::counts::{match_name, target_name};
use super::shadow::{self, Earlier};
use super::{Report, Said, Severity};

/// Looks through every chain.
pub(super) fn look(found: &mut Report<'_>) {
    let closed = closed(found);
    for chain in 0..found.table.chains.len() {
        look_chain(found, chain, &closed);
    }
    policies(found, &closed);
}

/// Chains that no packet leaves undecided, by name.
type Closed<'a> = HashMap<&'a str, bool>;

fn look_chain(found: &mut Report<'_>, at: usize, closed: &Closed<'_>) {
    let family = found.ruleset.family;
    let table = found.table;
    let chain = &table.chains[at];
    let mut catch_all = None;
    let mut earlier = Earlier::default();
    for (i, rule) in chain.rules.iter().enumerate() {
        let tests = tests_of(rule, family);
        if let Some(by) = catch_all {
            found.rule(at, i, after_catch_all(chain, by));
            // One finding says it for all that follow.
            break;
        }
        if tests.is_empty() && (decides(rule) || jumps_into(rule, closed)) {
            catch_all = Some(i);
        }
        shadow::look(found, at, i, &mut earlier);
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
pub(super) fn decides(rule: &Rule) -> bool {
    rule.target.decides() || matches!(rule.target, Target::Return | Target::Goto(_))
}

/// True where the rule leads into a chain that no packet leaves undecided.
fn jumps_into(rule: &Rule, closed: &Closed<'_>) -> bool {
    rule.target.chain().is_some_and(|to| closed.get(&**to).copied().unwrap_or(false))
}

/// Which chains no packet leaves undecided: a rule without tests decides or leads into such a
/// chain, and no rule before it returns. Callees first, without recursion.
fn closed<'a>(found: &Report<'a>) -> Closed<'a> {
    let table: &'a Table = found.table;
    let family = found.ruleset.family;
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let mut closed: Closed<'a> = HashMap::new();
    let mut begun = vec![false; table.chains.len()];
    for start in 0..table.chains.len() {
        let mut stack = vec![start];
        while let Some(&at) = stack.last() {
            let chain = &table.chains[at];
            let callees = chain.rules.iter().filter_map(|r| by_name.get(&**r.target.chain()?));
            let open: Vec<usize> = callees.copied().filter(|to| !begun[*to]).collect();
            if !std::mem::replace(&mut begun[at], true) && !open.is_empty() {
                stack.extend(open);
                continue;
            }
            stack.pop();
            if !closed.contains_key(&*chain.name) {
                let is = closes(chain, family, &closed);
                closed.insert(&chain.name, is);
            }
        }
    }
    closed
}

fn closes(chain: &Chain, family: weir_model::Family, closed: &Closed<'_>) -> bool {
    for rule in &chain.rules {
        let into = jumps_into(rule, closed);
        match rule.target {
            Target::Return => return false,
            Target::Goto(_) if !into => return false,
            _ if !(into || rule.target.decides()) => {}
            _ if tests_of(rule, family).is_empty() => return true,
            _ => {}
        }
    }
    false
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
fn policies(found: &mut Report<'_>, closed: &Closed<'_>) {
    if found.table.name != weir_model::TableName::Filter {
        return;
    }
    for at in 0..found.table.chains.len() {
        let chain = &found.table.chains[at];
        let guarded = matches!(&*chain.name, "INPUT" | "FORWARD");
        if !guarded || chain.policy != Some(weir_model::Policy::Accept) || chain.rules.is_empty() {
            continue;
        }
        let accepts = chain.rules.iter().filter(|r| r.target == Target::Accept).count();
        if closed.get(&*chain.name) == Some(&true) || accepts == 0 {
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
