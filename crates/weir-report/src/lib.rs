//! Records to a page that people look at rather than read, and to a few lines for a terminal.
//!
//! [`page`](fn@page) writes one HTML file that needs nothing else: styles, script, drawings and the
//! data are inside, and it is whole without its script; [`page_of_runs`] draws several runs of a
//! study in one. Text from records is escaped wherever it stands. [`summary`](fn@summary) says the
//! same in a few lines. Both show what is in the records and nothing else; the one thing that comes
//! from elsewhere is an [`Extra`] section, which says of itself what it is.

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
