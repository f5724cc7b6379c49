//! A chain that another program changed.

use std::fmt;

/// What happened to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainDifferenceKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its rules or its policy were changed.
    Changed,
}

/// A chain that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainDifference {
    /// Its name.
    pub chain: String,
    /// What happened to it.
    pub kind: ChainDifferenceKind,
}

impl fmt::Display for ChainDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChainDifferenceKind::Created => "created",
            ChainDifferenceKind::Deleted => "deleted",
            ChainDifferenceKind::Changed => "changed",
        };
        write!(f, "chain {} was {kind}", self.chain)
    }
}
