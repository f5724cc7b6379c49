//! The nft text of every match that the field table does not model, and which packets match: the
//! same in the kernel for iptables and for the nft form. Needs root.
//!
//! `weir verify` takes the answer of a stateful match from the rule's own counter, and the proof of
//! a form reads its text back by the same table that wrote it. Neither can see that a text says
//! something else than its match, so each is measured here, packet by packet.

use std::net::UdpSocket;
use std::time::Duration;

use weir_backends::{CompileOptions, CompiledForm, compile};
use weir_kernel::{Namespace, Session};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::skip_without_root;

/// Packets that each ruleset gets.
const PACKETS: u8 = 12;

/// A match, its nft text, and the numbers of the packets that match.
struct MeasuredMatch {
    options: &'static str,
    nft_text: &'static str,
    matching: &'static [u8],
}

const fn measured(
    options: &'static str,
    nft_text: &'static str,
    matching: &'static [u8],
) -> MeasuredMatch {
    MeasuredMatch { options, nft_text, matching }
}

const ALL: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Each stateful text with every part of it that selects packets, each other one with a test that
/// holds and one that does not.
const MATCHES: &[MeasuredMatch] = &[
    measured(
        "-m statistic --mode nth --every 3 --packet 0",
        "numgen inc mod 3 == 0",
        &[0, 3, 6, 9],
    ),
    measured(
        "-m statistic --mode nth --every 3 --packet 1",
        "numgen inc mod 3 == 1",
        &[1, 4, 7, 10],
    ),
    measured(
        "-m statistic --mode nth --every 3 --packet 2",
        "numgen inc mod 3 == 2",
        &[2, 5, 8, 11],
    ),
    measured(
        "-m statistic --mode nth ! --every 4 --packet 1",
        "numgen inc mod 4 != 1",
        &[0, 2, 3, 4, 6, 7, 8, 10, 11],
    ),
    measured("-m statistic --mode nth --every 1 --packet 0", "numgen inc mod 1 == 0", ALL),
    measured(
        "-m statistic --mode random --probability 0.0",
        "numgen random mod 0x80000000 < 0x0",
        &[],
    ),
    measured(
        "-m statistic --mode random ! --probability 0.0",
        "numgen random mod 0x80000000 >= 0x0",
        ALL,
    ),
    measured("-m limit --limit 1/day --limit-burst 1", "limit rate 1/day burst 1", &[0]),
    measured("-m limit --limit 1/hour --limit-burst 4", "limit rate 1/hour burst 4", &[0, 1, 2, 3]),
    measured("-m limit --limit 3/hour", "limit rate 3/hour burst 5", &[0, 1, 2, 3, 4]),
    measured("-m limit --limit 1/hour --limit-burst 37", "limit rate 1/hour burst 37", ALL),
    measured("-m owner --uid-owner 0", "meta skuid 0", ALL),
    measured("-m owner --uid-owner 1-9", "meta skuid 1-9", &[]),
    measured("-m owner ! --uid-owner 1", "meta skuid 1", ALL),
    measured("-m owner ! --uid-owner 0", "meta skuid 0", &[]),
    measured("-m owner --gid-owner 0", "meta skgid 0", ALL),
    measured("-m addrtype --dst-type LOCAL", "fib daddr type { local }", ALL),
    measured("-m addrtype ! --dst-type LOCAL", "fib daddr type != { local }", &[]),
    measured("-m addrtype --src-type LOCAL,UNICAST", "fib saddr type { unicast, local }", ALL),
    measured("-m addrtype --src-type MULTICAST", "fib saddr type { multicast }", &[]),
    measured(
        "-m addrtype --dst-type LOCAL --limit-iface-out",
        "fib daddr . oif type { local }",
        ALL,
    ),
    measured("-m conntrack --ctproto 17", "ct original protocol 17", ALL),
    measured("-m conntrack ! --ctproto 17", "ct original protocol != 17", &[]),
    measured("-m conntrack --ctorigdst 127.0.0.0/8", "ct original ip daddr 127.0.0.0/8", ALL),
    measured("-m conntrack ! --ctreplsrc 127.0.0.1", "ct reply ip saddr != 127.0.0.1", &[]),
    measured("-m conntrack --ctproto 17 --ctorigdstport 9999", "ct original proto-dst 9999", ALL),
    measured("-m conntrack --ctproto 17 --ctreplsrcport 1:9", "ct reply proto-src 1-9", &[]),
    measured("-m conntrack --ctdir ORIGINAL", "ct direction original", ALL),
    measured("-m conntrack --ctdir REPLY", "ct direction reply", &[]),
    measured("-m conntrack --ctstatus SEEN_REPLY", "ct status & 0x2 != 0", &[]),
    measured("-m conntrack ! --ctstatus SEEN_REPLY", "ct status & 0x2 == 0", ALL),
];

