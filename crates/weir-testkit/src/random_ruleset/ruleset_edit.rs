//! One edit of a ruleset's text.

use super::TestRng;

/// A ruleset's text after an edit.
#[derive(Clone, Debug)]
pub struct RandomRulesetEdit {
    /// What was done, with the rule that it was done to.
    pub description: String,
    /// The text.
    pub edited_text: String,
}

/// Changes one rule so that packets probably meet another end: its verdict, an address, a port, a
/// flag; or takes it out, or exchanges it with the next. Whether any packet sees it is for the
/// caller to find out. `None` where the rule that chance fell on cannot be changed so.
pub fn make_probably_meaning_changing_edit(
    text: &str,
    rng: &mut TestRng,
) -> Option<RandomRulesetEdit> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let rules = rule_line_indices(&lines);
    let at = *rules.get(rng.number_below(rules.len().max(1)))?;
    let old = lines[at].clone();
    let what = match rng.number_below(8) {
        0 | 1 => {
            lines[at] = replace_verdict(&old)?;
            "another verdict"
        }
        2 => {
            lines[at] = flip_address_bit(&old, rng)?;
            "another address"
        }
        3 => {
            lines[at] = flip_lowest_port_bit(&old)?;
            "another port"
        }
        4 => {
            lines.remove(at);
            "taken out"
        }
        5 => {
            let next = rules.iter().find(|r| {
                **r > at && chain_of_rule_line(&lines[**r]) == chain_of_rule_line(&old)
            })?;
            lines.swap(at, *next);
            "behind the next"
        }
        6 => {
            lines[at] = toggle_first_negatable_option(&old)?;
            "a test turned round"
        }
        _ => {
            lines[at] = remove_match_option(&old)?;
            "without a test"
        }
    };
    Some(RandomRulesetEdit {
        description: format!("{what}: {old}"),
        edited_text: join_lines(&lines),
    })
}

/// Changes the text so that no packet sees it: splits a prefix, exchanges two rules that no packet
/// meets both of, adds a rule after one that decides all that it matches. `None` where the rule
/// that chance fell on cannot be changed so.
pub fn make_meaning_preserving_edit(text: &str, rng: &mut TestRng) -> Option<RandomRulesetEdit> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let rules = rule_line_indices(&lines);
    let at = *rules.get(rng.number_below(rules.len().max(1)))?;
    let old = lines[at].clone();
    let what = match rng.number_below(3) {
        0 => {
            let [low, high] = split_rule_by_address_prefix(&old)?;
            lines[at] = low;
            lines.insert(at + 1, high);
            "prefix split"
        }
        1 => {
            let next = rules.iter().find(|r| {
                **r > at && chain_of_rule_line(&lines[**r]) == chain_of_rule_line(&old)
            })?;
            if !are_rule_addresses_disjoint(&old, &lines[*next]) {
                return None;
            }
            lines.swap(at, *next);
            "disjoint rules exchanged"
        }
        _ => {
            let shadowed = build_shadowed_rule_line(&old, rng)?;
            lines.insert(at + 1, shadowed);
            "shadowed rule added"
        }
    };
    Some(RandomRulesetEdit {
        description: format!("{what}: {old}"),
        edited_text: join_lines(&lines),
    })
}

fn join_lines(lines: &[String]) -> String {
    lines.iter().flat_map(|l| [l, "\n"]).collect()
}

/// Where rules stand.
fn rule_line_indices(lines: &[String]) -> Vec<usize> {
    let all = lines.iter().enumerate();
    all.filter(|(_, l)| strip_counters(l).starts_with("-A ")).map(|(i, _)| i).collect()
}

/// A line without the counters before it.
fn strip_counters(line: &str) -> &str {
    match line.split_once("] ") {
        Some((counters, rest)) if counters.starts_with('[') => rest,
        _ => line,
    }
}

fn chain_of_rule_line(line: &str) -> &str {
    strip_counters(line).split_whitespace().nth(1).unwrap_or_default()
}

