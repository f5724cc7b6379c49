//! Matches that read the route of a local packet, before and after mangle OUTPUT may change it.
//! What the kernel does is measured in `weir-verify/tests/facts.rs`:
//! `a_mark_in_mangle_output_affects_realm_but_not_devgroup`.

use weir_diagram::{CompareOptions, Comparison, StatefulTestPairing, compare_firewalls};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};

fn compared(before: &str, after: &str) -> Comparison {
    let [before, after] = [before, after].map(|text| Firewall {
        v4: Some(parse(text, &ParserSettings::default()).expect("rules")),
        ..Firewall::default()
    });
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    compare_firewalls(&before, &after, &options).expect("no mistake in weir")
}

/// The rule in the mangle table against the same rule in the filter table.
fn moved(mark: &str, test: &str) -> Comparison {
    compared(
        &format!("*mangle\n{mark}-A OUTPUT {test} -j DROP\nCOMMIT\n*filter\nCOMMIT\n"),
        &format!("*mangle\n{mark}COMMIT\n*filter\n-A OUTPUT {test} -j DROP\nCOMMIT\n"),
    )
}

const MARK: &str = "-A OUTPUT -j MARK --set-mark 1\n";

#[test]
fn a_test_of_the_first_output_device_may_move_past_a_mark() {
    for test in ["-m devgroup --dst-group 5", "-o eth0", "-m addrtype --dst-type LOCAL"] {
        let found = moved(MARK, test);
        assert!(found.is_equal(), "{test}: {found:#?}");
    }
}

#[test]
fn a_test_of_the_route_may_not_move_past_a_mark() {
    for test in ["-m realm --realm 5", "-m policy --dir out --pol none"] {
        let found = moved(MARK, test);
        let (_, difference) = found.differences().next().expect("they differ");
        let words: Vec<&str> =
            difference.witness.assumptions.iter().map(|a| a.description.as_str()).collect();
        assert!(words.iter().any(|w| w.contains("after mangle")), "{test}: {words:?}");
    }
    for tos in ["-A OUTPUT -j TOS --set-tos 0x10\n", "-A OUTPUT -j DSCP --set-dscp 4\n"] {
        assert!(moved(tos, "-m realm --realm 5").differences().count() > 0, "{tos}");
    }
}

#[test]
fn a_route_test_may_move_if_mangle_does_not_affect_it() {
    for rule in ["", "-A OUTPUT -j TTL --ttl-set 9\n", "-A OUTPUT -p tcp\n"] {
        let found = moved(rule, "-m realm --realm 5");
        assert!(found.is_equal(), "{rule}: {found:#?}");
    }
}
