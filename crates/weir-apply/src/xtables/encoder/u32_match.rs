//! `-m u32`: struct xt_u32, an expression over the words of a packet.
//!
//! An expression is one to ten tests. A test is a location, numbers with operators between them,
//! and ranges of values: `0x0>>0x16&0x3c@0x0=0x1:0x5,0x7`.

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};

use crate::xtables::entry_writer::{EntryWriter, StructBytes};

/// Operators by their numbers (`XT_U32_AND` and the next three).
pub(crate) const U32_OPERATORS: [&str; 4] = ["&", "<<", ">>", "@"];
/// struct xt_u32_test: eleven numbers with operators, eleven ranges, and how many there are.
pub(crate) const U32_TEST_BYTES: usize = 180;
pub(crate) const U32_RANGES_AT: usize = 88;
pub(crate) const U32_NUMBER_COUNT_AT: usize = 176;
pub(crate) const U32_RANGE_COUNT_AT: usize = 177;
pub(crate) const U32_TEST_COUNT_AT: usize = 11 * U32_TEST_BYTES;
/// What the tool takes of tests, numbers and ranges.
const U32_TESTS_NUMBERS_OR_RANGES_MAX: usize = 10;

/// Appends the match; `None` where it is not one expression.
pub(crate) fn push_u32(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let [option] = options else { return None };
    let ExtensionValue::Text(expression) = &option.value else { return None };
    let mut data = StructBytes::<1984>::zeroed();
    let mut test_count = 0;
    for test in expression.split("&&") {
        if test_count == U32_TESTS_NUMBERS_OR_RANGES_MAX {
            return None;
        }
        put_test(&mut data, test_count * U32_TEST_BYTES, test)?;
        test_count += 1;
    }
    data.0[U32_TEST_COUNT_AT] = test_count as u8;
    data.0[U32_TEST_COUNT_AT + 1] = option.negated.into();
    out.push_match("u32", 0, &data.0);
    Some(())
}

fn put_test(data: &mut StructBytes<1984>, test_at: usize, test: &str) -> Option<()> {
    let (mut location, ranges) = test.split_once('=')?;
    let mut number_count = 0;
    let mut operator = 0;
    loop {
        if number_count == U32_TESTS_NUMBERS_OR_RANGES_MAX {
            return None;
        }
        let end = location.find(['&', '<', '>', '@']).unwrap_or(location.len());
        let number_at = test_at + 8 * number_count;
        data.put_u32(number_at, parse_hex(&location[..end])?);
        data.0[number_at + 4] = operator;
        number_count += 1;
        location = &location[end..];
        if location.is_empty() {
            break;
        }
        let (number, word) =
            U32_OPERATORS.iter().enumerate().find(|(_, word)| location.starts_with(**word))?;
        operator = number as u8;
        location = &location[word.len()..];
    }
    data.0[test_at + U32_NUMBER_COUNT_AT] = number_count as u8;
    let mut range_count = 0;
    for range in ranges.split(',') {
        if range_count == U32_TESTS_NUMBERS_OR_RANGES_MAX {
            return None;
        }
        let (lo, hi) = range.split_once(':').unwrap_or((range, range));
        let range_at = test_at + U32_RANGES_AT + 8 * range_count;
        data.put_u32(range_at, parse_hex(lo)?);
        data.put_u32(range_at + 4, parse_hex(hi)?);
        range_count += 1;
    }
    data.0[test_at + U32_RANGE_COUNT_AT] = range_count as u8;
    Some(())
}

fn parse_hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}
