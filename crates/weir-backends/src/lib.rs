//! Forms of a ruleset, and the artefact that loads one without weir.
//!
//! [`compile`](fn@compile) rewrites a firewall by passes, each of them checked
//! ([`weir_passes::run_checked`]), and describes the folder that loads it ([`Artefact`]): the rules
//! as the tools read them, the scripts ([`load`]), and which counters add up to which original rule
//! ([`counters`]). A back end refuses what it cannot say, by name; it never approximates.

#![forbid(unsafe_code)]

pub use weir_artefact::folder as artefact;
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
pub use form::{CompileError, CompileOptions, Form, Progress, Refusal};
pub use weir_artefact::{Artefact, ArtefactFile, ReadError, WriteError};
pub use weir_passes::Counterexample;
pub use weir_passes::check;