fn ruleset(options: &str) -> String {
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
         -A OUTPUT -p udp -m udp --dport 9999 {options} -j DROP\nCOMMIT\n"
    )
}

fn nft_form(text: &str) -> Result<String, String> {
    let v4 = Some(parse(text, &ParserSettings::default()).expect("the rules are read"));
    let firewall = Firewall { v4, ..Firewall::default() };
    let options = CompileOptions { check_packets_per_family: 200, ..CompileOptions::default() };
    let artefact = compile(&firewall, CompiledForm::Nft, &options, &mut |_, _| {})
        .map_err(|error| error.to_string())?;
    Ok(artefact.contents.nft.expect("the form has an nft ruleset"))
}

/// The numbers of the packets that do not arrive, of those that a host sends to itself.
fn dropped_packets(host: &Namespace) -> Vec<u8> {
    let arrived = host.call_inside(|| -> std::io::Result<Vec<u8>> {
        let to = UdpSocket::bind("127.0.0.1:9999")?;
        to.set_read_timeout(Some(Duration::from_millis(200)))?;
        let from = UdpSocket::bind("127.0.0.1:0")?;
        let mut arrived = Vec::new();
        for number in 0..PACKETS {
            // A packet that is dropped in OUTPUT is an error of its sender: it will not arrive.
            if from.send_to(&[number], "127.0.0.1:9999").is_ok() {
                let mut byte = [0];
                to.recv(&mut byte)?;
                arrived.push(byte[0]);
            }
        }
        Ok(arrived)
    });
    let arrived = arrived.expect("the namespace is entered").expect("packets arrive");
    (0..PACKETS).filter(|number| !arrived.contains(number)).collect()
}

#[test]
fn nft_text_of_unmodelled_matches_matches_the_same_packets() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let host = session.create_namespace("host").expect("a namespace");
    assert_eq!(dropped_packets(&host), [] as [u8; 0], "the control: without rules");
    for MeasuredMatch { options, nft_text, matching } in MATCHES {
        let rules = ruleset(options);
        host.run_command(&["iptables-legacy-restore"], rules.as_bytes()).expect("iptables");
        assert_eq!(dropped_packets(&host), *matching, "iptables, {options}");
        host.run_command(&["iptables-legacy", "-F"], b"").expect("rules are removed");
        let form = nft_form(&rules).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert!(form.contains(nft_text), "{options}: no {nft_text} in\n{form}");
        host.run_command(&["nft", "-f", "-"], form.as_bytes()).expect("nft");
        assert_eq!(dropped_packets(&host), *matching, "nft, {options}: {nft_text}");
        host.run_command(&["nft", "flush", "ruleset"], b"").expect("tables are removed");
    }
}

/// The credits of xt_limit overflow at 32 bits: fewer packets pass than the burst states. nft does
/// not do this.
#[test]
fn a_burst_that_overflows_in_the_kernel_has_no_nft_text() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let host = session.create_namespace("host").expect("a namespace");
    // The control: the same rate with a burst that fits is compiled.
    let fits = nft_form(&ruleset("-m limit --limit 1/hour --limit-burst 37")).expect("it fits");
    assert!(fits.contains("limit rate"), "{fits}");
    for (options, passing) in [
        ("-m limit --limit 1/hour --limit-burst 119", 7),
        ("-m limit --limit 1/hour --limit-burst 121", 1),
        ("-m limit --limit 1/day --limit-burst 6", 1),
    ] {
        let rules = ruleset(options);
        host.run_command(&["iptables-legacy-restore"], rules.as_bytes()).expect("iptables");
        assert_eq!(dropped_packets(&host).len(), passing, "{options}");
        // Its hook stays in iptables.
        let form = nft_form(&rules).expect("a form of the other hooks");
        assert!(!form.contains("limit rate"), "{options}: {form}");
    }
}
