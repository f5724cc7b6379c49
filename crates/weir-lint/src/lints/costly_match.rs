//! Matches that cost more than equivalent ones.

use weir_model::effect::match_module_of;
use weir_model::matching::{ConntrackMatch, HostMatch, OptionValue, Value};
use weir_model::{Match, Rule, Target, Test, tests_of};

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::{Edit, Finding};
use crate::lint::define;

define!(U32_FOR_HEADER, "u32-for-header", Note);
define!(STRING_BY_KMP, "string-by-kmp", Note);
define!(STRING_FROM_START, "string-over-all", Note);
define!(REPEATED_TEST, "repeated-test", Note, fix);
define!(STATE_MODULE, "state-module", Note, off, fix);

pub(crate) static FAMILY: LintFamily = LintFamily {
    lints: &[&U32_FOR_HEADER, &STRING_BY_KMP, &STRING_FROM_START, &REPEATED_TEST, &STATE_MODULE],
    look,
};

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let say =
                |lint, message: String, help: &str| table.rule(lint, chain, i, message).help(help);
            for m in &rule.matches {
                let Match::Host(host) = m else { continue };
                if let Some(plain) = plain(host) {
                    let message = format!("-m u32 tests what {plain} can test");
                    out.push(say(&U32_FOR_HEADER, message, "use the plain match"));
                }
                if algorithm(host) == Some("kmp") {
                    let message = "-m string --algo kmp examines every byte".to_owned();
                    let help = "use --algo bm, which skips most bytes but misses a pattern that \
                                crosses two memory fragments of a packet";
                    out.push(say(&STRING_BY_KMP, message, help));
                }
                if host.module == "string" && !bounded(host) {
                    let message = "-m string searches the whole packet".to_owned();
                    let help = "add --from and --to, and test protocol and port first";
                    out.push(say(&STRING_FROM_START, message, help));
                }
            }
            out.extend(repeated(table, chain, i, rule));
            out.extend(state(table, chain, i, rule));
        }
    }
}

fn option<'a>(host: &'a HostMatch, name: &str) -> Option<&'a OptionValue> {
    host.options.iter().find(|o| o.name == name)
}

fn algorithm(host: &HostMatch) -> Option<&str> {
    match &option(host, "algo").filter(|_| host.module == "string")?.value {
        Value::Word(w) => Some(w),
        Value::Text(t) => Some(t),
        _ => None,
    }
}

fn bounded(host: &HostMatch) -> bool {
    option(host, "from").is_some() || option(host, "to").is_some()
}

/// The plain match of the tests that are often copied from old guides.
fn plain(host: &HostMatch) -> Option<&'static str> {
    let Value::Text(text) = &option(host, "u32").filter(|_| host.module == "u32")?.value else {
        return None;
    };
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (place, _) =
        text.to_ascii_lowercase().split_once('=').map(|(p, v)| (p.to_owned(), v.to_owned()))?;
    let number = |s: &str| match s.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => s.parse::<u32>().ok(),
    };
    let (offset, mask) = match place.split_once('&') {
        Some((offset, mask)) if !mask.contains(['@', '>', '<', '&']) => {
            (number(offset)?, number(mask)?)
        }
        Some(_) => return None,
        None => (number(&place)?, u32::MAX),
    };
    if text.contains("&&") {
        return None;
    }
    Some(match (offset, mask) {
        (6, 0xff) => "-p",
        (12, _) => "-s",
        (16, _) => "-d",
        (0, 0xffff) => "-m length",
        (5, 0xff) => "-m ttl",
        (_, _) => return None,
    })
}

/// A match that says again what the rule says already.
fn repeated(table: &TableContext<'_>, chain: usize, i: usize, rule: &Rule) -> Option<Finding> {
    let family = table.family();
    let tests = |matches: &[Match], base: bool| {
        let mut part = Rule::new(Target::None);
        if base {
            part.base = rule.base.clone();
        }
        part.matches = matches.to_vec();
        tests_of(&part, family)
    };
    let at = (1..=rule.matches.len()).rev().map(|n| n - 1).find(|n| {
        let m = &rule.matches[*n];
        let says = tests(std::slice::from_ref(m), false);
        // What is cut short dies at the first that looks, so the first must stay, and a match of
        // the same kind must be before it.
        let twin = rule.matches[..*n]
            .iter()
            .any(|e| match_module_of(e, family) == match_module_of(m, family));
        let before = tests(&rule.matches[..*n], true);
        let lasts = |t: &Test| matches!(t, Test::Field { .. } | Test::EitherPort { .. });
        twin && !says.is_empty() && says.iter().all(|t| lasts(t) && before.contains(t))
    })?;
    let mut shorter = rule.clone();
    shorter.matches.remove(at);
    if at < shorter.spans.len() {
        shorter.spans.remove(at);
    }
    let name = match_module_of(&rule.matches[at], family);
    let message = format!("-m {name} repeats a test of this rule");
    let edit = Edit::ReplaceRule { rule: table.place(chain, Some(i)), by: Box::new(shorter) };
    Some(table.rule(&REPEATED_TEST, chain, i, message).help("remove it").fix(vec![edit]))
}

/// `-m state`, which is `-m conntrack --ctstate` by its old name.
fn state(table: &TableContext<'_>, chain: usize, i: usize, rule: &Rule) -> Option<Finding> {
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
    let edit = Edit::ReplaceRule { rule: table.place(chain, Some(i)), by: Box::new(newer) };
    let message = "-m state is the old name of -m conntrack --ctstate";
    let found = table.rule(&STATE_MODULE, chain, i, message);
    Some(found.help("use -m conntrack --ctstate").fix(vec![edit]))
}
