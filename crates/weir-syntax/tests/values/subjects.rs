//! The options, each with the range of its values.

use weir_model::Family;

/// A rule whose values are in braces (see [`expand_addr_lists`](crate::words::expand_addr_lists)).
pub struct Subject {
    pub table: &'static str,
    pub families: &'static [Family],
    pub rule: &'static str,
}

const BOTH: &[Family] = &[Family::V4, Family::V6];
const V4: &[Family] = &[Family::V4];
const V6: &[Family] = &[Family::V6];

const fn filter(rule: &'static str) -> Subject {
    Subject { table: "filter", families: BOTH, rule }
}

const fn v4(table: &'static str, rule: &'static str) -> Subject {
    Subject { table, families: V4, rule }
}

const fn v6(table: &'static str, rule: &'static str) -> Subject {
    Subject { table, families: V6, rule }
}

const fn mangle(rule: &'static str) -> Subject {
    Subject { table: "mangle", families: BOTH, rule }
}

const fn raw(rule: &'static str) -> Subject {
    Subject { table: "raw", families: BOTH, rule }
}

const fn nat(rule: &'static str) -> Subject {
    Subject { table: "nat", families: BOTH, rule }
}

pub const SUBJECTS: &[Subject] = &[
    filter("-A INPUT -m limit --limit {rate:864000000}"),
    filter("-A INPUT -m limit --limit {rate:20000} --limit-burst {n:10001}"),
    filter("-A INPUT -m hashlimit --hashlimit-upto {rate:86400000000} --hashlimit-name {name}"),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {rate:1000000} --hashlimit-burst {n:1-1000001} \
             --hashlimit-mode srcip --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {rate:1000000} --hashlimit-burst \
             {burst:1-1048576} --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-upto {rate:2000000} --hashlimit-rate-match \
             --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-upto {rate:2000000} --hashlimit-rate-match \
             --hashlimit-rate-interval {decimal:1-2147483647} --hashlimit-name {name}",
    ),
    filter("-A INPUT -m hashlimit --hashlimit-above {bytes:4294967295} --hashlimit-name {name}"),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {bytes:68719476735} --hashlimit-mode dstip \
             --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {bytes:4294967295} --hashlimit-burst \
             {burst:16-4294967295} --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {bytes:10000000} --hashlimit-burst \
             {burst:10000000-17592186044416} --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {bytes:68719476735} --hashlimit-burst \
             {burst:68719476735-17592186044416} --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-above {bytes:1000000} --hashlimit-rate-match \
             --hashlimit-rate-interval {decimal:1-100} --hashlimit-name {name}",
    ),
    filter(
        "-A INPUT -m hashlimit --hashlimit-upto 5/sec --hashlimit-htable-max {n:4294967295} \
             --hashlimit-htable-gcinterval {n:1-4294967295} --hashlimit-htable-expire \
             {n:1-4294967295} --hashlimit-name {name}",
    ),
    v4(
        "filter",
        "-A INPUT -m hashlimit --hashlimit-upto 5/hour --hashlimit-htable-size {n:3000} \
             --hashlimit-srcmask {decimal:33} --hashlimit-dstmask {decimal:32} --hashlimit-name \
             {name}",
    ),
    v6(
        "filter",
        "-A INPUT -m hashlimit --hashlimit-upto 5/hour --hashlimit-srcmask {decimal:129} \
             --hashlimit-dstmask {decimal:128} --hashlimit-name {name}",
    ),
    filter("-A INPUT -m quota {not}--quota {n:18446744073709551615}"),
    filter(
        "-A INPUT -m connbytes {not}--connbytes {range:18446744073709551615} --connbytes-dir \
             both --connbytes-mode bytes",
    ),
    filter("-A INPUT -m statistic --mode random {not}--probability {probability}"),
    filter("-A INPUT -m statistic --mode nth {not}--every {n:1-4294967295} --packet 0"),
    filter("-A INPUT -m statistic --mode nth --every {n:1-4294967295} --packet {n:4294967295}"),
    filter("-A INPUT -m recent --rcheck --seconds {n:4294967295} --hitcount {n:20}"),
    filter(
        "-A INPUT -m recent --update --seconds 5 --reap --hitcount {n:70000} --mask {addr} --rdest",
    ),
    filter("-A INPUT -m connlimit {not}--connlimit-above {n:4294967295}"),
    v4(
        "filter",
        "-A INPUT -m connlimit --connlimit-upto {n:4294967295} --connlimit-mask {decimal:32}",
    ),
    v6(
        "filter",
        "-A INPUT -m connlimit --connlimit-upto 5 --connlimit-mask {decimal:129} --connlimit-daddr",
    ),
    filter("-A INPUT -m string --algo bm --string abc --from {n:65536} --to {n:65535}"),
    filter("-A INPUT -m time --timestart {clock} --timestop {clock}"),
    filter("-A INPUT -m time --datestart {date} --datestop {date}"),
    filter("-A INPUT -m time {not}--monthdays {days:31} {not}--weekdays {days:7}"),
    v4("filter", "-A INPUT -m ttl {not}--ttl-eq {n:256}"),
    v4("filter", "-A INPUT -m ttl --ttl-gt {n:255}"),
    v6("filter", "-A INPUT -m hl {not}--hl-eq {n:256}"),
    v6("filter", "-A INPUT -m hl --hl-lt {n:255}"),
    v4("mangle", "-A INPUT -j TTL --ttl-set {n:256}"),
    v4("mangle", "-A INPUT -j TTL --ttl-dec {n:255}"),
    v6("mangle", "-A INPUT -j HL --hl-inc {n:256}"),
    filter("-A INPUT -m length {not}--length {range:65536}"),
    filter("-A INPUT -p tcp -m tcpmss {not}--mss {range:65536}"),
    mangle("-A FORWARD -p tcp --syn -j TCPMSS --set-mss {n:65535}"),
    filter("-A INPUT -m u32 {not}--u32 {u32}"),
    filter("-A INPUT -m mark {not}--mark {masked:4294967296}"),
    filter("-A INPUT -m connmark {not}--mark {masked:4294967295}"),
    mangle("-A INPUT -j MARK --set-mark {masked:4294967295}"),
    mangle("-A INPUT -j MARK --set-xmark {masked:4294967296}"),
    mangle("-A INPUT -j MARK --and-mark {n:4294967295}"),
    mangle("-A INPUT -j MARK --or-mark {n:4294967295}"),
    mangle("-A INPUT -j MARK --xor-mark {n:4294967295}"),
    mangle("-A INPUT -j CONNMARK --set-xmark {masked:4294967295}"),
    mangle("-A INPUT -j CONNMARK --set-mark {masked:4294967295}"),
    mangle("-A INPUT -j CONNMARK --and-mark {n:4294967295}"),
    mangle("-A INPUT -j CONNMARK --save-mark --nfmask {n:4294967295} --ctmask {n:4294967295}"),
    mangle("-A INPUT -j CONNMARK --restore-mark --mask {n:4294967295}"),
    filter("-A INPUT -m tos {not}--tos {masked:256}"),
    mangle("-A INPUT -j TOS --set-tos {masked:255}"),
    mangle("-A INPUT -j TOS --and-tos {n:256}"),
    mangle("-A INPUT -j TOS --or-tos {n:255}"),
    mangle("-A INPUT -j TOS --xor-tos {n:255}"),
    filter("-A INPUT -m dscp {not}--dscp {n:64}"),
    mangle("-A INPUT -j DSCP --set-dscp {n:64}"),
    filter("-A INPUT -p esp -m esp {not}--espspi {range:4294967295}"),
    v4("filter", "-A INPUT -p ah -m ah {not}--ahspi {range:4294967295}"),
    v6("filter", "-A INPUT -m ah {not}--ahspi {range:4294967295} {not}--ahlen {n:4294967295}"),
    filter("-A INPUT -j NFLOG --nflog-group {n:65536} --nflog-threshold {n:65535}"),
    filter("-A INPUT -j NFLOG --nflog-size {n:4294967296}"),
    filter("-A INPUT -j NFLOG --nflog-range {n:4294967295}"),
    filter("-A INPUT -j NFLOG --nflog-prefix {x:140}"),
    filter("-A INPUT -j LOG --log-level {n:8} --log-prefix {x:32}"),
    mangle("-A INPUT -j NFQUEUE --queue-num {n:65536}"),
    mangle("-A INPUT -j NFQUEUE --queue-balance {range:65535} --queue-bypass"),
    mangle("-A POSTROUTING -j CLASSIFY --set-class {decimal:9999}:{decimal:9999}"),
    filter("-A OUTPUT -m cgroup {not}--cgroup {n:4294967296}"),
    filter("-A OUTPUT -m owner {not}--uid-owner {dash:4294967294}"),
    filter("-A OUTPUT -m owner {not}--gid-owner {n:4294967295}"),
    filter("-A INPUT -m devgroup {not}--src-group {masked:4294967295}"),
    v4("filter", "-A INPUT -m realm {not}--realm {masked:65535}"),
    filter("-A INPUT -m cpu {not}--cpu {n:4294967295}"),
    filter("-A INPUT -p tcp {not}--sport {range:65536} {not}--dport {range:65535}"),
    filter("-A INPUT -p udp {not}--sport {range:65535}"),
    filter("-A INPUT -p tcp {not}--tcp-option {n:256}"),
    filter("-A INPUT -p tcp {not}--tcp-flags {flags}"),
    filter("-A INPUT -p tcp -m multiport {not}--dports {ports}"),
    filter("-A INPUT -p sctp {not}--chunk-types {chunks}"),
    filter("-A INPUT -p sctp {not}--sport {range:65535}"),
    filter("-A INPUT -p dccp --dport {range:65535} --dccp-option {n:1-255}"),
    // Of type 255 (any) the kernel does not look at the code.
    v4("filter", "-A INPUT -p icmp {not}--icmp-type {n:254}/{n:255}"),
    v6("filter", "-A INPUT -p icmpv6 {not}--icmpv6-type {n:256}/{n:255}"),
    raw("-A PREROUTING -j CT --zone {n:65536}"),
    raw("-A PREROUTING -j CT --zone-orig {n:65535}"),
    filter("-A INPUT -p tcp -m tcp --syn -j SYNPROXY --mss {n:65535} --wscale {n:255}"),
    mangle(
        "-A PREROUTING -p tcp -j TPROXY --on-port {decimal:1-65535} --tproxy-mark \
             {masked:4294967295}",
    ),
    filter(
        "-A INPUT -m policy --dir in --pol ipsec {not}--reqid {n:4294967295} {not}--spi \
             {n:4294967295}",
    ),
    filter("-A INPUT -m conntrack {not}--ctexpire {range:4294967295}"),
    filter("-A INPUT -m conntrack --ctproto {n:255} {not}--ctorigsrc {net} {not}--ctrepldst {net}"),
    filter(
        "-A INPUT -p tcp -m conntrack --ctproto tcp {not}--ctorigsrcport {range:1-65535} \
             --ctorigdstport {range:1-65535}",
    ),
    filter("-A INPUT {not}-s {net} {not}-d {net}"),
    filter("-A INPUT {not}-p {n:1-255}"),
    filter("-A INPUT -m iprange {not}--src-range {addr}-{addr}"),
    v4("nat", "-A PREROUTING -p tcp -j DNAT --to-destination {addr}:{dash:65535}"),
    v4("nat", "-A PREROUTING -p tcp -j DNAT --to-destination :{dash:65535}"),
    v4("nat", "-A PREROUTING -p udp -j DNAT --to-destination 192.0.2.1:1000-2000/{decimal:65535}"),
    v4("nat", "-A POSTROUTING -p udp -j SNAT --to-source 192.0.2.1:1000-2000/{decimal:65535}"),
    v6("nat", "-A PREROUTING -p tcp -j DNAT --to-destination [{addr}]:{dash:65535}"),
    v6("nat", "-A POSTROUTING -p udp -j SNAT --to-source [2001:db8::1]:1000-2000/{decimal:65535}"),
    nat("-A PREROUTING -p tcp -j REDIRECT --to-ports {dash:65536}"),
    nat("-A POSTROUTING -p tcp -j MASQUERADE --to-ports {dash:65535}"),
    v4("nat", "-A PREROUTING -j NETMAP --to {net}"),
    v4(
        "mangle",
        "-A INPUT -p tcp -j ECN --ecn-tcp-cwr {n:1} --ecn-tcp-ece {n:2} --ecn-ip-ect {n:4}",
    ),
    // Kept verbatim: what weir refuses of them the tool or the kernel refuses, too.
    filter(
        "-A INPUT -m cluster --cluster-total-nodes {n:1-33} {not}--cluster-local-node {n:1-8} \
             --cluster-hash-seed {n:4294967295}",
    ),
    filter("-A INPUT -m connlabel {not}--label {n:128}"),
    filter("-A INPUT -p ipcomp -m ipcomp {not}--ipcompspi {range:4294967296}"),
    v4("filter", "-A INPUT -p tcp -m osf {not}--genre Linux --ttl {n:3} --log {n:3}"),
    v6("filter", "-A INPUT -m frag {not}--fragid {range:4294967295} {not}--fraglen {n:4294967296}"),
    v6("filter", "-A INPUT -p mh -m mh {not}--mh-type {range:256}"),
    v6("filter", "-A INPUT -m dst {not}--dst-len {n:4294967296}"),
    v6("filter", "-A INPUT -m hbh --hbh-opts {n:256}:{n:255}"),
    filter("-A INPUT -j IDLETIMER --timeout {n:2000000} --label {name}"),
    filter(
        "-A INPUT -j HMARK --hmark-tuple src,dst --hmark-rnd {n:4294967296} --hmark-mod \
             {n:4294967295} --hmark-offset {n:4294967295}",
    ),
    v4(
        "filter",
        "-A INPUT -j HMARK --hmark-src-prefix {decimal:32} --hmark-rnd 1 --hmark-mod 2 \
             --hmark-sport-mask {n:65536}",
    ),
    mangle("-A INPUT -p tcp -j TCPOPTSTRIP --strip-options {decimal:256}"),
    v6(
        "mangle",
        "-A POSTROUTING -j SNPT --src-pfx 2001:db8::/{decimal:32-66} --dst-pfx \
             fd00::/{decimal:8-64}",
    ),
];
