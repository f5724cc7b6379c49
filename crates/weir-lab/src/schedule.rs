//! A whole run of a study: preparation, the order of trials, resuming an interrupted run, searching
//! for a rate.

mod conntrack_limits;
pub(crate) mod generated_files;
mod lookup_report;
mod lookup_trials;
pub(crate) mod packet_trials;
pub mod per_kernel_runs;
pub(crate) mod probe_trials;
mod record_folder_and_run_json;
pub(crate) mod resume;
pub(crate) mod ruleset_load_timing;
pub(crate) mod run_progress;
mod run_setup;
pub(crate) mod run_state;
pub(crate) mod study_execution;
pub(crate) mod study_run_options;
pub(crate) mod subject_rate_search;
pub(crate) mod workload_selection;
