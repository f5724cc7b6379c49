//! Encodes tests of values: the value is loaded, masked if necessary, and compared.

use weir_model::Family;
use weir_model::mask::interval_to_prefix_mask;
use weir_model::nft::{Comparand, LoadExpression, Test};

use super::expression_list::{
    ExpressionList, FIRST_REGISTER, LookedUpSet, PayloadPlace, RegisterComparison,
};
use super::loaded_value::{LoadedValue, ValueSource};
use super::rule_context::RuleContext;
use super::set_encoder::device_name_bytes;

/// Adds the expressions of a test.
pub(super) fn push_test(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    test: &Test,
) -> Result<(), String> {
    let family = context.family;
    let value = LoadedValue::of(test.expression, family);
    context.push_dependency(expressions, value.dependency)?;
    let comparison = RegisterComparison::equal_unless(test.negated);
    let is_tos6 = test.expression == LoadExpression::Tos && family == Family::V6;
    match &test.comparand {
        Comparand::Device { name, prefix } => {
            value.push_load(expressions, FIRST_REGISTER);
            match prefix {
                true => expressions.push_cmp(comparison, name.as_bytes()),
                false => expressions.push_cmp(comparison, &device_name_bytes(name)),
            }
        }
        Comparand::Masked { mask, wanted } => {
            // In IPv6, the octet spans the second nibble of the first byte and the first of the
            // second byte.
            let shift = if is_tos6 { 4 } else { 0 };
            let [mask, wanted] = [mask, wanted].map(|bits| value.bytes_of(bits << shift));
            push_masked_load(expressions, &value, &mask);
            expressions.push_cmp(comparison, &wanted);
        }
        Comparand::AnyBit(_) | Comparand::InSpans(_) if is_tos6 => {
            return Err("a range of the traffic class".to_owned());
        }
        Comparand::AnyBit(mask) => {
            let mask = value.bytes_of(*mask);
            push_masked_load(expressions, &value, &mask);
            let comparison = RegisterComparison::equal_unless(!test.negated);
            expressions.push_cmp(comparison, &vec![0; mask.len()]);
        }
        Comparand::InSpans(spans) => {
            push_span_test(expressions, context, test, &value, spans);
        }
    }
    context.record_tested_protocol(test);
    Ok(())
}

fn push_masked_load(expressions: &mut ExpressionList<'_>, value: &LoadedValue, mask: &[u8]) {
    value.push_load(expressions, FIRST_REGISTER);
    expressions.push_bitwise(FIRST_REGISTER, mask, &vec![0; mask.len()]);
}

fn push_span_test(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    test: &Test,
    value: &LoadedValue,
    spans: &[(u128, u128)],
) {
    let max = test.expression.max_value(context.family);
    let comparison = RegisterComparison::equal_unless(test.negated);
    match *spans {
        [(0, last)] if last >= max => {
            push_load_for_ranges(expressions, value);
            let comparison = match test.negated {
                true => RegisterComparison::Less,
                false => RegisterComparison::GreaterOrEqual,
            };
            expressions.push_cmp(comparison, &value.network_bytes_of(0));
        }
        [(first, last)] if first == last => {
            value.push_load(expressions, FIRST_REGISTER);
            expressions.push_cmp(comparison, &value.bytes_of(first));
        }
        [span] => match prefix_len_of_address_test(test, span, context.family) {
            Some(len) => push_prefix_test(expressions, value, span.0, len, comparison),
            None => push_range_test(expressions, value, span, test.negated),
        },
        _ => {
            let has_intervals = spans.iter().any(|(first, last)| first != last);
            match has_intervals {
                true => push_load_for_ranges(expressions, value),
                false => value.push_load(expressions, FIRST_REGISTER),
            }
            let id = context.push_unnamed_set(value, spans);
            let set = LookedUpSet { name: super::rule_context::UNNAMED_SET, id };
            expressions.push_set_test(set, test.negated);
        }
    }
}

/// Loads a value in network byte order, so that it can be compared with a range.
pub(super) fn push_load_for_ranges(expressions: &mut ExpressionList<'_>, value: &LoadedValue) {
    value.push_load(expressions, FIRST_REGISTER);
    if value.is_converted_for_ranges() {
        expressions.push_to_network_order();
    }
}

/// Compares the loaded value with a range.
pub(super) fn push_range_test(
    expressions: &mut ExpressionList<'_>,
    value: &LoadedValue,
    span: (u128, u128),
    negated: bool,
) {
    push_load_for_ranges(expressions, value);
    let [first, last] = [span.0, span.1].map(|end| value.network_bytes_of(end));
    if negated {
        expressions.push_outside_range(&first, &last);
    } else {
        expressions.push_cmp(RegisterComparison::GreaterOrEqual, &first);
        expressions.push_cmp(RegisterComparison::LessOrEqual, &last);
    }
}

fn prefix_len_of_address_test(test: &Test, span: (u128, u128), family: Family) -> Option<u32> {
    let is_address = matches!(test.expression, LoadExpression::Saddr | LoadExpression::Daddr);
    let mask = interval_to_prefix_mask(span, family.max_addr()).filter(|_| is_address)?;
    family.prefix_len_of_mask(mask)
}

/// Compares a prefix. If it consists of whole bytes, only these are loaded and compared.
pub(super) fn push_prefix_test(
    expressions: &mut ExpressionList<'_>,
    value: &LoadedValue,
    addr: u128,
    len: u32,
    comparison: RegisterComparison,
) {
    let bytes = value.bytes_of(addr);
    let whole_bytes = (len / 8) as usize;
    match value.source {
        _ if !len.is_multiple_of(8) || whole_bytes == 0 => {
            let mask = !0u128 << (value.len as u32 * 8 - len).min(127);
            push_masked_load(expressions, value, &value.bytes_of(mask));
            expressions.push_cmp(comparison, &bytes);
        }
        ValueSource::Payload(place) => {
            let place = PayloadPlace { len: whole_bytes as u32, ..place };
            expressions.push_payload_load(place, FIRST_REGISTER);
            expressions.push_cmp(comparison, &bytes[..whole_bytes]);
        }
        ValueSource::Meta(_) | ValueSource::Ct { .. } => {
            value.push_load(expressions, FIRST_REGISTER);
            expressions.push_cmp(comparison, &bytes[..whole_bytes]);
        }
    }
}
