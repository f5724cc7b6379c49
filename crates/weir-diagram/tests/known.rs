//! A field that a target writes has an unknown value afterwards, unless its row gives the value:
//! then the interpreter and the diagrams both write it.

use std::collections::BTreeSet;

use weir_diagram::{CompareOptions, StatefulTestPairing, compare_firewalls};
use weir_model::effect::TARGET_ROWS;
use weir_model::{Addr, Family, Field, Firewall};
use weir_semantics::{Interpreter, JourneyKind, NatQuestion, Oracle, OracleQuestion, Verdict};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;

/// Settles what a translation leaves open.
struct Choosing;

impl Oracle for Choosing {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        true
    }

    fn choose_nat_mapping(&mut self, _: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        Some((Addr(0x0a00_0009), Some(99)))
    }
}

/// A field that a target writes with a known value: the rules before it, where it stands, and rules
/// after it that drop the packet only where the field was written.
struct Known {
    field: Field,
    target: (&'static str, &'static str),
    behind: &'static str,
}

fn of(field: Field, target: (&'static str, &'static str), behind: &'static str) -> Known {
    Known { field, target, behind }
}

/// A filter table with these rules.
fn drop(rules: &str) -> &'static str {
    format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n").leak()
}

/// One that drops what a test holds for.
fn both(test: &str) -> &'static str {
    drop(&format!("-A INPUT {test} -j DROP\n-A FORWARD {test} -j DROP\n"))
}

/// Cases for the fields that a row writes with known values.
fn known(row: &str) -> Vec<Known> {
    use Field::{CtMark, CtState, Mark, Tos, Ttl};
    let mark = both("-m mark --mark 0x5");
    let tos = both("-m tos --tos 0x8/0xff");
    match row {
        "MARK" => vec![of(Mark, ("mangle", "-A PREROUTING -j MARK --set-mark 5"), mark)],
        "CONNMARK" => vec![
            of(
                Mark,
                ("mangle", "-A PREROUTING -j CONNMARK --restore-mark"),
                both("-m mark --mark 7"),
            ),
            of(
                CtMark,
                ("mangle", "-A PREROUTING -j CONNMARK --set-mark 5"),
                both("-m connmark --mark 5"),
            ),
        ],
        "TOS" => vec![of(Tos, ("mangle", "-A PREROUTING -j TOS --set-tos 8"), tos)],
        "DSCP" => vec![of(Tos, ("mangle", "-A PREROUTING -j DSCP --set-dscp 2"), tos)],
        "TTL" => {
            let ttl = both("-m ttl --ttl-eq 4");
            vec![of(Ttl, ("mangle", "-A PREROUTING -j TTL --ttl-set 5"), ttl)]
        }
        "HL" => {
            let hl = both("-m hl --hl-eq 4");
            vec![of(Ttl, ("mangle", "-A PREROUTING -j HL --hl-set 5"), hl)]
        }
        "NOTRACK" => {
            let target = ("raw", "-A PREROUTING -j NOTRACK");
            vec![
                of(CtState, target, both("-m conntrack --ctstate UNTRACKED")),
                of(
                    CtMark,
                    target,
                    drop("-A FORWARD -m connmark --mark 7 -j ACCEPT\n-A FORWARD -j DROP\n"),
                ),
            ]
        }
        "CT" => {
            let target = "-A PREROUTING -j CT --zone 1\n\
                          -A PREROUTING -m conntrack --ctstate NEW -j DROP";
            vec![of(CtState, ("raw", target), "")]
        }
        _ => translations(row),
    }
}

