//! The data of a match or target, read by offset.

use weir_model::rule_match::{ExtensionValue, Negatable, TypedExtensionOption};
use weir_model::{Addr, Family};

use crate::xtables::entry_offsets::{read_text, read_u16, read_u32, read_u64};

/// The data of a match or target: a C structure that has at least the length that was requested.
#[derive(Clone, Copy)]
pub(super) struct ExtensionBytes<'e>(pub(super) &'e [u8]);

impl<'e> ExtensionBytes<'e> {
    /// The structure; `None` where the data are shorter.
    pub(super) fn of_length(data: &'e [u8], length: usize) -> Option<ExtensionBytes<'e>> {
        data.get(..length).map(ExtensionBytes)
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn flag(self, at: usize) -> bool {
        self.0[at] != 0
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        read_u16(self.0, at)
    }

    pub(super) fn be16(self, at: usize) -> u16 {
        u16::from_be(read_u16(self.0, at))
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        read_u32(self.0, at)
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        read_u64(self.0, at)
    }

    /// A text with a zero byte in its `room`.
    pub(super) fn text(self, at: usize, room: usize) -> Option<String> {
        read_text(&self.0[at..at + room]).map(str::to_owned)
    }

    /// union nf_inet_addr.
    pub(super) fn addr(self, at: usize, family: Family) -> Addr {
        read_addr(&self.0[at..], family)
    }
}

/// An address in network order; four or sixteen bytes.
pub(super) fn read_addr(bytes: &[u8], family: Family) -> Addr {
    let length = match family {
        Family::V4 => 4,
        Family::V6 => 16,
    };
    Addr(bytes[..length].iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

/// A value with a `!` before it or not.
pub(super) fn negatable<T>(negated: bool, value: T) -> Negatable<T> {
    Negatable { negated, value }
}

/// Options of a module in the order of printing.
#[derive(Default)]
pub(super) struct OptionList(pub(super) Vec<TypedExtensionOption>);

impl OptionList {
    pub(super) fn push(&mut self, name: &'static str, value: ExtensionValue) {
        self.push_negatable(false, name, value);
    }

    pub(super) fn push_negatable(
        &mut self,
        negated: bool,
        name: &'static str,
        value: ExtensionValue,
    ) {
        self.0.push(TypedExtensionOption { negated, name, value });
    }

    pub(super) fn push_number_unless(&mut self, usual: u64, name: &'static str, value: u64) {
        if value != usual {
            self.push(name, ExtensionValue::Number(value));
        }
    }

    pub(super) fn push_flag_if(&mut self, given: bool, name: &'static str) {
        if given {
            self.push(name, ExtensionValue::Flag);
        }
    }

    pub(super) fn push_text_unless_empty(&mut self, name: &'static str, text: String) {
        if !text.is_empty() {
            self.push(name, ExtensionValue::Text(text));
        }
    }
}
