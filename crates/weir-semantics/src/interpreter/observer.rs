//! Observers of a traversal.

use weir_model::{Hook, Name, Packet, Rule, TableName};

use crate::outcome::Verdict;

/// Who looks on while a packet walks: `weir explain`. All methods do nothing by default.
pub(crate) trait Observer<'f> {
    /// A table is entered at a hook.
    fn table(&mut self, _hook: Hook, _table: TableName, _packet: &Packet) {}
    /// The walk is in a chain now, `depth` jumps deep.
    fn chain(&mut self, _chain: &'f Name, _depth: usize) {}
    /// A rule was tried. `failed`: which of its tests did not hold; `None` is a hit.
    fn rule(&mut self, _rule: &'f Rule, _number: u32, _failed: Option<Failed>, _packet: &Packet) {}
    /// A table was left with a verdict.
    fn verdict(&mut self, _verdict: Verdict, _policy: bool) {}
}

/// A test that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Index into the rule's tests.
    pub test: usize,
    /// It dropped the packet immediately.
    pub hotdrop: bool,
}

/// Nobody looks on.
pub(crate) struct Unobserved;

impl Observer<'_> for Unobserved {}
