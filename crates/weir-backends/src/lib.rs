//! Forms of a ruleset, and the artefact that loads one without weir.
//!
//! [`compile`](fn@compile) rewrites a firewall by passes, each of them checked
//! ([`weir_passes::run_checked`]), and gives it back as a value ([`Artefact`]): the rules as the
//! tools read them, and which counters add up to which original rule ([`counters`]). [`write()`]
//! puts it into a folder with the scripts that load it ([`load`]). A back end refuses what it cannot say, by name; it never approximates.

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
