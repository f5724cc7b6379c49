//! Matches and targets that published rulesets seldom hold: every module that weir reads.

use std::fmt::Write as _;

use super::TestRng;

/// Sets that wide rulesets name: two that targets change, and some that stay. Text for
/// `ipset restore`.
pub fn format_fixed_ipset_text(v6: bool) -> String {
    let (family, addr, net, large) = match v6 {
        false => ("inet", "192.0.2.1", "198.51.100.0/25", "10.0.0.0/8"),
        true => ("inet6", "2001:db8:1:2::1", "2001:db8:ff::/48", "2001:db8::/32"),
    };
    format!(
        "create w_addrs hash:ip family {family}\nadd w_addrs {addr}\n\
         create w_nets hash:net family {family}\nadd w_nets {net}\nadd w_nets {large} nomatch\n\
         create w_pairs hash:ip,port family {family}\nadd w_pairs {addr},tcp:80\n\
         add w_pairs {addr},udp:53\ncreate w_ports bitmap:port range 0-1024\nadd w_ports 22\n\
         create w_marks hash:ip family {family} skbinfo\n\
         add w_marks {addr} skbmark 0x6/0xffffffff skbprio 1:6 skbqueue 1\n\
         create w_grows hash:ip family {family}\n\
         create w_shrinks hash:ip family {family}\nadd w_shrinks {addr}\n"
    )
}

/// What a rule is about, as far as a module cares.
pub(super) struct RandomRulePlace<'p> {
    pub table: &'p str,
    pub chain: &'p str,
    pub v6: bool,
    /// Conntrack may be used.
    pub conntrack_allowed: bool,
    /// Matches that only the kernel can answer may be used.
    pub opaque_allowed: bool,
}

/// A protocol with one of its rarer matches, with a blank before each word.
pub(super) fn random_rare_protocol_match(rng: &mut TestRng, place: &RandomRulePlace<'_>) -> String {
    let not = if rng.chance_percent(25) { " !" } else { "" };
    let port = rng.pick(&["22", "80", "0:1023", "1024:65535"]);
    let mut all: Vec<(usize, String)> = vec![
        (3, format!(" -p tcp -m tcp --dport {port}{not} --tcp-option 2")),
        (2, format!(" -p tcp -m tcpmss{not} --mss 512:1460")),
        (2, format!(" -p tcp -m ecn{not} --ecn-tcp-cwr")),
        (3, format!(" -p sctp -m sctp{not} --chunk-types any DATA")),
        (2, format!(" -p sctp -m sctp --dport {port}{not} --chunk-types only DATA,SACK")),
        (3, format!(" -p dccp -m dccp{not} --dport {port}")),
        (2, format!(" -p dccp -m dccp{not} --dccp-types REQUEST,RESET")),
        (2, format!(" -p dccp -m dccp{not} --dccp-option 1")),
        (3, format!(" -p esp -m esp{not} --espspi 0:600")),
        (3, format!(" -p udplite -m multiport{not} --ports 53,80")),
        (2, format!(" -p sctp -m multiport{not} --dports 22,80:90")),
        (2, format!(" -p dccp -m multiport{not} --sports 22,80:90")),
        (1, format!("{not} -p gre")),
    ];
    match place.v6 {
        false => all.push((3, format!(" -p ah -m ah{not} --ahspi 0:600"))),
        true => all.push((2, format!(" -m ah{not} --ahspi 0:600"))),
    }
    pick_weighted_clone(rng, &all)
}

