//! `-m u32`: struct xt_u32, as the expression that the tool prints.

use std::fmt::Write as _;

use weir_model::rule_match::ExtensionValue;

use super::extension_bytes::{ExtensionBytes, OptionList};
use crate::xtables::encoder::u32_match::{
    U32_NUMBER_COUNT_AT, U32_OPERATORS, U32_RANGE_COUNT_AT, U32_RANGES_AT, U32_TEST_BYTES,
    U32_TEST_COUNT_AT,
};

/// `XT_U32_MAXSIZE`, with one more place.
const U32_ARRAY_LENGTH: u8 = 11;

pub(super) fn decode_u32(info: ExtensionBytes) -> Option<OptionList> {
    let test_count = info.u8(U32_TEST_COUNT_AT);
    if !(1..=U32_ARRAY_LENGTH).contains(&test_count) {
        return None;
    }
    let mut expression = String::new();
    for test in 0..usize::from(test_count) {
        if test > 0 {
            expression.push_str("&&");
        }
        append_test(&mut expression, info, test * U32_TEST_BYTES)?;
    }
    let mut options = OptionList::default();
    let negated = info.flag(U32_TEST_COUNT_AT + 1);
    options.push_negatable(negated, "u32", ExtensionValue::Text(expression));
    Some(options)
}

fn append_test(out: &mut String, info: ExtensionBytes, test_at: usize) -> Option<()> {
    let number_count = info.u8(test_at + U32_NUMBER_COUNT_AT);
    let range_count = info.u8(test_at + U32_RANGE_COUNT_AT);
    if number_count > U32_ARRAY_LENGTH || range_count > U32_ARRAY_LENGTH {
        return None;
    }
    for number in 0..usize::from(number_count) {
        let number_at = test_at + 8 * number;
        if number > 0 {
            out.push_str(U32_OPERATORS.get(usize::from(info.u8(number_at + 4)))?);
        }
        let _ = write!(out, "{:#x}", info.u32(number_at));
    }
    out.push('=');
    for range in 0..usize::from(range_count) {
        let range_at = test_at + U32_RANGES_AT + 8 * range;
        let (lo, hi) = (info.u32(range_at), info.u32(range_at + 4));
        let comma = if range > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{lo:#x}");
        if hi != lo {
            let _ = write!(out, ":{hi:#x}");
        }
    }
    Some(())
}
