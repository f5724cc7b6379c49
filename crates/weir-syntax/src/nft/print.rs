//! nft text of a typed ruleset, as nft 1.0.6 reads it.

use std::borrow::Cow;
use std::fmt::Write;

use weir_model::mask::interval_to_prefix_mask;
use weir_model::nft::{
    BaseChain, Chain, Comparand, ElementKeyPart, LoadExpression, MapKeyExpression, Rule, Ruleset,
    Statement, Table, Test, Verdict, VerdictMap, VerdictMapElement,
};
use weir_model::{Addr, Family, Hook, Policy};

mod action_printer;

pub use action_printer::{print_effect, print_nat, print_reject};

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
        let (family, name) = (family_keyword(table.family), &table.name);
        let _ = writeln!(out, "create table {family} {name}");
        push_table(&mut out, table);
    }
    out
}

/// `ip` or `ip6`.
pub const fn family_keyword(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// Longest comment that nft takes, in bytes (NFTNL_UDATA_COMMENT_MAXLEN).
const NFT_COMMENT_MAX_BYTES: usize = 127;

/// A comment as nft can hold it: it has no way to write a quote, nor more than its length.
pub fn sanitize_and_truncate_comment(text: &str) -> String {
    let plain = text.chars().map(|c| match c {
        '"' => '\'',
        c if c.is_control() => ' ',
        c => c,
    });
    let mut out = String::new();
    for c in plain {
        if out.len() + c.len_utf8() > NFT_COMMENT_MAX_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

fn push_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "table {} {} {{", family_keyword(table.family), table.name);
    for map in &table.maps {
        push_map(out, map, table.family);
    }
    for chain in &table.chains {
        push_chain(out, chain, table.family);
    }
    out.push_str("}\n");
}

fn push_map(out: &mut String, map: &VerdictMap, family: Family) {
    let types: Vec<&str> = map.key.iter().map(|k| key_type_name(k.expression, family)).collect();
    let _ = writeln!(out, "\tmap {} {{\n\t\ttype {} : verdict", map.name, types.join(" . "));
    if map.has_intervals {
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
            let _ = writeln!(out, "\t\t\t{key} : {}{comma}", verdict_text(&element.verdict));
        }
        out.push_str("\t\t}\n");
    }
    out.push_str("\t}\n");
}

fn key_type_name(load: LoadExpression, family: Family) -> &'static str {
    match load {
        LoadExpression::Saddr | LoadExpression::Daddr if family == Family::V4 => "ipv4_addr",
        LoadExpression::Saddr | LoadExpression::Daddr => "ipv6_addr",
        LoadExpression::EtherSaddr => "ether_addr",
        LoadExpression::Sport | LoadExpression::Dport => "inet_service",
        LoadExpression::Mark => "mark",
        LoadExpression::Iifname | LoadExpression::Oifname => "ifname",
        _ => panic!("no map is made of {load:?}"),
    }
}

/// The key of an element, as `nft list ruleset` prints it.
pub fn print_element_key(map: &VerdictMap, element: &VerdictMapElement, family: Family) -> String {
    let parts = map.key.iter().zip(&element.key).map(|(key, part)| match part {
        ElementKeyPart::Device(name) => format!("\"{name}\""),
        ElementKeyPart::Span(lo, hi) => value_interval_text(key.expression, *lo, *hi, family),
    });
    parts.collect::<Vec<_>>().join(" . ")
}

fn push_chain(out: &mut String, chain: &Chain, family: Family) {
    let _ = writeln!(out, "\tchain {} {{", chain.name);
    if let Some(iptables_name_comment) = &chain.iptables_name_comment {
        let _ = writeln!(
            out,
            "\t\tcomment \"{}\"",
            sanitize_and_truncate_comment(iptables_name_comment)
        );
    }
    if let Some(BaseChain { kind, hook, priority, policy }) = chain.base {
        let kind = kind.as_str();
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
    for statement in statements_masked_against_nft_merging(rule) {
        out.push_str(if out.ends_with('\t') { "\t" } else { " " });
        push_statement(out, &statement, family);
    }
    if let Some(comment) = &rule.comment {
        let _ = write!(out, " comment \"{}\"", sanitize_and_truncate_comment(comment));
    }
    out.push('\n');
}

/// The single value that a test compares with.
pub fn value_of_single_value_test(test: &Test) -> Option<u128> {
    match &test.comparand {
        Comparand::InSpans(spans) => match spans[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        },
        _ => None,
    }
}

/// The statements of a rule as they are printed: a test that nft would combine with another, though
/// the rule would mean something else then, is masked with all ones, which nft does not combine.
///
/// nft 1.0.6 makes one comparison of two tests of adjacent header fields, wherever in the rule they
/// are (nftables src/rule.c, `payload_do_merge`; measured). `th sport != 80 th dport != 80` then
/// excludes packets with both ports, not those with either. And what is between two tests (a
/// counter, a limit) is reached by packets that only the first one lets pass: after `th sport 53
/// counter th dport 53` became one comparison, the counter counts fewer.
pub fn statements_masked_against_nft_merging(
    rule: &Rule,
) -> impl Iterator<Item = Cow<'_, Statement>> {
    rule.statements.iter().enumerate().map(move |(index, statement)| match statement {
        Statement::Test(test) if is_dport_test_mismerged_by_nft(index, test, rule) => {
            Cow::Owned(Statement::Test(add_all_ones_mask(test)))
        }
        _ => Cow::Borrowed(statement),
    })
}

