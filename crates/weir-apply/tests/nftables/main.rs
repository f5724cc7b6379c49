//! The nft form, loaded by weir in one transaction, with `nft -f` as oracle.

mod compiled_rulesets;
mod kernel_objects;
mod loaded_alike;
mod statements;
mod tool_rulesets;
mod transaction;
