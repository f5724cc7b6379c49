//! Turns records into an HTML page, and into a few lines for a terminal.
//!
//! [`page`](fn@page) writes one HTML file without external references: styles, script, drawings and
//! the data are inside, and it is complete without its script; [`page_of_runs`] draws several runs
//! of a study together. All text from records is escaped. [`summary`](fn@summary) is the same in a
//! few lines. Both show only what is in the records, except for an [`Extra`] section, which states
//! its own source.

#![forbid(unsafe_code)]

mod chart;
mod data;
mod extra;
mod index;
mod number;
mod page;
mod report_model;
#[cfg(test)]
mod sample;
mod scale;
mod series_style;
mod summary;
mod verdict;

pub use extra::{Extra, ExtraTable};
pub use index::{index, report_file, trials_file};
pub use number::measured;
pub use page::{NamedRun, page, page_of_runs};
pub use summary::summary;
