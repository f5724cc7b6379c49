//! The test of an IPv4 header field that a `u32` expression spells out.
//!
//! `-m u32 --u32 "6&0xff=0x11"` reads the four bytes from offset 6 of the packet, of which the mask
//! keeps the last one: the protocol. [`U32HeaderTest::from_match`] recognizes the fields that have
//! a match of their own (offsets: RFC 791).

use crate::rule_match::{ExtensionValue, Match, TypedExtensionOption, UnmodelledInputMatch};

/// A test of a header field, as `u32` spells it and a plain match can say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum U32HeaderTest {
    /// The source address under a mask, as `-s` tests it.
    Source {
        /// The address; no bit outside of the mask is set.
        addr: u32,
        /// The mask, not 0.
        mask: u32,
    },
    /// The destination address under a mask, as `-d` tests it.
    Destination {
        /// The address; no bit outside of the mask is set.
        addr: u32,
        /// The mask, not 0.
        mask: u32,
    },
    /// The protocol, as `-p` tests it; not 0, which stands for all protocols there.
    Protocol(u8),
    /// Whether the packet is a second or later fragment (`-f`), or is not (`! -f`).
    IsLaterFragment(bool),
    /// The total length, from and to, both included. The field is 0 in a BIG TCP packet, where
    /// `-m length` takes the packet's own length, which is above 65535: a range that names 0 is
    /// therefore no test of the length.
    Length(u16, u16),
    /// The time to live, as `-m ttl --ttl-eq` tests it.
    Ttl(u8),
}

impl U32HeaderTest {
    /// The header test of a `u32` match of IPv4, and whether the match negates it. `None` for other
    /// matches, and for expressions with several steps, comparisons or ranges.
    pub fn from_match(m: &Match) -> Option<(U32HeaderTest, bool)> {
        let Match::UnmodelledInput(unmodelled) = m else { return None };
        let UnmodelledInputMatch { module: "u32", options } = &**unmodelled else { return None };
        let [TypedExtensionOption { negated, name: "u32", value: ExtensionValue::Text(text) }] =
            &options[..]
        else {
            return None;
        };
        Some((U32HeaderTest::from_expression(text)?, *negated))
    }

    /// The same for an expression in the spelling of `iptables-save`: numbers are hexadecimal.
    pub fn from_expression(text: &str) -> Option<U32HeaderTest> {
        let number = |s: &str| u32::from_str_radix(s.strip_prefix("0x")?, 16).ok();
        let (location, range) = text.split_once('=')?;
        let (offset, mask) = location.split_once('&').unwrap_or((location, "0xffffffff"));
        let (lo, hi) = range.split_once(':').unwrap_or((range, range));
        let (offset, mask) = (number(offset)?, number(mask)?);
        let (lo, hi) = (number(lo)?, number(hi)?);
        let is_single_value = lo == hi;
        let is_masked_addr = is_single_value && lo & !mask == 0 && mask != 0;
        Some(match (offset, mask) {
            (12, _) if is_masked_addr => U32HeaderTest::Source { addr: lo, mask },
            (16, _) if is_masked_addr => U32HeaderTest::Destination { addr: lo, mask },
            (6, 0xff) if is_single_value && (1..=255).contains(&lo) => {
                U32HeaderTest::Protocol(lo as u8)
            }
            (4, 0x1fff) if (lo, hi) == (0, 0) => U32HeaderTest::IsLaterFragment(false),
            (4, 0x1fff) if (lo, hi) == (1, 0x1fff) => U32HeaderTest::IsLaterFragment(true),
            (0, 0xffff) if 0 < lo && lo <= hi && hi <= 0xffff => {
                U32HeaderTest::Length(lo as u16, hi as u16)
            }
            (5, 0xff) if is_single_value && lo <= 0xff => U32HeaderTest::Ttl(lo as u8),
            _ => return None,
        })
    }

    /// The option or module of iptables that says the same.
    pub fn plain_match(self) -> &'static str {
        match self {
            U32HeaderTest::Source { .. } => "-s",
            U32HeaderTest::Destination { .. } => "-d",
            U32HeaderTest::Protocol(_) => "-p",
            U32HeaderTest::IsLaterFragment(_) => "-f",
            U32HeaderTest::Length(..) => "-m length",
            U32HeaderTest::Ttl(_) => "-m ttl",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u32_expressions_that_read_a_header_field_are_recognized() {
        let cases = [
            (
                "0xc&0xffffff00=0xc0000200",
                Some(U32HeaderTest::Source { addr: 0xc000_0200, mask: 0xffff_ff00 }),
            ),
            (
                "0x10=0xc0000201",
                Some(U32HeaderTest::Destination { addr: 0xc000_0201, mask: u32::MAX }),
            ),
            ("0x6&0xff=0x11", Some(U32HeaderTest::Protocol(17))),
            ("0x4&0x1fff=0x0", Some(U32HeaderTest::IsLaterFragment(false))),
            ("0x4&0x1fff=0x1:0x1fff", Some(U32HeaderTest::IsLaterFragment(true))),
            ("0x0&0xffff=0x64:0xc8", Some(U32HeaderTest::Length(100, 200))),
            ("0x5&0xff=0x40", Some(U32HeaderTest::Ttl(64))),
            // Tests without a plain match.
            ("0xc&0xffffff00=0xc0000201", None),
            ("0xc&0x0=0x0", None),
            ("0x6&0xff=0x0", None),
            ("0x6&0xff=0x6,0x11", None),
            ("0x4&0x1fff=0x2:0x1fff", None),
            ("0x0&0xffff=0x0:0x1e", None),
            ("0x6&0xff=0x11&&0x5&0xff=0x40", None),
            ("0x0>>0x16&0x3c@0x0&0xff=0x1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(U32HeaderTest::from_expression(text), expected, "{text}");
        }
    }
}
