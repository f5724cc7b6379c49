//! All passes, one file per pass, by name.
//!
//! In the order of [`ALL_PASSES`] each pass helps the next: first dead rules are removed, then
//! tests become cheaper, then the shape of chains changes.

pub mod chain_tree;
pub mod cheaper_match;
pub mod early_drop;
pub mod fold_into_set;
pub mod inline_chain;
pub mod merge_adjacent;
pub mod notrack;
pub mod remove_duplicates;
pub mod remove_shadowed;
pub mod reorder_by_hits;
pub mod split_by_protocol;

use crate::Pass;

/// Every pass over iptables rulesets, in the order in which they are best run.
pub const ALL_PASSES: [&dyn Pass; 11] = [
    &remove_duplicates::RemoveDuplicatesPass,
    &remove_shadowed::RemoveShadowedPass,
    &cheaper_match::CheaperMatchPass,
    &inline_chain::InlineChainPass,
    &merge_adjacent::MergeAdjacentPass,
    &reorder_by_hits::ReorderByHitsPass,
    &notrack::NotrackPass,
    &early_drop::EarlyDropPass,
    &fold_into_set::FoldIntoSetPass,
    &split_by_protocol::SplitByProtocolPass,
    &chain_tree::ChainTreePass,
];

/// The pass that the nft form is: runs of rules that test one field become verdict maps. It is not
/// among [`ALL_PASSES`], for what it makes is not an iptables ruleset.
pub const FOLD_INTO_VERDICT_MAP_PASS_NAME: &str = "fold_into_verdict_map";

/// The pass of that name.
///
/// ```
/// use weir_passes::passes;
/// assert_eq!(passes::find_pass("chain_tree").unwrap().name(), "chain_tree");
/// assert!(passes::find_pass("no_such_pass").is_none());
/// ```
pub fn find_pass(name: &str) -> Option<&'static dyn Pass> {
    ALL_PASSES.into_iter().find(|p| p.name() == name)
}
