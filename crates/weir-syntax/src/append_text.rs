//! Small pieces of canonical text, appended without the formatting machinery.

use weir_model::{Addr, AddrMatch, Family, SharedName};

/// Appends a decimal number.
pub(crate) fn append_decimal(out: &mut String, value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    append_ascii(out, &digits[at..]);
}

/// Appends ASCII characters in one step.
fn append_ascii(out: &mut String, ascii: &[u8]) {
    match std::str::from_utf8(ascii) {
        Ok(text) => out.push_str(text),
        Err(_) => unreachable!("digits and dots are ASCII"),
    }
}

/// Appends `0x…` in lower case.
pub(crate) fn append_0x_hex(out: &mut String, value: u64) {
    out.push_str("0x");
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for i in (0..digits).rev() {
        let digit = (value >> (4 * i)) & 15;
        out.push(char::from_digit(digit as u32, 16).unwrap_or('0'));
    }
}

/// Appends `0x…` with zeros in front up to `digits`.
pub(crate) fn append_0x_hex_of_width(out: &mut String, value: u64, digits: u32) {
    out.push_str("0x");
    for i in (0..digits).rev() {
        let digit = (value >> (4 * i)) & 15;
        out.push(char::from_digit(digit as u32, 16).unwrap_or('0'));
    }
}

/// Appends an address as `inet_ntop` writes it.
pub(crate) fn append_addr(out: &mut String, addr: Addr, family: Family) {
    use std::fmt::Write as _;
    match family {
        Family::V4 => {
            // `255.255.255.255` has 15 characters.
            let (mut text, mut length) = ([0u8; 16], 0);
            for byte in (addr.0 as u32).to_be_bytes() {
                for unit in [100, 10, 1] {
                    if byte >= unit || unit == 1 {
                        text[length] = b'0' + byte / unit % 10;
                        length += 1;
                    }
                }
                text[length] = b'.';
                length += 1;
            }
            append_ascii(out, &text[..length - 1]);
        }
        // glibc writes the last 32 bits dotted after 96 zero bits too, the standard library does
        // not; `::` and `::1` are no such addresses for either.
        Family::V6 if addr.0 >> 32 == 0 && addr.0 > 0xffff => {
            out.push_str("::");
            self::append_addr(out, addr, Family::V4);
        }
        Family::V6 => {
            let _ = write!(out, "{}", addr.display(family));
        }
    }
}

/// Appends `address/length`, or `address/mask` if the mask's ones are not contiguous.
pub(crate) fn append_net(out: &mut String, a: Addr, mask: Addr, family: Family) {
    append_addr(out, a, family);
    out.push('/');
    match family.prefix_len_of_mask(mask.0) {
        Some(len) => append_decimal(out, len.into()),
        None => append_addr(out, mask, family),
    }
}

/// Appends `-s 192.0.2.0/24 ` with its `!`.
pub(crate) fn append_addr_match(
    out: &mut String,
    flag: &str,
    m: Option<&AddrMatch>,
    family: Family,
) {
    let Some(m) = m else { return };
    append_negatable_option_name(out, m.negated, flag);
    append_net(out, m.addr, m.mask, family);
}

/// Appends ` ! --name `: blank, negation, option, blank.
pub(crate) fn append_negatable_option_name(out: &mut String, negated: bool, flag: &str) {
    out.push_str(if negated { " ! " } else { " " });
    out.push_str(flag);
    out.push(' ');
}

/// Appends a word, quoted and escaped as `xtables_save_string` does.
pub(crate) fn append_xtables_save_string(out: &mut String, text: &str) {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !text.is_empty() && text.bytes().all(plain) {
        out.push_str(text);
    } else {
        append_quoted(out, text);
    }
}

/// Appends a word in quotes whether it needs them or not.
pub(crate) fn append_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\'') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Appends a word in quotes, as modules do that escape only what they must.
pub(crate) fn append_quoted_minimal_escape(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Appends a word so that it is read back unchanged: quoted only if it has blanks or quotes.
pub(crate) fn append_word_quoted_if_needed(out: &mut String, text: &str) {
    let plain_byte = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '\\';
    if !text.is_empty() && (text.bytes().all(plain_byte) || text.chars().all(plain)) {
        out.push_str(text);
    } else {
        append_xtables_save_string(out, text);
    }
}

/// Appends a device name with its `+`.
pub(crate) fn append_device(out: &mut String, name: &SharedName, prefix: bool) {
    if prefix {
        append_word_quoted_if_needed(out, &format!("{name}+"));
    } else {
        append_word_quoted_if_needed(out, name);
    }
}

/// Appends items with a comma between them.
pub(crate) fn append_comma_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut String, T),
) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(f: impl Fn(&mut String)) -> String {
        let mut s = String::new();
        f(&mut s);
        s
    }

    #[test]
    fn decimal_and_hexadecimal_numbers_are_appended() {
        assert_eq!(shown(|s| append_decimal(s, 0)), "0");
        assert_eq!(shown(|s| append_decimal(s, u64::MAX)), u64::MAX.to_string());
        assert_eq!(shown(|s| append_0x_hex(s, 0)), "0x0");
        assert_eq!(shown(|s| append_0x_hex(s, 0xfe0)), "0xfe0");
    }

    #[test]
    fn ipv4_addresses_are_appended_in_dotted_form() {
        for (addr, text) in [(0, "0.0.0.0"), (0x0a64_096d, "10.100.9.109")] {
            assert_eq!(shown(|s| append_addr(s, Addr(addr), Family::V4)), text);
        }
        let highest = Addr(u32::MAX.into());
        assert_eq!(shown(|s| append_addr(s, highest, Family::V4)), "255.255.255.255");
    }

    #[test]
    fn an_ipv4_compatible_address_is_dotted_and_loopback_is_not() {
        assert_eq!(shown(|s| append_addr(s, Addr(0x0102_0304), Family::V6)), "::1.2.3.4");
        assert_eq!(shown(|s| append_addr(s, Addr(1), Family::V6)), "::1");
    }

    #[test]
    fn strings_are_quoted_only_if_necessary() {
        assert_eq!(shown(|s| append_xtables_save_string(s, "plain-word_1")), "plain-word_1");
        assert_eq!(shown(|s| append_xtables_save_string(s, "it's")), "\"it\\'s\"");
        assert_eq!(shown(|s| append_xtables_save_string(s, "")), "\"\"");
    }
}
