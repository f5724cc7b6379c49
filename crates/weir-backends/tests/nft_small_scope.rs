//! Small random rulesets over few values: the nft form has the same meaning as the ruleset.

use proptest::prelude::*;
use weir_artefact::PassEqualityEvidence;
use weir_backends::nft::{self, NftForm};
use weir_backends::{CompileError, CompileOptions};
use weir_model::nft::{Comparand, LoadExpression, Statement};
use weir_model::{Family, Firewall, Hook, TableName};
use weir_syntax::iptables::{self, ParserSettings};

const CHAINS: [&str; 4] = ["FORWARD", "one", "reject", "three"];

fn options() -> CompileOptions {
    CompileOptions { check_packets_per_family: 1500, ..CompileOptions::default() }
}

fn firewall(text: &str, family: Family) -> Firewall {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let parsed = iptables::parse(text, &options);
    let ruleset = parsed.unwrap_or_else(|d| {
        panic!("{}", weir_syntax::render_diagnostics(&d, "random", text, false));
    });
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

fn compiled(text: &str, family: Family) -> NftForm {
    let firewall = firewall(text, family);
    nft::compile_nft_form_without_passes(&firewall, &options(), &mut |_, _| {})
        .unwrap_or_else(|e| panic!("{e}\nof\n{text}"))
}

fn forward(rules: &[&str]) -> String {
    let mut text = "*filter\n:FORWARD DROP [0:0]\n".to_string();
    for rule in rules {
        text.push_str(&format!("-A FORWARD {rule}\n"));
    }
    text + "COMMIT\n"
}

/// Which address a rule tests, and what else.
fn rule_text(family: Family, chain: usize) -> impl Strategy<Value = String> {
    let prefix = move |flag: &'static str| {
        let lens = if family == Family::V4 { 28u32..=32 } else { 124..=128 };
        let base = if family == Family::V4 { "192.0.2." } else { "2001:db8::" };
        let one = (any::<bool>(), 0u32..16, lens).prop_map(move |(not, host, len)| {
            let host = host & !((1u32 << (family.addr_bits() - len)) - 1);
            let host = if family == Family::V4 { host.to_string() } else { format!("{host:x}") };
            let not = if not && host.ends_with('4') { "! " } else { "" };
            format!("{not}{flag} {base}{host}/{len} ")
        });
        prop_oneof![4 => one, 1 => Just(String::new())]
    };
    let icmp = match family {
        Family::V4 => ["-p icmp -m icmp --icmp-type 8", "-p icmp -m icmp --icmp-type 3/1"],
        Family::V6 => {
            ["-p ipv6-icmp -m icmp6 --icmpv6-type 128", "-p icmpv6 -m icmp6 --icmpv6-type 1/1"]
        }
    };
    let tests = vec![
        "-p tcp -m tcp --dport 1",
        "-p tcp -m tcp --dport 1:2 --tcp-flags SYN,ACK SYN",
        "-p tcp -m tcp ! --dport 2",
        "-p tcp -m tcp --tcp-flags ACK ACK",
        "-p udp -m multiport --dports 1,3",
        "-p udp -m multiport ! --ports 1,2",
        "-p tcp -m multiport --ports 1,2",
        icmp[0],
        icmp[1],
        "-m mark --mark 0x1",
        "-m mark --mark 0x1/0x3",
        "-m mac --mac-source 02:00:00:00:00:01",
        "-m limit --limit 3/sec",
        "-m length --length 0:60",
        "-i eth0",
        "! -o eth+",
    ];
    let any_test = prop_oneof![3 => Just(""), 2 => prop::sample::select(tests)];
    let later: Vec<String> = CHAINS[(chain + 1).min(CHAINS.len())..]
        .iter()
        .flat_map(|c| [format!(" -j {c}"), format!(" -g {c}")])
        .collect();
    let plain = [" -j ACCEPT", " -j DROP", " -j RETURN", "", " -j LOG", " -j MARK --set-mark 1"];
    let plain: Vec<String> = plain.iter().map(ToString::to_string).collect();
    let target = if later.is_empty() {
        prop::sample::select(plain).boxed()
    } else {
        prop_oneof![4 => prop::sample::select(plain), 1 => prop::sample::select(later)].boxed()
    };
    (prefix("-s"), prefix("-d"), 0u8..4, any_test, target).prop_map(
        move |(s, d, which, test, target)| {
            let s = if which != 0 { s } else { String::new() };
            let d = if which == 0 || which == 3 { d } else { String::new() };
            format!("-A {} {s}{d}{test}{target}\n", CHAINS[chain])
        },
    )
}

