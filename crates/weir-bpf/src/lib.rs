//! BPF programs: where an object is kept, how it is attached, values that each core has of its own,
//! and test runs with live frames.
//!
//! Nothing here knows what a program does. Programs, their skeletons and what their maps mean
//! belong to the crates that use this one.

mod error;
pub mod object;
pub mod per_cpu;
pub mod test_run;
mod watch;

pub use error::BpfError;
pub use watch::Watcher;
