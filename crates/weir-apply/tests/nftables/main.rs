//! The nft form, loaded by weir in one transaction, with `nft -f` as oracle.

mod compiled_rulesets;
mod kernel_objects;
mod listing_agreement;
mod statements;
mod tool_rulesets;
mod transaction;
