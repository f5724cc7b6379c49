//! BPF programs: storage of objects, attachment, per-CPU values, and test runs with live frames.
//!
//! This crate does not know what a program does. Programs, their skeletons and the meaning of their
//! maps belong to the crates that use it.

mod error;
pub mod object_storage_and_attach;
pub mod per_cpu_map;
mod stopped_test_run_interrupter;
pub mod test_run;

pub use error::BpfError;
pub use stopped_test_run_interrupter::StoppedTestRunInterrupter;
