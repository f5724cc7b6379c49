//! nft text of a typed ruleset, as nft 1.0.6 reads it.

use std::fmt::Write;

use weir_model::mask::prefix_mask;
use weir_model::nft::{
    BaseChain, Chain, ChainKind, Element, ElementKey, Key, Load, Map, Rule, Ruleset, Statement,
    Table, Test, Verdict, With,
};
use weir_model::{Addr, Family, Hook, Policy};

use super::normal::commented;

mod action;

pub use action::{print_effect, print_nat, print_reject};

/// The ruleset as a file for `nft -f`: one transaction, refused where a table already exists.
///
/// It does not begin by deleting what it replaces: to delete a table, even an empty one of a moment
/// ago, the kernel waits for all readers, which takes longer than loading thousands of rules.
/// `load.sh` sends the deletion before it in the same transaction, where there is something.
///
/// # Panics
/// Where an effect, an answer or a translation is one that nft cannot say: see [`print_effect`],
/// [`print_reject`] and [`print_nat`].
pub fn print(ruleset: &Ruleset) -> String {
    let mut out = String::new();
    for table in &ruleset.tables {
        let (family, name) = (family_word(table.family), &table.name);
        let _ = writeln!(out, "create table {family} {name}");
        push_table(&mut out, table);
    }
    out
}

/// `ip` or `ip6`.
pub const fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn push_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "table {} {} {{", family_word(table.family), table.name);
    for map in &table.maps {
        push_map(out, map, table.family);
    }
    for chain in &table.chains {
        push_chain(out, chain, table.family);
    }
    out.push_str("}\n");
}

fn push_map(out: &mut String, map: &Map, family: Family) {
    let types: Vec<&str> = map.key.iter().map(|k| key_type(k.load, family)).collect();
    let _ = writeln!(out, "\tmap {} {{\n\t\ttype {} : verdict", map.name, types.join(" . "));
    if map.interval {
        out.push_str("\t\tflags interval\n");
    } else {
        let _ = writeln!(out, "\t\tsize {}", map.elements.len().max(1));
    }
    out.push_str("\t\tcounter\n");
    if !map.elements.is_empty() {
        out.push_str("\t\telements = {\n");
        for (i, element) in map.elements.iter().enumerate() {
            let comma = if i + 1 < map.elements.len() { "," } else { "" };
            let key = print_element_key(map, element, family);
            let _ = writeln!(out, "\t\t\t{key} : {}{comma}", verdict(&element.verdict));
        }
        out.push_str("\t\t}\n");
    }
    out.push_str("\t}\n");
}

fn key_type(load: Load, family: Family) -> &'static str {
    match load {
        Load::Saddr | Load::Daddr if family == Family::V4 => "ipv4_addr",
        Load::Saddr | Load::Daddr => "ipv6_addr",
        Load::EtherSaddr => "ether_addr",
        Load::Sport | Load::Dport => "inet_service",
        Load::Mark => "mark",
        Load::Iifname | Load::Oifname => "ifname",
        _ => panic!("no map is made of {load:?}"),
    }
}

/// The key of an element, as `nft list ruleset` prints it.
pub fn print_element_key(map: &Map, element: &Element, family: Family) -> String {
    let parts = map.key.iter().zip(&element.key).map(|(key, part)| match part {
        ElementKey::Device(name) => format!("\"{name}\""),
        ElementKey::Span(lo, hi) => span(key.load, *lo, *hi, family),
    });
    parts.collect::<Vec<_>>().join(" . ")
}

fn push_chain(out: &mut String, chain: &Chain, family: Family) {
    let _ = writeln!(out, "\tchain {} {{", chain.name);
    if let Some(comment) = &chain.comment {
        let _ = writeln!(out, "\t\tcomment \"{}\"", commented(comment));
    }
    if let Some(BaseChain { kind, hook, priority, policy }) = chain.base {
        let kind = match kind {
            ChainKind::Filter => "filter",
            ChainKind::Nat => "nat",
            ChainKind::Route => "route",
        };
        let hook = match hook {
            Hook::Prerouting => "prerouting",
            Hook::Input => "input",
            Hook::Forward => "forward",
            Hook::Output => "output",
            Hook::Postrouting => "postrouting",
        };
        let policy = match policy {
            Policy::Accept => "accept",
            Policy::Drop => "drop",
        };
        let _ = writeln!(out, "\t\ttype {kind} hook {hook} priority {priority}; policy {policy};");
    }
    for rule in &chain.rules {
        push_rule(out, rule, family);
    }
    out.push_str("\t}\n");
}

