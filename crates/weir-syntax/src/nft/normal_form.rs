//! A normal form of nft rulesets.
//!
//! A text does not say which originals a counter is part of, nor from which match a test comes, and
//! nft prints tests in another order and form than its input. Two rulesets are equal if their
//! normal forms are: stateless tests between two statements with effects are a set; a comparison of
//! one bit, of all bits, or of a prefix has one spelling; an implied protocol is written
//! explicitly.

use std::collections::HashMap;

use weir_model::Effect;
use weir_model::Family;
use weir_model::mask::interval_of_value_under_mask;
use weir_model::nft::{
    Chain, Comparand, LoadExpression, MapKeyExpression, OpaqueNftTest, Rule, Ruleset, Statement,
    Table, Test, Verdict, VerdictMap, VerdictMapElement,
};
use weir_model::rule_match::ExtensionValue;
use weir_model::target::ExtensionTarget;

use super::print::sanitize_and_truncate_comment;
use super::statement_parser::{
    EnclosingTableAndChain, parse_statement, prepend_l4proto_test_of_action,
    push_implied_l4proto_test,
};
use super::token_cursor::{NftToken, NftTokenCursor};

/// The first difference between two rulesets, except for credit and origins.
///
/// # Errors
/// Its position and both sides, in words.
pub fn check_rulesets_equal(a: &Ruleset, b: &Ruleset) -> Result<(), String> {
    let (a, b) = (normalize_ruleset(a), normalize_ruleset(b));
    let key = |t: &Table| (t.family, t.name.clone());
    for table in a.tables.iter().chain(&b.tables) {
        let (family, name) = key(table);
        let find = |r: &'_ Ruleset| r.tables.iter().position(|t| key(t) == key(table));
        let (Some(i), Some(j)) = (find(&a), find(&b)) else {
            return Err(format!("only one has the table {name} of {family:?}"));
        };
        check_tables_equal(&a.tables[i], &b.tables[j]).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

fn check_tables_equal(a: &Table, b: &Table) -> Result<(), String> {
    let names = |t: &Table| -> (Vec<String>, Vec<String>) {
        let maps = t.maps.iter().map(|m| m.name.clone()).collect();
        (t.chains.iter().map(|c| c.name.clone()).collect(), maps)
    };
    if names(a) != names(b) {
        return Err("other chains or maps".into());
    }
    for (x, y) in a.maps.iter().zip(&b.maps) {
        if x != y {
            let differs = x.elements.iter().zip(&y.elements).find(|(p, q)| p != q);
            let what = differs.map_or(String::new(), |(p, q)| format!(": {p:?}, {q:?}"));
            return Err(format!("map {} differs{what}", x.name));
        }
    }
    for (x, y) in a.chains.iter().zip(&b.chains) {
        let at = &x.name;
        if (x.base, &x.iptables_name_comment) != (y.base, &y.iptables_name_comment) {
            return Err(format!("chain {at} is attached differently"));
        }
        if let Some(i) =
            (0..x.rules.len().max(y.rules.len())).find(|i| x.rules.get(*i) != y.rules.get(*i))
        {
            let (p, q) = (x.rules.get(i), y.rules.get(i));
            return Err(format!("{at}, rule {}: {p:?}, {q:?}", i + 1));
        }
    }
    Ok(())
}

/// The ruleset in one spelling, without credit and origins.
pub fn normalize_ruleset(ruleset: &Ruleset) -> Ruleset {
    Ruleset { tables: ruleset.tables.iter().map(normalize_table).collect() }
}

fn normalize_table(table: &Table) -> Table {
    let mut lookup_keys = HashMap::new();
    for (map, key) in table.map_names_with_lookup_keys() {
        lookup_keys.entry(map.as_str()).or_insert(key);
    }
    let maps = table.maps.iter().map(|map| {
        let key = lookup_keys.get(map.name.as_str()).copied().unwrap_or(&map.key);
        sort_map_and_drop_credited_originals(map, key)
    });
    Table {
        family: table.family,
        name: table.name.clone(),
        iptables_table: table.iptables_table,
        maps: maps.collect(),
        chains: table.chains.iter().map(|c| normalize_chain(table, c)).collect(),
    }
}

fn sort_map_and_drop_credited_originals(map: &VerdictMap, key: &[MapKeyExpression]) -> VerdictMap {
    let mut elements: Vec<VerdictMapElement> = map
        .elements
        .iter()
        .map(|e| VerdictMapElement {
            key: e.key.clone(),
            credited_originals: Vec::new(),
            verdict: e.verdict.clone(),
        })
        .collect();
    elements.sort_by(|a, b| a.key.cmp(&b.key));
    VerdictMap {
        name: map.name.clone(),
        key: key.to_vec(),
        has_intervals: map.has_intervals,
        elements,
    }
}

fn normalize_chain(table: &Table, chain: &Chain) -> Chain {
    Chain {
        name: chain.name.clone(),
        base: chain.base,
        iptables_name_comment: chain
            .iptables_name_comment
            .as_deref()
            .map(sanitize_and_truncate_comment),
        rules: chain.rules.iter().map(|r| normalize_rule(table, chain, r)).collect(),
    }
}

fn normalize_rule(table: &Table, chain: &Chain, rule: &Rule) -> Rule {
    let family = table.family;
    let mut written = Vec::new();
    for s in &rule.statements {
        match s {
            Statement::OpaqueTest(o) => match parse_opaque_text(&o.text, table, chain) {
                Some(again) => written.extend(again),
                None => written
                    .push(super::opaque_test_parser::opaque_statement(o.text.clone(), o.stateful)),
            },
            Statement::Counter(_) => written.push(Statement::Counter(Vec::new())),
            Statement::Effect(e) => {
                written.push(Statement::Effect(normalize_effect_and_drop_defaults(e)))
            }
            Statement::Test(t) => {
                match t.expression {
                    LoadExpression::TcpFlags => push_implied_l4proto_test(&mut written, 6),
                    LoadExpression::IcmpType => push_implied_l4proto_test(
                        &mut written,
                        if family == Family::V4 { 1 } else { 58 },
                    ),
                    _ => {}
                }
                written.push(Statement::Test(unify_test_spelling(t, family)));
            }
            // At a rule's end there is nothing to continue from.
            Statement::Verdict(Verdict::Continue) => {}
            Statement::Reject("tcp-reset") => {
                prepend_l4proto_test_of_action(&mut written, 6);
                written.push(s.clone());
            }
            other => written.push(other.clone()),
        }
    }
    let comment = rule.comment.as_deref().map(sanitize_and_truncate_comment);
    Rule { statements: normalize_stateless_tests(written, family), comment }
}

/// The statements that an opaque test's text reads as.
fn parse_opaque_text(text: &str, table: &Table, chain: &Chain) -> Option<Vec<Statement>> {
    let mut cursor = NftTokenCursor::new(text);
    let mut out = Vec::new();
    while cursor.peek() != NftToken::TextEnd {
        parse_statement(
            &mut cursor,
            &mut out,
            table.family,
            EnclosingTableAndChain { table, chain },
        )
        .ok()?;
    }
    Some(out)
}

/// A test without an effect besides its result.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum StatelessTest {
    OfLoadedValue(Test),
    Opaque(OpaqueNftTest),
}

/// Stateless tests side by side in one order, each once.
fn normalize_stateless_tests(statements: Vec<Statement>, family: Family) -> Vec<Statement> {
    let mut out = Vec::with_capacity(statements.len());
    let mut tests = Vec::new();
    for s in statements {
        match s {
            Statement::Test(t) => {
                tests.push(StatelessTest::OfLoadedValue(unify_test_spelling(&t, family)));
            }
            Statement::OpaqueTest(o) if !o.stateful => tests.push(StatelessTest::Opaque(o)),
            other => {
                sort_dedup_and_flush_tests(&mut out, &mut tests);
                out.push(other);
            }
        }
    }
    sort_dedup_and_flush_tests(&mut out, &mut tests);
    out
}

fn sort_dedup_and_flush_tests(out: &mut Vec<Statement>, tests: &mut Vec<StatelessTest>) {
    tests.sort_unstable();
    tests.dedup();
    out.extend(tests.drain(..).map(|test| match test {
        StatelessTest::OfLoadedValue(test) => Statement::Test(test),
        StatelessTest::Opaque(test) => Statement::OpaqueTest(test),
    }));
}

/// A comparison in one spelling: bits if only "any" or "none" is tested, then intervals, then masks
/// with holes.
fn unify_test_spelling(test: &Test, family: Family) -> Test {
    let max = test.expression.max_value(family);
    let mut negated = test.negated;
    let mut with = match &test.comparand {
        Comparand::Masked { mask, wanted } if wanted & !mask == 0 => {
            let is_address =
                matches!(test.expression, LoadExpression::Saddr | LoadExpression::Daddr);
            let interval = interval_of_value_under_mask(*wanted, *mask, max);
            if let Some((lo, hi)) = interval.filter(|(lo, hi)| lo == hi || is_address) {
                Comparand::InSpans(vec![(lo, hi)])
            } else if *wanted == 0 {
                negated = !negated;
                Comparand::AnyBit(*mask)
            } else if mask.count_ones() == 1 {
                Comparand::AnyBit(*mask)
            } else {
                test.comparand.clone()
            }
        }
        Comparand::InSpans(spans) => {
            let mut spans = spans.clone();
            spans.sort_unstable();
            Comparand::InSpans(spans)
        }
        other => other.clone(),
    };
    if let Comparand::AnyBit(bits) = with
        && bits == max
    {
        (with, negated) = (Comparand::InSpans(vec![(0, 0)]), !negated);
    }
    Test { expression: test.expression, comparand: with, negated }
}

fn normalize_effect_and_drop_defaults(effect: &Effect) -> Effect {
    match effect {
        Effect::CtNotrack { .. } => Effect::Notrack,
        Effect::Tos { xor_value: value, clear_mask: 0xfc } if value & 3 == 0 => {
            Effect::Dscp(value >> 2)
        }
        Effect::Other(e) => {
            let mut options = e.options.clone();
            options.retain(|o| match (o.name, &o.value) {
                ("log-prefix" | "nflog-prefix", ExtensionValue::Text(t)) => !t.is_empty(),
                ("log-level", value) => *value != ExtensionValue::Number(4),
                ("nflog-group" | "nflog-threshold", value) => *value != ExtensionValue::Number(0),
                _ => true,
            });
            Effect::Other(ExtensionTarget { module: e.module, options })
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rule: &str) -> Ruleset {
        let text = format!(
            "table ip weir_filter {{\n\tchain FORWARD {{\n\t\ttype filter hook forward priority 0; \
             policy drop;\n\t\t{rule}\n\t}}\n}}\n"
        );
        crate::nft::parse(&text).unwrap_or_else(|e| panic!("{rule}: {e:?}"))
    }

    #[test]
    fn given_and_listed_spellings_agree() {
        let same = [
            ("meta l4proto == 6 th dport == 22 counter", "tcp dport 22 counter packets 3 bytes 9"),
            ("tcp flags & 0x3 == 0x0", "tcp flags ! fin,syn"),
            ("meta l4proto == 6 tcp flags & 0xff == 0x12", "tcp flags == 0x12"),
            ("meta l4proto == 6 tcp flags & 0x4 == 0x4", "tcp flags & rst == rst"),
            ("meta l4proto == 1 @th,0,16 != 0x304", "icmp type != 3 icmp code != frag-needed"),
            ("ct state & 0x9 == 0", "ct state ! invalid,new"),
            ("ct status & 0x2 != 0", "ct status seen-reply"),
            ("@nh,8,8 & 0xff == 0x8", "ip dscp 0x02 ip ecn not-ect"),
            ("limit rate 3/hour burst 5 packets", "limit rate 3/hour"),
            ("ip saddr & 255.255.0.0 == 10.1.0.0", "ip saddr 10.1.0.0/16"),
            ("log level warn", "log"),
            ("reject with icmp type port-unreachable", "reject"),
        ];
        for (given, listed) in same {
            assert_eq!(
                check_rulesets_equal(&parsed(given), &parsed(listed)),
                Ok(()),
                "{given} and {listed}"
            );
        }
    }

    #[test]
    fn rules_of_different_meaning_do_not_agree() {
        let other = [
            ("tcp dport 22 accept", "tcp dport 23 accept"),
            ("tcp dport 22 accept", "udp dport 22 accept"),
            ("tcp flags fin,syn", "tcp flags fin,syn / fin,syn"),
            ("counter accept", "accept"),
            ("limit rate 3/hour counter", "counter limit rate 3/hour"),
            ("ip saddr 10.0.0.0/8 drop", "drop"),
            ("meta mark set 1", "meta mark set 2"),
        ];
        for (a, b) in other {
            assert!(check_rulesets_equal(&parsed(a), &parsed(b)).is_err(), "{a} and {b}");
        }
    }
}
