//! Turns records into an HTML page, and into a few lines for a terminal.
//!
//! [`render_page`] writes one HTML file without external references: styles, script, drawings and
//! the data are inside, and it is complete without its script; [`render_page_with_run_overlay`]
//! draws several runs of a study together. All text from records is escaped. [`render_summary`] is
//! the same in a few lines. Both show only what is in the records, except for an [`ExtraSection`]
//! section, which states its own source.

#![forbid(unsafe_code)]

mod axis_scale;
mod chart;
mod embedded_records;
mod extra_section;
mod headline_and_trust;
mod number_format;
mod page;
mod report_model;
#[cfg(test)]
mod sample_records;
mod series_style;
mod study_index;
mod terminal_summary;

pub use extra_section::{ExtraSection, ExtraTable};
pub use number_format::format_estimate_with_unit;
pub use page::{NamedRun, render_page, render_page_with_run_overlay};
pub use study_index::{render_index, report_file_name, trials_jsonl_file_name};
pub use terminal_summary::render_summary;
