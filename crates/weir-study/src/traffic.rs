//! What a study sends through its firewalls.
//!
//! Each kind has a file here: the struct whose fields are those of `[traffic]`, their check, and
//! the [`WorkloadFeatures`] that states what the kind supports. [`Traffic`] lists the
//! kinds. What else a study needs to know of its traffic is in the trait [`TrafficKind`], which
//! each kind implements.
//!
//! The fields depend on `kind`, which may be given after them and is `frames` without it. Serde
//! reads such an enum (`tag = "kind"`) from values without their places in the text, and errors
//! would have no line. So [`nest_traffic_fields_under_kind`] changes the parsed table instead:
//! `kind = "sockets"` with its fields becomes `sockets = { … }`, which serde reads place by place.

pub mod concurrent;
pub(crate) mod connection_load;
pub mod connections;
pub mod frames;
pub mod lookups;
pub mod loopback;
mod serde_variant_and_field_names;
pub mod sockets;
pub(crate) mod traffic_axis;
pub(crate) mod traffic_kind;
mod udp_packet_lengths;

use std::borrow::Cow;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::firewall_devices::FirewallDevices;
use crate::supported_workload_features::WorkloadFeatures;
use crate::toml_value_error::TomlValueError;
use crate::traffic::serde_variant_and_field_names::{
    list_field_names_of_variant, list_variant_names,
};
use crate::traffic::traffic_axis::TrafficAxis;
use crate::traffic::traffic_kind::TrafficKind;

pub use connection_load::{
    ConcurrencyTarget, ConnectionLoad, FIRST_KERNEL_SOCKET_CLIENT_PORT, KernelSocketClients,
};
pub use udp_packet_lengths::IPV4_UDP_HEADER_BYTES;
pub(crate) use udp_packet_lengths::MAX_UDP_PACKET_BYTES;

/// The kind without `kind`.
const DEFAULT_TRAFFIC_KIND: &str = "frames";