fn ruleset_text(family: Family) -> impl Strategy<Value = String> {
    let chain = move |c: usize| prop::collection::vec(rule_text(family, c), 0..24);
    let chains = (chain(0), chain(1), chain(2), chain(3), any::<bool>());
    chains.prop_map(|(a, b, c, d, conntrack)| {
        let mut text =
            "*filter\n:FORWARD DROP [0:0]\n:one - [0:0]\n:reject - [0:0]\n:three - [0:0]\n"
                .to_string();
        if conntrack {
            text.push_str("-A FORWARD -m state --state ESTABLISHED -j ACCEPT\n");
        }
        for rule in [a, b, c, d].iter().flatten() {
            text.push_str(rule);
        }
        text + "COMMIT\n"
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn the_nft_form_preserves_the_meaning_of_ipv4_rulesets(text in ruleset_text(Family::V4)) {
        compiled(&text, Family::V4);
    }

    #[test]
    fn the_nft_form_preserves_the_meaning_of_ipv6_rulesets(text in ruleset_text(Family::V6)) {
        compiled(&text, Family::V6);
    }
}

/// Puts a form through the check after something was done to it; prints what was caught.
fn is_caught(what: &str, text: &str, family: Family, spoil: impl FnOnce(&mut NftForm)) -> bool {
    let mut form = compiled(text, family);
    spoil(&mut form);
    let firewall = firewall(text, family);
    match nft::compare_nft_form_at_hooks(&firewall, &form, &options(), &mut |_, _| {}) {
        Err(CompileError::NotEquivalent { example, .. }) => {
            let of = weir_passes::passes::FOLD_INTO_VERDICT_MAP_PASS_NAME;
            println!("{of} {what:<58} packets: {}", example.difference);
            true
        }
        _ => false,
    }
}

#[test]
fn folding_bit_tests_into_a_set_is_caught() {
    let text = forward(&[
        "-p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT",
        "-p tcp -m tcp --tcp-flags ACK ACK -j ACCEPT",
    ]);
    assert!(is_caught("bits as values", &text, Family::V4, |form| {
        let rules = form.nft_ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules);
        for statement in rules.flat_map(|r| &mut r.statements) {
            if let Statement::Test(t) = statement
                && t.expression == LoadExpression::TcpFlags
            {
                t.comparand = Comparand::InSpans(vec![(2, 2), (16, 16)]);
            }
        }
    }));
}

#[test]
fn a_wrong_element_is_caught() {
    let rules: Vec<String> = (0..8).map(|i| format!("-s 192.0.2.{i}/32 -j ACCEPT")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    assert!(!is_caught("nothing", &forward(&rules), Family::V4, |_| {}));
    assert!(is_caught("another verdict for an element", &forward(&rules), Family::V4, |form| {
        let map = &mut form.nft_ruleset.tables[0].maps[0];
        map.elements[3].verdict = weir_model::nft::Verdict::Drop;
    }));
    assert!(is_caught(
        "an element that counts for nothing",
        &forward(&rules),
        Family::V4,
        |form| {
            let map = &mut form.nft_ruleset.tables[0].maps[0];
            map.elements[3].credited_originals.clear();
        }
    ));
}

#[test]
fn a_form_without_fragment_offset_tests_is_caught() {
    let text = forward(&["-p udp -m udp --dport 22 -j ACCEPT"]);
    assert!(is_caught("without the look at fragments", &text, Family::V4, |form| {
        for chain in &mut form.nft_ruleset.tables[0].chains {
            for rule in &mut chain.rules {
                rule.statements
                    .retain(|s| !matches!(s, Statement::Test(t) if t.expression == LoadExpression::Ipv4FragmentOffset));
            }
        }
    }));
}

#[test]
fn a_rule_that_nft_cannot_express_keeps_its_hook_in_iptables() {
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n\
                -A INPUT -m recent --update --seconds 60 -j DROP\n\
                -A FORWARD -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n";
    let form = compiled(text, Family::V4);
    assert_eq!(form.moved_tables.len(), 1);
    assert_eq!(form.moved_tables[0].hooks, [Hook::Forward, Hook::Output]);
    assert_eq!(form.barriers[0].rule, "iptables/filter/INPUT/1");
    let rest = form.iptables_rest.v4.unwrap();
    let filter = rest.table(&TableName::Filter).unwrap();
    assert_eq!(filter.chain("INPUT").unwrap().rules.len(), 1);
    assert!(filter.chain("FORWARD").unwrap().rules.is_empty());
}

#[test]
fn notrack_may_be_spelled_in_two_ways_in_one_file() {
    // The control: one spelling.
    for other in ["-j NOTRACK", "-j CT --notrack"] {
        let text = format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
             -A PREROUTING -s 192.0.2.1/32 -m recent --update --seconds 60 {other}\n\
             -A OUTPUT -s 192.0.2.2/32 -j NOTRACK\nCOMMIT\n"
        );
        let form = compiled(&text, Family::V4);
        assert_eq!(form.moved_tables[0].hooks, [Hook::Output], "{other}");
    }
}

#[test]
fn a_test_of_a_conntrack_entry_fails_for_packets_without_one() {
    // The control: rules that do not test the entry.
    for asks in [
        "",
        "-m conntrack --ctorigsrc 192.0.2.1/32",
        "-m conntrack ! --ctorigsrc 192.0.2.1/32",
        "-m conntrack --ctstatus ASSURED",
    ] {
        let text = format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING -j NOTRACK\n\
             -A OUTPUT -j NOTRACK\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n\
             :OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
             -A POSTROUTING {asks} -j SNAT --to-source 198.51.100.1\nCOMMIT\n\
             *filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
             -A FORWARD {asks} -j DROP\nCOMMIT\n"
        );
        let form = compiled(&text, Family::V4);
        assert_eq!(form.moved_tables.len(), 3, "{asks}");
    }
}

