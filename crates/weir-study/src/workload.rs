//! The capabilities of each kind of traffic.
//!
//! One table lists them ([`WorkloadKind::lacks`]); whatever an option of a run, a part of the study
//! or a field of a preset requests is looked up there before anything is generated or measured.
//! With a missing row, a run would measure something else than requested.

use crate::traffic::Traffic;

/// What a study measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Frames of a file.
    Frames,
    /// Frames with a set share to be dropped.
    Mixed,
    /// Connections of the small TCP.
    Connections,
    /// The same, left open.
    Concurrent,
    /// Connections of the kernel's sockets.
    Sockets,
    /// UDP that a host sends to itself.
    Loopback,
    /// No traffic: only loads are timed.
    Loads,
}

/// Features that a workload may support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadFeature {
    /// `--search`.
    Search,
    /// `--hosts`.
    Hosts,
    /// `[probe]`.
    Probe,
    /// `rate_pps` of a preset.
    Rate,
    /// `table_entries` of a preset.
    TableEntries,
}

impl WorkloadKind {
    /// All of them.
    #[cfg(test)]
    const ALL: [WorkloadKind; 7] = [
        WorkloadKind::Frames,
        WorkloadKind::Mixed,
        WorkloadKind::Connections,
        WorkloadKind::Concurrent,
        WorkloadKind::Sockets,
        WorkloadKind::Loopback,
        WorkloadKind::Loads,
    ];

    /// The workload of a study.
    pub fn of(traffic: Option<&Traffic>) -> WorkloadKind {
        match traffic {
            None => WorkloadKind::Loads,
            Some(Traffic::Frames(_)) => WorkloadKind::Frames,
            Some(Traffic::Mixed { .. }) => WorkloadKind::Mixed,
            Some(Traffic::Loopback(_)) => WorkloadKind::Loopback,
            Some(Traffic::Connections(c)) if c.sockets.is_some() => WorkloadKind::Sockets,
            Some(Traffic::Connections(c)) if c.hold.is_some() => WorkloadKind::Concurrent,
            Some(Traffic::Connections(_)) => WorkloadKind::Connections,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadKind::Frames => "kind `frames`",
            WorkloadKind::Mixed => "kind `frames` with `drop_axis`",
            WorkloadKind::Connections => "kind `connections`",
            WorkloadKind::Concurrent => "kind `concurrent`",
            WorkloadKind::Sockets => "kind `sockets`",
            WorkloadKind::Loopback => "kind `loopback`",
            WorkloadKind::Loads => "a study without `[traffic]`",
        }
    }

    /// Why it cannot do something; `None` if it can.
    pub fn lacks(self, feature: WorkloadFeature) -> Option<&'static str> {
        use WorkloadKind::{Concurrent, Connections, Frames, Loads, Loopback, Mixed, Sockets};
        match (feature, self) {
            (WorkloadFeature::Search | WorkloadFeature::Probe, Frames | Mixed)
            | (WorkloadFeature::Hosts, Frames | Mixed | Connections | Concurrent | Loads)
            | (WorkloadFeature::Rate, Frames | Mixed | Connections | Concurrent)
            | (WorkloadFeature::TableEntries, Connections | Concurrent | Sockets) => None,
            (WorkloadFeature::Hosts, Sockets | Loopback) => Some("is not implemented over hosts"),
            (WorkloadFeature::Search | WorkloadFeature::Probe, _) => Some("sends no frames"),
            (WorkloadFeature::Rate, Sockets) => Some("has its rates on `rate_axis`"),
            (WorkloadFeature::Rate, Loopback) => Some("sends as fast as the host accepts it"),
            (WorkloadFeature::Rate, Loads) => Some("sends nothing"),
            (WorkloadFeature::TableEntries, Frames | Mixed | Loopback | Loads) => {
                Some("opens no connections that need table entries")
            }
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
            (WorkloadFeature::Search, [true, true, false, false, false, false, false]),
            (WorkloadFeature::Hosts, [true, true, true, true, false, false, true]),
            (WorkloadFeature::Probe, [true, true, false, false, false, false, false]),
            (WorkloadFeature::Rate, [true, true, true, true, false, false, false]),
            (WorkloadFeature::TableEntries, [false, false, true, true, true, false, false]),
        ];
        for (feature, expected) in table {
            let has = WorkloadKind::ALL.map(|workload| workload.lacks(feature).is_none());
            assert_eq!(has, expected, "{feature:?}");
        }
    }
}
