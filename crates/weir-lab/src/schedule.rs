//! A whole run of a study: preparation, the order of trials, resuming an interrupted run, searching
//! for a rate.

pub(crate) mod clock;
pub(crate) mod files;
pub mod kernels;
pub(crate) mod load;
pub(crate) mod measure;
pub(crate) mod options;
pub(crate) mod probe;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod search;
mod setup;
pub(crate) mod state;
pub(crate) mod workloads;
