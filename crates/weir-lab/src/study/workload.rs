//! What each kind of traffic can do.
//!
//! One table says it ([`Workload::lacks`]); whatever an option of a run, a part of the study or a
//! field of a preset asks for is looked up there before anything is made or measured. A row that is
//! missing would be a run that measures something else than it was asked for.

use toml::Spanned;

use super::{Loaded, PresetText, refused};
use crate::LabError;
use crate::run::RunOptions;
use crate::traffic::Traffic;

/// What a study measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
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

/// What can be asked of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
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

impl Workload {
    /// All of them.
    #[cfg(test)]
    const ALL: [Workload; 7] = [
        Workload::Frames,
        Workload::Mixed,
        Workload::Connections,
        Workload::Concurrent,
        Workload::Sockets,
        Workload::Loopback,
        Workload::Loads,
    ];

    /// The workload of a study.
    pub(crate) fn of(traffic: Option<&Traffic>) -> Workload {
        match traffic {
            None => Workload::Loads,
            Some(Traffic::Frames(_)) => Workload::Frames,
            Some(Traffic::Mixed { .. }) => Workload::Mixed,
            Some(Traffic::Loopback(_)) => Workload::Loopback,
            Some(Traffic::Connections(c)) if c.sockets.is_some() => Workload::Sockets,
            Some(Traffic::Connections(c)) if c.hold.is_some() => Workload::Concurrent,
            Some(Traffic::Connections(_)) => Workload::Connections,
        }
    }

    /// What it is called in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Frames => "kind `frames`",
            Workload::Mixed => "kind `frames` with `drop_axis`",
            Workload::Connections => "kind `connections`",
            Workload::Concurrent => "kind `concurrent`",
            Workload::Sockets => "kind `sockets`",
            Workload::Loopback => "kind `loopback`",
            Workload::Loads => "a study without `[traffic]`",
        }
    }

    /// Why it cannot do something; `None` where it can.
    pub(crate) fn lacks(self, feature: Feature) -> Option<&'static str> {
        use Workload::{Concurrent, Connections, Frames, Loads, Loopback, Mixed, Sockets};
        match (feature, self) {
            (Feature::Search | Feature::Probe, Frames | Mixed)
            | (Feature::Hosts, Frames | Mixed | Connections | Concurrent | Loads)
            | (Feature::Rate, Frames | Mixed | Connections | Concurrent)
            | (Feature::TableEntries, Connections | Concurrent | Sockets) => None,
            (Feature::Hosts, Sockets | Loopback) => Some("over hosts is not built yet"),
            (Feature::Search | Feature::Probe, _) => Some("plays no frames"),
            (Feature::Rate, Sockets) => Some("has its rates on `rate_axis`"),
            (Feature::Rate, Loopback) => Some("sends as fast as the host takes it"),
            (Feature::Rate, Loads) => Some("sends nothing"),
            (Feature::TableEntries, Frames | Mixed | Loopback | Loads) => {
                Some("opens no connections that a table would have to hold")
            }
        }
    }
}

impl Loaded {
    /// What the study measures.
    pub(crate) fn workload(&self) -> Workload {
        Workload::of(self.study.traffic.as_ref())
    }

    /// The preset that the options name, if the study can do all that they ask for.
    ///
    /// # Errors
    /// With file and line where the study is the cause, else by the names of the options.
    pub(crate) fn preset_for(&self, options: &RunOptions) -> Result<&PresetText, LabError> {
        let RunOptions { search, resume, against_itself, .. } = options;
        if search.is_none() {
            return self.preset(&options.preset);
        }
        for (is_asked, option) in
            [(*resume, "--resume"), (against_itself.is_some(), "--aa")].into_iter()
        {
            if is_asked {
                let what = format!("`--search` and `{option}` exclude each other: leave one out");
                return Err(LabError::Options(what));
            }
        }
        if let Some(why) = self.workload().lacks(Feature::Search) {
            let message = format!(
                "{} {why}, and `--search` looks for a rate of frames: run it without `--search`",
                self.workload().name()
            );
            return Err(self.refused_at("[traffic]", message));
        }
        let preset = self.preset(&options.preset)?;
        if preset.rate_pps > 0 {
            let message = format!(
                "preset `{}` has a `rate_pps`, and `--search` begins with what is forwarded \
                 without one: choose a preset without `rate_pps`",
                options.preset
            );
            return Err(self.refused_at(&format!("[presets.{}", options.preset), message));
        }
        Ok(preset)
    }

    /// Refuses a preset whose fields ask for what the study does not do.
    pub(super) fn check_preset(&self, name: &str, preset: &PresetText) -> Result<(), LabError> {
        let workload = self.workload();
        let refuse = |field: &str, why: String| {
            let message = format!("preset `{name}` has `{field}`: {why}");
            Err(self.refused_at(&format!("[presets.{name}"), message))
        };
        for (is_asked, field, feature) in [
            (preset.rate_pps > 0, "rate_pps", Feature::Rate),
            (preset.table_entries > 0, "table_entries", Feature::TableEntries),
        ] {
            if let Some(why) = workload.lacks(feature).filter(|_| is_asked) {
                return refuse(field, format!("{} {why}", workload.name()));
            }
        }
        let has_rates = self.study.connecting().is_some_and(|c| c.rate_axis.is_some());
        match () {
            () if preset.rate_pps > 0 && has_rates => {
                refuse("rate_pps", "the study has its rates on `rate_axis`".to_owned())
            }
            () if preset.probe_seconds > 0.0 && self.study.probe.is_none() => {
                refuse("probe_seconds", "the study has no `[probe]`".to_owned())
            }
            () if preset.adds > 0 && self.study.more.is_none() => {
                refuse("adds", "the study has no `[more]`".to_owned())
            }
            () => Ok(()),
        }
    }

    /// Whether a subject can be measured against itself, be it one of the study's or not.
    pub(super) fn check_against_itself(&self, name: &Spanned<String>) -> Result<(), LabError> {
        let name = name.get_ref();
        self.check_client(name, 0)?;
        let is_baseline = self.subjects.0[name].baseline;
        let idle = (is_baseline && self.workload() == Workload::Loads).then(|| {
            "is a `baseline`: it loads nothing, and the study has no `[traffic]`".to_owned()
        });
        match self.unfit(name).or(idle) {
            Some(why) => Err(LabError::Options(format!("`--aa {name}`: the subject {why}"))),
            None => Ok(()),
        }
    }

    fn refused_at(&self, place: &str, message: String) -> LabError {
        let at = self.text.find(place).unwrap_or(0);
        refused(&self.path, &self.text, at, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_says_of_every_feature_whether_it_has_it() {
        // Frames, mixed, connections, concurrent, sockets, loopback, loads.
        let table = [
            (Feature::Search, [true, true, false, false, false, false, false]),
            (Feature::Hosts, [true, true, true, true, false, false, true]),
            (Feature::Probe, [true, true, false, false, false, false, false]),
            (Feature::Rate, [true, true, true, true, false, false, false]),
            (Feature::TableEntries, [false, false, true, true, true, false, false]),
        ];
        for (feature, expected) in table {
            let has = Workload::ALL.map(|workload| workload.lacks(feature).is_none());
            assert_eq!(has, expected, "{feature:?}");
        }
    }
}
