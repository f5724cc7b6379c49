//! Numbers as the tools read them: `strtoul` with base 0.
//!
//! Decimal, `0x` hexadecimal and leading-zero octal, optionally preceded by blanks and a plus.
//! A minus is refused, also before 0, as `xtables_strtoul` of libxtables does.

/// What `isspace` takes for blanks.
pub(crate) const STRTOUL_BLANKS: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// A number at the start of `text`, and what follows it.
pub(crate) fn parse_leading_number(text: &str) -> Option<(u64, &str)> {
    let body = text.trim_start_matches(STRTOUL_BLANKS);
    let body = body.strip_prefix('+').unwrap_or(body);
    let bytes = body.as_bytes();
    let (radix, digits) = match bytes {
        [b'0', b'x' | b'X', d, ..] if d.is_ascii_hexdigit() => (16, &body[2..]),
        [b'0', ..] => (8, body),
        [d, ..] if d.is_ascii_digit() => (10, body),
        _ => return None,
    };
    let mut value = 0u64;
    let mut used = 0;
    for b in digits.bytes() {
        let Some(digit) = (b as char).to_digit(radix) else { break };
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
        used += 1;
    }
    Some((value, &digits[used..]))
}

/// A whole word that is a number from `min` to `max`.
pub(crate) fn parse_number_in_range(text: &str, min: u64, max: u64) -> Option<u64> {
    let (value, rest) = parse_leading_number(text)?;
    (rest.is_empty() && min <= value && value <= max).then_some(value)
}

/// The same for a module that calls `strtoul` itself, which takes a minus.
///
/// Below zero the value wraps around: the tool takes another number than is written, weir none.
pub(crate) fn parse_strtoul_refusing_negative(text: &str, min: u64, max: u64) -> Option<u64> {
    match text.trim_start_matches(STRTOUL_BLANKS).strip_prefix('-') {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
            parse_number_in_range(digits, 0, 0).filter(|_| min == 0)
        }
        Some(_) => None,
        None => parse_number_in_range(text, min, max),
    }
}

/// A whole word that is a number of at most 16 bits.
pub(crate) fn parse_u16(text: &str) -> Option<u16> {
    // Most ports are plain decimals: the general reader is not needed for them.
    let bytes = text.as_bytes();
    if matches!(bytes, [b'1'..=b'9', ..]) && bytes.len() <= 5 {
        let mut value = 0u32;
        for b in bytes {
            if !b.is_ascii_digit() {
                return None;
            }
            value = value * 10 + u32::from(b - b'0');
        }
        return u16::try_from(value).ok();
    }
    parse_number_in_range(text, 0, u16::MAX.into()).map(|v| v as u16)
}

/// `atoi`: leading decimal digits, 0 where there are none.
pub(crate) fn parse_atoi(text: &str) -> i64 {
    let body = text.trim_start_matches([' ', '\t']);
    let (negative, body) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let mut value = 0i64;
    for b in body.bytes().take_while(u8::is_ascii_digit) {
        value = value.saturating_mul(10).saturating_add((b - b'0').into());
    }
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_bases_are_determined_by_the_prefix() {
        assert_eq!(parse_number_in_range("16", 0, 99), Some(16));
        assert_eq!(parse_number_in_range("0x10", 0, 99), Some(16));
        assert_eq!(parse_number_in_range("020", 0, 99), Some(16));
        assert_eq!(parse_number_in_range("08", 0, 99), None);
        assert_eq!(parse_number_in_range("0x", 0, 99), None);
        assert_eq!(parse_number_in_range("-1", 0, 99), None);
        assert_eq!(parse_number_in_range("+1", 0, 99), Some(1));
        assert_eq!(parse_number_in_range("+-1", 0, 99), None);
        assert_eq!(parse_number_in_range("", 0, 99), None);
    }

    #[test]
    fn minus_zero_is_accepted_only_by_strtoul() {
        assert_eq!(parse_number_in_range("0", 0, 99), Some(0));
        assert_eq!(parse_number_in_range("-0", 0, 99), None);
        assert_eq!(parse_strtoul_refusing_negative("-0", 0, 99), Some(0));
        assert_eq!(parse_strtoul_refusing_negative(" -0x0", 0, 99), Some(0));
        assert_eq!(parse_strtoul_refusing_negative("+7", 0, 99), Some(7));
        assert_eq!(parse_strtoul_refusing_negative("-7", 0, 99), None);
    }

    #[test]
    fn text_after_a_number_is_not_consumed() {
        assert_eq!(parse_leading_number("12/3"), Some((12, "/3")));
        assert_eq!(parse_leading_number("0x/"), Some((0, "x/")));
    }
}
