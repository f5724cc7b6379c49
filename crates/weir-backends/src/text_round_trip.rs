//! Checks that the printed text is what was checked.
//!
//! The check before writing compares models, but the tools load text. So the text is parsed again,
//! by the parser that read the original, and must give the model that was checked: a match that a
//! printer omits would otherwise open the firewall.

use weir_model::ipset::SetStorage;
use weir_model::{Element, Firewall, IpSet, Rule, Ruleset, iptables_tool_name, nft};
use weir_syntax::iptables::ParserSettings;
use weir_syntax::{ipset, iptables};

/// Whether the texts of a firewall's rulesets and sets read back unchanged; otherwise the first
/// difference in words.
pub fn check_iptables_text_round_trip(firewall: &Firewall) -> Result<(), String> {
    // What went to nft as a whole leaves a ruleset without tables, which is not a text at all.
    for ruleset in firewall.rulesets().filter(|r| !r.tables.is_empty()) {
        let options = ParserSettings { family: Some(ruleset.family), ..ParserSettings::default() };
        let text = iptables::print(ruleset, false);
        let back = iptables::parse(&text, &options).map_err(|errors| {
            let first = errors.first().map_or("", |d| d.message.as_str());
            format!("{} is refused: {first}", iptables_tool_name(ruleset.family))
        })?;
        if let Some(place) = find_ruleset_difference(ruleset, &back) {
            return Err(format!(
                "{}/{place} is a different rule",
                iptables_tool_name(ruleset.family)
            ));
        }
    }
    check_sets_text_round_trip(&firewall.sets)
}

/// Whether nft text reads back as the tables that it was printed of.
pub fn check_nft_text_round_trip(tables: &nft::Ruleset, text: &str) -> Result<(), String> {
    let back = weir_syntax::nft::parse(text).map_err(|errors| {
        format!("nft text is refused: {}", errors.first().map_or("", |d| d.message.as_str()))
    })?;
    weir_syntax::nft::check_rulesets_equal(tables, &back)
}

/// Where two rulesets say something else, apart from origins, counters and comment lines.
fn find_ruleset_difference(a: &Ruleset, b: &Ruleset) -> Option<String> {
    if a.tables.len() != b.tables.len() {
        return Some("tables".to_owned());
    }
    for table in &a.tables {
        let Some(other) = b.table(&table.name) else { return Some(table.name.to_string()) };
        let by_name: std::collections::HashMap<_, _> =
            other.chains.iter().map(|c| (&c.name, c)).collect();
        for chain in &table.chains {
            let place = |n: usize| format!("{}/{}/{n}", table.name, chain.name);
            let Some(other) = by_name.get(&chain.name) else { return Some(place(0)) };
            if other.policy != chain.policy {
                return Some(format!("{}/{}/policy", table.name, chain.name));
            }
            let same = chain
                .rules
                .iter()
                .zip(&other.rules)
                .take_while(|(a, b)| have_same_matches_and_target(a, b));
            let same = same.count();
            if same != chain.rules.len() || same != other.rules.len() {
                return Some(place(same + 1));
            }
        }
    }
    None
}

fn have_same_matches_and_target(a: &Rule, b: &Rule) -> bool {
    a.base == b.base && a.matches == b.matches && a.target == b.target
}

fn check_sets_text_round_trip(sets: &[IpSet]) -> Result<(), String> {
    let text = ipset::print(sets);
    let back = ipset::parse(&text).map_err(|errors| {
        format!("ipset text is refused: {}", errors.first().map_or("", |d| d.message.as_str()))
    })?;
    match sets.iter().zip(&back).find(|(a, b)| !are_same_sets(a, b)) {
        Some((set, _)) => Err(format!("set {} is a different set", set.name)),
        None if sets.len() != back.len() => Err("some sets are missing".to_owned()),
        None => Ok(()),
    }
}

/// Whether sets mean the same. Written field by field, so that a new field is not forgotten.
fn are_same_sets(a: &IpSet, b: &IpSet) -> bool {
    let IpSet { name, kind, family, options, elements, span: _, leading_comments: _ } = a;
    // The `create` line of a bitmap has no family: its addresses are IPv4.
    let same_family = kind.storage == SetStorage::Bitmap || *family == b.family;
    (name, kind, options) == (&b.name, &b.kind, &b.options)
        && same_family
        && elements.len() == b.elements.len()
        && elements.iter().zip(b.elements.iter()).all(|(a, b)| are_same_elements(a, b))
}

