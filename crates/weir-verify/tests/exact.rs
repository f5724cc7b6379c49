//! The unmodified ruleset agrees with the kernel: the expectation for each packet is exact, or the
//! packet is excluded by name. Needs root.

use weir_model::{Family, Firewall};
use weir_syntax::ipset;
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::skip_without_root;
use weir_verify::{VerifyOptions, VerifyReport, verify};

const PACKETS: usize = 4_000;

/// A filter table whose chains accept, with these rules.
fn filter(rules: &str) -> String {
    let chains = ":INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    format!("*filter\n{chains}{rules}COMMIT\n")
}

fn raw(rules: &str) -> String {
    format!("*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n")
}

fn mangle(rules: &str) -> String {
    let chains = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    let chains: String = chains.iter().map(|c| format!(":{c} ACCEPT [0:0]\n")).collect();
    format!("*mangle\n{chains}{rules}COMMIT\n")
}

/// Sends packets through the ruleset as it is.
fn report(text: &str, sets: &str) -> VerifyReport {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(errors) => panic!("{}", weir_syntax::render_diagnostics(&errors, "rules", text, false)),
    };
    let mut firewall = Firewall { sets: ipset::parse(sets).unwrap(), ..Firewall::default() };
    match ruleset.family {
        Family::V4 => firewall.v4 = Some(ruleset),
        Family::V6 => firewall.v6 = Some(ruleset),
    }
    let options = VerifyOptions {
        packet_count: PACKETS,
        single_packets_max: 400,
        check_diagrams: true,
        ..VerifyOptions::default()
    };
    verify(&firewall, &[], &options, &mut |_, _| {}).unwrap()
}

/// All packets agree, and at least `compared` were compared.
fn agrees(text: &str, compared: u64) -> VerifyReport {
    let report = report(text, "");
    assert!(report.has_no_unintended_difference(), "{report}");
    assert!(report.compared >= compared, "{report}");
    report
}

/// How many packets were omitted for a cause that holds these words.
fn left_out(report: &VerifyReport, words: &str) -> u64 {
    report.excluded.iter().filter(|(cause, _)| cause.contains(words)).map(|(_, n)| n).sum()
}

#[test]
fn a_header_match_drops_truncated_packets_that_pass_stateful_matches() {
    if skip_without_root() {
        return;
    }
    let mut singles = 0;
    for (proto, stateful) in [
        ("tcp", "statistic --mode nth --every 2 --packet 0"),
        ("udp", "limit --limit 3/hour --limit-burst 4"),
        ("icmp", "statistic --mode random --probability 0.5"),
    ] {
        let test = if proto == "icmp" { "--icmp-type 8" } else { "--dport 80" };
        let rule = format!("-A FORWARD -p {proto} -m {stateful} -m {proto} {test}");
        let report = agrees(&filter(&format!("{rule} -j DROP\n{rule} -j LOG\n")), 3_000);
        singles += report.singles;
    }
    assert!(singles > 100, "{singles} packets were tried one at a time");
}

#[test]
fn matches_beyond_the_header_drop_packets_truncated_there() {
    if skip_without_root() {
        return;
    }
    let rules = "-A FORWARD -p sctp -m sctp --dport 80 -j ACCEPT\n\
        -A FORWARD -p esp -m esp --espspi 500:600 -j ACCEPT\n\
        -A FORWARD -p ah -m ah --ahspi 500:600 -j ACCEPT\n\
        -A FORWARD -p sctp -m sctp --sport 8 --chunk-types any DATA -j DROP\n\
        -A FORWARD -p dccp -m dccp --dccp-types REQUEST -j DROP\n\
        -A FORWARD -p dccp -m dccp --dport 8 --dccp-option 4 -j DROP\n\
        -A FORWARD -p tcp -m tcp --dport 8 --tcp-option 4 -j DROP\n\
        -A INPUT -p tcp -m tcpmss --mss 0:1400 -j DROP\n";
    agrees(&filter(rules), 5_000);
}

#[test]
fn hashlimit_by_ports_drops_packets_without_ports() {
    if skip_without_root() {
        return;
    }
    let limit = "-m hashlimit --hashlimit-upto 5/hour --hashlimit-burst 3 --hashlimit-mode";
    let rules = format!(
        "-A FORWARD -p tcp {limit} srcip,dstport --hashlimit-name weir-exact-1 -j ACCEPT\n\
         -A FORWARD -p udp -m hashlimit --hashlimit-above 1kb/s --hashlimit-burst 2kb \
         --hashlimit-mode srcip --hashlimit-name weir-exact-2 -j DROP\n\
         -A FORWARD {limit} srcport --hashlimit-name weir-exact-3 -j LOG\n"
    );
    agrees(&filter(&rules), 3_000);
}

#[test]
fn connections_in_another_zone_are_excluded_by_name() {
    if skip_without_root() {
        return;
    }
    let states = filter(
        "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
         -A FORWARD -m conntrack --ctstate NEW -p tcp -j DROP\n\
         -A FORWARD -m conntrack --ctstate INVALID -j DROP\n",
    );
    let zone = raw("-A PREROUTING -s 192.0.2.0/25 -j CT --zone 5\n");
    let report = agrees(&format!("{zone}{states}"), 5_000);
    assert!(left_out(&report, "zone") > 20, "{report}");
    let plain = agrees(&states, 5_000);
    assert_eq!(left_out(&plain, "zone"), 0, "{plain}");
}

