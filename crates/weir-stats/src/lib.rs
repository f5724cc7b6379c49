//! Records of measurements, and estimates computed from them.
//!
//! A *run* of a study is a folder of files: [`run_folder`] reads and writes it. [`Run`] is what was
//! done and where, [`Trial`] is one measurement, [`Claim`] is a sentence that a study tests.
//! [`Quantity`] is what is read out of a trial, [`trial_selection`] picks samples, [`estimate`]
//! makes intervals of samples, and [`claim::evaluate_claim`] says whether a claim was kept.
//!
//! Nothing here reads a clock, and nothing is random without a seed: the same records give the same
//! numbers on every machine.
//!
//! Words: a *study* has *scenarios* (points of a grid of axes); each scenario is measured for each
//! *subject* in *trials*; what a trial yields is a *sample*; samples become an *estimate*. A
//! *block* is one pass over the whole grid, each subject twice, in order and back (ABBA), so that
//! a ratio is made of values that were measured close to each other.

#![forbid(unsafe_code)]

pub mod aa_test;
pub mod claim;
pub mod connection_counts;
pub mod core_packet_shares;
pub mod duration_distribution;
pub mod endpoint_counts;
pub mod endpoint_totals;
mod error;
pub mod estimate;
pub mod evidence_limits;
pub mod lookup_measurement;
pub mod machine_observations;
pub mod probe_kinds_and_results;
pub mod probe_request_totals;
pub mod quantity;
pub mod rate_search;
mod record_file;
pub mod run;
pub mod run_comparison;
pub mod run_folder;
pub mod run_quality;
pub mod scenario;
pub mod student_t;
pub mod trial;
pub mod trial_selection;

pub use claim::{
    Claim, ClaimBounds, ClaimOutcome, ClaimRecord, ClaimSource, ClaimTest, PaperExpectation,
    SubjectPoint,
};
pub use connection_counts::{
    ConnectionClose, ConnectionCounts, ConnectionFailureCount, SubstituteClientReport,
};
pub use duration_distribution::{DurationDistribution, Quantile};
pub use endpoint_counts::{ArrivedTraffic, EndpointCounts};
pub use error::RecordError;
pub use estimate::{Estimate, RatioDifference};
pub use evidence_limits::EvidenceShortcoming;
pub use lookup_measurement::LookupMeasurement;
pub use machine_observations::{ConntrackTableObservation, CoreNetworkLoad, MachineObservations};
pub use probe_kinds_and_results::{BackgroundLoad, BulkTcpStreamResult, ProbeKind, ProbeResult};
pub use quantity::{Quantity, QuantityUnit, RunOverlayYAxis};
pub use run::{
    FrameFactsRecord, GeneratedRulesetRecord, HostEnvironment, NoiseFloor, Paper, PaperStatedValue,
    Preset, RemeasuredPaperFigure, RemoteHostRecord, Run, RunSubject, ScenarioAxis, TrialCounts,
    max_packets_accepted_by_limit,
};
pub use run_folder::RunRecord;
pub use run_quality::RunQuality;
pub use scenario::{Coordinate, Scenario};
pub use trial::{DropCount, Trial, TrialKind, TrialNoise, TrialResults, TrialState};