fn push_rule(out: &mut String, rule: &Rule, family: Family) {
    out.push('\t');
    for statement in &rule.statements {
        out.push_str(if out.ends_with('\t') { "\t" } else { " " });
        match statement {
            Statement::Test(test) if would_merge(test, rule) => {
                push_test(out, &masked(test, family), family);
            }
            _ => push_statement(out, statement, family),
        }
    }
    if let Some(comment) = &rule.comment {
        let _ = write!(out, " comment \"{}\"", commented(comment));
    }
    out.push('\n');
}

/// The value that a negated test excludes, where it is a single one.
fn excluded(test: &Test) -> Option<u128> {
    match &test.with {
        With::Spans(spans) if test.negated => match spans[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        },
        _ => None,
    }
}

/// Whether nft would make one comparison of this test and another of its rule, where it is the
/// second of the two in the header.
///
/// nft 1.0.6 combines two `!=` comparisons of adjacent header fields into one, wherever in the rule
/// they are: `th sport != 80 th dport != 80` then excludes packets with both ports, not those with
/// either (nftables src/rule.c, `payload_do_merge`; measured).
fn would_merge(test: &Test, rule: &Rule) -> bool {
    if test.load != Load::Dport {
        return false;
    }
    let tests = rule.statements.iter().filter_map(|s| match s {
        Statement::Test(test) => Some(test),
        _ => None,
    });
    let mut neighbours = tests.filter(|t| t.load == Load::Sport);
    excluded(test).is_some() && neighbours.any(|t| excluded(t).is_some())
}

/// The same test after a mask of all bits, which nft does not combine.
fn masked(test: &Test, family: Family) -> Test {
    let wanted = excluded(test).expect("only such tests are masked");
    let with = With::Masked { mask: test.load.highest(family), wanted };
    Test { with, ..test.clone() }
}

fn push_statement(out: &mut String, statement: &Statement, family: Family) {
    match statement {
        Statement::Test(t) => push_test(out, t, family),
        Statement::Opaque(o) => out.push_str(&o.text),
        Statement::Counter(_) => out.push_str("counter"),
        Statement::Verdict(v) => out.push_str(&verdict(v)),
        Statement::Vmap { key, map } => {
            let keys: Vec<String> = key.iter().map(|k| key_text(k, family)).collect();
            let _ = write!(out, "{} vmap @{map}", keys.join(" . "));
        }
        Statement::Effect(e) => {
            out.push_str(&print_effect(e, family).expect("checked when it was lowered"));
        }
        Statement::Reject(word) => {
            out.push_str(print_reject(word, family).expect("checked when it was lowered"));
        }
        Statement::Nat(target) => {
            out.push_str(&print_nat(target, family).expect("checked when it was lowered"));
        }
    }
}

fn key_text(key: &Key, family: Family) -> String {
    let load = load(key.load, family);
    match key.mask {
        Some(mask) => format!("{load} & {}", value(key.load, mask, family)),
        None => load.to_string(),
    }
}

fn verdict(v: &Verdict) -> String {
    match v {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Return => "return".into(),
        Verdict::Jump(c) => format!("jump {c}"),
        Verdict::Goto(c) => format!("goto {c}"),
        Verdict::Continue => "continue".into(),
    }
}

