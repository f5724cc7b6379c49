//! Study files as values: what is measured, on what, at which points, and in which order.
//!
//! A study is a folder `studies/<author><year>-<topic>` with a `study.toml`; its [`subject`]s are
//! declared in `subjects.toml` next to the folder, and a run over two machines has a file of
//! [`hosts`]. A file is read completely or refused with file and line: an unknown field, a subject
//! or an axis that does not exist, a combination that no workload can run.
//!
//! Nothing is executed here, and no namespace is touched. `weir-lab` runs what these values
//! describe; [`registry`] compares the claims of all studies with the committed records.

#![forbid(unsafe_code)]

mod against_itself;
mod check;
pub mod client;
mod devices;
mod endpoints;
mod error;
pub mod hosts;
mod load;
mod loaded;
pub mod path;
pub mod plan;
mod probe;
mod programs;
pub mod registry;
mod request;
mod source;
mod study;
pub mod subject;
mod toml_text;
pub mod traffic;
pub mod workload;

pub use client::ClientKind;
pub use devices::Devices;
pub use endpoints::Endpoints;
pub use error::StudyError;
pub use hosts::Hosts;
pub use load::load;
pub use loaded::LoadedStudy;
pub use path::ConnectionPath;
pub use plan::{PlannedTrial, Variant};
pub use probe::{ProbeCase, ProbePlan};
pub use programs::ProgramPath;
pub use request::RunRequest;
pub use source::GeneratedFile;
pub use study::{AGAINST_ITSELF, AaControl, AxisText, NoiseLimits, PresetText, Study};
pub use subject::{Subject, Subjects};
pub use traffic::{ConnectionLoad, Hold, LoopbackUdp, Sockets, Traffic};
pub use workload::{WorkloadFeature, WorkloadKind};
