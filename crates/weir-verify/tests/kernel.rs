//! Rulesets against the kernel of this machine. All of these need root.

use std::fs;
use std::path::{Path, PathBuf};

use weir_backends::{CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::{CounterLocation, Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::{TempFolder, skip_without_root};
use weir_verify::{VerifyOptions, VerifyReport, verify};

const FORMS: [CompiledForm; 4] =
    [CompiledForm::Linear, CompiledForm::Tree, CompiledForm::Ipset, CompiledForm::Nft];

/// Chains, jumps, sets of addresses, states, accounting, both directions, devices, a limit.
fn ruleset(family: Family) -> String {
    let net = |i: u32| match family {
        Family::V4 => format!("198.51.100.{}/31", 2 * i),
        Family::V6 => format!("2001:db8:{i:x}::/48"),
    };
    let mut text = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
                    :customers - [0:0]\n:services - [0:0]\n\
                    -A INPUT -i lo -j ACCEPT\n\
                    -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                    -A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n\
                    -A INPUT -m limit --limit 1/hour --limit-burst 3 -j LOG\n\
                    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
                    -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
                    -A FORWARD -i ppp+ -j customers\n\
                    -A FORWARD -p udp -m udp ! --dport 53 -j REJECT\n"
        .to_owned();
    for i in 0..40 {
        let target = if i % 3 == 0 { "services" } else { "ACCEPT" };
        text += &format!("-A customers -s {}\n-A customers -s {} -j {target}\n", net(i), net(i));
    }
    text += "-A services -p tcp -m multiport --dports 25,80,443,8000:8010 -j ACCEPT\n\
             -A services -p tcp -m tcp --tcp-flags SYN,RST,ACK SYN -j MARK --set-xmark 0x7/0xff\n\
             COMMIT\n*mangle\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n\
             :FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
             -A POSTROUTING -o eth0 -j TOS --set-tos 0x10/0xff\nCOMMIT\n";
    text
}

fn firewall(texts: &[String]) -> Firewall {
    let mut firewall = Firewall::default();
    for text in texts {
        let ruleset = parse(text, &ParserSettings::default()).expect("the ruleset is read");
        match ruleset.family {
            Family::V4 => firewall.v4 = Some(ruleset),
            Family::V6 => firewall.v6 = Some(ruleset),
        }
    }
    firewall
}

fn compiled(folder: &TempFolder, firewall: &Firewall, forms: &[CompiledForm]) -> Vec<PathBuf> {
    let options = CompileOptions { check_packets_per_family: 2_000, ..CompileOptions::default() };
    let write = |form: &CompiledForm| {
        let artefact = compile(firewall, *form, &options, &mut |_, _| {}).unwrap();
        let dir = folder.path().join(form.as_str());
        write_artefact(&artefact, &dir).unwrap();
        dir
    };
    forms.iter().map(write).collect()
}

fn compare(firewall: &Firewall, dirs: &[PathBuf], packets: usize) -> VerifyReport {
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let options = VerifyOptions {
        packet_count: packets,
        single_packets_max: 200,
        ..VerifyOptions::default()
    };
    verify(firewall, &dirs, &options, &mut |_, _| {}).unwrap()
}

#[test]
fn every_form_of_a_ruleset_agrees_with_the_interpreter() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("agrees");
    let firewall = firewall(&[ruleset(Family::V4), ruleset(Family::V6)]);
    let dirs = compiled(&folder, &firewall, &FORMS);
    let report = compare(&firewall, &dirs, 4_000);
    assert!(report.has_no_unintended_difference(), "{report}");
    assert!(report.compared >= 4_000, "{report}");
    assert_eq!(report.ways.len(), 5);
    for state in ["NEW", "ESTABLISHED", "RELATED", "INVALID"] {
        assert!(report.compared_by_state.get(state).is_some_and(|n| *n > 50), "{state}: {report}");
    }
    for way in ["forward", "input", "output"] {
        for family in ["ipv4", "ipv6"] {
            let name = format!("{family} {way}");
            assert!(report.compared_by_path.get(&name).is_some_and(|n| *n > 100), "{name}");
        }
    }
    let linear = &report.ways[0];
    assert!(linear.counters_hit * 10 > linear.counters * 9, "{report}");
    assert!(report.singles > 0, "{report}");
}

/// Nothing that uses conntrack, so that no datagram is reassembled: fragments meet port tests.
const STATELESS: &str = "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A PREROUTING -i eth1 -p udp -m udp --dport 1:1023 -j MARK --set-xmark 0x1/0xffffffff\n\
    COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -p tcp -m tcp ! --dport 80 -j DROP\n\
    -A INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT\n\
    -A FORWARD -m mark --mark 0x1/0x1 -j ACCEPT\n\
    -A FORWARD -f -d 198.51.100.0/25 -j ACCEPT\n\
    -A FORWARD -s 192.0.2.0/24 -p udp -m udp --dport 53 -j ACCEPT\n\
    -A FORWARD -s 192.0.2.64/26 -p udp -m udp ! --sport 53 -j ACCEPT\n\
    -A FORWARD -s 192.0.2.128/25 -p tcp -m multiport --ports 22,80:90 -j ACCEPT\n\
    -A FORWARD -s 10.0.1.0/255.0.255.0 -j ACCEPT\n\
    -A OUTPUT -o eth1 -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j REJECT\nCOMMIT\n";

#[test]
fn fragments_are_compared_if_nothing_reassembles_them() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("fragments");
    let firewall = firewall(&[STATELESS.to_owned()]);
    let dirs = compiled(&folder, &firewall, &FORMS);
    let report = compare(&firewall, &dirs, 6_000);
    assert!(report.has_no_unintended_difference(), "{report}");
    assert!(!report.excluded.keys().any(|cause| cause.contains("fragment")), "{report}");
    let named = |way: &weir_verify::RulesetReport| way.named.values().sum::<u64>();
    for way in &report.ways {
        // Only nft may treat what is truncated in another way.
        assert_eq!(named(way) > 0, way.name == "nft", "{report}");
    }
}

