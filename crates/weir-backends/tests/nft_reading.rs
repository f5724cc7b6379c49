//! nft text that compile writes is read back with the same meaning, before and after nft has listed
//! it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use weir_backends::nft::to_iptables::{self, OpaqueNftTextDictionary};
use weir_backends::{CompileOptions, nft};
use weir_model::{Family, Firewall, Packet};
use weir_packet::Transport;
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Oracle, RuleAnswersTrueOracle};
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::random_ruleset::{RulesetShape, TestRng, generate_ruleset};
use weir_testkit::testdata;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

fn firewall(text: &str) -> Firewall {
    let ruleset = match iptables::parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(d) => panic!("{}", weir_syntax::render_diagnostics(&d, "case", text, false)),
    };
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

/// The form, where nft can say anything of the ruleset.
fn compiled(text: &str) -> Option<nft::NftForm> {
    let options = CompileOptions { check_packets_per_family: 100, ..CompileOptions::default() };
    nft::compile_nft_form_without_passes(&firewall(text), &options, &mut |_, _| {}).ok()
}

fn read(text: &str) -> weir_model::nft::Ruleset {
    match weir_syntax::nft::parse(text) {
        Ok(ruleset) => ruleset,
        Err(d) => panic!("{}", weir_syntax::render_diagnostics(&d, "written.nft", text, false)),
    }
}

