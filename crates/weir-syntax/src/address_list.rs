//! Lists of addresses in the format of published block lists: one address, prefix or range per
//! line.
//!
//! ```text
//! ; Comments begin with ; or #, also after an entry.
//! 192.0.2.1
//! 198.51.100.0/24 ; SBL1
//! 203.0.113.10-203.0.113.20
//! ```
//!
//! A list has the family of the set that it is for. A prefix with bits beyond its length and a
//! range from a higher to a lower address are errors, because the intended value is unknown.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_model::{Addr, Family, Span};

use crate::diagnostic::Diagnostic;

/// First and last address.
pub type AddressRange = (u128, u128);

/// Reads a list. Entries are in the order of the text.
///
/// ```
/// use weir_model::Family;
/// use weir_syntax::address_list::parse_address_list;
/// let text = "192.0.2.0/31 # two\n192.0.2.7-192.0.2.9\n";
/// let ranges = parse_address_list(text, Family::V4).unwrap();
/// assert_eq!(ranges, [(0xc000_0200, 0xc000_0201), (0xc000_0207, 0xc000_0209)]);
/// ```
///
/// # Errors
/// Every line that is not an entry of this family, with its place and a cure.
pub fn parse_address_list(
    text: &str,
    family: Family,
) -> Result<Vec<AddressRange>, Vec<Diagnostic>> {
    let mut ranges = Vec::with_capacity(text.len() / 16);
    let mut errors = Vec::new();
    if u32::try_from(text.len()).is_err() {
        let span = Span { start: 0, end: 0 };
        return Err(vec![Diagnostic::new("text of 4 GiB or more", span).with_help("split it")]);
    }
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let entry = line.split(['#', ';']).next().unwrap_or_default();
        let trimmed = entry.trim_ascii();
        if !trimmed.is_empty() {
            match parse_address_list_entry(trimmed, family) {
                Ok(range) => ranges.push(range),
                Err(wrong) => {
                    let start = line_start + (entry.len() - entry.trim_ascii_start().len());
                    let span = Span { start: start as u32, end: (start + trimmed.len()) as u32 };
                    errors.push(Diagnostic::new(wrong.message, span).with_help(wrong.cure));
                }
            }
        }
        line_start += line.len();
    }
    if errors.is_empty() { Ok(ranges) } else { Err(errors) }
}

/// Whether a word is an entry of a list, of either family.
pub fn is_address_list_entry(word: &str) -> bool {
    [Family::V4, Family::V6]
        .into_iter()
        .any(|family| parse_address_list_entry(word, family).is_ok())
}

/// Why a word is not an entry.
struct AddressListEntryError {
    message: String,
    cure: String,
}

fn parse_address_list_entry(
    entry: &str,
    family: Family,
) -> Result<AddressRange, AddressListEntryError> {
    let reject = |message: String, cure: String| Err(AddressListEntryError { message, cure });
    if let Some((addr, len)) = entry.split_once('/') {
        let addr = parse_address(addr, family)?;
        let bits = family.addr_bits();
        let is_number = len.len() <= 3 && len.bytes().all(|byte| byte.is_ascii_digit());
        let Some(len) = len.parse().ok().filter(|len| is_number && *len <= bits) else {
            return reject(
                format!("{entry} does not have a prefix length from 0 to {bits}"),
                "write the number of leading bits after the slash, e.g. 192.0.2.0/24".to_owned(),
            );
        };
        let mask = family.netmask(len);
        if addr & !mask != 0 {
            let (first, host) = (Addr(addr & mask).display(family), Addr(addr).display(family));
            return reject(
                format!("{entry} has bits beyond its prefix length"),
                format!("write {first}/{len} for the prefix, or {host} for the address"),
            );
        }
        return Ok((addr, addr | (!mask & family.max_addr())));
    }
    if let Some((first, last)) = entry.split_once('-') {
        let (first_text, last_text) = (first.trim_ascii(), last.trim_ascii());
        let first = parse_address(first_text, family)?;
        let last = parse_address(last_text, family)?;
        if first > last {
            return reject(
                format!("the range {entry} ends before it starts"),
                format!("write {last_text}-{first_text} if that is intended"),
            );
        }
        return Ok((first, last));
    }
    parse_address(entry, family).map(|addr| (addr, addr))
}

