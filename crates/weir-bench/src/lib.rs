//! Rates of packet classifiers, measured only where their answers are right.
//!
//! A [subject](BenchSubject) finds the first deciding rule of packets, and perhaps all matching
//! rules. [`find_wrong_answers()`] compares the answers of subjects on a [trace](generate_trace())
//! packet by packet. [`measure_subjects()`] then measures the others on one core, in rounds in
//! which each subject has its turn, so that other load on the machine falls on all of them.

#![cfg_attr(not(feature = "rte-acl"), forbid(unsafe_code))]

mod answer_check;
mod engine_subject;
mod measurement;
mod packet_trace;
#[cfg(feature = "rte-acl")]
pub mod rte_acl;
mod subject;

pub use answer_check::{
    AnswerCheckResult, LINEAR_FILTER_TESTS_MAX, WrongAnswer, find_wrong_answers,
    find_wrong_answers_with_sample,
};
pub use engine_subject::{EngineBuildResult, EngineSubject, build_engine_subject};
pub use measurement::{
    MeasurementOptions, MedianWithRange, SubjectRates, measure_subjects, read_thread_cpu_seconds,
};
pub use packet_trace::{TraceOptions, TracePattern, generate_trace};
pub use subject::BenchSubject;
