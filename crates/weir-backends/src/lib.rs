//! Back ends: the forms of a ruleset, and artefacts that can be loaded without weir.
//!
//! [`compile`](fn@compile) rewrites a firewall by passes, checks each of them
//! ([`weir_passes::run_checked`]), and returns a value ([`Artefact`]): the rules as the tools read
//! them, and which counters add up to which original rule ([`counters`]). [`write()`] writes it to
//! a folder, with the scripts that load it ([`load`]). A back end refuses what it cannot express,
//! by name; it never approximates.

#![forbid(unsafe_code)]

mod compile;
pub mod counters;
pub mod form;
pub mod load;
pub mod memory;
pub mod nft;
pub mod original;
mod read_back;
mod share;
mod steps;
pub mod written;

pub use compile::compile;
pub use form::{CompileError, CompileOptions, ProgressFn, Refusal};
pub use load::write;
pub use weir_artefact::{Artefact, Form};
pub use weir_passes::Counterexample;
pub use weir_passes::check;
