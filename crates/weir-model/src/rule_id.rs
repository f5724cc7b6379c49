//! Which rule of the original ruleset a counter belongs to.

/// Identity of a rule of the original ruleset: its index in reading order, per family.
///
/// It stays with the rule through every pass, so that a form can say which counters add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);
