//! What the credit of rules and elements names original rules by.

use smallvec::SmallVec;

/// Index of a rule of the original ruleset in reading order, per family.
///
/// It stays with the rule through every pass, so that a form can say which counters add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginalRuleIndex(pub u32);

/// Original rules whose counters a counter is part of. Nearly every rule has one: it takes no memory
/// of its own.
pub type CreditedOriginals = SmallVec<[OriginalRuleIndex; 4]>;
