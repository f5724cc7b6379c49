//! Texts of rulesets with one rule deleted, with another target, or elsewhere in its chain.

use std::fmt;

/// What is changed of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMutation {
    /// It is deleted.
    Delete,
    /// It accepts instead of dropping, and so on.
    ChangeTarget,
    /// It is the first of its chain; the first one becomes the last.
    Move,
}

impl RuleMutation {
    pub const ALL: [RuleMutation; 3] =
        [RuleMutation::Delete, RuleMutation::ChangeTarget, RuleMutation::Move];
}

impl fmt::Display for RuleMutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleMutation::Delete => "deleted",
            RuleMutation::ChangeTarget => "with another target",
            RuleMutation::Move => "moved",
        })
    }
}

/// A rule in the lines of a ruleset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLine {
    /// Index of its line.
    pub line: usize,
    pub table: String,
    pub chain: String,
    /// Its number in the chain, from 1.
    pub number: u32,
}

/// The rules of a text, in order.
pub fn list_rule_lines(text: &str) -> Vec<RuleLine> {
    let mut rules: Vec<RuleLine> = Vec::new();
    let mut table = String::new();
    for (line, words) in text.lines().enumerate() {
        if let Some(name) = words.strip_prefix('*') {
            table = name.trim().to_owned();
        }
        let Some(chain) = chain_of_rule(words) else { continue };
        let earlier = rules.iter().rev().find(|rule| rule.table == table && rule.chain == chain);
        let number = earlier.map_or(1, |rule| rule.number + 1);
        rules.push(RuleLine { line, table: table.clone(), chain: chain.to_owned(), number });
    }
    rules
}

/// The chain that a line appends to; counters may stand before.
fn chain_of_rule(line: &str) -> Option<&str> {
    let rule = match line.starts_with('[') {
        true => line.split_once(']')?.1.trim_start(),
        false => line,
    };
    rule.strip_prefix("-A ")?.split_whitespace().next()
}

/// The text with one rule changed; `None` if the rule cannot be changed so.
pub fn mutate_rule(
    text: &str,
    rules: &[RuleLine],
    rule: &RuleLine,
    mutation: RuleMutation,
) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match mutation {
        RuleMutation::Delete => {
            lines.remove(rule.line);
        }
        RuleMutation::ChangeTarget => {
            lines[rule.line] = change_target(&lines[rule.line], &rule.table)?;
        }
        RuleMutation::Move => {
            let of_chain =
                |other: &&RuleLine| other.table == rule.table && other.chain == rule.chain;
            let first = rules.iter().find(of_chain)?.line;
            let last = rules.iter().rev().find(of_chain)?.line;
            if first == last {
                return None;
            }
            let moved = lines.remove(rule.line);
            lines.insert(if rule.line == first { last } else { first }, moved);
        }
    }
    Some(lines.join("\n") + "\n")
}

/// The rule with another verdict: one that drops accepts, one that accepts or jumps drops.
fn change_target(line: &str, table: &str) -> Option<String> {
    if table == "nat" {
        return None;
    }
    let (at, option) = [" -j ", " -g "].iter().filter_map(|o| Some((line.rfind(o)?, *o))).max()?;
    let (before, target) = (&line[..at], &line[at + option.len()..]);
    let name = target.split_whitespace().next()?;
    let changed = match name {
        "DROP" | "REJECT" | "RETURN" => "ACCEPT",
        "ACCEPT" => "DROP",
        // The options of other targets would be left.
        _ if target.trim() != name => return None,
        _ => "RETURN",
    };
    Some(format!("{before} -j {changed}"))
}

#[test]
fn each_mutation_changes_one_rule() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i a -j ACCEPT\n[1:2] -A INPUT -j REJECT \
                --reject-with tcp-reset\n-A INPUT -j LOG --log-prefix \"x \"\nCOMMIT\n";
    let rules = list_rule_lines(text);
    let numbers: Vec<_> = rules.iter().map(|r| (r.line, r.number, &*r.chain)).collect();
    assert_eq!(numbers, [(2, 1, "INPUT"), (3, 2, "INPUT"), (4, 3, "INPUT")]);
    let mutate = |at: usize, mutation| mutate_rule(text, &rules, &rules[at], mutation);
    let deleted = mutate(0, RuleMutation::Delete).expect("a rule less");
    assert_eq!(deleted, text.replace("-A INPUT -i a -j ACCEPT\n", ""));
    let changed = mutate(0, RuleMutation::ChangeTarget).expect("another target");
    assert_eq!(changed, text.replace("-j ACCEPT", "-j DROP"));
    let changed = mutate(1, RuleMutation::ChangeTarget).expect("another target");
    assert_eq!(changed, text.replace("-j REJECT --reject-with tcp-reset", "-j ACCEPT"));
    assert_eq!(mutate(2, RuleMutation::ChangeTarget), None);
    for (at, order) in [(0, [1, 2, 0]), (2, [2, 0, 1])] {
        let moved = mutate(at, RuleMutation::Move).expect("another place");
        let lines = |text: &str| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&moved)[..3], order.map(|i: usize| lines(text)[i].clone()));
    }
}
