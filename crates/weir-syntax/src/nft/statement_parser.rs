//! One rule: its statements from left to right.

use weir_model::Family;
use weir_model::nft::{
    Chain, Comparand, LoadExpression, MapKeyExpression, Rule, Statement, Table, Test, ct_status,
};

use super::comparison_parser::{CompareOp, parse_compare_op, parse_comparison};
use super::reject_types::icmp_keyword;
use super::token_cursor::{NftToken, NftTokenCursor};
use super::{action_parser, opaque_test_parser, value_parser};
use crate::Diagnostic;
use crate::diagnostic::ParseResult;

/// The position of a rule.
#[derive(Clone, Copy)]
pub(super) struct EnclosingTableAndChain<'a> {
    pub table: &'a Table,
    pub chain: &'a Chain,
}

/// A rule, up to its line's end.
pub(super) fn parse_rule(
    cursor: &mut NftTokenCursor<'_>,
    place: EnclosingTableAndChain<'_>,
) -> ParseResult<Rule> {
    let family = place.table.family;
    let mut rule = Rule::default();
    while !cursor.is_line_or_block_end() {
        if cursor.take_keyword("comment") {
            rule.comment = Some(cursor.expect_quoted("a comment")?.to_owned());
            continue;
        }
        if rule.comment.is_some() {
            return cursor.missing_token_error("the end of the rule");
        }
        parse_statement(cursor, &mut rule.statements, family, place)?;
    }
    Ok(rule)
}

/// Reads one statement.
pub(super) fn parse_statement(
    cursor: &mut NftTokenCursor<'_>,
    out: &mut Vec<Statement>,
    family: Family,
    place: EnclosingTableAndChain<'_>,
) -> ParseResult<()> {
    let span = cursor.next_span();
    if cursor.skip_counter()? {
        out.push(Statement::Counter(Vec::new()));
    } else if let Some(verdict) = action_parser::parse_verdict(cursor)? {
        out.push(Statement::Verdict(verdict));
    } else if let Some(action) = action_parser::parse_effect_reject_or_nat(cursor, family)? {
        if action == Statement::Reject("tcp-reset") {
            prepend_l4proto_test_of_action(out, 6);
        }
        out.push(action);
    } else if let Some(opaque) = opaque_test_parser::parse_opaque_statement(cursor, family)? {
        out.push(opaque);
    } else if cursor.take_keyword_sequence(&[icmp_keyword_and_number(family).0, "code"]) {
        parse_icmp_code_after_type(cursor, out, family)?;
    } else if cursor.take_keyword_sequence(&[ip_keyword_of_family(family), "dscp"]) {
        let test = parse_dscp_or_ecn_test(cursor, 0xfc, 2, value_parser::parse_unshifted_dscp)?;
        out.push(Statement::Test(test));
    } else if cursor.take_keyword_sequence(&[ip_keyword_of_family(family), "ecn"]) {
        let test = parse_dscp_or_ecn_test(cursor, 3, 0, value_parser::parse_ecn)?;
        merge_or_push_ecn_test(cursor, out, test)?;
    } else if let Some((load, proto)) = parse_load_expression(cursor, family) {
        if let Some(proto) = proto {
            push_implied_l4proto_test(out, proto);
        }
        parse_lookup_or_comparison(cursor, out, load, family)?;
    } else {
        let what = match cursor.peek() {
            NftToken::Word(word) => format!("weir cannot read this statement: {word}"),
            _ => "expected a statement".to_owned(),
        };
        let chain = &place.chain.name;
        return Diagnostic::new(what, span)
            .with_label(format!("in chain {chain} of {}", place.table.name))
            .with_help(super::token_cursor::UNSUPPORTED_NFT_HELP)
            .into_err();
    }
    Ok(())
}

fn ip_keyword_of_family(family: Family) -> &'static str {
    if family == Family::V4 { "ip" } else { "ip6" }
}

/// nft's name of ICMP, and its number.
fn icmp_keyword_and_number(family: Family) -> (&'static str, u8) {
    (icmp_keyword(family), if family == Family::V4 { 1 } else { 58 })
}

/// What is loaded, and the protocol that it is of.
fn parse_load_expression(
    cursor: &mut NftTokenCursor<'_>,
    family: Family,
) -> Option<(LoadExpression, Option<u8>)> {
    let v4 = family == Family::V4;
    let alone = match cursor.peek() {
        NftToken::Word("iifname") => LoadExpression::Iifname,
        NftToken::Word("oifname") => LoadExpression::Oifname,
        NftToken::Word("@th,0,24") => LoadExpression::TransportFirstThreeBytes,
        NftToken::Word("@th,0,16") => LoadExpression::IcmpTypeCode,
        NftToken::Word("@nh,8,8") if v4 => LoadExpression::Tos,
        NftToken::Word("@nh,0,16") if !v4 => LoadExpression::Tos,
        NftToken::Word(first) => {
            let NftToken::Word(second) = cursor.peek_second() else { return None };
            let load = two_word_load_expression(first, second, family)?;
            cursor.next();
            cursor.next();
            return Some(load);
        }
        _ => return None,
    };
    cursor.next();
    Some((alone, None))
}

