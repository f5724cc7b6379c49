//! Study files as values: what is measured, on what, at which points, and in which order.
//!
//! A study is a folder `studies/<author><year>-<topic>` with a `study.toml`; its [`subject`]s are
//! declared in `subjects.toml` next to the folder, and a run over two machines has a file of
//! [`lab_hosts_file`]. A file is read completely or refused with file and line: an unknown field, a
//! subject or an axis that does not exist, a combination that no workload can run.
//!
//! Nothing is executed here, and no namespace is touched. `weir-lab` runs what these values
//! describe; [`claims_registry`] compares the claims of all studies with the committed records.
//!
//! Modules:
//!
//! - `study`, `study_loader`, `loaded_study`, `study_checks`: a study, its file and its folder, and
//!   what its parts require of each other;
//! - `subject`, `command_variables`, `file_generator`, `program_search_path`: what is measured:
//!   commands, their variables, and the files that they read;
//! - `traffic`, `supported_workload_features`, `endpoints`, `connection_path`, `client_kind`,
//!   `probe_plan`: what is sent, by whom, and along which path;
//! - `trial_plan`, `aa_study`: the order of trials; a subject compared with itself;
//! - `run_request`: what a run requests of a study;
//! - `lab_hosts_file`, `firewall_devices`: a study over two machines;
//! - `value_rules`, `value_rule_tables`, `value_limits`: which values the fields of all files may
//!   have;
//! - `toml_text`, `toml_value_error`, `error`: TOML to values, and errors with file and line;
//! - `claims_registry`: the claims of all studies.

#![forbid(unsafe_code)]

mod aa_study;
pub mod claims_registry;
pub mod client_kind;
mod command_variables;
pub mod connection_path;
mod endpoints;
mod error;
mod file_generator;
mod firewall_devices;
pub mod lab_hosts_file;
mod loaded_study;
mod probe_plan;
mod program_search_path;
mod run_request;
mod study;
mod study_checks;
mod study_loader;
pub mod subject;
pub mod supported_workload_features;
mod toml_text;
mod toml_value_error;
pub mod traffic;
pub mod trial_plan;
mod value_limits;
mod value_rule_tables;
mod value_rules;

pub use client_kind::ClientKind;
pub use connection_path::ConnectionPath;
pub use endpoints::Endpoints;
pub use error::StudyError;
pub use file_generator::FileGenerator;
pub use firewall_devices::FirewallDevices;
pub use lab_hosts_file::LabHostsFile;
pub use loaded_study::LoadedStudy;
pub use probe_plan::{ProbeKindAndLoad, ProbePlan};
pub use program_search_path::ProgramSearchPath;
pub use run_request::PresetAndRunMode;
pub use study::{AA_PRESET_NAME, AaControl, AxisDefinition, NoiseLimits, PresetDefinition, Study};
pub use study_loader::load_study;
pub use subject::{Subject, Subjects};
pub use supported_workload_features::WorkloadFeatures;
pub use traffic::{ConcurrencyTarget, ConnectionLoad, KernelSocketClients, Traffic};
pub use trial_plan::{PlannedTrial, SubjectCopy};