/// Makes the enumeration and its access to the interface of the same lines.
macro_rules! define_traffic_kinds {
    ($($(#[$doc:meta])* $kind:ident($fields:ty),)*) => {
        /// The `[traffic]` of a study, by its `kind`.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Traffic {
            $($(#[$doc])* $kind($fields),)*
        }

        impl Traffic {
            fn as_traffic_kind(&self) -> &dyn TrafficKind {
                match self {
                    $(Traffic::$kind(fields) => fields,)*
                }
            }
        }
    };
}

define_traffic_kinds! {
    /// Frames that a command makes.
    Frames(frames::FrameTraffic),
    /// New connections of the small TCP.
    Connections(connections::NewConnections),
    /// Connections of the small TCP that are left open.
    Concurrent(concurrent::ConcurrentConnections),
    /// Connections of kernel sockets.
    Sockets(sockets::SocketConnections),
    /// UDP that a host sends to itself.
    Loopback(loopback::LoopbackUdpToClosedPort),
    /// Packets that a subject's program looks up in its own classifier.
    Lookups(lookups::UserSpaceLookups),
}

impl Traffic {
    /// What it supports.
    pub fn workload_features(&self) -> &'static WorkloadFeatures {
        self.as_traffic_kind().workload_features()
    }

    /// Its frames, where it sends some.
    pub fn frames(&self) -> Option<&frames::FrameTraffic> {
        match self {
            Traffic::Frames(frames) => Some(frames),
            _ => None,
        }
    }

    /// Its connections, where it opens some.
    pub fn connection_load(&self) -> Option<&ConnectionLoad> {
        self.as_traffic_kind().connection_load()
    }

    /// Whether packets are looked up in user space, and pass no firewall.
    pub fn is_lookups(&self) -> bool {
        matches!(self, Traffic::Lookups(_))
    }

    /// The axes that it depends on.
    pub(crate) fn axes(&self) -> Vec<TrafficAxis<'_>> {
        self.as_traffic_kind().axes()
    }

    /// The devices that its rulesets know, where it determines them.
    pub(crate) fn required_devices(&self) -> Option<FirewallDevices> {
        self.as_traffic_kind().required_devices()
    }
}

/// Moves the fields of the `[traffic]` of a study into a table of the name of their kind.
///
/// # Errors
/// At its place: a kind that does not exist, a field that the kind does not take.
pub(crate) fn nest_traffic_fields_under_kind(
    study: &mut DeTable<'_>,
) -> Result<(), TomlValueError> {
    let Some(traffic) = study.get_mut("traffic") else { return Ok(()) };
    let span = traffic.span();
    let DeValue::Table(fields) = traffic.get_mut() else {
        return Err(TomlValueError::new(&span, "`traffic` must be a table".to_owned()));
    };
    let (kind_span, kind) = match fields.remove("kind") {
        None => (span.clone(), DEFAULT_TRAFFIC_KIND.to_owned()),
        Some(kind) => (kind.span(), String::deserialize(toml::de::ValueDeserializer::from(kind))?),
    };
    let known = list_variant_names::<Traffic>();
    let Some(&kind) = known.iter().find(|known| **known == kind) else {
        let message = format!("no kind `{kind}`; there are {}", known.join(", "));
        return Err(TomlValueError::new(&kind_span, message));
    };
    let own = list_field_names_of_variant::<Traffic>(kind);
    if let Some(other) = fields.keys().find(|field| !own.contains(&field.get_ref().as_ref())) {
        let name = other.get_ref();
        let own =
            if own.is_empty() { "no fields".to_owned() } else { format!("`{}`", own.join("`, `")) };
        let message = format!("kind `{kind}` takes no `{name}`; it takes {own}");
        return Err(TomlValueError::new(&other.span(), message));
    }
    let fields = Spanned::new(span, DeValue::Table(std::mem::take(fields)));
    let mut by_kind = DeTable::new();
    by_kind.insert(Spanned::new(kind_span, Cow::Borrowed(kind)), fields);
    *traffic.get_mut() = DeValue::Table(by_kind);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::toml_text::check_edit_and_deserialize_toml;
    use crate::value_rule_tables::STUDY_VALUE_RULES;

    #[derive(Debug, Deserialize)]
    struct TrafficOnly {
        traffic: Traffic,
    }

    /// Reads the fields of `[traffic]`.
    pub(crate) fn read(text: &str) -> Result<Traffic, String> {
        let text = format!("[traffic]\n{text}");
        let path = std::path::Path::new("study.toml");
        let read = check_edit_and_deserialize_toml::<TrafficOnly>(
            path,
            &text,
            STUDY_VALUE_RULES,
            nest_traffic_fields_under_kind,
        );
        read.map(|study| study.traffic).map_err(|error| error.to_string())
    }

    /// Whether reading the fields of `[traffic]` fails with a message that contains this one.
    #[track_caller]
    pub(crate) fn assert_refused(text: &str, message: &str) {
        let error = read(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }

    #[test]
    fn errors_have_the_line_of_their_cause() {
        let cases = [
            ("servers = 2\nkind = \"letters\"", ":3: no kind `letters`; there are frames, con"),
            ("\nkind = 5", ":3: invalid type: integer `5`, expected a string"),
            ("kind = \"loopback\"\nport = 9\nverify = true", ":4: kind `loopback` takes no `ver"),
            ("kind = \"connections\"\n\nclose = \"slam\"", ":4: unknown variant `slam`"),
            (
                "servers = -1\nkind = \"connections\"",
                ":2: `servers` is -1: it takes 1 to 4294967295",
            ),
            ("\n\nkind = \"loopback\"\nbytes = 20", ":5: `bytes` is 20: it takes 28 to 1500"),
            ("axes = [\n\"a\",\n7]\ncommand = \"true\"", ":4: invalid type: integer `7`"),
        ];
        for (text, message) in cases {
            assert_refused(text, message);
        }
    }

    #[test]
    fn axes_have_their_offset_in_the_text() {
        let text = "command = \"true\"\naxes = [\"rules\"]";
        let traffic = read(text).unwrap();
        let place = "[traffic]\n".len() + text.find("\"rules").unwrap();
        let axes = traffic.axes();
        assert_eq!((axes[0].name, axes[0].offset), ("rules", Some(place)));
        let rated = read("kind = \"sockets\"\nrate_axis = \"rate\"").unwrap();
        assert_eq!((rated.axes()[0].name, rated.axes()[0].offset), ("rate", None));
    }

    #[test]
    fn every_traffic_kind_declares_its_supported_features() {
        // A workload, and whether it can be searched, measured over hosts, probed, given a rate,
        // and given a table size.
        let workloads: &[(&str, [bool; 5])] = &[
            ("axes = []\ncommand = \"true\"", [true, true, true, true, false]),
            ("axes = []\ncommand = \"true\"\ndrop_axis = \"x\"", [true, true, true, true, false]),
            ("kind = \"connections\"", [false, true, false, true, true]),
            ("kind = \"concurrent\"\nconnections = 9", [false, true, false, true, true]),
            ("kind = \"sockets\"\nrate_axis = \"x\"", [false, false, false, false, true]),
            ("kind = \"loopback\"", [false, false, false, false, false]),
            ("kind = \"lookups\"", [false, false, false, false, false]),
        ];
        let rows = workloads.iter().map(|(text, _)| read(text).unwrap().workload_features());
        let rows: Vec<&WorkloadFeatures> = rows.collect();
        for (row, (text, expected)) in rows.iter().zip(workloads) {
            let features = [
                row.rate_search,
                row.remote_hosts,
                row.latency_probe,
                row.fixed_rate,
                row.conntrack_table_size,
            ];
            assert_eq!(features.map(|feature| feature.is_ok()), *expected, "{text}");
        }
        for kind in list_variant_names::<Traffic>() {
            let name = format!("kind `{kind}`");
            assert!(rows.iter().any(|row| row.name == name), "{name} has no case here");
        }
    }
}
