//! Binary decision diagrams: their nodes, and how they are combined.

pub(crate) mod balanced_merge;
pub(crate) mod node_store;
pub(crate) mod operators;
#[cfg(test)]
pub(crate) mod reference_bdd_agreement;
