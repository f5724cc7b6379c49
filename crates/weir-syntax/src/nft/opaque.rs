//! Tests that the field table does not model, in the text that weir writes for them.

use std::fmt::Write as _;

use weir_model::nft::{Load, OpaqueStatement, ROUTE_TYPES, Statement};
use weir_model::{Family, RuleIndex};

use super::cursor::{Cursor, Token};
use super::value;
use crate::diagnostic::Fallible;

/// An opaque test, if one comes next.
pub(super) fn opaque(cursor: &mut Cursor<'_>, family: Family) -> Fallible<Option<Statement>> {
    let stateful = matches!(cursor.peek(), Token::Word("limit" | "numgen"));
    let text = if cursor.take_word("limit") {
        limit(cursor)?
    } else if cursor.take_word("numgen") {
        numgen(cursor)?
    } else if cursor.take_word("fib") {
        fib(cursor)?
    } else if cursor.take_words(&["meta", "skuid"]) {
        account(cursor, "meta skuid")?
    } else if cursor.take_words(&["meta", "skgid"]) {
        account(cursor, "meta skgid")?
    } else if let (Token::Word("ct"), Token::Word(what)) = (cursor.peek(), cursor.second())
        && matches!(what, "original" | "reply" | "protocol" | "direction")
    {
        cursor.next();
        conntrack(cursor, family)?
    } else {
        return Ok(None);
    };
    Ok(Some(of(text, stateful)))
}

/// Some test that has this text.
pub(super) fn of(text: String, stateful: bool) -> Statement {
    let rule = RuleIndex(u32::MAX);
    Statement::Opaque(OpaqueStatement { text, rule, index: 0, stateful, inverted: false })
}

/// iptables' default, too.
const BURST: &str = "5";

fn limit(cursor: &mut Cursor<'_>) -> Fallible<String> {
    if !cursor.take_word("rate") {
        return cursor.missing("rate");
    }
    let rate = cursor.word("a rate")?;
    let (count, unit) = rate.split_once('/').unwrap_or((rate, ""));
    let is_unit = matches!(unit, "second" | "minute" | "hour" | "day");
    if !is_unit || value::integer(count, u32::MAX.into()).is_none() {
        return cursor.refuse(format!("{rate} is not a rate of packets"));
    }
    let mut burst = BURST;
    if cursor.take_word("burst") {
        burst = cursor.word("a number")?;
        if !cursor.take_word("packets") {
            return cursor.missing("packets");
        }
        if value::integer(burst, u32::MAX.into()).is_none() {
            return cursor.refuse(format!("{burst} is not a number of packets"));
        }
    }
    Ok(format!("limit rate {rate} burst {burst} packets"))
}

fn numgen(cursor: &mut Cursor<'_>) -> Fallible<String> {
    let kind = cursor.word("inc or random")?;
    if !cursor.take_word("mod") {
        return cursor.missing("mod");
    }
    let modulus = number(cursor)?;
    let op = match cursor.peek() {
        Token::Word(op @ ("==" | "!=" | "<" | ">=")) => {
            cursor.next();
            op
        }
        _ => "==",
    };
    let value = number(cursor)?;
    match (kind, op) {
        ("inc", "==" | "!=") => Ok(format!("numgen inc mod {modulus} {op} {value}")),
        ("random", "<" | ">=") if modulus == 1 << 31 => {
            Ok(format!("numgen random mod {modulus:#x} {op} {value:#x}"))
        }
        _ => cursor.refuse("this numgen is not one that weir writes"),
    }
}

fn number(cursor: &mut Cursor<'_>) -> Fallible<u128> {
    let word = cursor.word("a number")?;
    match value::integer(word, u32::MAX.into()) {
        Some(number) => Ok(number),
        None => cursor.refuse(format!("{word} is not a number")),
    }
}