const fn load(load: Load, family: Family) -> &'static str {
    let v4 = matches!(family, Family::V4);
    match load {
        Load::Iifname => "iifname",
        Load::Oifname => "oifname",
        Load::Saddr if v4 => "ip saddr",
        Load::Saddr => "ip6 saddr",
        Load::Daddr if v4 => "ip daddr",
        Load::Daddr => "ip6 daddr",
        Load::L4proto => "meta l4proto",
        Load::FragmentOffset => "ip frag-off & 0x1fff",
        Load::HeaderStart => "@th,0,24",
        Load::Sport => "th sport",
        Load::Dport => "th dport",
        Load::TcpFlags => "tcp flags",
        Load::IcmpType if v4 => "icmp type",
        Load::IcmpType => "icmpv6 type",
        Load::IcmpTypeCode => "@th,0,16",
        Load::EtherSaddr => "ether saddr",
        Load::CtState => "ct state",
        Load::CtStatus => "ct status",
        Load::Mark => "meta mark",
        Load::CtMark => "ct mark",
        // Not `ip length`: that field is 0 in a BIG TCP packet, where xt_length takes the packet's
        // own length (`skb_ip_totlen` in include/linux/skbuff.h).
        Load::Length => "meta length",
        Load::Ttl if v4 => "ip ttl",
        Load::Ttl => "ip6 hoplimit",
        // The byte crosses nibbles in IPv6: the tests take it out of two bytes.
        Load::Tos if v4 => "@nh,8,8",
        Load::Tos => "@nh,0,16",
        Load::PktType => "meta pkttype",
    }
}

fn push_test(out: &mut String, test: &Test, family: Family) {
    let Test { load: what, with, negated } = test;
    let (equal, unequal) = if *negated { ("!=", "==") } else { ("==", "!=") };
    let name = load(*what, family);
    let _ = match with {
        With::Device { name: device, prefix } => {
            let star = if *prefix { "*" } else { "" };
            write!(out, "{name} {equal} \"{device}{star}\"")
        }
        With::Masked { mask, wanted } => push_masked(out, *what, *mask, *wanted, equal, family),
        With::AnyBit(mask) => write!(out, "{name} & {mask:#x} {unequal} 0"),
        With::Spans(spans) => match spans[..] {
            [(lo, hi)] if lo == 0 && hi >= what.highest(family) => {
                let compare = if *negated { "<" } else { ">=" };
                write!(out, "{name} {compare} {}", value(*what, 0, family))
            }
            [(lo, hi)] => write!(out, "{name} {equal} {}", span(*what, lo, hi, family)),
            _ => {
                let spans: Vec<String> =
                    spans.iter().map(|&(lo, hi)| span(*what, lo, hi, family)).collect();
                write!(out, "{name} {equal} {{ {} }}", spans.join(", "))
            }
        },
    };
}

fn push_masked(
    out: &mut String,
    what: Load,
    mask: u128,
    wanted: u128,
    equal: &str,
    family: Family,
) -> std::fmt::Result {
    let name = load(what, family);
    let ip = family_word(family);
    match (what, family) {
        (Load::Tos, _) if mask == 0xfc => write!(out, "{ip} dscp {equal} {:#x}", wanted >> 2),
        (Load::Tos, Family::V6) => {
            write!(out, "{name} & {:#x} {equal} {:#x}", mask << 4, wanted << 4)
        }
        _ => {
            let [mask, wanted] = [mask, wanted].map(|v| value(what, v, family));
            write!(out, "{name} & {mask} {equal} {wanted}")
        }
    }
}

fn span(load: Load, lo: u128, hi: u128, family: Family) -> String {
    if lo == hi {
        return value(load, lo, family);
    }
    let is_address = matches!(load, Load::Saddr | Load::Daddr);
    let mask = prefix_mask((lo, hi), family.max()).filter(|_| is_address);
    match mask.and_then(|mask| family.prefix_len(mask)) {
        Some(len) => format!("{}/{len}", value(load, lo, family)),
        None => format!("{}-{}", value(load, lo, family), value(load, hi, family)),
    }
}

fn value(load: Load, v: u128, family: Family) -> String {
    match load {
        Load::Saddr | Load::Daddr => Addr(v).display(family).to_string(),
        Load::EtherSaddr => {
            let bytes: Vec<String> =
                v.to_be_bytes()[10..].iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(":")
        }
        Load::Mark | Load::CtMark => format!("{v:#010x}"),
        Load::IcmpTypeCode | Load::TcpFlags | Load::Tos | Load::CtState | Load::CtStatus => {
            format!("{v:#x}")
        }
        Load::PktType => ["unicast", "broadcast", "multicast"][v as usize % 3].into(),
        _ => v.to_string(),
    }
}
