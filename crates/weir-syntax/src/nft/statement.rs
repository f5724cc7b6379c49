//! One rule: its statements from left to right.

use weir_model::Family;
use weir_model::nft::{Chain, Key, Load, Rule, Statement, Table, Test, With, ct_status};

use super::cursor::{Cursor, Token};
use super::{action, opaque, value};
use crate::Diagnostic;
use crate::diagnostic::Fallible;

/// The position of a rule.
#[derive(Clone, Copy)]
pub(super) struct ChainContext<'a> {
    pub table: &'a Table,
    pub chain: &'a Chain,
}

/// A rule, up to its line's end.
pub(super) fn rule(cursor: &mut Cursor<'_>, place: ChainContext<'_>) -> Fallible<Rule> {
    let family = place.table.family;
    let mut rule = Rule::default();
    while !cursor.is_line_end() {
        if cursor.take_word("comment") {
            rule.comment = Some(cursor.quoted("a comment")?.to_owned());
            continue;
        }
        if rule.comment.is_some() {
            return cursor.missing("the end of the rule");
        }
        statement(cursor, &mut rule.statements, family, place)?;
    }
    Ok(rule)
}

/// Reads one statement.
pub(super) fn statement(
    cursor: &mut Cursor<'_>,
    out: &mut Vec<Statement>,
    family: Family,
    place: ChainContext<'_>,
) -> Fallible<()> {
    let span = cursor.span();
    if cursor.take_counters()? {
        out.push(Statement::Counter(Vec::new()));
    } else if let Some(verdict) = action::verdict(cursor)? {
        out.push(Statement::Verdict(verdict));
    } else if let Some(action) = action::action(cursor, family)? {
        if action == Statement::Reject("tcp-reset") {
            imply_first(out, 6);
        }
        out.push(action);
    } else if let Some(opaque) = opaque::opaque(cursor, family)? {
        out.push(opaque);
    } else if cursor.take_words(&[icmp(family).0, "code"]) {
        icmp_code(cursor, out, family)?;
    } else if cursor.take_words(&[ip(family), "dscp"]) {
        let test = tos(cursor, 0xfc, 2, value::dscp)?;
        out.push(Statement::Test(test));
    } else if cursor.take_words(&[ip(family), "ecn"]) {
        let test = tos(cursor, 3, 0, value::ecn)?;
        push_ecn(cursor, out, test)?;
    } else if let Some((load, proto)) = load(cursor, family) {
        if let Some(proto) = proto {
            imply(out, proto);
        }
        loaded(cursor, out, load, family)?;
    } else {
        let what = match cursor.peek() {
            Token::Word(word) => format!("{word}: weir does not write such a statement"),
            _ => "expected a statement".to_owned(),
        };
        let chain = &place.chain.name;
        return Diagnostic::new(what, span)
            .label(format!("in chain {chain} of {}", place.table.name))
            .help(super::cursor::HELP)
            .fail();
    }
    Ok(())
}

fn ip(family: Family) -> &'static str {
    if family == Family::V4 { "ip" } else { "ip6" }
}

/// nft's name of ICMP, and its number.
fn icmp(family: Family) -> (&'static str, u8) {
    if family == Family::V4 { ("icmp", 1) } else { ("icmpv6", 58) }
}

/// What is loaded, and the protocol that it is of.
fn load(cursor: &mut Cursor<'_>, family: Family) -> Option<(Load, Option<u8>)> {
    let v4 = family == Family::V4;
    let alone = match cursor.peek() {
        Token::Word("iifname") => Load::Iifname,
        Token::Word("oifname") => Load::Oifname,
        Token::Word("@th,0,24") => Load::HeaderStart,
        Token::Word("@th,0,16") => Load::IcmpTypeCode,
        Token::Word("@nh,8,8") if v4 => Load::Tos,
        Token::Word("@nh,0,16") if !v4 => Load::Tos,
        Token::Word(first) => {
            let Token::Word(second) = cursor.second() else { return None };
            let load = pair(first, second, family)?;
            cursor.next();
            cursor.next();
            return Some(load);
        }
        _ => return None,
    };
    cursor.next();
    Some((alone, None))
}