fn parse_address(text: &str, family: Family) -> Result<u128, AddressListEntryError> {
    let parsed = match family {
        Family::V4 => text.parse::<Ipv4Addr>().map(|addr| u128::from(u32::from(addr))).ok(),
        Family::V6 => text.parse::<Ipv6Addr>().map(u128::from).ok(),
    };
    parsed.ok_or_else(|| {
        let (name, example, is_other) = match family {
            Family::V4 => ("IPv4", "192.0.2.1", text.parse::<Ipv6Addr>().is_ok()),
            Family::V6 => ("IPv6", "2001:db8::1", text.parse::<Ipv4Addr>().is_ok()),
        };
        AddressListEntryError {
            message: format!("{text} is not an {name} address"),
            cure: match is_other {
                true => format!("the set is for {name}: use a list for a set of the other family"),
                false => format!(
                    "write an address such as {example}, a prefix or a range FIRST-LAST, and \
                     start comments with # or ;"
                ),
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str, family: Family) -> Vec<(usize, String)> {
        let errors = parse_address_list(text, family).expect_err("a wrong list");
        errors.iter().map(|error| (error.line_number(text), error.message.clone())).collect()
    }

    #[test]
    fn entries_of_each_kind_are_read_with_comments_blanks_and_crlf() {
        let text = "# list\r\n\r\n 192.0.2.1 \r\n192.0.2.0/24;SBL1\n0.0.0.0/0\n\
                    192.0.2.1 - 192.0.2.3 # three\n;\n192.0.2.9";
        let ranges = parse_address_list(text, Family::V4).expect("entries");
        let first = 0xc000_0200;
        assert_eq!(
            ranges,
            [
                (first + 1, first + 1),
                (first, first + 255),
                (0, u128::from(u32::MAX)),
                (first + 1, first + 3),
                (first + 9, first + 9)
            ]
        );
        let text = "2001:db8::/32\n::1\n2001:db8::1-2001:db8::3\n::/0\n";
        let ranges = parse_address_list(text, Family::V6).expect("entries");
        assert_eq!(ranges[1], (1, 1));
        assert_eq!(ranges[2].1 - ranges[2].0, 2);
        assert_eq!(ranges[3], (0, u128::MAX));
        assert_eq!(parse_address_list("", Family::V4), Ok(Vec::new()));
    }

    #[test]
    fn every_rejected_line_is_reported() {
        let text = "192.0.2.1\n192.0.2.1/24\n192.0.2.0/33\n192.0.2.3-192.0.2.1\n010.0.0.1\n\
                    2001:db8::1\nexample.org\n192.0.2.0/+8\n192.0.2.1 192.0.2.2\n1.2.3\n";
        let lines: Vec<usize> = errors(text, Family::V4).iter().map(|error| error.0).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(errors("192.0.2.1\n", Family::V6).len(), 1);
        assert_eq!(errors("fe80::1%eth0\n", Family::V6).len(), 1);
    }

    #[test]
    fn the_marker_is_at_the_entry() {
        let text = "192.0.2.1\n  192.0.2.9/24 # why\n";
        let errors = parse_address_list(text, Family::V4).expect_err("a wrong list");
        let range = errors[0].span.byte_range().expect("a place");
        assert_eq!(&text[range], "192.0.2.9/24");
        let cure = errors[0].help.as_deref().expect("a cure");
        assert_eq!(cure, "write 192.0.2.0/24 for the prefix, or 192.0.2.9 for the address");
    }

    #[test]
    fn a_word_of_the_command_line_is_an_entry_or_the_name_of_a_file() {
        for entry in ["192.0.2.1", "2001:db8::/32", "192.0.2.1-192.0.2.7", "0.0.0.0/0"] {
            assert!(is_address_list_entry(entry), "{entry}");
        }
        for file in ["list.txt", "./192.0.2.1", "-", "/etc/list", "192.0.2.1.list"] {
            assert!(!is_address_list_entry(file), "{file}");
        }
    }
}
