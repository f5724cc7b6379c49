//! The measured targets, and the probes that observe their effects.

use weir_model::{Family, Field, Hook, TableName};
use weir_verify::rule_effect_tester::RuleToMeasure;

/// A rule that counts packets by one field, or by one set.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The field; `None` for the content of a set.
    pub field: Option<Field>,
    pub rule: String,
    /// The interpreter does not know its answer.
    pub is_asked: bool,
}

/// Probes of every field that can be tested without dropping a packet.
pub fn probes(family: Family, connections: bool) -> Vec<Probe> {
    let mut out = Vec::new();
    let mut push = |field, rule: String| {
        let is_asked = rule.contains("-m u32");
        out.push(Probe { field: Some(field), rule, is_asked });
    };
    // Each low bit, and whether any other is set.
    let bits = (0..8).map(|bit| format!("{:#x}/{:#x}", 1 << bit, 1 << bit));
    for mark in bits.chain(["0/0xffffff00".to_owned()]) {
        push(Field::Mark, format!("-m mark --mark {mark}"));
        if connections {
            push(Field::CtMark, format!("-m connmark --mark {mark}"));
        }
    }
    for bit in 0..8 {
        let bit = 1 << bit;
        push(Field::Tos, format!("-m tos --tos {bit:#04x}/{bit:#04x}"));
    }
    let ttl = if family == Family::V4 { "ttl" } else { "hl" };
    for value in [5, 20, 58, 59, 62, 63, 64, 65, 66, 255] {
        push(Field::Ttl, format!("-m {ttl} --{ttl}-eq {value}"));
    }
    for most in [43, 47, 51, 55, 59, 63, 67, 99] {
        push(Field::Length, format!("-m length --length 0:{most}"));
    }
    let (addrs, transport) = match family {
        Family::V4 => (["192.0.2.1", "198.51.100.7"], 20),
        Family::V6 => (["2001:db8::1", "2001:db8:ff::7"], 40),
    };
    push(Field::Saddr, format!("-s {}", addrs[0]));
    push(Field::Daddr, format!("-d {}", addrs[1]));
    for (field, shift, port) in
        [(Field::Sport, 16, 1024), (Field::Dport, 0, 80), (Field::Dport, 0, 3129)]
    {
        push(field, format!("-m u32 --u32 \"{transport}>>{shift}&0xffff={port}\""));
    }
    for bit in 0..8 {
        let bit = 1 << bit;
        let flags = format!("{}&{bit:#x}={bit:#x}", transport + 10);
        push(Field::TcpFlags, format!("-p tcp -m u32 --u32 \"{flags}\""));
    }
    for kind in [0, 3, 8, 128, 129] {
        push(Field::IcmpTypeAndCode, format!("-m u32 --u32 \"{transport}>>24={kind}\""));
    }
    if connections {
        for state in ["INVALID", "NEW", "ESTABLISHED", "RELATED", "UNTRACKED", "SNAT", "DNAT"] {
            push(Field::CtState, format!("-m conntrack --ctstate {state}"));
        }
    }
    for set in ["grows", "shrinks"] {
        let rule = format!("-m set --match-set {set} src");
        out.push(Probe { field: None, rule, is_asked: true });
    }
    out
}

struct Rows(Vec<RuleToMeasure>);

impl Rows {
    fn at(&mut self, module: &'static str, table: TableName, hook: Hook, rule: impl Into<String>) {
        self.0.push(RuleToMeasure { module, rule: rule.into(), table, hook });
    }

    /// In mangle FORWARD.
    fn add(&mut self, module: &'static str, options: &str) {
        let rule = format!("-j {module} {options}").trim_end().to_owned();
        self.at(module, TableName::Mangle, Hook::Forward, rule);
    }
}