fn translations(row: &str) -> Vec<Known> {
    use Field::{CtState, Daddr, Dport, Saddr, Sport};
    // No rule sees a source that is translated last.
    let last = "";
    match row {
        "DNAT" => {
            let target = ("nat", "-A PREROUTING -p udp -j DNAT --to-destination 10.0.0.9:99");
            vec![
                of(Daddr, target, both("-d 10.0.0.9")),
                of(Dport, target, both("-p udp -m udp --dport 99")),
                of(CtState, target, both("-m conntrack --ctstate DNAT")),
            ]
        }
        "REDIRECT" => {
            let target = ("nat", "-A PREROUTING -p udp -j REDIRECT --to-ports 99");
            vec![
                of(Daddr, target, both("-d 10.0.0.9")),
                of(Dport, target, both("-p udp -m udp --dport 99")),
                of(CtState, target, both("-m conntrack --ctstate DNAT")),
            ]
        }
        "NETMAP" => {
            let target = ("nat", "-A PREROUTING -j NETMAP --to 10.0.0.9/32");
            vec![
                of(Daddr, target, both("-d 10.0.0.9")),
                of(CtState, target, both("-m conntrack --ctstate DNAT")),
                of(Saddr, ("nat", "-A POSTROUTING -j NETMAP --to 10.0.0.9/32"), last),
            ]
        }
        "SNAT" => {
            let target = ("nat", "-A POSTROUTING -p udp -j SNAT --to-source 10.0.0.9:99");
            [Saddr, Sport, CtState].into_iter().map(|f| of(f, target, last)).collect()
        }
        "MASQUERADE" => {
            let target = ("nat", "-A POSTROUTING -p udp -j MASQUERADE --to-ports 99");
            [Saddr, Sport, CtState].into_iter().map(|f| of(f, target, last)).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn interpreter_and_diagrams_apply_every_known_value_write() {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        level: weir_diagram::CompareLevel::Verdict,
        ..CompareOptions::default()
    };
    let mut cases = 0;
    for row in TARGET_ROWS {
        let own = known(row.name);
        let fields: BTreeSet<Field> = own.iter().map(|k| k.field).collect();
        let expected: BTreeSet<Field> = row.known_value_writes().iter().collect();
        assert_eq!(fields, expected, "{}: a case for each known write", row.name);
        for Known { field, target: (table, rules), behind } in own {
            cases += 1;
            let name = format!("{} {field:?}", row.name);
            let v6 = row.name == "HL";
            let made = |target: bool, behind: &str| {
                let lines: Vec<&str> = rules.split('\n').collect();
                let lines = lines[usize::from(!target)..].iter().map(|l| format!("{l}\n"));
                let rules: String = lines.collect();
                let hooks = if table == "raw" {
                    ":PREROUTING ACCEPT [0:0]\n"
                } else {
                    ":PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n"
                };
                let text = format!("*{table}\n{hooks}{rules}COMMIT\n{behind}");
                let family = if v6 { Family::V6 } else { Family::V4 };
                let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
                let ruleset = parse(&text, &options).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
                match family {
                    Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
                    Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
                }
            };
            let (with, without) = (made(true, behind), made(false, behind));
            let words = "ip saddr 192.0.2.1 ip daddr 192.0.2.2 udp sport 5 udp dport 9";
            let words = if v6 { "ip6 saddr 2001:db8::1 udp sport 5 udp dport 9" } else { words };
            let mut packet = parse_packet(words).expect("a packet");
            packet.ct.mark = 7;
            let run = |f: &Firewall| {
                let interpreter = Interpreter::new(f).with_conntrack_in_use();
                let outcome =
                    interpreter.evaluate_journey(&packet, JourneyKind::Forward, &mut Choosing);
                (outcome.verdict, field.read(&outcome.packet))
            };
            if behind.is_empty() && row.name != "CT" {
                assert_ne!(run(&with).1, run(&without).1, "{name}: the interpreter writes it");
                continue;
            }
            assert_eq!(run(&without).0, Verdict::Accept, "{name}: the control");
            assert_eq!(run(&with).0, Verdict::Drop, "{name}: the interpreter writes it");
            let same = |a: &Firewall, b: &Firewall| {
                compare_firewalls(a, b, &options).expect("no mistake in weir").is_equal()
            };
            assert!(same(&with, &with), "{name}: the control");
            assert!(!same(&with, &without), "{name}: the diagrams write it");
        }
    }
    assert!(cases >= 20, "{cases}");
}