fn are_same_elements(a: &Element, b: &Element) -> bool {
    // What an element counted is printed where it is known; that is no part of its meaning.
    let Element {
        parts,
        nomatch,
        timeout,
        comment,
        other_words,
        counters: _,
        span: _,
        credited_originals: _,
    } = a;
    (parts, nomatch, timeout) == (&b.parts, &b.nomatch, &b.timeout)
        && (comment, other_words) == (&b.comment, &b.other_words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::Match;

    fn firewall(rules: &str) -> Firewall {
        let text = format!("*filter\n:INPUT DROP [0:0]\n:c - [0:0]\n{rules}COMMIT\n");
        let ruleset = iptables::parse(&text, &ParserSettings::default()).expect("a ruleset");
        Firewall { v4: Some(ruleset), ..Firewall::default() }
    }

    #[test]
    fn a_ruleset_reads_back() {
        let rules = "-A INPUT -s 192.0.2.0/24 -p tcp -m tcp --dport 22 -j c\n-A c -j ACCEPT\n";
        assert_eq!(check_iptables_text_round_trip(&firewall(rules)), Ok(()));
    }

    #[test]
    fn a_match_that_the_text_lacks_is_found() {
        let whole = firewall("-A INPUT -m mark --mark 0x1 -j ACCEPT\n").v4.expect("IPv4");
        let lacks = firewall("-A INPUT -j ACCEPT\n").v4.expect("IPv4");
        assert_eq!(find_ruleset_difference(&whole, &whole), None);
        assert_eq!(find_ruleset_difference(&whole, &lacks), Some("filter/INPUT/1".to_owned()));
    }

    #[test]
    fn a_missing_rule_or_chain_or_another_policy_is_a_difference() {
        let whole = firewall("-A INPUT -j c\n-A c -j ACCEPT\n").v4.expect("IPv4");
        let mut short = whole.clone();
        short.tables[0].chains.iter_mut().for_each(|c| c.rules.truncate(0));
        assert_eq!(find_ruleset_difference(&whole, &short), Some("filter/INPUT/1".to_owned()));
        assert_eq!(find_ruleset_difference(&short, &whole), Some("filter/INPUT/1".to_owned()));
        let mut open = whole.clone();
        open.tables[0].chains[0].policy = Some(weir_model::Policy::Accept);
        assert_eq!(find_ruleset_difference(&whole, &open), Some("filter/INPUT/policy".to_owned()));
        let mut fewer = whole.clone();
        fewer.tables[0].chains.pop();
        assert_eq!(find_ruleset_difference(&whole, &fewer), Some("filter/c/0".to_owned()));
    }

    #[test]
    fn a_test_that_the_nft_text_lacks_is_found() {
        let text =
            |rule: &str| format!("table ip weir_filter {{\n\tchain c_ {{\n\t\t{rule}\n\t}}\n}}\n");
        let whole = text("ip saddr 10.0.0.0/8 counter accept");
        let tables = weir_syntax::nft::parse(&whole).expect("weir's own text");
        assert_eq!(check_nft_text_round_trip(&tables, &whole), Ok(()));
        assert!(check_nft_text_round_trip(&tables, &text("counter accept")).is_err());
        assert!(
            check_nft_text_round_trip(&tables, &text("ip saddr 10.0.0.0/8 counter a cc ept"))
                .is_err()
        );
    }

    #[test]
    fn a_comment_with_a_line_break_does_not_survive_the_round_trip() {
        let mut made = firewall("-A INPUT -m comment --comment x -j ACCEPT\n");
        let ruleset = made.v4.as_mut().expect("IPv4");
        let rule = ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules).next();
        // A line break cannot be in a rule.
        rule.expect("a rule").matches = vec![Match::Comment("x\n-A INPUT -j DROP".to_owned())];
        assert!(check_iptables_text_round_trip(&made).is_err());
    }
}
