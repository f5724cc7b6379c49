//! A table under construction, in the form in which the kernel takes it.

use super::hooks::XtablesHooks;

/// struct ipt_replace and struct ip6t_replace up to the entries, on 64-bit machines.
const IPT_REPLACE_HEADER_BYTES: usize = 96;

/// A table that is to replace another: room for the header, then the entries.
#[derive(Clone, Debug)]
pub struct XtablesReplacement {
    buffer: Vec<u8>,
}

impl XtablesReplacement {
    /// No entries yet, with room for `entry_bytes` bytes of them.
    pub fn with_entry_capacity(entry_bytes: usize) -> XtablesReplacement {
        let mut buffer = Vec::with_capacity(IPT_REPLACE_HEADER_BYTES + entry_bytes);
        buffer.resize(IPT_REPLACE_HEADER_BYTES, 0);
        XtablesReplacement { buffer }
    }

    /// Appends an entry.
    pub fn append_entry(&mut self, entry: &[u8]) {
        self.buffer.extend_from_slice(entry);
    }

    /// The length of the entries so far: the offset of the next one.
    pub fn entries_length_bytes(&self) -> usize {
        self.buffer.len() - IPT_REPLACE_HEADER_BYTES
    }

    /// The entries.
    pub fn entries(&self) -> &[u8] {
        &self.buffer[IPT_REPLACE_HEADER_BYTES..]
    }

    /// The entries, to be completed: a jump is known when all chains have their places.
    pub fn entries_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[IPT_REPLACE_HEADER_BYTES..]
    }

    /// Completes the header.
    pub fn write_hooks_and_entry_count(&mut self, hooks: &XtablesHooks, entry_count: u32) {
        let size = self.entries_length_bytes() as u32;
        let words = [hooks.valid_hooks, entry_count, size].into_iter();
        let words = words.chain(hooks.hook_entries).chain(hooks.underflows);
        for (place, word) in self.buffer[32..84].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }

    pub(super) fn header_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..IPT_REPLACE_HEADER_BYTES]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }
}
