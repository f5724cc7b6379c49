//! Rules, chains and journeys as diagrams: each ends in what becomes of the packet.

pub(crate) mod chain_cache;
pub(crate) mod compose;
pub(crate) mod journey;
pub(crate) mod merge_order;
pub(crate) mod packet_change;
pub(crate) mod rule_and_chain_diagrams;
pub(crate) mod stateful_branches;
pub(crate) mod table_hook_context;
pub(crate) mod target;
pub(crate) mod terminal;
