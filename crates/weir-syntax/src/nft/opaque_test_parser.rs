//! Tests that the field table does not model, in the text that weir writes for them.

use std::fmt::Write as _;

use weir_model::nft::{
    LoadExpression, OpaqueNftTest, ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES, Statement,
};
use weir_model::{Family, OriginalRuleIndex};

use super::token_cursor::{NftToken, NftTokenCursor};
use super::value_parser;
use crate::diagnostic::ParseResult;

/// An opaque test, if one comes next.
pub(super) fn parse_opaque_statement(
    cursor: &mut NftTokenCursor<'_>,
    family: Family,
) -> ParseResult<Option<Statement>> {
    let stateful = matches!(cursor.peek(), NftToken::Word("limit" | "numgen"));
    let text = if cursor.take_keyword("limit") {
        parse_limit_to_text(cursor)?
    } else if cursor.take_keyword("numgen") {
        parse_numgen_to_text(cursor)?
    } else if cursor.take_keyword("fib") {
        parse_fib_to_text(cursor)?
    } else if cursor.take_keyword_sequence(&["meta", "skuid"]) {
        parse_skuid_or_skgid_to_text(cursor, "meta skuid")?
    } else if cursor.take_keyword_sequence(&["meta", "skgid"]) {
        parse_skuid_or_skgid_to_text(cursor, "meta skgid")?
    } else if let (NftToken::Word("ct"), NftToken::Word(what)) =
        (cursor.peek(), cursor.peek_second())
        && matches!(what, "original" | "reply" | "protocol" | "direction")
    {
        cursor.next();
        parse_ct_tuple_test_to_text(cursor, family)?
    } else {
        return Ok(None);
    };
    Ok(Some(opaque_statement(text, stateful)))
}

/// Some test that has this text.
pub(super) fn opaque_statement(text: String, stateful: bool) -> Statement {
    let rule = OriginalRuleIndex(u32::MAX);
    Statement::OpaqueTest(OpaqueNftTest {
        text,
        rule,
        match_index: 0,
        stateful,
        is_inverted: false,
    })
}

/// iptables' default, too.
const DEFAULT_LIMIT_BURST_PACKETS: &str = "5";

fn parse_limit_to_text(cursor: &mut NftTokenCursor<'_>) -> ParseResult<String> {
    if !cursor.take_keyword("rate") {
        return cursor.missing_token_error("rate");
    }
    let rate = cursor.expect_word("a rate")?;
    let (count, unit) = rate.split_once('/').unwrap_or((rate, ""));
    let is_unit = matches!(unit, "second" | "minute" | "hour" | "day");
    if !is_unit || value_parser::parse_integer(count, u32::MAX.into()).is_none() {
        return cursor.refuse_last_token(format!("{rate} is not a rate of packets"));
    }
    let mut burst = DEFAULT_LIMIT_BURST_PACKETS;
    if cursor.take_keyword("burst") {
        burst = cursor.expect_word("a number")?;
        if !cursor.take_keyword("packets") {
            return cursor.missing_token_error("packets");
        }
        if value_parser::parse_integer(burst, u32::MAX.into()).is_none() {
            return cursor.refuse_last_token(format!("{burst} is not a number of packets"));
        }
    }
    Ok(format!("limit rate {rate} burst {burst} packets"))
}

fn parse_numgen_to_text(cursor: &mut NftTokenCursor<'_>) -> ParseResult<String> {
    let kind = cursor.expect_word("inc or random")?;
    if !cursor.take_keyword("mod") {
        return cursor.missing_token_error("mod");
    }
    let modulus = parse_number(cursor)?;
    let op = match cursor.peek() {
        NftToken::Word(op @ ("==" | "!=" | "<" | ">=")) => {
            cursor.next();
            op
        }
        _ => "==",
    };
    let value = parse_number(cursor)?;
    match (kind, op) {
        ("inc", "==" | "!=") => Ok(format!("numgen inc mod {modulus} {op} {value}")),
        ("random", "<" | ">=") if modulus == 1 << 31 => {
            Ok(format!("numgen random mod {modulus:#x} {op} {value:#x}"))
        }
        _ => cursor.refuse_last_token("this numgen is not one that weir writes"),
    }
}

fn parse_number(cursor: &mut NftTokenCursor<'_>) -> ParseResult<u128> {
    let word = cursor.expect_word("a number")?;
    match value_parser::parse_integer(word, u32::MAX.into()) {
        Some(number) => Ok(number),
        None => cursor.refuse_last_token(format!("{word} is not a number")),
    }
}

