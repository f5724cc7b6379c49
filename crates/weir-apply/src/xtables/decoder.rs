//! Entries of the kernel as rules of the model: the inverse of the encoder.
//!
//! A rule is decoded field by field, and then encoded again: where the bytes differ, the entry has
//! something that the model does not hold, and the rule is refused by the name of its match or
//! target. So each decoder reads what it needs and does not have to check the rest.

mod conntrack_matches;
mod conntrack_targets;
mod extension_bytes;
mod matches;
pub(crate) mod rule_decoder;
mod set_modules;
mod stateful_matches;
mod table_decoder;
mod targets;
mod u32_match;
mod unmodelled_input_matches;

pub use self::rule_decoder::{KernelExtension, KernelExtensionKind};
pub use self::table_decoder::decode_table;