#[test]
fn an_unreachable_reassembling_rule_keeps_its_table_in_iptables() {
    let of = |rule: &str| {
        let text = format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n:idle - [0:0]\n\
             -A PREROUTING -p udp -m udp --dport 53 -j DROP\n-A idle {rule} -j ACCEPT\nCOMMIT\n\
             *filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s 192.0.2.1/32 -j DROP\nCOMMIT\n"
        );
        let form = compiled(&text, Family::V4);
        form.moved_tables.iter().map(|m| m.table).collect::<Vec<_>>()
    };
    // The control: another rule that nft cannot express.
    assert_eq!(of("-m string --string a --algo bm"), [TableName::Mangle, TableName::Filter]);
    assert_eq!(of("-m socket"), [TableName::Filter]);
}

#[test]
fn a_limit_shared_by_two_hooks_keeps_both_in_iptables() {
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:logged - [0:0]\n\
                -A INPUT -m recent --update --seconds 60 -j DROP\n-A INPUT -j logged\n\
                -A FORWARD -j logged\n-A logged -m limit --limit 1/sec -j LOG\nCOMMIT\n";
    let form = compiled(text, Family::V4);
    assert_eq!(form.moved_tables[0].hooks, [Hook::Output]);
    assert_eq!(form.barriers[1].rule, "iptables/filter/FORWARD");
}

#[test]
fn deep_calls_are_refused() {
    let deep = |n: usize| {
        let mut text = "*filter\n:FORWARD DROP [0:0]\n".to_string();
        (0..n).for_each(|i| text.push_str(&format!(":c{i} - [0:0]\n")));
        text.push_str("-A FORWARD -j c0\n");
        (1..n).for_each(|i| text.push_str(&format!("-A c{} -j c{i}\n", i - 1)));
        text + "COMMIT\n"
    };
    compiled(&deep(15), Family::V4);
    let firewall = firewall(&deep(16), Family::V4);
    assert!(nft::compile_nft_form_without_passes(&firewall, &options(), &mut |_, _| {}).is_err());
}

