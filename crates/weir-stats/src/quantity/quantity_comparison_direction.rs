//! How runs are compared by a quantity.

/// Which direction of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterDirection {
    /// Rates.
    More,
    /// Times and memory.
    Less,
}

/// How runs are compared by a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparisonNameAndDirection {
    /// The quantity's name in a comparison.
    pub name: &'static str,
    /// Which change is an improvement.
    pub better: BetterDirection,
}