fn two_word_load_expression(
    first: &str,
    second: &str,
    family: Family,
) -> Option<(LoadExpression, Option<u8>)> {
    let v4 = family == Family::V4;
    let plain = match (first, second) {
        ("meta", "l4proto") => LoadExpression::L4proto,
        ("meta", "mark") => LoadExpression::Mark,
        ("meta", "pkttype") => LoadExpression::PktType,
        ("meta", "length") => LoadExpression::MetaLength,
        ("ip", "ttl") if v4 => LoadExpression::Ttl,
        ("ip6", "hoplimit") if !v4 => LoadExpression::Ttl,
        ("ip", "frag-off") if v4 => LoadExpression::Ipv4FragmentOffset,
        (i, "saddr") if i == ip_keyword_of_family(family) => LoadExpression::Saddr,
        (i, "daddr") if i == ip_keyword_of_family(family) => LoadExpression::Daddr,
        ("ether", "saddr") => LoadExpression::EtherSaddr,
        ("ct", "state") => LoadExpression::CtState,
        ("ct", "status") => LoadExpression::CtStatus,
        ("ct", "mark") => LoadExpression::CtMark,
        ("th", "sport") => LoadExpression::Sport,
        ("th", "dport") => LoadExpression::Dport,
        ("tcp", "flags") => return Some((LoadExpression::TcpFlags, Some(6))),
        (i, "type") if i == icmp_keyword_and_number(family).0 => {
            return Some((LoadExpression::IcmpType, Some(icmp_keyword_and_number(family).1)));
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
            let load =
                if second == "sport" { LoadExpression::Sport } else { LoadExpression::Dport };
            return Some((load, Some(proto)));
        }
        _ => return None,
    };
    Some((plain, None))
}

/// A test that the protocol is this one.
pub(super) fn l4proto_test(proto: u8) -> Test {
    let value = u128::from(proto);
    Test {
        expression: LoadExpression::L4proto,
        comparand: Comparand::InSpans(vec![(value, value)]),
        negated: false,
    }
}

/// Adds the test of the protocol that nft omits before what is the protocol's.
pub(super) fn push_implied_l4proto_test(out: &mut Vec<Statement>, proto: u8) {
    let test = Statement::Test(l4proto_test(proto));
    if !out.contains(&test) {
        out.push(test);
    }
}

/// The same for actions: nft puts the test before all actions of the rule.
pub(super) fn prepend_l4proto_test_of_action(out: &mut Vec<Statement>, proto: u8) {
    let test = Statement::Test(l4proto_test(proto));
    if !out.contains(&test) {
        out.insert(0, test);
    }
}

/// What follows a load: more of a key, a lookup, or a comparison.
fn parse_lookup_or_comparison(
    cursor: &mut NftTokenCursor<'_>,
    out: &mut Vec<Statement>,
    load: LoadExpression,
    family: Family,
) -> ParseResult<()> {
    if load == LoadExpression::Ipv4FragmentOffset {
        let is_offset = cursor.take_keyword("&") && {
            let word = cursor.expect_word("0x1fff")?;
            value_parser::parse_integer(word, 0xffff) == Some(0x1fff)
        };
        if !is_offset {
            return cursor.refuse_last_token("weir tests only the offset: ip frag-off & 0x1fff");
        }
    }
    let mask = parse_optional_mask(cursor, load, family)?;
    if matches!(cursor.peek(), NftToken::Word("." | "vmap")) {
        return parse_vmap_lookup(cursor, out, MapKeyExpression { expression: load, mask }, family);
    }
    let test = parse_comparison(cursor, load, mask, family)?;
    // What a connection's status says in addition to translations is not a value of the model's.
    let translated = u128::from(ct_status::SNAT | ct_status::DNAT);
    match &test.comparand {
        Comparand::AnyBit(bits) if load == LoadExpression::CtStatus && bits & !translated != 0 => {
            let op = if test.negated { "==" } else { "!=" };
            out.push(opaque_test_parser::opaque_statement(
                format!("ct status & {bits:#x} {op} 0"),
                false,
            ));
        }
        _ => out.push(Statement::Test(test)),
    }
    Ok(())
}