/// Targets that need no conntrack.
pub fn plain(family: Family) -> Vec<RuleToMeasure> {
    use Hook::{Forward, Prerouting};
    use TableName::{Filter, Mangle, Raw};
    let mut rows = Rows(Vec::new());
    rows.add("ACCEPT", "");
    rows.add("DROP", "");
    rows.add("LOG", "--log-level 7 --log-prefix x --log-tcp-options --log-ip-options --log-uid");
    rows.add("LOG", "--log-tcp-sequence --log-macdecode");
    rows.add("NFLOG", "--nflog-group 5 --nflog-prefix x --nflog-size 40 --nflog-threshold 2");
    rows.add("NFLOG", "--nflog-range 40");
    rows.add("AUDIT", "--type accept");
    for mark in ["0x5", "0xff/0xf0"] {
        rows.add("MARK", &format!("--set-xmark {mark}"));
        rows.add("MARK", &format!("--set-mark {mark}"));
    }
    for how in ["and", "or", "xor"] {
        rows.add("MARK", &format!("--{how}-mark 0x81"));
        rows.add("TOS", &format!("--{how}-tos 0x81"));
    }
    rows.add("TOS", "--set-tos 0xff/0xff");
    rows.add("TOS", "--set-tos 0x10/0x3f");
    rows.add("DSCP", "--set-dscp 0x2e");
    rows.add("DSCP", "--set-dscp-class BE");
    rows.add("CLASSIFY", "--set-class 1:10");
    rows.add("CHECKSUM", "--checksum-fill");
    let (ttl, option) = if family == Family::V4 { ("TTL", "ttl") } else { ("HL", "hl") };
    for how in ["set 5", "set 255", "inc 3", "inc 250", "dec 5", "dec 250"] {
        rows.add(ttl, &format!("--{option}-{how}"));
    }
    let syn = "-p tcp -m tcp --tcp-flags SYN SYN -j TCPMSS";
    for mss in ["--set-mss 1000", "--set-mss 2000", "--clamp-mss-to-pmtu"] {
        rows.at("TCPMSS", Mangle, Forward, format!("{syn} {mss}"));
    }
    if family == Family::V4 {
        let tcp = "-p tcp -j ECN";
        for how in ["--ecn-tcp-remove", "--ecn-tcp-cwr 1", "--ecn-tcp-ece 1"] {
            rows.at("ECN", Mangle, Forward, format!("{tcp} {how}"));
        }
        rows.at("ECN", Mangle, Forward, format!("{tcp} --ecn-tcp-cwr 0 --ecn-ip-ect 2"));
        rows.add("ECN", "--ecn-ip-ect 1");
    }
    let gateway = if family == Family::V4 { "192.0.2.99" } else { "2001:db8::99" };
    rows.add("TEE", &format!("--gateway {gateway} --oif weir-out"));
    rows.at("TRACE", Raw, Prerouting, "-j TRACE");
    for set in ["--map-mark", "--map-prio", "--map-queue"] {
        rows.add("SET", &format!("--map-set marks src {set}"));
    }
    rows.at("REJECT", Filter, Forward, "-j REJECT");
    rows.at("REJECT", Filter, Forward, "-p tcp -j REJECT --reject-with tcp-reset");
    rows.add("NFQUEUE", "--queue-num 7");
    rows.add("NFQUEUE", "--queue-num 7 --queue-bypass");
    rows.add("NFQUEUE", "--queue-balance 7:9 --queue-cpu-fanout");
    for (table, hook) in [(Mangle, Forward), (Raw, Prerouting), (Filter, Forward)] {
        rows.at("", table, hook, "");
    }
    rows.0
}

/// Targets that change sets.
pub fn sets() -> Vec<RuleToMeasure> {
    let mut rows = Rows(Vec::new());
    rows.add("SET", "--add-set grows src");
    rows.add("SET", "--add-set grows src --exist --timeout 30");
    rows.add("SET", "--del-set shrinks src");
    rows.at("", TableName::Mangle, Hook::Forward, "");
    rows.0
}

