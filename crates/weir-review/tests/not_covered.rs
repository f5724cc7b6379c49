//! A review names what the proof of a comparison does not cover.

use weir_model::Firewall;
use weir_review::describe_uncovered_packets;
use weir_syntax::iptables::{ParserSettings, parse};

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

#[test]
fn a_review_names_packets_excluded_from_the_proof() {
    let said = |table: &str, rule: &str| {
        let (chain, _) = rule.split_once(' ').expect("a chain");
        let text = format!("*{table}\n:{chain} ACCEPT [0:0]\n-A {rule} -j ACCEPT\nCOMMIT\n");
        describe_uncovered_packets(&[&firewall(&text)]).join("\n")
    };
    // The controls: no rule tests it, or only at a hook where it does not matter.
    for (table, rule) in [
        ("filter", "FORWARD -s 10.0.0.0/8"),
        ("mangle", "PREROUTING -m ttl --ttl-eq 1"),
        ("mangle", "PREROUTING -m state --state NEW"),
        ("filter", "FORWARD -d 10.0.0.1"),
    ] {
        assert_eq!(said(table, rule), "", "{rule}");
    }
    // A user chain is evaluated at the hooks that enter it.
    let jumps = |chain: &str| {
        let text = format!(
            "*mangle\n:{chain} ACCEPT [0:0]\n:sub - [0:0]\n-A {chain} -j sub\n-A sub -d 10.0.0.1\nCOMMIT\n"
        );
        describe_uncovered_packets(&[&firewall(&text)]).len()
    };
    assert_eq!((jumps("FORWARD"), jumps("POSTROUTING")), (0, 1));
    for (table, rule, what) in [
        ("filter", "FORWARD -m length --length 0:65535", "BIG TCP"),
        ("filter", "FORWARD -m ttl --ttl-eq 255", "bridge-nf-call-iptables"),
        ("raw", "PREROUTING -i eth0 -m conntrack --ctstate NEW", "conntrack entry"),
        ("raw", "OUTPUT -m conntrack --ctstate UNTRACKED", "clones of TEE"),
        ("mangle", "POSTROUTING ! -d 10.1.0.1", "source route"),
    ] {
        assert!(said(table, rule).contains(what), "{rule}: {}", said(table, rule));
    }
}
