//! One file per command.

pub mod bench_classify;
mod bench_ruleset;
pub mod boot;
mod boot_unit;
pub mod calibrate;
pub mod check;
pub mod compile;
pub mod compile_classifier;
pub mod diff;
pub mod doctor;
pub mod example;
pub mod explain;
pub mod fmt;
pub mod form_output;
pub mod generations;
pub mod lab;
pub mod lab_list_and_index;
pub mod lab_referee;
pub mod lab_run_per_kernel;
pub mod lab_run_reports;
pub mod lab_selftest;
pub mod lab_serve;
pub mod optimize;
pub mod paper_tunings;
pub mod policy_test;
pub mod serve;
pub mod set;
pub mod set_list;
pub mod status;
pub mod traffic;
pub mod verify;

/// The destination of frames that are written to a file: a locally administered address, which a
/// program that plays the file replaces.
const PCAP_DESTINATION_MAC: weir_packet::Mac = [2, 0, 0, 0, 0, 1];

/// How a command ended that could be carried out: exit status 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YesNoExitStatus {
    /// Yes: it holds, it is done.
    Yes,
    /// No: findings, differences, a claim missed.
    No,
}