/// Targets that change connections.
pub fn connections(family: Family) -> Vec<RuleToMeasure> {
    use Hook::{Forward, Prerouting};
    use TableName::{Filter, Mangle, Raw};
    let mut rows = Rows(Vec::new());
    rows.at("NOTRACK", Raw, Prerouting, "-j NOTRACK");
    rows.at("CT", Raw, Prerouting, "-j CT --notrack");
    for options in
        ["--zone 5", "--zone-orig 5", "--zone-reply 5", "--ctevents new", "--expevents new"]
    {
        rows.at("CT", Raw, Prerouting, format!("-j CT {options}"));
        rows.at("CT", Raw, Prerouting, format!("-j CT --notrack {options}"));
    }
    rows.at("CT", Raw, Prerouting, "-p tcp -j CT --helper ftp");
    for options in ["--set-xmark 0x5", "--set-mark 0xff/0xf0", "--save-mark", "--restore-mark"] {
        rows.add("CONNMARK", options);
    }
    for options in ["--save-mark --nfmask 0xf --ctmask 0xff", "--restore-mark --mask 0xf"] {
        rows.add("CONNMARK", options);
    }
    for options in ["--set-xmark 0x5 --left-shift-mark 2", "--save-mark --right-shift-mark 1"] {
        rows.add("CONNMARK", options);
    }
    rows.add("CONNMARK", "--restore-mark --left-shift-mark 1");
    for how in ["and", "or", "xor"] {
        rows.add("CONNMARK", &format!("--{how}-mark 0x81"));
    }
    rows.at(
        "SYNPROXY",
        Filter,
        Forward,
        "-p tcp -j SYNPROXY --sack-perm --timestamp --wscale 7 --mss 1460 --ecn",
    );
    for (table, hook) in [(Mangle, Forward), (Raw, Prerouting), (Filter, Forward)] {
        rows.at("", table, hook, "");
    }
    // It has datagrams reassembled, as conntrack does.
    let any = if family == Family::V4 { "192.0.2.50" } else { "2001:db8::50" };
    for proto in ["tcp", "udp"] {
        let rule =
            format!("-p {proto} -j TPROXY --on-port 3129 --on-ip {any} --tproxy-mark 0x1/0x1");
        rows.at("TPROXY", Mangle, Prerouting, rule);
    }
    rows.at("", Mangle, Prerouting, "");
    rows.0
}

/// Targets that translate addresses.
pub fn translations(family: Family) -> Vec<RuleToMeasure> {
    use Hook::{Postrouting, Prerouting};
    use TableName::Nat;
    let mut rows = Rows(Vec::new());
    let to = |a: &str, b: &str| if family == Family::V4 { a.to_owned() } else { b.to_owned() };
    let (addr, port) =
        (to("203.0.113.9", "2001:db8:aa::9"), to("203.0.113.9:81", "[2001:db8:aa::9]:81"));
    let net = to("203.0.113.0/24", "2001:db8:aa::/48");
    for (target, hook) in [("DNAT --to-destination", Prerouting), ("SNAT --to-source", Postrouting)]
    {
        let module = if hook == Prerouting { "DNAT" } else { "SNAT" };
        rows.at(module, Nat, hook, format!("-j {target} {addr} --persistent"));
        rows.at(module, Nat, hook, format!("-p tcp -j {target} {port}"));
        rows.at(module, Nat, hook, format!("-p udp -j {target} {addr} --random"));
        rows.at("NETMAP", Nat, hook, format!("-j NETMAP --to {net}"));
    }
    rows.at("SNAT", Nat, Postrouting, format!("-p udp -j SNAT --to-source {addr} --random-fully"));
    rows.at("MASQUERADE", Nat, Postrouting, "-j MASQUERADE");
    rows.at("MASQUERADE", Nat, Postrouting, "-p udp -j MASQUERADE --random-fully");
    rows.at("MASQUERADE", Nat, Postrouting, "-p tcp -j MASQUERADE --to-ports 5000-5010 --random");
    rows.at("REDIRECT", Nat, Prerouting, "-j REDIRECT");
    rows.at("REDIRECT", Nat, Prerouting, "-p tcp -j REDIRECT --to-ports 81 --random");
    rows.at("", Nat, Prerouting, "");
    rows.at("", Nat, Postrouting, "");
    rows.0
}
