//! Kind `frames`: frames of a command, mixed where an axis says how.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use weir_stats::ClaimBounds;

use crate::file_generator::FileGenerator;
use crate::supported_workload_features::{NEEDS_NO_CONNTRACK_ENTRIES, WorkloadFeatures};
use crate::traffic::traffic_axis::TrafficAxis;
use crate::traffic::traffic_kind::TrafficKind;

/// Frames that a command makes: a pcap file `FRAMES` and its verdicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "FramesDefinition")]
pub struct FrameTraffic {
    /// The command.
    pub source: FileGenerator,
    /// The axis whose values are the share of frames to be dropped, percent; without it, frames are
    /// sent as the command made them.
    pub drop_axis: Option<String>,
    /// What the frames must be like, by the names of the facts that the command writes to
    /// `FRAMES.facts`. Others than these are not measured.
    pub required_facts: BTreeMap<String, ClaimBounds>,
}

static FRAMES_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `frames`",
    rate_search: Ok(()),
    remote_hosts: Ok(()),
    latency_probe: Ok(()),
    fixed_rate: Ok(()),
    conntrack_table_size: Err(NEEDS_NO_CONNTRACK_ENTRIES),
};

static FRAMES_WITH_DROP_SHARE_FEATURES: WorkloadFeatures =
    WorkloadFeatures { name: "kind `frames` with `drop_axis`", ..FRAMES_WORKLOAD_FEATURES };

impl TrafficKind for FrameTraffic {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        if self.drop_axis.is_some() {
            &FRAMES_WITH_DROP_SHARE_FEATURES
        } else {
            &FRAMES_WORKLOAD_FEATURES
        }
    }

    fn axes(&self) -> Vec<TrafficAxis<'_>> {
        let sources = self.source.axes.iter().map(|axis| TrafficAxis {
            name: axis.get_ref(),
            traffic_field: "axes",
            offset: Some(axis.span().start),
            allowed_numbers: None,
        });
        let dropped = self.drop_axis.iter().map(|name| TrafficAxis {
            name,
            traffic_field: "drop_axis",
            offset: None,
            allowed_numbers: Some(0..=100),
        });
        sources.chain(dropped).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FramesDefinition {
    axes: Option<Vec<Spanned<String>>>,
    command: Option<String>,
    drop_axis: Option<Spanned<String>>,
    #[serde(default)]
    hits: BTreeMap<String, ClaimBounds>,
}

impl TryFrom<FramesDefinition> for FrameTraffic {
    type Error = String;

    fn try_from(text: FramesDefinition) -> Result<FrameTraffic, String> {
        let (Some(mut axes), Some(command)) = (text.axes, text.command) else {
            return Err("kind `frames` needs `axes` and `command`".into());
        };
        let drop_axis = text.drop_axis.as_ref().map(|axis| axis.get_ref().clone());
        let is_new = |axis: &Spanned<String>| axes.iter().all(|a| a.get_ref() != axis.get_ref());
        axes.extend(text.drop_axis.filter(is_new));
        let source = FileGenerator { axes, command };
        Ok(FrameTraffic { source, drop_axis, required_facts: text.hits })
    }
}

#[cfg(test)]
mod tests {
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn the_drop_axis_is_an_axis_of_the_frames() {
        let text = "axes = [\"rules\"]\ncommand = \"true\"\ndrop_axis = \"illegal\"";
        let traffic = read(text).unwrap();
        let frames = traffic.frames().expect("frames are the usual kind");
        assert_eq!(frames.source.declared_axis_names(), ["rules", "illegal"]);
        assert_eq!(frames.drop_axis.as_deref(), Some("illegal"));
    }

    #[test]
    fn invalid_frames_traffic_is_refused() {
        let own = "it takes `axes`, `command`, `drop_axis`, `hits`";
        assert_refused(
            "axes = []\ncommand = \"true\"\nport = 80",
            &format!("takes no `port`; {own}"),
        );
        assert_refused("kind = \"frames\"\nverify = true", "takes no `verify`");
        assert_refused("axes = []", "needs `axes` and `command`");
    }
}