/// What nft prints of a text once it has loaded it, in its own network namespace.
fn listed(text: &str) -> String {
    let mut nft = Command::new("unshare")
        .args(["--net", "sh", "-c", "nft -f - && nft list ruleset"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run unshare (util-linux) and nft (nftables)");
    let mut input = nft.stdin.take().expect("its input is a pipe");
    input.write_all(text.as_bytes()).expect("nft reads all of its input");
    drop(input);
    let done = nft.wait_with_output().expect("nft ends");
    assert!(done.status.success(), "{}\n{text}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn assert_reads_back(case: &str, form: &nft::NftForm) {
    if let Err(why) =
        weir_syntax::nft::check_rulesets_equal(&form.nft_ruleset, &read(&form.nft_text))
    {
        panic!("{case}: {why}\n{}", form.nft_text);
    }
    let listed = listed(&form.nft_text);
    if let Err(why) = weir_syntax::nft::check_rulesets_equal(&form.nft_ruleset, &read(&listed)) {
        panic!("{case}, listed: {why}\n{listed}");
    }
}

#[test]
fn golden_cases_read_back_as_written_and_as_listed() {
    for file in testdata::testdata_files_with_extension("backends/nft", "txt") {
        let case = std::fs::read_to_string(&file).expect("read the case");
        let (rules, _) = case.split_once("\n---\n").expect("a blessed case");
        let form = compiled(&format!("{rules}\n")).expect("a form");
        assert_reads_back(&file.display().to_string(), &form);
    }
}

/// Every match and target that the nft form can express.
#[test]
fn every_match_and_target_of_the_nft_form_reads_back() {
    let mut read = 0;
    for v6 in [false, true] {
        let rules = words(v6);
        // All together, and each alone: no rule may depend on its neighbours.
        let with = |rules: &[&str]| {
            let rules: String = rules.iter().map(|r| format!("-A {r}\n")).collect();
            format!(
                "*mangle\n:PREROUTING ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n\
                 *filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{}COMMIT\n",
                if v6 { "-A FORWARD -s 2001:db8::1/128 -j DROP\n" } else { "" }
            )
        };
        let all = compiled(&with(&rules)).expect("nft can express all of these");
        assert!(all.barriers.is_empty(), "{:?}", all.barriers);
        assert_reads_back("all", &all);
        read += rules.len();
    }
    assert!(read > 60);
}

const WORDS: [&str; 49] = [
    "FORWARD -i eth+ ! -o lo",
    "FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN -j DROP",
    "FORWARD -p tcp -m tcp ! --tcp-flags SYN,RST SYN,RST",
    "FORWARD -p tcp -m tcp ! --tcp-flags FIN,SYN FIN -j DROP",
    "FORWARD -p tcp -m tcp --tcp-flags FIN,SYN,RST,PSH,ACK,URG NONE",
    "FORWARD -p tcp -m tcp ! --tcp-flags RST,ACK NONE",
    "FORWARD -p tcp -m tcp --tcp-flags RST RST",
    "FORWARD -p tcp -m tcp ! --tcp-flags ALL ALL",
    "FORWARD -p udp -m udp ! --sport 1:1023 --dport 53",
    "FORWARD -p udp -m multiport ! --dports 53,123,1000:2000",
    "FORWARD -p tcp -m multiport --ports 53,123",
    "FORWARD -p sctp -m sctp --dport 22",
    "FORWARD -p dccp -m dccp --sport 22",
    "FORWARD -p gre",
    "FORWARD ! -p tcp",
    "FORWARD -p 253",
    "FORWARD -m mac ! --mac-source 02:00:00:00:00:01",
    "FORWARD -m conntrack --ctstate NEW,UNTRACKED,DNAT",
    "FORWARD -m conntrack ! --ctstate NEW,SNAT",
    "FORWARD -m conntrack ! --ctstate INVALID",
    "FORWARD -m conntrack --ctstate ESTABLISHED --ctstatus ASSURED --ctdir ORIGINAL",
    "FORWARD -m conntrack --ctproto 6 --ctorigdstport 80:90",
    "FORWARD -m mark ! --mark 0x1/0xff -m connmark --mark 0x3",
    "FORWARD -m mark --mark 0x1",
    "FORWARD -m mark --mark 0x4/0x4",
    "FORWARD -m connmark ! --mark 0x0/0xf",
    "FORWARD -m length ! --length 0:100 -m tos --tos 0x8/0xff",
    "FORWARD -m tos --tos 0x8/0x3f",
    "FORWARD -m dscp ! --dscp 0x2e",
    "FORWARD -m dscp --dscp 0x01",
    "FORWARD -m pkttype --pkt-type broadcast",
    "FORWARD -m limit --limit 3/hour",
    "FORWARD -p tcp -m limit --limit 5/sec --limit-burst 9 -m tcp --dport 22",
    "FORWARD -m statistic --mode nth --every 3 --packet 1",
    "FORWARD -m statistic --mode random --probability 0.5",
    "FORWARD -m comment --comment \"it's \\\"so\\\"; {\" -j ACCEPT",
    "PREROUTING -j MARK --set-xmark 0x12/0xf",
    "PREROUTING -j MARK --set-xmark 0x12/0xffffffff",
    "PREROUTING -j MARK --set-xmark 0x0/0xff",
    "PREROUTING -j CONNMARK --save-mark --nfmask 0xff --ctmask 0xffffffff",
    "PREROUTING -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xf0",
    "PREROUTING -j CONNMARK --set-xmark 0x12/0xf",
    "FORWARD -j CLASSIFY --set-class 1:a",
    "FORWARD -j TOS --set-tos 0x2/0xff",
    "FORWARD -j TOS --set-tos 0x8/0xfc",
    "FORWARD -j DSCP --set-dscp 0x2e",
    "FORWARD -j LOG",
    "FORWARD -j LOG --log-level 7 --log-prefix \"a b\" --log-tcp-options --log-macdecode",
    "FORWARD -j NFLOG --nflog-prefix n --nflog-size 80 --nflog-group 2",
];

const V4_WORDS: [&str; 13] = [
    "FORWARD -s 10.0.0.0/8 ! -d 192.0.2.1/32 -f",
    "FORWARD -s 10.0.1.0/255.0.255.0 ! -f",
    "FORWARD -p icmp -m icmp --icmp-type 3/4",
    "FORWARD -p icmp -m icmp ! --icmp-type 3/4 -j DROP",
    "FORWARD -p icmp -m icmp ! --icmp-type 8",
    "FORWARD -p icmp -m icmp --icmp-type any",
    "FORWARD -m ttl --ttl-lt 5",
    "FORWARD -m ttl ! --ttl-eq 5",
    "FORWARD -m iprange ! --src-range 10.0.0.1-10.0.0.9 --dst-range 10.0.0.3-10.0.0.8",
    "PREROUTING -m addrtype --dst-type MULTICAST,LOCAL",
    "PREROUTING -m addrtype ! --src-type UNICAST --limit-iface-in",
    "FORWARD -m conntrack --ctorigsrc 10.0.0.0/8",
    "FORWARD -j TTL --ttl-set 9",
];

const V6_WORDS: [&str; 7] = [
    "FORWARD -s 2001:db8::/32 ! -d 2001:db8::1/128",
    "FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 1/4",
    "FORWARD -p ipv6-icmp -m icmp6 ! --icmpv6-type 1/4",
    "FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 135",
    "FORWARD -m hl --hl-gt 5",
    "FORWARD -m conntrack ! --ctrepldst 2001:db8::1",
    "FORWARD -j HL --hl-set 9",
];

fn words(v6: bool) -> Vec<&'static str> {
    let own: &[&str] = if v6 { &V6_WORDS } else { &V4_WORDS };
    WORDS.iter().chain(own).copied().collect()
}

/// The nft tables of a form, read from its text, and what stays in iptables, as one firewall.
fn said(text: &str, form: &nft::NftForm) -> Firewall {
    let original = firewall(text);
    let ruleset = original.rulesets().next().expect("a ruleset");
    let dictionary = OpaqueNftTextDictionary::from_firewall(&original, ruleset.family);
    let said = match to_iptables::translate_tables_of_family(
        &read(&listed(&form.nft_text)),
        ruleset.family,
        &dictionary,
    ) {
        Ok(said) => said,
        Err(unsaid) => panic!("{}\n{text}\n{}", unsaid[0], form.nft_text),
    };
    let mut joined = form.iptables_tables_with_hooks_left();
    for rest in [&mut joined.v4, &mut joined.v6].into_iter().flatten() {
        to_iptables::add_translated_tables(rest, said.clone()).expect("a hook is in one of them");
    }
    joined
}

/// Whether a packet is one that nft treats otherwise inherently.
fn deviates(packet: &Packet) -> bool {
    packet.transport == Transport::Truncated || packet.fragment.offset == 1 && packet.proto == 6
}

#[test]
fn nft_tables_translated_to_iptables_keep_their_meaning() {
    let mut rng = TestRng::new(12);
    let mut compared = 0;
    for i in 0..40 {
        let (shape, seed) = (RulesetShape::random(&mut rng, 40), rng.next_u64());
        let text = generate_ruleset(seed, &shape);
        let Some(form) = compiled(&text) else { continue };
        let (before, after) = (firewall(&text), said(&text, &form));
        let (old, new) = (Interpreter::new(&before), Interpreter::new(&after));
        let of = before.rulesets().next().expect("a ruleset");
        for entry in JourneyKind::ALL {
            let traffic = TrafficOptions {
                seed,
                max_packets: 400,
                journey_kind: entry,
                include_truncated: false,
                ..Default::default()
            };
            for packet in generate_boundary_and_random_packets(of, &[], &traffic)
                .into_iter()
                .filter(|p| !deviates(p))
            {
                let mut answers: [Box<dyn Oracle>; 2] =
                    [Box::new(RuleAnswersTrueOracle), Box::new(AlwaysFalseOracle)];
                for answers in &mut answers {
                    let a = old.evaluate_journey(&packet, entry, answers.as_mut());
                    let b = new.evaluate_journey(&packet, entry, answers.as_mut());
                    let (left, right) =
                        ((a.verdict, &a.effects, &a.packet), (b.verdict, &b.effects, &b.packet));
                    assert!(
                        left == right,
                        "case {i}, {entry:?}: {packet:?}\n{left:?}\n{right:?}\n{text}\n{}",
                        form.nft_text
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 20_000, "{compared}");
}

#[test]
fn nft_rules_without_iptables_equivalent_are_reported() {
    let table = |rule: &str| {
        read(&format!(
            "table ip weir_filter {{\n\tchain FORWARD {{\n\t\ttype filter hook forward priority 0; \
             policy accept;\n\t\t{rule}\n\t}}\n}}\n"
        ))
    };
    let dictionary = OpaqueNftTextDictionary::from_firewall(&Firewall::default(), Family::V4);
    let said =
        |rule: &str| to_iptables::translate_tables_of_family(&table(rule), Family::V4, &dictionary);
    assert!(said("tcp dport 22 accept").is_ok());
    for (rule, why) in [
        ("th dport 22 accept", "ports without a test of the protocol"),
        ("meta l4proto { tcp, udp } accept", "several protocols"),
        ("limit rate 3/second ip frag-off & 0x1fff == 0 accept", "behind a match that counts"),
        ("iifname \"a\" iifname \"b\" accept", "a device twice"),
        ("ct status ! dnat accept", "no such test"),
        ("log accept", "two things"),
    ] {
        let unsaid = said(rule).expect_err(rule);
        assert!(unsaid[0].construct.contains(why), "{rule}: {}", unsaid[0]);
        assert_eq!(unsaid[0].location, "weir_filter FORWARD rule 1");
    }
}

#[test]
fn generated_rulesets_read_back_as_written_and_as_listed() {
    let mut rng = TestRng::new(11);
    let mut read = 0;
    for i in 0..40 {
        let shape = RulesetShape::random(&mut rng, 40);
        let seed = rng.next_u64();
        let text = generate_ruleset(seed, &shape);
        let Some(form) = compiled(&text) else { continue };
        assert_reads_back(&format!("case {i}: ruleset({seed}, {shape:?})"), &form);
        read += 1;
    }
    assert!(read > 30, "{read} rulesets have the form");
}