fn parse_fib_to_text(cursor: &mut NftTokenCursor<'_>) -> ParseResult<String> {
    let mut text = "fib".to_owned();
    loop {
        let word = cursor.expect_word("saddr or daddr")?;
        if !matches!(word, "saddr" | "daddr" | "mark" | "iif" | "oif") {
            return cursor.refuse_last_token(format!("weir does not use fib with {word}"));
        }
        let _ = write!(text, " {word}");
        if !cursor.take_keyword(".") {
            break;
        }
        text.push_str(" .");
    }
    if cursor.take_keyword("oif") {
        let found = cursor.expect_word("exists or missing")?;
        if !matches!(found, "exists" | "missing") {
            return cursor
                .refuse_last_token(format!("fib … oif {found} is not one that weir writes"));
        }
        let _ = write!(text, " oif {found}");
        return Ok(text);
    }
    if !cursor.take_keyword("type") {
        return cursor.missing_token_error("type");
    }
    let not = if take_negation(cursor) { "!= " } else { "" };
    let mut types = Vec::new();
    let mut add = |cursor: &mut NftTokenCursor<'_>| {
        let word = cursor.expect_word("a type of route")?;
        match ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES.iter().position(|t| *t == word) {
            Some(at) => types.push(at),
            None => {
                return cursor
                    .refuse_last_token(format!("{word} is not a type of route that weir tests"));
            }
        }
        Ok(())
    };
    if cursor.take_token_if_equal(NftToken::OpenBrace) {
        while !cursor.take_token_if_equal(NftToken::CloseBrace) {
            add(cursor)?;
            cursor.take_token_if_equal(NftToken::Comma);
        }
    } else {
        add(cursor)?;
    }
    types.sort_unstable();
    types.dedup();
    let types: Vec<&str> =
        types.into_iter().map(|at| ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES[at]).collect();
    let _ = write!(text, " type {not}{{ {} }}", types.join(", "));
    Ok(text)
}

/// `!=` or `==`, which may be omitted.
fn take_negation(cursor: &mut NftTokenCursor<'_>) -> bool {
    cursor.take_keyword("!=") || {
        cursor.take_keyword("==");
        false
    }
}

fn parse_skuid_or_skgid_to_text(cursor: &mut NftTokenCursor<'_>, key: &str) -> ParseResult<String> {
    let word = cursor.expect_word("a number")?;
    let (lo, hi) = word.split_once('-').unwrap_or((word, word));
    let is_number = |text: &str| value_parser::parse_integer(text, u32::MAX.into()).is_some();
    if is_number(lo) && is_number(hi) {
        return Ok(format!("{key} {word}"));
    }
    cursor.refuse_last_token(format!("{word} is not a user or group ID"))
}

/// What follows `ct`.
fn parse_ct_tuple_test_to_text(
    cursor: &mut NftTokenCursor<'_>,
    family: Family,
) -> ParseResult<String> {
    if cursor.take_keyword("direction") {
        return match cursor.expect_word("original or reply")? {
            dir @ ("original" | "reply") => Ok(format!("ct direction {dir}")),
            other => cursor.refuse_last_token(format!("{other} is not a direction")),
        };
    }
    if cursor.take_keyword("protocol") || cursor.take_keyword_sequence(&["original", "protocol"]) {
        let not = if take_negation(cursor) { "!= " } else { "" };
        let word = cursor.expect_word("a protocol")?;
        return match value_parser::parse_value(LoadExpression::L4proto, word, family) {
            Some(number) => Ok(format!("ct original protocol {not}{number}")),
            None => cursor.refuse_last_token(format!("{word} is not a protocol")),
        };
    }
    let dir = cursor.expect_word("a direction")?;
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    if cursor.take_keyword(ip) {
        let what = cursor.expect_word("saddr or daddr")?;
        if !matches!(what, "saddr" | "daddr") {
            return cursor.refuse_last_token(format!("ct has no {what}"));
        }
        let not = if take_negation(cursor) { "!= " } else { "" };
        let word = cursor.expect_word("an address")?;
        return match value_parser::parse_value_interval(LoadExpression::Saddr, word, family) {
            Some(_) => Ok(format!("ct {dir} {ip} {what} {not}{word}")),
            None => cursor.refuse_last_token(format!("{word} is not an address")),
        };
    }
    let what = cursor.expect_word("proto-src or proto-dst")?;
    if !matches!(what, "proto-src" | "proto-dst") {
        return cursor.refuse_last_token(format!("weir does not test the {what} of a connection"));
    }
    let not = if take_negation(cursor) { "!= " } else { "" };
    let word = cursor.expect_word("a port")?;
    match value_parser::parse_value_interval(LoadExpression::Dport, word, family) {
        Some(_) => Ok(format!("ct {dir} {what} {not}{word}")),
        None => cursor.refuse_last_token(format!("{word} is not a port")),
    }
}