fn fib(cursor: &mut Cursor<'_>) -> Fallible<String> {
    let mut text = "fib".to_owned();
    loop {
        let word = cursor.word("saddr or daddr")?;
        if !matches!(word, "saddr" | "daddr" | "mark" | "iif" | "oif") {
            return cursor.refuse(format!("weir does not use fib with {word}"));
        }
        let _ = write!(text, " {word}");
        if !cursor.take_word(".") {
            break;
        }
        text.push_str(" .");
    }
    if cursor.take_word("oif") {
        let found = cursor.word("exists or missing")?;
        if !matches!(found, "exists" | "missing") {
            return cursor.refuse(format!("fib … oif {found} is not one that weir writes"));
        }
        let _ = write!(text, " oif {found}");
        return Ok(text);
    }
    if !cursor.take_word("type") {
        return cursor.missing("type");
    }
    let not = if negated(cursor) { "!= " } else { "" };
    let mut types = Vec::new();
    let mut add = |cursor: &mut Cursor<'_>| {
        let word = cursor.word("a type of route")?;
        match ROUTE_TYPES.iter().position(|t| *t == word) {
            Some(at) => types.push(at),
            None => return cursor.refuse(format!("{word} is not a type of route that weir tests")),
        }
        Ok(())
    };
    if cursor.take(Token::Open) {
        while !cursor.take(Token::Close) {
            add(cursor)?;
            cursor.take(Token::Comma);
        }
    } else {
        add(cursor)?;
    }
    types.sort_unstable();
    types.dedup();
    let types: Vec<&str> = types.into_iter().map(|at| ROUTE_TYPES[at]).collect();
    let _ = write!(text, " type {not}{{ {} }}", types.join(", "));
    Ok(text)
}

/// `!=` or `==`, which may be omitted.
fn negated(cursor: &mut Cursor<'_>) -> bool {
    cursor.take_word("!=") || {
        cursor.take_word("==");
        false
    }
}

fn account(cursor: &mut Cursor<'_>, key: &str) -> Fallible<String> {
    let word = cursor.word("a number")?;
    let (lo, hi) = word.split_once('-').unwrap_or((word, word));
    let is_number = |text: &str| value::integer(text, u32::MAX.into()).is_some();
    if is_number(lo) && is_number(hi) {
        return Ok(format!("{key} {word}"));
    }
    cursor.refuse(format!("{word} is not a user or group ID"))
}

/// What follows `ct`.
fn conntrack(cursor: &mut Cursor<'_>, family: Family) -> Fallible<String> {
    if cursor.take_word("direction") {
        return match cursor.word("original or reply")? {
            dir @ ("original" | "reply") => Ok(format!("ct direction {dir}")),
            other => cursor.refuse(format!("{other} is not a direction")),
        };
    }
    if cursor.take_word("protocol") || cursor.take_words(&["original", "protocol"]) {
        let not = if negated(cursor) { "!= " } else { "" };
        let word = cursor.word("a protocol")?;
        return match value::value(Load::L4proto, word, family) {
            Some(number) => Ok(format!("ct original protocol {not}{number}")),
            None => cursor.refuse(format!("{word} is not a protocol")),
        };
    }
    let dir = cursor.word("a direction")?;
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    if cursor.take_word(ip) {
        let what = cursor.word("saddr or daddr")?;
        if !matches!(what, "saddr" | "daddr") {
            return cursor.refuse(format!("ct has no {what}"));
        }
        let not = if negated(cursor) { "!= " } else { "" };
        let word = cursor.word("an address")?;
        return match value::span(Load::Saddr, word, family) {
            Some(_) => Ok(format!("ct {dir} {ip} {what} {not}{word}")),
            None => cursor.refuse(format!("{word} is not an address")),
        };
    }
    let what = cursor.word("proto-src or proto-dst")?;
    if !matches!(what, "proto-src" | "proto-dst") {
        return cursor.refuse(format!("weir does not test the {what} of a connection"));
    }
    let not = if negated(cursor) { "!= " } else { "" };
    let word = cursor.word("a port")?;
    match value::span(Load::Dport, word, family) {
        Some(_) => Ok(format!("ct {dir} {what} {not}{word}")),
        None => cursor.refuse(format!("{word} is not a port")),
    }
}
