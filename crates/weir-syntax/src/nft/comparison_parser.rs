//! Comparisons of a loaded field: operator, and the values, ranges or bits after it.

use weir_model::Family;
use weir_model::nft::{Comparand, LoadExpression, Test};

use super::token_cursor::{NftToken, NftTokenCursor};
use super::value_parser;
use crate::diagnostic::ParseResult;

/// How a value is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareOp {
    /// No word at all.
    Implicit,
    Equal,
    Unequal,
    /// `!`: none of the bits.
    NoBitSet,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
}

/// The comparison operator, where there is one.
pub(super) fn parse_compare_op(cursor: &mut NftTokenCursor<'_>) -> CompareOp {
    let NftToken::Word(word) = cursor.peek() else { return CompareOp::Implicit };
    let op = match word {
        "==" => CompareOp::Equal,
        "!=" => CompareOp::Unequal,
        "!" => CompareOp::NoBitSet,
        ">=" => CompareOp::GreaterOrEqual,
        "<" => CompareOp::Less,
        _ => return CompareOp::Implicit,
    };
    cursor.next();
    op
}

/// What follows the loaded field and its mask: operator and value, values or device name.
pub(super) fn parse_comparison(
    cursor: &mut NftTokenCursor<'_>,
    load: LoadExpression,
    mask: Option<u128>,
    family: Family,
) -> ParseResult<Test> {
    let op = parse_compare_op(cursor);
    let negated = op == CompareOp::Unequal;
    if matches!(load, LoadExpression::Iifname | LoadExpression::Oifname) {
        let name = cursor.expect_quoted("a device name")?;
        let prefix = name.ends_with('*');
        let name = name.strip_suffix('*').unwrap_or(name).into();
        return Ok(Test {
            expression: load,
            comparand: Comparand::Device { name, prefix },
            negated,
        });
    }
    if matches!(load, LoadExpression::TcpFlags | LoadExpression::CtState | LoadExpression::CtStatus)
    {
        return parse_bit_test(cursor, load, mask, op, family);
    }
    if let Some(mask) = mask {
        let word = cursor.expect_word("a value")?;
        let wanted = match (load, family) {
            (LoadExpression::Tos, Family::V6) => {
                value_parser::parse_integer(word, 0xffff).map(|v| v >> 4)
            }
            _ => value_parser::parse_value(load, word, family),
        };
        let Some(wanted) = wanted else {
            return cursor.refuse_last_token(format!("{word} is not valid here"));
        };
        return Ok(Test {
            expression: load,
            comparand: Comparand::Masked { mask, wanted },
            negated,
        });
    }
    if matches!(op, CompareOp::GreaterOrEqual | CompareOp::Less) {
        let word = cursor.expect_word("a value")?;
        if value_parser::parse_value(load, word, family) != Some(0) {
            return cursor.refuse_last_token("weir uses this comparison only with 0");
        }
        let with = Comparand::InSpans(vec![(0, load.max_value(family))]);
        return Ok(Test { expression: load, comparand: with, negated: op == CompareOp::Less });
    }
    let mut spans = Vec::new();
    if cursor.take_token_if_equal(NftToken::OpenBrace) {
        while !cursor.take_token_if_equal(NftToken::CloseBrace) {
            spans.push(parse_one_value_interval(cursor, load, family)?);
            cursor.take_token_if_equal(NftToken::Comma);
        }
    } else {
        spans.push(parse_one_value_interval(cursor, load, family)?);
    }
    spans.sort_unstable();
    Ok(Test { expression: load, comparand: Comparand::InSpans(spans), negated })
}

fn parse_one_value_interval(
    cursor: &mut NftTokenCursor<'_>,
    load: LoadExpression,
    family: Family,
) -> ParseResult<(u128, u128)> {
    let word = cursor.expect_word("a value")?;
    match value_parser::parse_value_interval(load, word, family) {
        Some(span) => Ok(span),
        None => cursor.refuse_last_token(format!("{word} is not valid here")),
    }
}

/// `tcp flags syn / syn,ack`, `ct state ! new`, `ct state & 0x6 != 0`.
fn parse_bit_test(
    cursor: &mut NftTokenCursor<'_>,
    load: LoadExpression,
    mask: Option<u128>,
    op: CompareOp,
    family: Family,
) -> ParseResult<Test> {
    let word = cursor.expect_word("bits")?;
    let Some(bits) = value_parser::parse_flag_bits(load, word, family) else {
        return cursor.refuse_last_token(format!("{word} is not a list of flags"));
    };
    let negated = op == CompareOp::Unequal;
    if let Some(mask) = mask {
        let with = match (load, bits) {
            (LoadExpression::TcpFlags, _) => Comparand::Masked { mask, wanted: bits },
            // Only "none" and "any" are tested for these.
            (_, 0) => {
                return Ok(Test {
                    expression: load,
                    comparand: Comparand::AnyBit(mask),
                    negated: !negated,
                });
            }
            _ => {
                return cursor
                    .refuse_last_token("weir only tests whether any of these bits is set");
            }
        };
        return Ok(Test { expression: load, comparand: with, negated });
    }
    if cursor.take_keyword("/") {
        let word = cursor.expect_word("a mask")?;
        return match value_parser::parse_flag_bits(load, word, family) {
            Some(mask) => Ok(Test {
                expression: load,
                comparand: Comparand::Masked { mask, wanted: bits },
                negated,
            }),
            None => cursor.refuse_last_token(format!("{word} is not a valid mask here")),
        };
    }
    match op {
        CompareOp::Implicit => {
            Ok(Test { expression: load, comparand: Comparand::AnyBit(bits), negated: false })
        }
        CompareOp::NoBitSet => {
            Ok(Test { expression: load, comparand: Comparand::AnyBit(bits), negated: true })
        }
        CompareOp::Equal | CompareOp::Unequal if load == LoadExpression::TcpFlags => {
            let spans = Comparand::InSpans(vec![(bits, bits)]);
            Ok(Test { expression: load, comparand: spans, negated })
        }
        CompareOp::GreaterOrEqual | CompareOp::Less if bits == 0 => {
            let with = Comparand::InSpans(vec![(0, load.max_value(family))]);
            Ok(Test { expression: load, comparand: with, negated: op == CompareOp::Less })
        }
        _ => cursor.refuse_last_token("weir only tests whether any of these bits is set"),
    }
}