/// A match that requires no protocol, with a blank before each word.
pub(super) fn random_protocolless_match(
    rng: &mut TestRng,
    place: &RandomRulePlace<'_>,
    number: &mut u32,
) -> String {
    let not = if rng.chance_percent(25) { " !" } else { "" };
    let addr = if place.v6 { "2001:db8:1:2::1" } else { "192.0.2.1" };
    let set = ["w_addrs src", "w_nets dst", "w_pairs src,dst", "w_ports dst", "w_ports src"];
    let set = rng.pick(&set);
    let mut all: Vec<(usize, String)> = vec![
        (6, format!(" -m set{not} --match-set {set}")),
        (1, format!(" -m set{not} --match-set w_nets dst --return-nomatch")),
        (2, format!(" -m set{not} --match-set {} src", rng.pick(&["w_grows", "w_shrinks"]))),
        (1, format!(" -m ecn{not} --ecn-ip-ect {}", rng.number_below(4))),
    ];
    if place.chain == "PREROUTING" {
        all.push((2, format!(" -m pkttype{not} --pkt-type unicast")));
    }
    if place.conntrack_allowed {
        let other = [
            "--ctproto 6".to_owned(),
            format!("--ctorigsrc {addr}"),
            "--ctorigdstport 80".to_owned(),
            "--ctstatus NONE".to_owned(),
            "--ctstatus ASSURED,SEEN_REPLY".to_owned(),
        ];
        let option = &other[rng.number_below(other.len())];
        all.push((3, format!(" -m connmark{not} --mark {}", rng.pick(&["0x0", "0x1/0xff"]))));
        all.push((2, format!(" -m conntrack{not} --ctstate SNAT,DNAT")));
        all.push((2, format!(" -m conntrack{not} --ctstate UNTRACKED")));
        all.push((2, format!(" -m conntrack{not} {option}")));
        all.push((1, " -m conntrack --ctdir REPLY".to_owned()));
    }
    if place.opaque_allowed {
        append_opaque_match_choices(rng, place, number, not, &mut all);
    }
    pick_weighted_clone(rng, &all)
}