/// Whether nft would wrongly make one comparison of this test and another of its rule, if it is the
/// second of the two in the header.
fn is_dport_test_mismerged_by_nft(index: usize, test: &Test, rule: &Rule) -> bool {
    if test.expression != LoadExpression::Dport || value_of_single_value_test(test).is_none() {
        return false;
    }
    let is_neighbour = |other: &Test| {
        other.expression == LoadExpression::Sport
            && other.negated == test.negated
            && value_of_single_value_test(other).is_some()
    };
    let is_test = |statement: &Statement| matches!(statement, Statement::Test(_));
    rule.statements.iter().enumerate().any(|(at, statement)| match statement {
        Statement::Test(other) if is_neighbour(other) => {
            let between = &rule.statements[at.min(index)..at.max(index)];
            test.negated || !between.iter().all(is_test)
        }
        _ => false,
    })
}

/// The same test after a mask of all bits.
fn add_all_ones_mask(test: &Test) -> Test {
    let wanted = value_of_single_value_test(test).expect("only such tests are masked");
    // Ports have the same bits in both families.
    let mask = test.expression.max_value(Family::V4);
    Test { comparand: Comparand::Masked { mask, wanted }, ..test.clone() }
}

fn push_statement(out: &mut String, statement: &Statement, family: Family) {
    match statement {
        Statement::Test(t) => push_test(out, t, family),
        Statement::OpaqueTest(o) => out.push_str(&o.text),
        Statement::Counter(_) => out.push_str("counter"),
        Statement::Verdict(v) => out.push_str(&verdict_text(v)),
        Statement::Vmap { key, map } => {
            let keys: Vec<String> = key.iter().map(|k| map_key_part_text(k, family)).collect();
            let _ = write!(out, "{} vmap @{map}", keys.join(" . "));
        }
        Statement::Effect(e) => {
            out.push_str(&print_effect(e, family).expect("checked when it was lowered"));
        }
        Statement::Reject(word) => {
            out.push_str(&print_reject(word, family).expect("checked when it was lowered"));
        }
        Statement::Nat(target) => {
            out.push_str(&print_nat(target, family).expect("checked when it was lowered"));
        }
    }
}

fn map_key_part_text(key: &MapKeyExpression, family: Family) -> String {
    let load = load_expression_text(key.expression, family);
    match key.mask {
        Some(mask) => format!("{load} & {}", value_text(key.expression, mask, family)),
        None => load.to_string(),
    }
}

fn verdict_text(v: &Verdict) -> String {
    match v {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Return => "return".into(),
        Verdict::Jump(c) => format!("jump {c}"),
        Verdict::Goto(c) => format!("goto {c}"),
        Verdict::Continue => "continue".into(),
    }
}

