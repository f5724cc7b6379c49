//! The words of `--packet`.

use weir_model::Family;
use weir_packet::{PktType, Transport};
use weir_syntax::packet::parse_packet;

#[test]
fn words_may_come_in_any_order() {
    let a = parse_packet("iif eth0 ip saddr 198.51.100.7 tcp dport 22 ct state new").unwrap();
    let b = parse_packet("ct state new tcp dport ssh ip saddr 198.51.100.7 iif eth0").unwrap();
    assert_eq!(a, b);
    assert_eq!(a.ports(), Some((0, 22)));
}

#[test]
fn the_family_comes_from_words_or_addresses() {
    assert_eq!(parse_packet("ip6 saddr 2001:db8::1").unwrap().family, Family::V6);
    assert_eq!(parse_packet("ip saddr 2001:db8::1").unwrap().family, Family::V6);
    assert_eq!(parse_packet("ip6 hoplimit 3").unwrap().ttl, 3);
    assert_eq!(parse_packet("").unwrap().family, Family::V4);
    let mixed = parse_packet("ip saddr 192.0.2.1 ip6 daddr 2001:db8::1").unwrap_err();
    assert_eq!(mixed.span, 19..22);
}

#[test]
fn every_clause_is_read() {
    let p = parse_packet(
        "oif eth1 ip daddr 192.0.2.9 ip ttl 9 ip dscp 46 tcp sport 99 tcp flags syn,ack \
         ether saddr 02:00:00:00:00:07 mark 0x1 pkttype broadcast length 100 ct mark 7 \
         ct status dnat ct direction reply",
    )
    .unwrap();
    assert_eq!((p.oif.as_str(), p.ttl, p.tos, p.mark, p.len()), ("eth1", 9, 184, 1, 100));
    assert!(matches!(p.transport, Transport::Tcp { flags: 0x12, sport: 99, .. }));
    assert_eq!(p.smac, Some([2, 0, 0, 0, 0, 7]));
    assert_eq!(p.pkttype, PktType::Broadcast);
    assert!(p.ct.dnat && p.ct.is_reply_direction && p.ct.mark == 7);
}

#[test]
fn icmp_types_have_names_and_codes() {
    let p = parse_packet("icmp type destination-unreachable code 3").unwrap();
    assert!(matches!(p.transport, Transport::Icmp { kind: 3, code: 3, .. }));
    let p = parse_packet("icmpv6 type nd-neighbor-solicit").unwrap();
    assert_eq!(p.family, Family::V6);
    assert!(matches!(p.transport, Transport::Icmp { kind: 135, code: 0, .. }));
}

#[test]
fn a_later_fragment_has_no_header() {
    let p = parse_packet("udp dport 53 fragment offset 185").unwrap();
    assert_eq!((p.proto, p.ports(), p.fragment.offset), (17, None, 185));
}

#[test]
fn an_error_has_a_span_and_help() {
    let e = parse_packet("iif eth0 tcp dport 70000").unwrap_err();
    assert_eq!(e.message, "70000 is not a number for dport");
    assert_eq!(e.span, 19..24);
    assert_eq!(e.help, "write a number from 0 to 65535");
    let e = parse_packet("tcp dport").unwrap_err();
    assert_eq!(e.span, 9..9);
    let e = parse_packet("colour blue").unwrap_err();
    assert!(e.help.starts_with("begin with one of: iif"));
    assert!(parse_packet("tcp dport 1 udp dport 2").is_err());
    assert!(parse_packet("length 10").is_err());
}