fn append_opaque_match_choices(
    rng: &mut TestRng,
    place: &RandomRulePlace<'_>,
    number: &mut u32,
    not: &str,
    all: &mut Vec<(usize, String)>,
) {
    *number += 1;
    let mode = rng.pick(&["srcip", "srcip,dstport", "srcport", "dstip,srcport,dstport"]);
    let limit = format!("--hashlimit-mode {mode} --hashlimit-name w{number}");
    all.extend([
        (2, format!(" -m hashlimit --hashlimit-upto 5/hour --hashlimit-burst 3 {limit}")),
        (1, format!(" -m hashlimit --hashlimit-above 1kb/s --hashlimit-burst 2kb {limit}")),
        (1, format!(" -m quota{not} --quota 2000")),
        (1, format!(" -m recent{not} --set --name w --mask 255.255.255.255 --rsource")),
        (1, " -m statistic --mode random --probability 0.5".to_owned()),
        (1, format!(" -m u32{not} --u32 \"6&0xff=6:17\"")),
        (1, format!(" -m string{not} --string aa --algo bm")),
        (1, format!(" -m physdev{not} --physdev-is-in")),
        (1, " -m time --timestart 00:00:00 --timestop 23:59:59".to_owned()),
    ]);
    if place.v6 {
        all.iter_mut().for_each(|(_, rule)| {
            *rule = rule.replace("255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        });
    } else {
        all.push((2, format!(" -m addrtype{not} --dst-type LOCAL")));
    }
    if matches!(place.chain, "PREROUTING" | "INPUT" | "FORWARD") {
        all.push((1, " -m policy --dir in --pol none".to_owned()));
        all.push((1, format!(" -m devgroup{not} --src-group 0")));
    }
    if matches!(place.chain, "OUTPUT" | "POSTROUTING") {
        all.push((1, format!(" -m owner{not} --uid-owner 0")));
    }
    if place.conntrack_allowed {
        all.push((1, " -m connlimit --connlimit-upto 1000 --connlimit-mask 0".to_owned()));
    }
}

/// A target of mangle or raw, with a blank before it, and what the rule must test in addition.
pub(super) fn random_rare_target_and_match(
    rng: &mut TestRng,
    place: &RandomRulePlace<'_>,
) -> (&'static str, String) {
    let (ttl, hop) = if place.v6 { ("HL", "hl") } else { ("TTL", "ttl") };
    let how = rng.pick(&["set 9", "set 64", "inc 3", "dec 2"]);
    let mut all: Vec<(usize, (&'static str, String))> = Vec::new();
    let mut push = |weight: usize, asks: &'static str, target: String| {
        all.push((weight, (asks, format!(" -j {target}"))));
    };
    if place.table == "raw" {
        push(2, "", "TRACE".to_owned());
        if place.conntrack_allowed {
            push(3, "", "NOTRACK".to_owned());
            push(2, "", "CT --zone 5".to_owned());
            push(1, "", "CT --ctevents new".to_owned());
        }
        return pick_weighted_clone(rng, &all);
    }
    let mark = rng.pick(&["and-mark 0xf", "or-mark 0x3", "xor-mark 0x5", "set-mark 0x6/0xf"]);
    push(4, "", format!("MARK --{mark}"));
    push(3, "", format!("{ttl} --{hop}-{how}"));
    push(2, "", format!("TOS --{}", rng.pick(&["or-tos 0x10", "and-tos 0xf0", "xor-tos 0x01"])));
    push(3, " -p tcp -m tcp --tcp-flags SYN,RST SYN", "TCPMSS --set-mss 1000".to_owned());
    push(1, "", "CHECKSUM --checksum-fill".to_owned());
    push(1, "", "NFLOG --nflog-group 5".to_owned());
    push(1, "", "AUDIT --type accept".to_owned());
    push(2, "", "SET --add-set w_grows src".to_owned());
    push(2, "", "SET --del-set w_shrinks src".to_owned());
    push(2, "", "SET --map-set w_marks src --map-mark".to_owned());
    if matches!(place.chain, "FORWARD" | "POSTROUTING") {
        push(1, "", "CLASSIFY --set-class 1:10".to_owned());
        push(1, "", "SET --map-set w_marks src --map-prio".to_owned());
    }
    if !place.v6 {
        push(2, "", "ECN --ecn-ip-ect 1".to_owned());
        push(2, " -p tcp", "ECN --ecn-tcp-remove".to_owned());
    }
    if place.conntrack_allowed {
        for how in [
            "set-xmark 0x5/0xff",
            "save-mark",
            "save-mark --nfmask 0xf --ctmask 0xff",
            "restore-mark",
            "restore-mark --nfmask 0xff --ctmask 0xf",
            "restore-mark --left-shift-mark 2",
        ] {
            push(1, "", format!("CONNMARK --{how}"));
        }
    }
    pick_weighted_clone(rng, &all)
}

/// A rule of the nat table: its chain, and its target with a blank before it.
pub(super) fn random_nat_chain_and_target(rng: &mut TestRng, v6: bool) -> (&'static str, String) {
    let (addr, net) = match v6 {
        false => ("198.51.100.7", "198.51.100.0/24"),
        true => ("2001:db8:ff::7", "2001:db8:ff::/48"),
    };
    let mut out = String::new();
    let (chain, target) = rng.pick_weighted(&[
        (3, ("PREROUTING", "DNAT --to-destination")),
        (1, ("PREROUTING", "NETMAP --to")),
        (1, ("PREROUTING", "REDIRECT")),
        (2, ("POSTROUTING", "MASQUERADE")),
        (2, ("POSTROUTING", "SNAT --to-source")),
        (1, ("POSTROUTING", "NETMAP --to")),
    ]);
    let _ = write!(out, " -j {target}");
    match target {
        "NETMAP --to" => _ = write!(out, " {net}"),
        "MASQUERADE" | "REDIRECT" => {}
        _ => _ = write!(out, " {addr}"),
    }
    (chain, out)
}

fn pick_weighted_clone<T: Clone>(rng: &mut TestRng, all: &[(usize, T)]) -> T {
    let places: Vec<(usize, usize)> = all.iter().enumerate().map(|(i, (w, _))| (*w, i)).collect();
    all[rng.pick_weighted(&places)].1.clone()
}