fn pair(first: &str, second: &str, family: Family) -> Option<(Load, Option<u8>)> {
    let v4 = family == Family::V4;
    let plain = match (first, second) {
        ("meta", "l4proto") => Load::L4proto,
        ("meta", "mark") => Load::Mark,
        ("meta", "pkttype") => Load::PktType,
        ("meta", "length") => Load::Length,
        ("ip", "ttl") if v4 => Load::Ttl,
        ("ip6", "hoplimit") if !v4 => Load::Ttl,
        ("ip", "frag-off") if v4 => Load::FragmentOffset,
        (i, "saddr") if i == ip(family) => Load::Saddr,
        (i, "daddr") if i == ip(family) => Load::Daddr,
        ("ether", "saddr") => Load::EtherSaddr,
        ("ct", "state") => Load::CtState,
        ("ct", "status") => Load::CtStatus,
        ("ct", "mark") => Load::CtMark,
        ("th", "sport") => Load::Sport,
        ("th", "dport") => Load::Dport,
        ("tcp", "flags") => return Some((Load::TcpFlags, Some(6))),
        (i, "type") if i == icmp(family).0 => {
            return Some((Load::IcmpType, Some(icmp(family).1)));
        }
        (of, "sport" | "dport") => {
            let proto = match of {
                "tcp" => 6,
                "udp" => 17,
                "dccp" => 33,
                "sctp" => 132,
                "udplite" => 136,
                _ => return None,
            };
            let load = if second == "sport" { Load::Sport } else { Load::Dport };
            return Some((load, Some(proto)));
        }
        _ => return None,
    };
    Some((plain, None))
}

/// A test that the protocol is this one.
pub(super) fn proto_test(proto: u8) -> Test {
    let value = u128::from(proto);
    Test { load: Load::L4proto, with: With::Spans(vec![(value, value)]), negated: false }
}

/// Adds the test of the protocol that nft omits before what is the protocol's.
pub(super) fn imply(out: &mut Vec<Statement>, proto: u8) {
    let test = Statement::Test(proto_test(proto));
    if !out.contains(&test) {
        out.push(test);
    }
}

/// The same for actions: nft puts the test before all actions of the rule.
pub(super) fn imply_first(out: &mut Vec<Statement>, proto: u8) {
    let test = Statement::Test(proto_test(proto));
    if !out.contains(&test) {
        out.insert(0, test);
    }
}

/// What follows a load: more of a key, a lookup, or a comparison.
fn loaded(
    cursor: &mut Cursor<'_>,
    out: &mut Vec<Statement>,
    load: Load,
    family: Family,
) -> Fallible<()> {
    if load == Load::FragmentOffset {
        let is_offset = cursor.take_word("&") && {
            let word = cursor.word("0x1fff")?;
            value::integer(word, 0xffff) == Some(0x1fff)
        };
        if !is_offset {
            return cursor.refuse("weir tests only the offset: ip frag-off & 0x1fff");
        }
    }
    let mask = masked(cursor, load, family)?;
    if matches!(cursor.peek(), Token::Word("." | "vmap")) {
        return lookup(cursor, out, Key { load, mask }, family);
    }
    let test = test(cursor, load, mask, family)?;
    // What a connection's status says beside translations is not a value of the model's.
    let translated = u128::from(ct_status::SNAT | ct_status::DNAT);
    match &test.with {
        With::AnyBit(bits) if load == Load::CtStatus && bits & !translated != 0 => {
            let op = if test.negated { "==" } else { "!=" };
            out.push(opaque::of(format!("ct status & {bits:#x} {op} 0"), false));
        }
        _ => out.push(Statement::Test(test)),
    }
    Ok(())
}

/// `& mask`.
fn masked(cursor: &mut Cursor<'_>, load: Load, family: Family) -> Fallible<Option<u128>> {
    if !cursor.take_word("&") {
        return Ok(None);
    }
    let word = cursor.word("a mask")?;
    // The octet lies across nibbles of IPv6's first two bytes.
    let mask = match (load, family) {
        (Load::Tos, Family::V6) => {
            value::integer(word, 0xff0).filter(|m| m & 0xf == 0).map(|m| m >> 4)
        }
        (Load::TcpFlags | Load::CtState | Load::CtStatus, _) => value::bits(load, word, family),
        _ => value::value(load, word, family),
    };
    match mask {
        Some(mask) => Ok(Some(mask)),
        None => cursor.refuse(format!("{word} is not a valid mask here")),
    }
}