/// The rules leave the chain before its end. They need no chains below it, or one each.
#[test]
fn returns_on_alternatives_or_negations_do_not_deepen_chain_nesting() {
    let text = |tests: &str, n: usize| {
        let rule =
            |i: usize| format!("-A one -p udp {} -j RETURN\n", tests.replace('N', &i.to_string()));
        let rules: String = (1..=n).map(rule).collect();
        format!(
            "*filter\n:OUTPUT DROP [0:0]\n:one - [0:0]\n-A OUTPUT -j one\n\
             -A OUTPUT -s 192.0.2.1/32 -j ACCEPT\n{rules}-A one -j ACCEPT\nCOMMIT\n"
        )
    };
    let depth = |form: &NftForm| form.nft_ruleset.tables[0].chains.len();
    // The control: one nft test each.
    let plain = compiled(&text("-m multiport --dports N,77", 60), Family::V4);
    let ports = compiled(&text("-m multiport --ports N,77", 60), Family::V4);
    assert_eq!(depth(&ports), depth(&plain));
    compiled(&text("-m owner ! --uid-owner N", 13), Family::V4);
    compiled(&text("-m multiport --ports N,77 -m owner ! --uid-owner N", 6), Family::V4);
    // The control for the depth: each rule needs the rest of the chain as a separate chain.
    let deep = firewall(&text("-m owner ! --uid-owner N", 16), Family::V4);
    assert!(nft::compile_nft_form_without_passes(&deep, &options(), &mut |_, _| {}).is_err());
}

/// Rules that share values, so that runs become maps, and ways out of a chain.
const LETTERS: [&str; 10] = [
    "-s 192.0.2.0/32 -j ACCEPT",
    "-s 192.0.2.1/32 -j DROP",
    "-s 192.0.2.0/31 -j LOG",
    "! -s 192.0.2.1/32 -j DROP",
    "-p tcp -m tcp --dport 22 -j ACCEPT",
    "-p tcp -m tcp ! --dport 22 -j RETURN",
    "-p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT",
    "-p tcp -m tcp --tcp-flags ACK ACK -j ACCEPT",
    "-s 192.0.2.0/31 -g one",
    "-j MARK --set-mark 1",
];

/// Exhaustive in a small scope: up to three rules out of a few, within a run that is long enough
/// for a map, compared by diagrams for every packet.
#[test]
fn any_three_rules_within_a_run_are_proven_equal_in_nft() {
    let options = CompileOptions { check_packets_per_family: 60, ..CompileOptions::default() };
    let (mut words, mut last) = (vec![Vec::new()], vec![Vec::new()]);
    for _ in 0..3 {
        let longer = |w: &Vec<&'static str>| LETTERS.map(|l| [&w[..], &[l]].concat());
        last = last.iter().flat_map(longer).collect();
        words.extend(last.iter().cloned());
    }
    let mut with_maps = 0;
    for word in &words {
        let chains = "*filter\n:FORWARD DROP [0:0]\n:one - [0:0]\n-A one -p tcp -j ACCEPT\n";
        let host = |i: usize| format!("-s 192.0.2.{i}/32 -j {}", ["ACCEPT", "DROP"][i % 2]);
        let amid =
            (4..10).map(host).chain(word.iter().map(ToString::to_string)).chain((10..16).map(host));
        let rules: String = amid.map(|r| format!("-A FORWARD {r}\n")).collect();
        let text = format!("{chains}{rules}COMMIT\n");
        let form = nft::compile_nft_form_without_passes(
            &firewall(&text, Family::V4),
            &options,
            &mut |_, _| {},
        )
        .unwrap_or_else(|e| panic!("{e}\nof\n{text}"));
        let step = form.equality_check.passes.last().expect("the form's own pass");
        assert!(
            matches!(step.evidence, PassEqualityEvidence::ProvenAndPacketsCompared(_)),
            "{:?}\nof\n{text}",
            step.evidence
        );
        with_maps += usize::from(form.nft_ruleset.tables.iter().any(|t| !t.maps.is_empty()));
    }
    println!("fold_into_verdict_map: {} chains, {with_maps} with maps", words.len());
    assert!(with_maps > 100, "{with_maps} of {}", words.len());
}
