//! Test support that several crates need.
//!
//! [`console`] runs the sessions in documents. [`data`] finds `testdata` and the folder of
//! published rulesets. [`random`] generates rulesets. [`verdicts`] reads the cases that every
//! engine runs. [`lacking`] reports that this machine cannot run a test. [`Folder`] is a temporary
//! folder. [`Clock`] measures benchmarks.

#![forbid(unsafe_code)]

mod clock;
pub mod console;
pub mod data;
mod folder;
mod lacking;
mod mask;
pub mod random;
pub mod verdicts;

pub use clock::Clock;
pub use folder::Folder;
pub use lacking::{lacking, lacks_root};
pub use mask::mask;

/// Whether golden files are to be rewritten from what the program does now (`WEIR_BLESS=1`, as
/// `cargo xtask bless` sets it).
pub fn is_blessing() -> bool {
    std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1")
}