/// `a . b vmap @map`.
fn lookup(
    cursor: &mut Cursor<'_>,
    out: &mut Vec<Statement>,
    first: Key,
    family: Family,
) -> Fallible<()> {
    let mut key = vec![first];
    while cursor.take_word(".") {
        let Some((load, proto)) = load(cursor, family) else {
            return cursor.missing("another part of the key");
        };
        if let Some(proto) = proto {
            imply(out, proto);
        }
        let mask = masked(cursor, load, family)?;
        key.push(Key { load, mask });
    }
    if !cursor.take_word("vmap") {
        return cursor.missing("vmap");
    }
    let word = cursor.word("a map")?;
    match word.strip_prefix('@') {
        Some(map) => {
            out.push(Statement::Vmap { key, map: map.to_owned() });
            Ok(())
        }
        None => cursor.refuse("weir uses named maps only"),
    }
}

/// How a value is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    /// No word at all.
    None,
    Equal,
    Unequal,
    /// `!`: none of the bits.
    NoBit,
    /// `>=`
    From,
    /// `<`
    Below,
}

fn op(cursor: &mut Cursor<'_>) -> Op {
    let Token::Word(word) = cursor.peek() else { return Op::None };
    let op = match word {
        "==" => Op::Equal,
        "!=" => Op::Unequal,
        "!" => Op::NoBit,
        ">=" => Op::From,
        "<" => Op::Below,
        _ => return Op::None,
    };
    cursor.next();
    op
}

fn test(cursor: &mut Cursor<'_>, load: Load, mask: Option<u128>, family: Family) -> Fallible<Test> {
    let op = op(cursor);
    let negated = op == Op::Unequal;
    if matches!(load, Load::Iifname | Load::Oifname) {
        let name = cursor.quoted("a device name")?;
        let prefix = name.ends_with('*');
        let name = name.strip_suffix('*').unwrap_or(name).into();
        return Ok(Test { load, with: With::Device { name, prefix }, negated });
    }
    if matches!(load, Load::TcpFlags | Load::CtState | Load::CtStatus) {
        return bit_test(cursor, load, mask, op, family);
    }
    if let Some(mask) = mask {
        let word = cursor.word("a value")?;
        let wanted = match (load, family) {
            (Load::Tos, Family::V6) => value::integer(word, 0xffff).map(|v| v >> 4),
            _ => value::value(load, word, family),
        };
        let Some(wanted) = wanted else {
            return cursor.refuse(format!("{word} is not valid here"));
        };
        return Ok(Test { load, with: With::Masked { mask, wanted }, negated });
    }
    if matches!(op, Op::From | Op::Below) {
        let word = cursor.word("a value")?;
        if value::value(load, word, family) != Some(0) {
            return cursor.refuse("weir uses this comparison only with 0");
        }
        let with = With::Spans(vec![(0, load.highest(family))]);
        return Ok(Test { load, with, negated: op == Op::Below });
    }
    let mut spans = Vec::new();
    if cursor.take(Token::Open) {
        while !cursor.take(Token::Close) {
            spans.push(one_span(cursor, load, family)?);
            cursor.take(Token::Comma);
        }
    } else {
        spans.push(one_span(cursor, load, family)?);
    }
    spans.sort_unstable();
    Ok(Test { load, with: With::Spans(spans), negated })
}

fn one_span(cursor: &mut Cursor<'_>, load: Load, family: Family) -> Fallible<(u128, u128)> {
    let word = cursor.word("a value")?;
    match value::span(load, word, family) {
        Some(span) => Ok(span),
        None => cursor.refuse(format!("{word} is not valid here")),
    }
}