const fn load_expression_text(load: LoadExpression, family: Family) -> &'static str {
    let v4 = matches!(family, Family::V4);
    match load {
        LoadExpression::Iifname => "iifname",
        LoadExpression::Oifname => "oifname",
        LoadExpression::Saddr if v4 => "ip saddr",
        LoadExpression::Saddr => "ip6 saddr",
        LoadExpression::Daddr if v4 => "ip daddr",
        LoadExpression::Daddr => "ip6 daddr",
        LoadExpression::L4proto => "meta l4proto",
        LoadExpression::Ipv4FragmentOffset => "ip frag-off & 0x1fff",
        LoadExpression::TransportFirstThreeBytes => "@th,0,24",
        LoadExpression::Sport => "th sport",
        LoadExpression::Dport => "th dport",
        LoadExpression::TcpFlags => "tcp flags",
        LoadExpression::IcmpType if v4 => "icmp type",
        LoadExpression::IcmpType => "icmpv6 type",
        LoadExpression::IcmpTypeCode => "@th,0,16",
        LoadExpression::EtherSaddr => "ether saddr",
        LoadExpression::CtState => "ct state",
        LoadExpression::CtStatus => "ct status",
        LoadExpression::Mark => "meta mark",
        LoadExpression::CtMark => "ct mark",
        // Not `ip length`: that field is 0 in a BIG TCP packet, where xt_length takes the packet's
        // own length (`skb_ip_totlen` in include/linux/skbuff.h).
        LoadExpression::MetaLength => "meta length",
        LoadExpression::Ttl if v4 => "ip ttl",
        LoadExpression::Ttl => "ip6 hoplimit",
        // The byte crosses nibbles in IPv6: the tests take it out of two bytes.
        LoadExpression::Tos if v4 => "@nh,8,8",
        LoadExpression::Tos => "@nh,0,16",
        LoadExpression::PktType => "meta pkttype",
    }
}

fn push_test(out: &mut String, test: &Test, family: Family) {
    let Test { expression: what, comparand: with, negated } = test;
    let (equal, unequal) = if *negated { ("!=", "==") } else { ("==", "!=") };
    let name = load_expression_text(*what, family);
    let _ = match with {
        Comparand::Device { name: device, prefix } => {
            let star = if *prefix { "*" } else { "" };
            write!(out, "{name} {equal} \"{device}{star}\"")
        }
        Comparand::Masked { mask, wanted } => {
            push_masked_test(out, *what, *mask, *wanted, equal, family)
        }
        Comparand::AnyBit(mask) => write!(out, "{name} & {mask:#x} {unequal} 0"),
        Comparand::InSpans(spans) => match spans[..] {
            [(lo, hi)] if lo == 0 && hi >= what.max_value(family) => {
                let compare = if *negated { "<" } else { ">=" };
                write!(out, "{name} {compare} {}", value_text(*what, 0, family))
            }
            [(lo, hi)] => {
                write!(out, "{name} {equal} {}", value_interval_text(*what, lo, hi, family))
            }
            _ => {
                let spans: Vec<String> = spans
                    .iter()
                    .map(|&(lo, hi)| value_interval_text(*what, lo, hi, family))
                    .collect();
                write!(out, "{name} {equal} {{ {} }}", spans.join(", "))
            }
        },
    };
}

fn push_masked_test(
    out: &mut String,
    what: LoadExpression,
    mask: u128,
    wanted: u128,
    equal: &str,
    family: Family,
) -> std::fmt::Result {
    let name = load_expression_text(what, family);
    let ip = family_keyword(family);
    match (what, family) {
        (LoadExpression::Tos, _) if mask == 0xfc => {
            write!(out, "{ip} dscp {equal} {:#x}", wanted >> 2)
        }
        (LoadExpression::Tos, Family::V6) => {
            write!(out, "{name} & {:#x} {equal} {:#x}", mask << 4, wanted << 4)
        }
        _ => {
            let [mask, wanted] = [mask, wanted].map(|v| value_text(what, v, family));
            write!(out, "{name} & {mask} {equal} {wanted}")
        }
    }
}

fn value_interval_text(load: LoadExpression, lo: u128, hi: u128, family: Family) -> String {
    if lo == hi {
        return value_text(load, lo, family);
    }
    let is_address = matches!(load, LoadExpression::Saddr | LoadExpression::Daddr);
    let mask = interval_to_prefix_mask((lo, hi), family.max_addr()).filter(|_| is_address);
    match mask.and_then(|mask| family.prefix_len_of_mask(mask)) {
        Some(len) => format!("{}/{len}", value_text(load, lo, family)),
        None => format!("{}-{}", value_text(load, lo, family), value_text(load, hi, family)),
    }
}

fn value_text(load: LoadExpression, v: u128, family: Family) -> String {
    match load {
        LoadExpression::Saddr | LoadExpression::Daddr => Addr(v).display(family).to_string(),
        LoadExpression::EtherSaddr => {
            let bytes: Vec<String> =
                v.to_be_bytes()[10..].iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(":")
        }
        LoadExpression::Mark | LoadExpression::CtMark => format!("{v:#010x}"),
        LoadExpression::IcmpTypeCode
        | LoadExpression::TcpFlags
        | LoadExpression::Tos
        | LoadExpression::CtState
        | LoadExpression::CtStatus => {
            format!("{v:#x}")
        }
        LoadExpression::PktType => ["unicast", "broadcast", "multicast"][v as usize % 3].into(),
        _ => v.to_string(),
    }
}
