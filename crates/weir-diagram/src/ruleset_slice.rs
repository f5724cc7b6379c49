//! A part of a ruleset, whose rules are known in the whole.

use weir_model::{Chain, Rule, Ruleset};

/// The rules of one ruleset that may matter to a difference.
#[derive(Debug)]
pub(crate) struct RulesetSlice {
    /// Its tables, each with all of its chains, in their order.
    pub ruleset: Ruleset,
    /// By chain, table after table: the index that each rule has in the whole chain.
    pub original_indexes: Vec<Vec<usize>>,
}

impl RulesetSlice {
    /// Each of its rules, behind that of the whole ruleset.
    pub fn originals_and_copies<'r>(
        &'r self,
        whole: &'r Ruleset,
    ) -> impl Iterator<Item = (&'r Rule, &'r Rule)> {
        let chains = |ruleset: &'r Ruleset| ruleset.tables.iter().flat_map(|table| &table.chains);
        let of_chain = |((whole, slice), indexes): ((&'r Chain, &'r Chain), &'r Vec<usize>)| {
            indexes.iter().zip(&slice.rules).map(|(at, copy)| (&whole.rules[*at], copy))
        };
        chains(whole).zip(chains(&self.ruleset)).zip(&self.original_indexes).flat_map(of_chain)
    }
}