/// `& mask`.
fn parse_optional_mask(
    cursor: &mut NftTokenCursor<'_>,
    load: LoadExpression,
    family: Family,
) -> ParseResult<Option<u128>> {
    if !cursor.take_keyword("&") {
        return Ok(None);
    }
    let word = cursor.expect_word("a mask")?;
    // The octet lies across nibbles of IPv6's first two bytes.
    let mask = match (load, family) {
        (LoadExpression::Tos, Family::V6) => {
            value_parser::parse_integer(word, 0xff0).filter(|m| m & 0xf == 0).map(|m| m >> 4)
        }
        (LoadExpression::TcpFlags | LoadExpression::CtState | LoadExpression::CtStatus, _) => {
            value_parser::parse_flag_bits(load, word, family)
        }
        _ => value_parser::parse_value(load, word, family),
    };
    match mask {
        Some(mask) => Ok(Some(mask)),
        None => cursor.refuse_last_token(format!("{word} is not a valid mask here")),
    }
}

/// `a . b vmap @map`.
fn parse_vmap_lookup(
    cursor: &mut NftTokenCursor<'_>,
    out: &mut Vec<Statement>,
    first: MapKeyExpression,
    family: Family,
) -> ParseResult<()> {
    let mut key = vec![first];
    while cursor.take_keyword(".") {
        let Some((load, proto)) = parse_load_expression(cursor, family) else {
            return cursor.missing_token_error("another part of the key");
        };
        if let Some(proto) = proto {
            push_implied_l4proto_test(out, proto);
        }
        let mask = parse_optional_mask(cursor, load, family)?;
        key.push(MapKeyExpression { expression: load, mask });
    }
    if !cursor.take_keyword("vmap") {
        return cursor.missing_token_error("vmap");
    }
    let word = cursor.expect_word("a named map (@NAME)")?;
    match word.strip_prefix('@') {
        Some(map) => {
            out.push(Statement::Vmap { key, map: map.to_owned() });
            Ok(())
        }
        None => cursor.refuse_last_token("expected a named map (@NAME)"),
    }
}

/// `icmp code` after `icmp type`: this is how nft prints the two bytes that weir tests together. It
/// prints them in the same way if they are a different pair, such as `!=` of both.
fn parse_icmp_code_after_type(
    cursor: &mut NftTokenCursor<'_>,
    out: &mut [Statement],
    family: Family,
) -> ParseResult<()> {
    let negated = match parse_compare_op(cursor) {
        CompareOp::Implicit | CompareOp::Equal => false,
        CompareOp::Unequal => true,
        _ => return cursor.refuse_last_token("weir does not compare codes in this way"),
    };
    let word = cursor.expect_word("a code")?;
    let Some(code) = value_parser::parse_icmp_code(word, family) else {
        return cursor.refuse_last_token(format!("{word} is not a code"));
    };
    match out.last_mut() {
        Some(Statement::Test(test))
            if test.expression == LoadExpression::IcmpType && test.negated == negated =>
        {
            if let Comparand::InSpans(spans) = &test.comparand
                && let [(kind, last)] = spans[..]
                && kind == last
            {
                let both = kind << 8 | code;
                *test = Test {
                    expression: LoadExpression::IcmpTypeCode,
                    comparand: Comparand::InSpans(vec![(both, both)]),
                    negated,
                };
                return Ok(());
            }
            cursor.refuse_last_token("weir does not test a code with several types")
        }
        _ => cursor.refuse_last_token("weir tests a code only after its type"),
    }
}

/// `ip dscp ef`, `ip ecn != ce`: some bits of the octet.
fn parse_dscp_or_ecn_test(
    cursor: &mut NftTokenCursor<'_>,
    mask: u128,
    shift: u32,
    value: fn(&str) -> Option<u128>,
) -> ParseResult<Test> {
    let negated = match parse_compare_op(cursor) {
        CompareOp::Implicit | CompareOp::Equal => false,
        CompareOp::Unequal => true,
        _ => {
            return cursor.refuse_last_token("weir does not compare bits of this byte in this way");
        }
    };
    let word = cursor.expect_word("a value")?;
    match value(word) {
        Some(value) => {
            let with = Comparand::Masked { mask, wanted: value << shift };
            Ok(Test { expression: LoadExpression::Tos, comparand: with, negated })
        }
        None => cursor.refuse_last_token(format!("{word} is not valid here")),
    }
}

/// nft prints a test of the whole octet as two, which is the same where both must be equal.
fn merge_or_push_ecn_test(
    cursor: &NftTokenCursor<'_>,
    out: &mut Vec<Statement>,
    test: Test,
) -> ParseResult<()> {
    if let Some(Statement::Test(last)) = out.last_mut()
        && last.expression == LoadExpression::Tos
        && let (Comparand::Masked { mask: 0xfc, wanted }, Comparand::Masked { wanted: low, .. }) =
            (&last.comparand, &test.comparand)
    {
        match (last.negated, test.negated) {
            (false, false) => {
                last.comparand = Comparand::Masked { mask: 0xff, wanted: wanted | low };
                return Ok(());
            }
            (true, true) => {
                return cursor.refuse_last_token(
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
