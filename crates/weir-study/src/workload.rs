//! The capabilities of each kind of traffic.
//!
//! One table lists them ([`WorkloadKind::unsupported_reason`]); whatever an option of a run, a part
//! of the study or a field of a preset requests is looked up there before anything is generated or
//! measured. With a missing row, a run would measure something else than requested.

use crate::traffic::Traffic;

/// What a study measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Frames of a file.
    Frames,
    /// Frames with a set share to be dropped.
    FramesWithDropShare,
    /// Connections of the small TCP.
    WeirTcpConnections,
    /// The same, left open.
    ConcurrentConnections,
    /// Connections of the kernel's sockets.
    KernelSockets,
    /// UDP that a host sends to itself.
    LoopbackUdp,
    /// No traffic: only loads are timed.
    RulesetLoadsOnly,
}

/// Features that a workload may support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadFeature {
    /// `--search`.
    RateSearch,
    /// `--hosts`.
    RemoteHosts,
    /// `[probe]`.
    LatencyProbe,
    /// `rate_pps` of a preset.
    FixedRate,
    /// `table_entries` of a preset.
    ConntrackTableSize,
}

impl WorkloadKind {
    /// All of them.
    #[cfg(test)]
    const ALL: [WorkloadKind; 7] = [
        WorkloadKind::Frames,
        WorkloadKind::FramesWithDropShare,
        WorkloadKind::WeirTcpConnections,
        WorkloadKind::ConcurrentConnections,
        WorkloadKind::KernelSockets,
        WorkloadKind::LoopbackUdp,
        WorkloadKind::RulesetLoadsOnly,
    ];

    /// The workload of a study.
    pub fn from_traffic(traffic: Option<&Traffic>) -> WorkloadKind {
        match traffic {
            None => WorkloadKind::RulesetLoadsOnly,
            Some(Traffic::Frames(_)) => WorkloadKind::Frames,
            Some(Traffic::FramesWithDropShare { .. }) => WorkloadKind::FramesWithDropShare,
            Some(Traffic::Loopback(_)) => WorkloadKind::LoopbackUdp,
            Some(Traffic::Connections(c)) if c.sockets.is_some() => WorkloadKind::KernelSockets,
            Some(Traffic::Connections(c)) if c.concurrency.is_some() => {
                WorkloadKind::ConcurrentConnections
            }
            Some(Traffic::Connections(_)) => WorkloadKind::WeirTcpConnections,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadKind::Frames => "kind `frames`",
            WorkloadKind::FramesWithDropShare => "kind `frames` with `drop_axis`",
            WorkloadKind::WeirTcpConnections => "kind `connections`",
            WorkloadKind::ConcurrentConnections => "kind `concurrent`",
            WorkloadKind::KernelSockets => "kind `sockets`",
            WorkloadKind::LoopbackUdp => "kind `loopback`",
            WorkloadKind::RulesetLoadsOnly => "a study without `[traffic]`",
        }
    }

    /// Why it cannot do something; `None` if it can.
    pub fn unsupported_reason(self, feature: WorkloadFeature) -> Option<&'static str> {
        use WorkloadKind::{
            ConcurrentConnections, Frames, FramesWithDropShare, KernelSockets, LoopbackUdp,
            RulesetLoadsOnly, WeirTcpConnections,
        };
        match (feature, self) {
            (
                WorkloadFeature::RateSearch | WorkloadFeature::LatencyProbe,
                Frames | FramesWithDropShare,
            )
            | (
                WorkloadFeature::RemoteHosts,
                Frames
                | FramesWithDropShare
                | WeirTcpConnections
                | ConcurrentConnections
                | RulesetLoadsOnly,
            )
            | (
                WorkloadFeature::FixedRate,
                Frames | FramesWithDropShare | WeirTcpConnections | ConcurrentConnections,
            )
            | (
                WorkloadFeature::ConntrackTableSize,
                WeirTcpConnections | ConcurrentConnections | KernelSockets,
            ) => None,
            (WorkloadFeature::RemoteHosts, KernelSockets | LoopbackUdp) => {
                Some("is not implemented over hosts")
            }
            (WorkloadFeature::RateSearch | WorkloadFeature::LatencyProbe, _) => {
                Some("sends no frames")
            }
            (WorkloadFeature::FixedRate, KernelSockets) => Some("has its rates on `rate_axis`"),
            (WorkloadFeature::FixedRate, LoopbackUdp) => {
                Some("sends as fast as the host accepts it")
            }
            (WorkloadFeature::FixedRate, RulesetLoadsOnly) => Some("sends nothing"),
            (
                WorkloadFeature::ConntrackTableSize,
                Frames | FramesWithDropShare | LoopbackUdp | RulesetLoadsOnly,
            ) => Some("opens no connections that need table entries"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_says_of_every_feature_whether_it_has_it() {
        // Frames, mixed, connections, concurrent, sockets, loopback, loads.
        let table = [
            (WorkloadFeature::RateSearch, [true, true, false, false, false, false, false]),
            (WorkloadFeature::RemoteHosts, [true, true, true, true, false, false, true]),
            (WorkloadFeature::LatencyProbe, [true, true, false, false, false, false, false]),
            (WorkloadFeature::FixedRate, [true, true, true, true, false, false, false]),
            (WorkloadFeature::ConntrackTableSize, [false, false, true, true, true, false, false]),
        ];
        for (feature, expected) in table {
            let has =
                WorkloadKind::ALL.map(|workload| workload.unsupported_reason(feature).is_none());
            assert_eq!(has, expected, "{feature:?}");
        }
    }
}
