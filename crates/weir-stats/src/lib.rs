//! Records of measurements, and estimates computed from them.
//!
//! A *run* of a study is a folder of files: [`folder`] reads and writes it. [`Run`] is what
//! was done and where, [`Trial`] is one measurement, [`Claim`] is a sentence that a study tests.
//! [`Quantity`] is what is read out of a trial, [`series`] picks samples, [`estimate`] makes
//! intervals of samples, and [`claim::evaluate`] says whether a claim was kept.
//!
//! Nothing here reads a clock, and nothing is random without a seed: the same records give the same
//! numbers on every machine.
//!
//! Words: a *study* has *scenarios* (points of a grid of axes); each scenario is measured for each
//! *subject* in *trials*; what a trial yields is a *sample*; samples become an *estimate*. A
//! *block* is one pass over the whole grid, each subject twice, in order and back (ABBA), so that
//! a ratio is made of values that were measured close to each other.

#![forbid(unsafe_code)]

pub mod claim;
pub mod collected;
pub mod compare;
pub mod connections;
pub mod core_shares;
pub mod endpoint_totals;
mod error;
pub mod estimate;
pub mod folder;
pub mod per_endpoint;
pub mod probe;
pub mod probe_totals;
pub mod quantity;
mod record_file;
pub mod run;
pub mod scenario;
pub mod search;
pub mod series;
pub mod spectrum;
pub mod student;
pub mod trial;

pub use claim::{Bounds, By, Claim, ClaimOutcome, ClaimRecord, ClaimTest, SubjectPoint};
pub use collected::{Collected, ConntrackTable, CoreWork};
pub use connections::{Client, Close, Connections, Failure};
pub use error::RecordError;
pub use estimate::{Estimate, RatioDifference};
pub use folder::Record;
pub use per_endpoint::{Member, Volume};
pub use probe::{BackgroundLoad, Probe, ProbeKind, Stream};
pub use quantity::Quantity;
pub use run::{
    Environment, HostRecord, NoiseFloor, Paper, PaperFigure, PaperValue, Preset, RulesetRecord,
    Run, RunSubject, ScenarioAxis, TrialCounts, within_limit,
};
pub use scenario::{Coordinate, Scenario};
pub use spectrum::{Quantile, Spectrum};
pub use trial::{DropCount, Measured, Noise, State, Trial, TrialKind};