fn split_at_spaces(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Where an option's word stands.
fn find_option_index(words: &[&str], options: &[&str]) -> Option<usize> {
    words.iter().position(|w| options.contains(w))
}

fn replace_verdict(line: &str) -> Option<String> {
    let pairs = [("ACCEPT", "DROP"), ("DROP", "ACCEPT"), ("RETURN", "DROP"), ("REJECT", "ACCEPT")];
    let words = split_at_spaces(line);
    let at = find_option_index(&words, &["-j", "-g"])?;
    let (_, new) = pairs.iter().find(|(old, _)| words.get(at + 1) == Some(old))?;
    Some([&words[..=at], &[new]].concat().join(" "))
}

/// An IPv4 address with one bit of its prefix flipped.
fn flip_address_bit(line: &str, rng: &mut TestRng) -> Option<String> {
    let mut words: Vec<String> = split_at_spaces(line).into_iter().map(str::to_owned).collect();
    let at = words.iter().position(|w| matches!(w.as_str(), "-s" | "-d"))? + 1;
    let (addr, len) = parse_ipv4_addr_and_prefix_len(words.get(at)?)?;
    let bit = 32 - 1 - rng.number_below(len.max(1) as usize) as u32;
    words[at] = format!("{}/{len}", std::net::Ipv4Addr::from(addr ^ 1 << bit));
    (len > 0).then(|| words.join(" "))
}

/// Address and length of an IPv4 prefix.
fn parse_ipv4_addr_and_prefix_len(word: &str) -> Option<(u32, u32)> {
    let (addr, len) = word.split_once('/').unwrap_or((word, "32"));
    let addr: std::net::Ipv4Addr = addr.parse().ok()?;
    let len = len.parse().ok().filter(|l| *l <= 32)?;
    Some((addr.into(), len))
}

fn flip_lowest_port_bit(line: &str) -> Option<String> {
    let mut words: Vec<String> = split_at_spaces(line).into_iter().map(str::to_owned).collect();
    let at = words.iter().position(|w| matches!(w.as_str(), "--dport" | "--sport"))? + 1;
    let port: u16 = words.get(at)?.parse().ok()?;
    words[at] = (port ^ 1).to_string();
    Some(words.join(" "))
}

const NEGATABLE_OPTIONS: [&str; 10] = [
    "-s",
    "-d",
    "-i",
    "-o",
    "--dport",
    "--sport",
    "--ctstate",
    "--state",
    "--mac-source",
    "--icmp-type",
];

fn toggle_first_negatable_option(line: &str) -> Option<String> {
    let mut words = split_at_spaces(line);
    let at = find_option_index(&words, &NEGATABLE_OPTIONS)?;
    if words[at - 1] == "!" {
        words.remove(at - 1);
    } else {
        words.insert(at, "!");
    }
    Some(words.join(" "))
}

fn remove_match_option(line: &str) -> Option<String> {
    let mut words = split_at_spaces(line);
    let at = find_option_index(&words, &["-s", "-d", "-i", "-o", "--dport", "--sport"])?;
    let from = if words[at - 1] == "!" { at - 1 } else { at };
    words.drain(from..at + 2);
    Some(words.join(" "))
}

/// Matches whose evaluation leaves something behind: a second rule would evaluate it twice.
fn has_only_stateless_matches(line: &str) -> bool {
    let known = [
        "tcp",
        "udp",
        "icmp",
        "icmp6",
        "multiport",
        "state",
        "conntrack",
        "mac",
        "mark",
        "iprange",
        "comment",
        "sctp",
        "length",
        "ttl",
        "hl",
        "dscp",
        "tos",
    ];
    let words = split_at_spaces(line);
    let modules = words.windows(2).filter(|w| w[0] == "-m").map(|w| w[1]);
    modules.into_iter().all(|m| known.contains(&m))
}

/// Two rules for the halves of a rule's prefix.
fn split_rule_by_address_prefix(line: &str) -> Option<[String; 2]> {
    let words = split_at_spaces(line);
    let at = find_option_index(&words, &["-s", "-d"])?;
    let (addr, len) = parse_ipv4_addr_and_prefix_len(words.get(at + 1)?)?;
    if len >= 32 || words[at - 1] == "!" || !has_only_stateless_matches(line) {
        return None;
    }
    let half = |addr: u32| {
        let net = format!("{}/{}", std::net::Ipv4Addr::from(addr), len + 1);
        let mut words: Vec<&str> = words.clone();
        words[at + 1] = &net;
        words.join(" ")
    };
    Some([half(addr), half(addr | 1 << (31 - len))])
}

/// Whether sources or destinations of two rules have nothing in common; neither may end a packet
/// by what it only looks at (a cut header), so that both must look at the address first.
fn are_rule_addresses_disjoint(a: &str, b: &str) -> bool {
    let net = |line: &str, option: &str| {
        let words = split_at_spaces(line);
        let at = find_option_index(&words, &[option]).filter(|at| words[at - 1] != "!")?;
        parse_ipv4_addr_and_prefix_len(words.get(at + 1)?)
    };
    let apart = |option: &str| match (net(a, option), net(b, option)) {
        (Some((x, n)), Some((y, m))) => {
            let len = n.min(m);
            len > 0 && (x ^ y) >> (32 - len) != 0
        }
        _ => false,
    };
    apart("-s") || apart("-d")
}

/// A rule that only sees what the rule before it decides.
fn build_shadowed_rule_line(line: &str, rng: &mut TestRng) -> Option<String> {
    let words = split_at_spaces(line);
    let at = find_option_index(&words, &["-j"])?;
    if !matches!(*words.get(at + 1)?, "ACCEPT" | "DROP") || !has_only_stateless_matches(line) {
        return None;
    }
    let target = rng.pick(&["ACCEPT", "DROP"]);
    Some(format!("{} {target}", words[..=at].join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_split_into_its_halves() {
        let [low, high] =
            split_rule_by_address_prefix("-A c -s 10.0.0.0/8 -j DROP").expect("a prefix");
        assert_eq!(low, "-A c -s 10.0.0.0/9 -j DROP");
        assert_eq!(high, "-A c -s 10.128.0.0/9 -j DROP");
        assert_eq!(split_rule_by_address_prefix("-A c ! -s 10.0.0.0/8 -j DROP"), None);
        assert_eq!(
            split_rule_by_address_prefix("-A c -s 10.0.0.0/8 -m limit --limit 3/hour -j DROP"),
            None
        );
    }

    #[test]
    fn only_disjoint_prefixes_are_reported_as_disjoint() {
        let rule = |net: &str| format!("-A c -s {net} -j DROP");
        assert!(are_rule_addresses_disjoint(&rule("10.0.0.0/9"), &rule("10.128.0.0/9")));
        assert!(!are_rule_addresses_disjoint(&rule("10.0.0.0/8"), &rule("10.128.0.0/9")));
        assert!(!are_rule_addresses_disjoint(&rule("10.0.0.0/8"), "-A c ! -s 11.0.0.0/8 -j DROP"));
    }

    #[test]
    fn every_kind_of_edit_is_generated() {
        let text = super::super::generate_ruleset(
            3,
            &super::super::RulesetShape {
                v6: false,
                rule_count: 60,
                ct_states: true,
                opaque_matches: true,
                all_tables: true,
                rare_modules: false,
            },
        );
        let mut rng = TestRng::new(1);
        let mut kinds = std::collections::BTreeSet::new();
        for _ in 0..400 {
            let edits = [
                make_probably_meaning_changing_edit(&text, &mut rng),
                make_meaning_preserving_edit(&text, &mut rng),
            ];
            for edit in edits.into_iter().flatten() {
                assert_ne!(edit.edited_text, text);
                kinds.extend(edit.description.split(':').next().map(str::to_owned));
            }
        }
        assert_eq!(kinds.len(), 10, "{kinds:?}");
    }
}
