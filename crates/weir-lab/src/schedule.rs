//! A whole run of a study: what is made first, the order of trials, going on with an interrupted
//! run, the search for a rate.

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