#[test]
fn tproxy_and_socket_rules_enable_reassembly() {
    if skip_without_root() {
        return;
    }
    let rule = "-A PREROUTING -p tcp -m tcp --dport 80 -j TPROXY --on-port 3129 --on-ip 0.0.0.0 \
                --tproxy-mark 0x1/0x1\n";
    let text = mangle(rule) + &filter("-A FORWARD -p tcp -j ACCEPT\n");
    let report = agrees(&text, 3_000);
    assert!(left_out(&report, "skipped: TPROXY") > 20, "{report}");
    let socket = mangle("-A PREROUTING -p tcp -m socket --transparent -j MARK --set-mark 1\n");
    let report = agrees(&socket, 3_000);
    assert!(left_out(&report, "skipped: TPROXY") > 20, "{report}");
}

#[test]
fn routing_decides_which_addresses_are_broadcasts() {
    if skip_without_root() {
        return;
    }
    let rules = "-A INPUT -d 0.0.0.0/7 -m addrtype --dst-type BROADCAST -j DROP\n\
        -A INPUT -m addrtype --dst-type MULTICAST -j DROP\n\
        -A INPUT -m addrtype --dst-type LOCAL -j ACCEPT\n\
        -A INPUT -s 0.0.0.0/7 -m addrtype --src-type BROADCAST -j DROP\n\
        -A INPUT -s 240.0.0.0/4 -m addrtype --src-type BROADCAST -j DROP\n\
        -A INPUT -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DROP\n\
        -A FORWARD -d 0.0.0.0/8 -m addrtype --dst-type BROADCAST -j DROP\n\
        -A FORWARD -d 0.0.0.0/8 -m addrtype ! --dst-type UNICAST -j DROP\n\
        -A FORWARD -s 0.0.0.0/8 -m addrtype --src-type BROADCAST -j DROP\n\
        -A OUTPUT -d 0.0.0.0/8 -m addrtype --dst-type BROADCAST -j DROP\n\
        -A OUTPUT -d 240.0.0.0/4 -m addrtype --dst-type BROADCAST -j DROP\n";
    agrees(&filter(rules), 5_000);
}

#[test]
fn redirects_related_to_an_untranslated_connection_pass_a_masquerading_ruleset() {
    if skip_without_root() {
        return;
    }
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        :POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\n";
    let rules = "-A FORWARD -p icmp -m icmp --icmp-type 5/1 -m conntrack --ctstate RELATED\n\
        -A FORWARD -p icmp -m icmp --icmp-type 5 -j ACCEPT\n\
        -A FORWARD -m conntrack --ctstate RELATED -j ACCEPT\n\
        -A FORWARD -j DROP\n";
    let report = agrees(&format!("{nat}{}", filter(rules)), 5_000);
    assert_eq!(report.ways[0].counters_hit, report.ways[0].counters - 1, "{report}");
    assert!(report.compared_by_state["RELATED"] > 300, "{report}");
}

#[test]
fn untracked_packets_over_lo_are_excluded_by_name() {
    if skip_without_root() {
        return;
    }
    let text = raw("-A PREROUTING -i lo -p udp -j CT --notrack\n-A OUTPUT -o lo -j CT --notrack\n")
        + &filter(
            "-A INPUT -i lo -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
             -A INPUT -m conntrack --ctstate UNTRACKED -j ACCEPT\n\
             -A INPUT -m conntrack --ctstate INVALID -j DROP\n",
        );
    let report = agrees(&text, 2_000);
    assert!(left_out(&report, "over lo") > 100, "{report}");
}

#[test]
fn later_rules_see_what_targets_wrote() {
    if skip_without_root() {
        return;
    }
    let syn = "-p tcp -m tcp --tcp-flags SYN,RST SYN";
    let rules = format!(
        "-A FORWARD {syn} -j TCPMSS --set-mss 1000\n\
         -A FORWARD -p tcp -m length --length 44 -j DROP\n\
         -A FORWARD -p tcp -m length --length 41:43\n\
         -A FORWARD -p udp -j ECN --ecn-ip-ect 1\n\
         -A FORWARD -m tos --tos 0x01/0x03 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 80 -j ECN --ecn-tcp-remove\n\
         -A FORWARD -p icmp -j TTL --ttl-inc 3\n\
         -A FORWARD -m ttl --ttl-gt 64 -j MARK --set-xmark 0x7/0xff\n\
         -A FORWARD -m mark --mark 0x7 -j CONNMARK --save-mark\n\
         -A FORWARD -m connmark --mark 0x7 -j DROP\n"
    );
    let report = agrees(&mangle(&rules), 4_000);
    assert!(report.ways[0].counters_hit >= 12, "{report}");
}

#[test]
fn connmark_shifts_marks_when_saving_and_restoring() {
    if skip_without_root() {
        return;
    }
    let rules = "-A FORWARD -p tcp -j MARK --set-xmark 0x5/0xff\n\
         -A FORWARD -p tcp -j CONNMARK --save-mark --left-shift-mark 4\n\
         -A FORWARD -m connmark --mark 0x50 -j CONNMARK --restore-mark --right-shift-mark 1\n\
         -A FORWARD -m mark --mark 0x28 -j DROP\n\
         -A FORWARD -m mark --mark 0x5\n\
         -A FORWARD -p udp -j CONNMARK --set-xmark 0x3/0xff --left-shift-mark 1\n\
         -A FORWARD -m connmark --mark 0x6 -j DROP\n";
    agrees(&mangle(rules), 4_000);
}
