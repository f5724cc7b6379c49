//! Chains that no packet reaches, jumps into nothing, sets that no rule names.

use std::collections::{HashMap, HashSet};

use weir_model::matching::Value;
use weir_model::{Effect, Firewall, Match, Name, Span, Table, Target};

use super::{Finding, KINDS, Report, Said, Severity};

/// Looks at how chains hang together.
pub(super) fn chains(found: &mut Report<'_>) {
    let table = found.table;
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let jumps: Vec<Vec<(usize, usize)>> = table
        .chains
        .iter()
        .map(|c| {
            let to = |(i, target): (usize, &Target)| Some((i, *by_name.get(&**target.chain()?)?));
            c.rules.iter().map(|r| &r.target).enumerate().filter_map(to).collect()
        })
        .collect();
    unreachable(found, &jumps);
    empty(found, &jumps);
    loops(found, &jumps);
}

fn unreachable(found: &mut Report<'_>, jumps: &[Vec<(usize, usize)>]) {
    let table: &Table = found.table;
    let mut reached = vec![false; table.chains.len()];
    let mut open: Vec<usize> =
        (0..table.chains.len()).filter(|i| table.chains[*i].policy.is_some()).collect();
    open.iter().for_each(|i| reached[*i] = true);
    while let Some(from) = open.pop() {
        for (_, to) in &jumps[from] {
            if !std::mem::replace(&mut reached[*to], true) {
                open.push(*to);
            }
        }
    }
    let mut named = vec![false; table.chains.len()];
    jumps.iter().flatten().for_each(|(_, to)| named[*to] = true);
    for at in (0..reached.len()).filter(|i| !reached[*i]) {
        let chain = &table.chains[at];
        let by = if named[at] { "only chains that are unreachable jump" } else { "no rule jumps" };
        let message = format!("{by} to chain {} ({} rules)", chain.name, chain.rules.len());
        let help = format!("remove it (`-F {0}`, `-X {0}`), or jump to it", chain.name);
        let severity = Severity::Note;
        found.chain(at, Said { id: "unreachable-chain", severity, message, help });
    }
}

fn empty(found: &mut Report<'_>, jumps: &[Vec<(usize, usize)>]) {
    for (at, jumps) in jumps.iter().enumerate() {
        for (rule, to) in jumps {
            let chain = &found.table.chains[*to];
            if !chain.rules.is_empty() {
                continue;
            }
            let message = format!("the rule jumps to chain {}, which is empty", chain.name);
            let help = "other programs may fill it; if none does, remove both".to_owned();
            let severity = Severity::Note;
            found.rule(at, *rule, Said { id: "jump-to-empty-chain", severity, message, help });
        }
    }
}

/// The first jump of each chain that closes a circle; without recursion.
fn loops(found: &mut Report<'_>, jumps: &[Vec<(usize, usize)>]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; jumps.len()];
    for start in 0..jumps.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        let mut stack = vec![(start, 0)];
        while let Some((chain, next)) = stack.last_mut() {
            let Some((rule, to)) = jumps[*chain].get(*next).copied() else {
                marks[*chain] = Mark::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            let from = *chain;
            match marks[to] {
                Mark::New => {
                    marks[to] = Mark::Open;
                    stack.push((to, 0));
                }
                Mark::Open => {
                    let name = &found.table.chains[to].name;
                    let message = format!("the jump leads back to chain {name}");
                    let help = "the kernel refuses to load a loop: remove one of its jumps";
                    let (severity, help) = (Severity::Error, help.to_owned());
                    found.rule(from, rule, Said { id: "jump-loop", severity, message, help });
                }
                Mark::Done => {}
            }
        }
    }
}

/// Looks at sets, where there are any.
pub(super) fn sets(firewall: &Firewall, out: &mut Vec<Finding>) {
    if firewall.sets.is_empty() {
        return;
    }
    let mut used: HashSet<Name> = HashSet::new();
    for ruleset in firewall.rulesets() {
        for table in &ruleset.tables {
            let mut found = Report { ruleset, table, out };
            for at in 0..table.chains.len() {
                for i in 0..table.chains[at].rules.len() {
                    used.extend(of_rule(firewall, &mut found, at, i));
                }
            }
        }
    }
    let members = firewall.sets.iter().flat_map(|s| &s.elements).flat_map(|e| &e.parts);
    used.extend(members.filter_map(|p| match p {
        weir_model::ElementPart::Set(name) => Some(name.clone()),
        _ => None,
    }));
    for set in firewall.sets.iter().filter(|s| !used.contains(&s.name)) {
        let message = format!("no rule names set {} ({} elements)", set.name, set.elements.len());
        let help = format!("remove it (`ipset destroy {}`), if no other program uses it", set.name);
        out.push(of_set("unused-set", message, help, set.span));
    }
}

fn of_set(id: &'static str, message: String, help: String, span: Span) -> Finding {
    debug_assert!(KINDS.iter().any(|(kind, _)| *kind == id), "{id} is not among KINDS");
    Finding { id, severity: Severity::Note, message, place: None, family: None, span, help }
}

/// The sets that a rule names; says which of them are missing or empty.
fn of_rule(firewall: &Firewall, found: &mut Report<'_>, at: usize, i: usize) -> Vec<Name> {
    let table: &Table = found.table;
    let rule = &table.chains[at].rules[i];
    let mut names = Vec::new();
    for m in &rule.matches {
        let Match::Set(m) = m else { continue };
        names.push(m.name.clone());
        let said = match firewall.set(&m.name) {
            None => Said {
                id: "unknown-set",
                severity: Severity::Warning,
                message: format!("set {} is not among the sets given", m.name),
                help: "give the whole output of `ipset save`".to_owned(),
            },
            Some(set) if set.elements.is_empty() => Said {
                id: "empty-set",
                severity: Severity::Note,
                message: format!("set {} has no elements", m.name),
                help: "other programs may fill it".to_owned(),
            },
            Some(_) => continue,
        };
        found.rule(at, i, said);
    }
    if let Target::Effect(effect) = &rule.target
        && let Effect::Other(extension) = &**effect
    {
        let texts = extension.options.iter().filter_map(|o| match &o.value {
            Value::Text(t) => t.split_whitespace().next(),
            _ => None,
        });
        names.extend(texts.filter_map(|t| firewall.set(t)).map(|s| s.name.clone()));
    }
    names
}
