//! Test support that several crates need.
//!
//! [`console_session`] runs the sessions in documents. [`testdata`] finds `testdata` and the
//! folder of published rulesets. [`random_ruleset`] generates rulesets, [`adversarial_ruleset`]
//! those that make proofs expensive. [`verdict_cases`] reads
//! the cases that every engine runs, [`option_samples`] the values of options. [`test_skip`]
//! reports that this machine cannot run a test. [`TempFolder`] is a temporary folder.
//! [`run_in_pseudo_terminal`] shows what a program writes to a terminal.
//! [`WallAndCpuClock`] measures benchmarks.

#![forbid(unsafe_code)]

pub mod adversarial_ruleset;
mod benchmark_clock;
pub mod console_session;
pub mod live_network;
pub mod option_samples;
mod output_mask;
mod pseudo_terminal;
pub mod random_ruleset;
mod temp_folder;
mod test_skip;
pub mod testdata;
pub mod verdict_cases;

pub use benchmark_clock::WallAndCpuClock;
pub use output_mask::mask_durations_and_paths;
pub use pseudo_terminal::run_in_pseudo_terminal;
pub use temp_folder::TempFolder;
pub use test_skip::{skip_test, skip_without_root};

/// Whether golden files are to be rewritten from what the program does now (`WEIR_BLESS=1`, as
/// `cargo xtask bless` sets it).
pub fn is_blessing_golden_files() -> bool {
    std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1")
}
