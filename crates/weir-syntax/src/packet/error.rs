//! Errors in the words of a packet.

use std::ops::Range;

/// What is wrong with the words of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketParseError {
    /// What is wrong.
    pub message: String,
    /// Bytes of the text that it is about; empty at its end where something is missing.
    pub span: Range<usize>,
    /// What to write instead.
    pub help: String,
}

impl std::fmt::Display for PacketParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.help)
    }
}

impl std::error::Error for PacketParseError {}