/// `tcp flags syn / syn,ack`, `ct state ! new`, `ct state & 0x6 != 0`.
fn bit_test(
    cursor: &mut Cursor<'_>,
    load: Load,
    mask: Option<u128>,
    op: Op,
    family: Family,
) -> Fallible<Test> {
    let word = cursor.word("bits")?;
    let Some(bits) = value::bits(load, word, family) else {
        return cursor.refuse(format!("{word} is not a list of flags"));
    };
    let negated = op == Op::Unequal;
    if let Some(mask) = mask {
        let with = match (load, bits) {
            (Load::TcpFlags, _) => With::Masked { mask, wanted: bits },
            // Only "none" and "any" are tested for these.
            (_, 0) => return Ok(Test { load, with: With::AnyBit(mask), negated: !negated }),
            _ => return cursor.refuse("weir only tests whether any of these bits is set"),
        };
        return Ok(Test { load, with, negated });
    }
    if cursor.take_word("/") {
        let word = cursor.word("a mask")?;
        return match value::bits(load, word, family) {
            Some(mask) => Ok(Test { load, with: With::Masked { mask, wanted: bits }, negated }),
            None => cursor.refuse(format!("{word} is not a valid mask here")),
        };
    }
    match op {
        Op::None => Ok(Test { load, with: With::AnyBit(bits), negated: false }),
        Op::NoBit => Ok(Test { load, with: With::AnyBit(bits), negated: true }),
        Op::Equal | Op::Unequal if load == Load::TcpFlags => {
            let spans = With::Spans(vec![(bits, bits)]);
            Ok(Test { load, with: spans, negated })
        }
        Op::From | Op::Below if bits == 0 => {
            let with = With::Spans(vec![(0, load.highest(family))]);
            Ok(Test { load, with, negated: op == Op::Below })
        }
        _ => cursor.refuse("weir only tests whether any of these bits is set"),
    }
}

/// `icmp code` after `icmp type`: this is how nft prints the two bytes that weir tests together. It
/// prints them in the same way if they are a different pair, such as `!=` of both.
fn icmp_code(cursor: &mut Cursor<'_>, out: &mut [Statement], family: Family) -> Fallible<()> {
    let negated = match op(cursor) {
        Op::None | Op::Equal => false,
        Op::Unequal => true,
        _ => return cursor.refuse("weir does not compare codes in this way"),
    };
    let word = cursor.word("a code")?;
    let Some(code) = value::icmp_code(word, family) else {
        return cursor.refuse(format!("{word} is not a code"));
    };
    match out.last_mut() {
        Some(Statement::Test(test)) if test.load == Load::IcmpType && test.negated == negated => {
            if let With::Spans(spans) = &test.with
                && let [(kind, last)] = spans[..]
                && kind == last
            {
                let both = kind << 8 | code;
                *test = Test {
                    load: Load::IcmpTypeCode,
                    with: With::Spans(vec![(both, both)]),
                    negated,
                };
                return Ok(());
            }
            cursor.refuse("weir does not test a code with several types")
        }
        _ => cursor.refuse("weir tests a code only after its type"),
    }
}

/// `ip dscp ef`, `ip ecn != ce`: some bits of the octet.
fn tos(
    cursor: &mut Cursor<'_>,
    mask: u128,
    shift: u32,
    value: fn(&str) -> Option<u128>,
) -> Fallible<Test> {
    let negated = match op(cursor) {
        Op::None | Op::Equal => false,
        Op::Unequal => true,
        _ => return cursor.refuse("weir does not compare bits of this byte in this way"),
    };
    let word = cursor.word("a value")?;
    match value(word) {
        Some(value) => {
            let with = With::Masked { mask, wanted: value << shift };
            Ok(Test { load: Load::Tos, with, negated })
        }
        None => cursor.refuse(format!("{word} is not valid here")),
    }
}

/// nft prints a test of the whole octet as two, which is the same where both must be equal.
fn push_ecn(cursor: &Cursor<'_>, out: &mut Vec<Statement>, test: Test) -> Fallible<()> {
    if let Some(Statement::Test(last)) = out.last_mut()
        && last.load == Load::Tos
        && let (With::Masked { mask: 0xfc, wanted }, With::Masked { wanted: low, .. }) =
            (&last.with, &test.with)
    {
        match (last.negated, test.negated) {
            (false, false) => {
                last.with = With::Masked { mask: 0xff, wanted: wanted | low };
                return Ok(());
            }
            (true, true) => {
                return cursor.refuse(
                    "nft prints two tests with != for one byte: the rule in force cannot be \
                     determined",
                );
            }
            _ => {}
        }
    }
    out.push(Statement::Test(test));
    Ok(())
}
