//! Positions in a text.

/// Byte range in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of what weir made itself.
    pub const NONE: Span = Span { start: u32::MAX, end: u32::MAX };

    /// The bytes, or `None` for [`Span::NONE`].
    pub fn byte_range(self) -> Option<std::ops::Range<usize>> {
        (self != Span::NONE).then_some(self.start as usize..self.end as usize)
    }
}
