//! Back ends: the forms of a ruleset, and artefacts that can be loaded without weir.
//!
//! [`compile`](fn@compile) rewrites a firewall by passes, checks each of them
//! ([`weir_passes::run_passes_until_first_refusal`]), and returns a value ([`Artefact`]): the rules
//! as the tools read them, and which counters add up to which original rule
//! ([`iptables_counter_credit`]). [`write_artefact()`] writes it to a folder, with the scripts that
//! load it ([`load_scripts`]). A back end refuses what it cannot express, by name; it never
//! approximates.
//!
//! Modules:
//!
//! - `compile`, `compile_options`, `form_passes`: a firewall to an artefact: options and errors,
//!   the passes of each form;
//! - `nft`: the nft form;
//! - `classifier_form`: chains as blocks of look-ups;
//! - `iptables_counter_credit`, `original_rule_ids`: the counters and the names of original rules;
//! - `form_rule_coverage`: how much of a ruleset a form changed;
//! - `kernel_memory`: the kernel memory that a form needs;
//! - `load_scripts`: `load.sh` and `unload.sh`;
//! - `text_round_trip`, `artefact_firewall`: whether the text is what was checked; a written artefact as
//!   a firewall.

#![forbid(unsafe_code)]

pub mod artefact_firewall;
pub mod classifier_form;
mod compile;
pub mod compile_options;
mod form_passes;
mod form_rule_coverage;
pub mod iptables_counter_credit;
pub mod kernel_memory;
pub mod load_scripts;
pub mod nft;
pub mod original_rule_ids;
mod text_round_trip;

pub use compile::compile;
pub use compile_options::{CompileError, CompileOptions, FormRefusal, FractionDoneFn};
pub use load_scripts::write_artefact;
pub use weir_artefact::{Artefact, CompiledForm};
pub use weir_passes::Counterexample;
pub use weir_passes::equivalence_check;
