//! Numbers with a point as the tools read them: `strtod` of the C library.

use crate::strtoul::STRTOUL_BLANKS;

/// A number at the start of `text`, and what follows it.
///
/// Decimal with an exponent or without, or hexadecimal with one of two. Infinity and what is no
/// number are not read.
pub(crate) fn parse_leading_double(text: &str) -> Option<(f64, &str)> {
    let body = text.trim_start_matches(STRTOUL_BLANKS);
    let (sign, body) = match body.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, body.strip_prefix('+').unwrap_or(body)),
    };
    let (value, rest) = match body.strip_prefix("0x").or(body.strip_prefix("0X")) {
        Some(digits) if mantissa_len(digits, 16).is_some() => parse_hex_double(digits)?,
        _ => parse_decimal_double(body)?,
    };
    Some((sign * value, rest))
}

/// The length of digits with a point or without, of which at least one is a digit.
fn mantissa_len(text: &str, radix: u32) -> Option<usize> {
    let count = |text: &str| text.chars().take_while(|c| c.is_digit(radix)).count();
    let whole = count(text);
    match text[whole..].strip_prefix('.').map(count) {
        Some(fraction) if whole + fraction > 0 => Some(whole + 1 + fraction),
        _ => (whole > 0).then_some(whole),
    }
}

/// The length of an exponent, which begins with a letter; 0 if there is none.
fn exponent_len(text: &str, letter: char) -> usize {
    let Some(rest) = text.strip_prefix([letter, letter.to_ascii_uppercase()]) else { return 0 };
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    match digits.bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        count => 1 + rest.len() - digits.len() + count,
    }
}

fn parse_decimal_double(text: &str) -> Option<(f64, &str)> {
    let end = mantissa_len(text, 10)?;
    let end = end + exponent_len(&text[end..], 'e');
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn parse_hex_double(text: &str) -> Option<(f64, &str)> {
    let (mantissa, rest) = text.split_at(mantissa_len(text, 16)?);
    let (exponent, rest) = rest.split_at(exponent_len(rest, 'p'));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| {
        text.chars().filter_map(|c| c.to_digit(16)).fold(0.0, |n, d| n * 16.0 + f64::from(d))
    };
    let fraction = digits(fraction) / 16f64.powi(fraction.len() as i32);
    // An exponent that no integer holds is one of infinity or of zero.
    let power = match exponent.get(1..).map(str::parse::<i32>) {
        None => 0,
        Some(Ok(power)) => power,
        Some(Err(_)) if exponent.contains('-') => i32::MIN,
        Some(Err(_)) => i32::MAX,
    };
    Some(((digits(whole) + fraction) * 2f64.powi(power), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_hexadecimal_numbers_are_read() {
        assert_eq!(parse_leading_double("250ms"), Some((250.0, "ms")));
        assert_eq!(parse_leading_double(" +.5s"), Some((0.5, "s")));
        assert_eq!(parse_leading_double("1.s"), Some((1.0, "s")));
        assert_eq!(parse_leading_double("-1e2us"), Some((-100.0, "us")));
        assert_eq!(parse_leading_double("0x10"), Some((16.0, "")));
        assert_eq!(parse_leading_double("0x1.8p1s"), Some((3.0, "s")));
    }

    #[test]
    fn an_incomplete_exponent_is_not_consumed() {
        assert_eq!(parse_leading_double("1e"), Some((1.0, "e")));
        assert_eq!(parse_leading_double("1e+s"), Some((1.0, "e+s")));
        assert_eq!(parse_leading_double("0xg"), Some((0.0, "xg")));
    }

    #[test]
    fn text_without_a_leading_digit_is_not_a_number() {
        for text in ["", "s", ".", "-", "e5", "nan", "inf"] {
            assert_eq!(parse_leading_double(text), None, "{text:?}");
        }
    }
}
