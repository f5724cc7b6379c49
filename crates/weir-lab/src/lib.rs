//! The laboratory: a study in, records out.
//!
//! [`run()`] sets up *source — firewall — sink* in network namespaces ([`topology`]), has the
//! kernel play frames through the firewall ([`generator`]), counts what arrives ([`sink`]) and
//! what does not ([`counters`], [`drops`]), subject by subject in an order that cancels drift
//! ([`weir_study::plan`]), and writes every trial down, noise included ([`cpu`]).
//!
//! It knows no firewall. [`weir_study::subject`]s are commands that a file declares, weir's forms among them;
//! rulesets and frames are files that the study's own commands make ([`weir_study`]).

mod bench;
mod collect;
mod commands;
mod connecting;
pub mod connections;
pub mod counters;
pub mod cpu;
pub mod drops;
mod echo;
pub mod environment;
mod error;
mod files;
pub mod flows;
mod following;
pub mod frames;
pub mod generator;
mod histogram;
pub mod hosts;
mod judge;
mod live;
mod loading;
pub(crate) mod looping;
mod members;
mod mixing;
mod preflight;
pub mod probe;
pub(crate) mod probing;
mod records;
mod resume;
mod run;
mod sampling;
mod searching;
pub mod selftest;
pub mod sink;
pub mod sockets;
mod streaming;
pub mod topology;
mod trials;
pub mod tune;
mod watch;

pub use error::LabError;
pub use run::{Progress, RunOptions, SELF_TESTS, planned, run};