#[test]
fn an_uncalled_chain_keeps_conntrack_enabled_in_every_form() {
    if skip_without_root() {
        return;
    }
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
               :POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -s 192.0.2.1/32\nCOMMIT\n";
    // One chain can be expressed in nft, the other cannot.
    for (i, other) in ["-p udp", "-p dccp -m dccp --dccp-option 1"].into_iter().enumerate() {
        let filter = format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
             :nobody - [0:0]\n-A FORWARD -s 192.0.2.0/24 -j DROP\n\
             -A nobody -m conntrack --ctstate UNTRACKED -j DROP\n-A nobody {other}\nCOMMIT\n"
        );
        let folder = TempFolder::new(&format!("nobody-{i}"));
        let firewall = firewall(&[format!("{nat}{filter}")]);
        let dirs = compiled(&folder, &firewall, &[CompiledForm::Nft]);
        let report = compare(&firewall, &dirs, 1_000);
        assert!(report.has_no_unintended_difference(), "{other}: {report}");
        assert!(report.compared_by_state["NEW"] > 500, "{report}");
    }
}

/// Changes one file of an artefact, which must hold what is to be changed.
fn change(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_flipped_verdict_is_caught() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("verdict");
    let firewall = firewall(&[ruleset(Family::V4)]);
    let dirs = compiled(&folder, &firewall, &[CompiledForm::Linear]);
    assert!(compare(&firewall, &dirs, 1_000).has_no_unintended_difference());
    let rule = "-A INPUT -p tcp -m tcp --dport 22 -j ";
    change(&dirs[0], "iptables.rules", &format!("{rule}ACCEPT"), &format!("{rule}DROP"));
    let pcap = Some(folder.path().join("differs.pcap"));
    let options =
        VerifyOptions { packet_count: 1_000, pcap_path: pcap, ..VerifyOptions::default() };
    let report = verify(&firewall, &[&dirs[0]], &options, &mut |_, _| {}).unwrap();
    assert!(report.ways[0].verdict_differences == 0, "{report}");
    assert!(report.ways[1].verdict_differences > 0, "{report}");
    let first = &report.differences[0];
    assert!(first.packet.contains("> 22 ") && first.frame == 1, "{first:?}");
    let frames = weir_packet::pcap::read_frames(&folder.path().join("differs.pcap")).unwrap();
    assert_eq!(frames.len(), report.differences.len());
    let packet = weir_packet::Packet::parse_frame_keeping_smac(&frames[0]).unwrap();
    assert_eq!(packet.ports().map(|(_, dport)| dport), Some(22));
}

#[test]
fn a_swapped_counter_is_caught() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("counter");
    let firewall = firewall(&[ruleset(Family::V4)]);
    let dirs = compiled(&folder, &firewall, &[CompiledForm::Tree]);
    let mut manifest = weir_artefact::read_manifest(&dirs[0]).unwrap();
    let keys = ["iptables/filter/customers/1", "iptables/filter/customers/3"];
    let [a, b] = keys.map(|k| manifest.counters.0[k].clone());
    assert!(matches!(a[0], CounterLocation::Rule { .. }) && a != b, "{a:?} {b:?}");
    manifest.counters.0.insert(keys[0].to_owned(), b);
    manifest.counters.0.insert(keys[1].to_owned(), a);
    let text = serde_json::to_string(&manifest).unwrap();
    fs::write(dirs[0].join("manifest.json"), text).unwrap();
    let report = compare(&firewall, &dirs, 1_000);
    assert_eq!(report.ways[1].verdict_differences, 0, "{report}");
    assert!(report.ways[1].packets_with_counter_difference > 0, "{report}");
    let named = |d: &weir_verify::PacketDifference| d.what.iter().any(|w| w.contains(keys[0]));
    assert!(report.differences.iter().any(named), "{report}");
}

#[test]
fn a_lost_rule_that_only_counts_is_caught() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("lost");
    let firewall = firewall(&[ruleset(Family::V4)]);
    let dirs = compiled(&folder, &firewall, &[CompiledForm::Linear]);
    let rule = "-A customers -s 198.51.100.4/31\n";
    change(&dirs[0], "iptables.rules", rule, "-A customers -s 198.51.100.5/32\n");
    let report = compare(&firewall, &dirs, 2_000);
    assert_eq!(report.ways[1].verdict_differences, 0, "{report}");
    assert!(report.ways[1].packets_with_counter_difference > 0, "{report}");
}

#[test]
fn a_ruleset_that_does_not_load_is_an_error_that_names_it() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("load");
    let firewall = firewall(&[ruleset(Family::V4)]);
    let dirs = compiled(&folder, &firewall, &[CompiledForm::Linear]);
    change(&dirs[0], "iptables.rules", "-j services", "-j nowhere");
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let result = verify(&firewall, &dirs, &VerifyOptions::default(), &mut |_, _| {});
    assert!(result.unwrap_err().to_string().starts_with("load linear"));
}
