//! A whole run of a study: preparation, the order of trials, resuming an interrupted run, searching
//! for a rate.

pub(crate) mod generated_files;
pub mod kernel_runs;
pub(crate) mod load;
pub(crate) mod measure;
pub(crate) mod options;
pub(crate) mod probe;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod run_progress;
pub(crate) mod run_state;
pub(crate) mod search;
mod setup;
pub(crate) mod workloads;
