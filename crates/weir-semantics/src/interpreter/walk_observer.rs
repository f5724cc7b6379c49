//! Observers of a traversal.

use weir_model::{Hook, Packet, Rule, SharedName, TableName};

use crate::outcome::Verdict;

/// Who looks on while a packet walks: `weir explain`. All methods do nothing by default.
pub(crate) trait WalkObserver<'f> {
    /// Whether rules that cannot match may be skipped without
    /// [`on_rule_tried`](WalkObserver::on_rule_tried).
    const IGNORES_FAILED_RULES: bool = false;
    /// A table is entered at a hook.
    fn on_table_entered(&mut self, _hook: Hook, _table: TableName, _packet: &Packet) {}
    /// The walk is in a chain now, `depth` jumps deep.
    fn on_chain_entered_or_resumed(&mut self, _chain: &'f SharedName, _depth: usize) {}
    /// A rule was tried. `failed`: which of its tests did not hold; `None` is a hit.
    fn on_rule_tried(
        &mut self,
        _rule: &'f Rule,
        _number: u32,
        _failed: Option<FailedOrHotdropTest>,
        _packet: &Packet,
    ) {
    }
    /// A table was left with a verdict.
    fn on_table_left(&mut self, _verdict: Verdict, _policy: bool) {}
}

/// A test that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedOrHotdropTest {
    /// Index into the rule's tests.
    pub test_index: usize,
    /// It dropped the packet immediately.
    pub hotdrop: bool,
}

/// Nobody looks on.
pub(crate) struct NoopObserver;

impl WalkObserver<'_> for NoopObserver {
    const IGNORES_FAILED_RULES: bool = true;
}
