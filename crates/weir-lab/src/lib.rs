//! The laboratory: a study in, records out.
//!
//! [`execute_study()`] sets up *source — firewall — sink* in network namespaces ([`topology`]), on
//! this machine or on another [`host`], has the kernel send frames through the firewall
//! ([`bpf_program::frame_generator`]), counts what arrives ([`bpf_program::sink`]) and what does
//! not ([`observe`]), subject by subject in an order that cancels drift
//! ([`weir_study::trial_plan`]), and records every trial with its noise ([`observe::core_noise`]).
//!
//! It does not know any firewall. [`weir_study::subject`]s are commands that a file declares,
//! weir's forms among them; rulesets and frames are files that the study's own commands generate
//! ([`weir_study`]).
//!
//! From bottom to top; a module uses only those above it in this list:
//!
//! | module | holds |
//! |---|---|
//! | [`paper_tunings`] | the papers' tunings in today's terms |
//! | [`frames`] | frames to play, made or read |
//! | [`observe`] | counters, cores, reasons of drops, samples |
//! | [`bpf_program`] | BPF programs that send, answer and count |
//! | [`host`] | where rulesets are loaded: a namespace here, or on a host that `ssh` reaches |
//! | [`topology`] | source, firewalls and sink, joined by links |
//! | [`workload`] | what is sent through a firewall |
//! | [`trial`] | one trial: counters before and after, the judgement |
//! | [`schedule`] | a whole run: order, resuming, searching, its records |
//! | [`selftest`] | what the laboratory itself can send and receive on this machine |

pub mod bpf_program;
mod error;
pub mod frames;
pub mod host;
pub mod observe;
pub mod paper_tunings;
pub mod schedule;
pub mod selftest;
pub mod topology;
mod trial;
pub mod workload;

pub use error::{ArrivalUnit, LabError};
pub use schedule::run_progress::RunProgress;
pub use schedule::study_execution::{execute_study, plan_packet_and_probe_trials};
pub use schedule::study_run_options::{AA_TEST_REPETITIONS, StudyRunOptions};
