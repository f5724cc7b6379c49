//! The quantities that are read from a trial and compared: one row each.
//!
//! A row has the kind of trial that measures the quantity, its title, and how it is read. If runs
//! are compared by it, `compared_as` has its name there and the better direction; if several runs
//! are drawn by it, `run_overlay` has the unit and the title of their axis. All other code uses the
//! table.

mod overlay_axis;
mod primary_quantity;
mod quantity_comparison_direction;
mod trial_readings;

use serde::{Deserialize, Serialize};

use self::trial_readings::{
    completed_connections_per_second, divide_count_by_trial_seconds, failed_connection_share,
    own_socket_reply_times, probe_latency_distribution, share_of_total, snmp_counter_or_zero,
};
use crate::endpoint_counts;
use crate::trial::{Trial, TrialKind};

pub use self::overlay_axis::{QuantityUnit, RunOverlayYAxis};
pub use self::quantity_comparison_direction::{BetterDirection, ComparisonNameAndDirection};

/// A row of the table.
struct QuantityRow {
    kind: TrialKind,
    title: &'static str,
    read_value: fn(&Trial) -> Option<f64>,
    compared_as: Option<ComparisonNameAndDirection>,
    run_overlay: Option<RunOverlayYAxis>,
}

/// The value of a column that a row may have.
macro_rules! optional_column {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Makes the enumeration and its table of the same rows.
macro_rules! define_quantities {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            kind: $kind:ident, title: $title:literal,
            read_value: $read_value:expr,
            $(compared_as: $compared_as:literal, $better:ident,)?
            $(run_overlay: $unit:ident($axis_title:literal),)?
        }
    )*) => {
        /// What is compared.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Quantity {
            $($(#[$doc])* $name,)*
        }

        impl Quantity {
            fn table_row(self) -> QuantityRow {
                match self {
                    $(Quantity::$name => QuantityRow {
                        kind: TrialKind::$kind,
                        title: $title,
                        read_value: $read_value,
                        compared_as: optional_column!($(ComparisonNameAndDirection {
                            name: $compared_as,
                            better: BetterDirection::$better,
                        })?),
                        run_overlay: optional_column!($(RunOverlayYAxis {
                            unit: QuantityUnit::$unit,
                            title: $axis_title,
                        })?),
                    },)*
                }
            }

            /// All rows, in the order of the table.
            const ALL: &[Quantity] = &[$(Quantity::$name,)*];
        }
    };
}

define_quantities! {
    /// Packets per second with their expected verdict at overload: forwarded, or dropped by the
    /// rules.
    Pps {
        kind: Rate, title: "packets/s",
        read_value: |t| Some(t.correct_verdict_pps),
        compared_as: "rate", More,
        run_overlay: Count("packets/s, forwarded"),
    }
    /// Nanoseconds of one core per packet, generator and sink included.
    NsPerPacket {
        kind: Rate, title: "time per packet",
        read_value: |t| (t.correct_verdict_pps > 0.0).then(|| 1e9 / t.correct_verdict_pps),
    }
    /// Packets per second that arrived although rules must drop such packets: what a limit accepts.
    LeakedPps {
        kind: Rate, title: "packets/s let through",
        read_value: |t| divide_count_by_trial_seconds(t.leaked, t),
    }
    /// Packets per second that arrived and were to arrive: of a mix, the legal ones alone.
    LegalPps {
        kind: Rate, title: "legal packets/s",
        read_value: |t| divide_count_by_trial_seconds(t.delivered, t),
    }
    /// Share of the packets to drop that arrived all the same.
    LeakedShare {
        kind: Rate, title: "share of packets to be dropped that arrived",
        read_value: |t| share_of_total(t.leaked, t.expected_drops),
    }
    /// ICMP messages that the firewall sent for each packet that it took (destination unreachable).
    IcmpAnswersRatio {
        kind: Rate, title: "ICMP replies per packet",
        read_value: |t| {
            share_of_total(snmp_counter_or_zero(t, "Icmp.OutDestUnreachs"), t.delivered)
        },
    }
    /// Share of packets lost at overload, of those that had to arrive.
    LostShare {
        kind: Rate, title: "loss",
        read_value: |t| Some(t.unexpected_loss_ratio()),
    }
    /// Share of packets lost at a set rate.
    LossRatio {
        kind: Paced, title: "loss",
        read_value: |t| Some(t.unexpected_loss_ratio()),
    }
    /// Seconds to load a ruleset at once.
    LoadSeconds {
        kind: Load, title: "load time",
        read_value: |t| Some(t.seconds),
        compared_as: "time to load", Less,
        run_overlay: Seconds("seconds to load"),
    }
    /// Kernel memory that a loaded ruleset takes, bytes.
    LoadMemoryBytes {
        kind: Load, title: "memory of the loaded ruleset",
        read_value: |t| t.observations.load_memory_bytes.map(|bytes| bytes as f64),
    }
    /// Seconds to add one rule to those in force.
    AddSeconds {
        kind: Add, title: "time to add a rule",
        read_value: |t| (t.added_rule_count_or_zero() > 0).then(|| t.seconds / t.added_rule_count_or_zero() as f64),
    }
    /// Complete TCP connections per second, request and reply validated, closed by FIN.
    ConnectionsPerSecond {
        kind: Connections, title: "connections per second",
        read_value: completed_connections_per_second,
        compared_as: "connections", More,
        run_overlay: Count("connections/s"),
    }
    /// The same with RST at the end.
    ConnectionsResetPerSecond {
        kind: ConnectionsReset, title: "connections per second (RST)",
        read_value: completed_connections_per_second,
        compared_as: "connections", More,
        run_overlay: Count("connections/s, ended by RST"),
    }
    /// TCP connections opened per second, nothing sent on them.
    HandshakesPerSecond {
        kind: Handshakes, title: "handshakes per second",
        read_value: completed_connections_per_second,
        compared_as: "handshakes", More,
        run_overlay: Count("handshakes/s"),
    }
    /// Share of connections, closed by FIN, that failed.
    ConnectionFailureRatio {
        kind: Connections, title: "failed connections",
        read_value: failed_connection_share,
    }
    /// Packets per second that arrived at either end of connections closed by FIN.
    ConnectionPackets {
        kind: Connections, title: "packets/s of connections",
        read_value: |t| Some(t.correct_verdict_pps),
    }
    /// SYNs per second of a flood during connections closed by FIN.
    FloodPps {
        kind: Connections, title: "SYNs per second of a flood",
        read_value: |t| divide_count_by_trial_seconds(t.expected_drops, t),
    }
    /// Share of them that reached the servers.
    FloodArrivedShare {
        kind: Connections, title: "share of the flood that arrived",
        read_value: |t| share_of_total(t.leaked, t.expected_drops),
    }
    /// Replies per second to connections between sockets of the kernel, of all clients together, or
    /// to the client that a subject names in their place.
    SocketsPerSecond {
        kind: Sockets, title: "replies per second",
        read_value: completed_connections_per_second,
        run_overlay: Count("replies/s"),
    }
    /// Share of those connections that failed.
    SocketFailureRatio {
        kind: Sockets, title: "failed connections of sockets",
        read_value: failed_connection_share,
    }
    /// Share of them for which the client had no port left.
    NoPortRatio {
        kind: Sockets, title: "share of connections without a port",
        read_value: |t| {
            let all = t.connection_counts()?;
            let without = all.failed_connections_of_kind("address not available") as f64;
            (all.started > 0).then(|| without / all.started as f64)
        },
    }
    /// Packets that entered the firewall, by either device, for each reply.
    PacketsPerReply {
        kind: Sockets, title: "packets per reply",
        read_value: |t| share_of_total(t.offered, t.connection_counts()?.completed),
    }
    /// Mean time of a reply as its own client counts it, nanoseconds: weir's sockets from when the
    /// connection was planned, its small TCP from the first packet until FIN+ACK, programs from
    /// when they sent the request.
    ClientReplyNsMean {
        kind: Sockets, title: "mean response time as measured by the client, ns",
        read_value: |t| t.connection_counts()?.mean_reply_ns_reported_or_own(),
    }
    /// Median time of a reply to weir's own sockets, from when its connection was planned,
    /// nanoseconds.
    ReplyNsP50 {
        kind: Sockets, title: "median response time, ns",
        read_value: |t| own_socket_reply_times(t)?.duration_at_quantile(0.5),
    }
    /// Time that 99 of 100 replies do not exceed.
    ReplyNsP99 {
        kind: Sockets, title: "response time, 99th percentile, ns",
        read_value: |t| own_socket_reply_times(t)?.duration_at_quantile(0.99),
    }
    /// Connections per second that the clients' ports allow.
    PortsAllow {
        kind: Sockets, title: "connections per second that ports allow",
        read_value: |t| t.connection_counts()?.rate_limit_of_client_resource("ports"),
    }
    /// Connections per second that their descriptors allow where each lasts to its limit.
    DescriptorsAllow {
        kind: Sockets, title: "connections per second that descriptors allow",
        read_value: |t| t.connection_counts()?.rate_limit_of_client_resource("descriptors"),
    }
    /// The same of the memory for their buffers.
    BuffersAllow {
        kind: Sockets, title: "connections per second that buffers allow",
        read_value: |t| t.connection_counts()?.rate_limit_of_client_resource("buffers"),
    }
    /// Complete connections per second in the first third of a trial.
    EarlyConnections {
        kind: Connections, title: "connections per second, first third",
        read_value: |t| t.connection_counts()?.first_third_connection_rate(t.seconds),
    }
    /// Those of the last third over those of the first.
    LateOverEarly {
        kind: Connections, title: "connections per second, last third over first",
        read_value: |t| {
            let all = t.connection_counts()?;
            let early = all.first_third_connection_rate(t.seconds).filter(|rate| *rate > 0.0)?;
            Some(all.last_third_connection_rate(t.seconds)? / early)
        },
    }
    /// Share of all complete TCP connections that the client with the fewest had.
    LeastClientShare {
        kind: Connections, title: "smallest share of connections of a client",
        read_value: |t| endpoint_counts::min_endpoint_share_of_all_connections(&t.connection_counts()?.clients),
    }
    /// The same of the server.
    LeastServerShare {
        kind: Connections, title: "smallest share of connections of a server",
        read_value: |t| endpoint_counts::min_endpoint_share_of_all_connections(&t.connection_counts()?.servers),
    }
    /// Bits per second of clients that arrived at servers, Ethernet headers included.
    BitsFromClients {
        kind: Connections, title: "bits/s from clients",
        read_value: |t| divide_count_by_trial_seconds(8 * t.connection_counts()?.arrived_at_servers.frame_bytes, t),
    }
    /// The same of servers, that arrived at clients.
    BitsFromServers {
        kind: Connections, title: "bits/s from servers",
        read_value: |t| divide_count_by_trial_seconds(8 * t.connection_counts()?.arrived_at_clients.frame_bytes, t),
    }
    /// Packets per second of clients that arrived at servers.
    PacketsFromClients {
        kind: Connections, title: "packets/s from clients",
        read_value: |t| divide_count_by_trial_seconds(t.connection_counts()?.arrived_at_servers.packets, t),
    }
    /// The same of servers, that arrived at clients.
    PacketsFromServers {
        kind: Connections, title: "packets/s from servers",
        read_value: |t| divide_count_by_trial_seconds(t.connection_counts()?.arrived_at_clients.packets, t),
    }
    /// ICMP redirects that the firewall has sent since it was set up.
    RedirectsSent {
        kind: Connections, title: "ICMP redirects sent",
        read_value: |t| t.connection_counts().map(|_| t.observations.redirects_sent_since_setup as f64),
    }
    /// Share of all packets of connections that the busiest core took.
    BusiestCoreShare {
        kind: Connections, title: "share of packets on the busiest core",
        read_value: |t| t.connection_counts().and_then(|_| t.observations.busiest_core_packet_share()),
    }
    /// Share of connections whose server saw another address than its client's.
    TranslatedShare {
        kind: Connections, title: "share of connections translated",
        read_value: |t| share_of_total(t.connection_counts()?.nat_translated_connections, t.connection_counts()?.started),
    }
    /// Most entries in the connection table during a trial of connections.
    TableEntries {
        kind: Connections, title: "entries in the connection table",
        read_value: |t| Some(t.observations.table.as_ref()?.peak_entries() as f64),
    }
    /// Entries at the end of such a trial over the most there were.
    TableEndShare {
        kind: Connections, title: "entries at the end over the maximum",
        read_value: |t| t.observations.table.as_ref()?.end_to_peak_entry_ratio(),
    }
    /// Share of its time after which the table was within 2 % of its most.
    TableFullShare {
        kind: Connections, title: "share of the time until the table reaches its \
             maximum",
        read_value: |t| {
            let full = t.observations.table.as_ref()?.seconds_until_near_peak()?;
            (t.seconds > 0.0).then(|| full / t.seconds)
        },
    }
    /// Connections in the table at the same time.
    ConnectionsHeld {
        kind: Concurrent, title: "connections held",
        read_value: |t| Some(t.observations.table.as_ref()?.peak_entries() as f64),
    }
    /// Share of the planned connections of which all three packets arrived.
    HeldShare {
        kind: Concurrent, title: "share of connections held",
        read_value: |t| share_of_total(t.connection_counts()?.completed, t.connection_counts()?.started),
    }
    /// Kernel memory of one of them, bytes.
    BytesPerConnection {
        kind: Concurrent, title: "memory per connection",
        read_value: |t| t.observations.table.as_ref()?.slab_bytes_per_added_entry(),
        compared_as: "memory per connection", Less,
        run_overlay: Count("bytes per connection"),
    }
    /// Shortest time of an echo, from when it was planned, nanoseconds.
    RoundTripNsMin {
        kind: RoundTrip, title: "shortest round trip, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(0.0),
    }
    /// Mean time of an echo.
    RoundTripNsMean {
        kind: RoundTrip, title: "mean round trip, ns",
        read_value: |t| probe_latency_distribution(t).filter(|all| all.count > 0).map(|all| all.mean_ns),
    }
    /// Median time of an echo.
    RoundTripNsP50 {
        kind: RoundTrip, title: "median round trip, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(0.5),
    }
    /// Time that 99 of 100 echoes do not exceed.
    RoundTripNsP99 {
        kind: RoundTrip, title: "round trip, 99th percentile, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(0.99),
    }
    /// Longest time of an echo.
    RoundTripNsMax {
        kind: RoundTrip, title: "longest round trip, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(1.0),
    }
    /// Share of echoes that did not return.
    RoundTripLossRatio {
        kind: RoundTrip, title: "lost echoes",
        read_value: |t| share_of_total(t.probe_result()?.lost_requests(), t.probe_result()?.planned),
    }
    /// Median response time of a process on the firewall, from the request, nanoseconds.
    ResponseNsP50 {
        kind: FirewallProcessResponse, title: "median response of a process, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(0.5),
    }
    /// Time that 99 of 100 of its answers do not exceed.
    ResponseNsP99 {
        kind: FirewallProcessResponse, title: "response of a process, 99th percentile, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(0.99),
    }
    /// Longest time until it answers.
    ResponseNsMax {
        kind: FirewallProcessResponse, title: "longest response of a process, ns",
        read_value: |t| probe_latency_distribution(t)?.duration_at_quantile(1.0),
    }
    /// The machine's load average of the last minute, read while a process on the firewall was
    /// probed.
    LoadAverage {
        kind: FirewallProcessResponse, title: "load average",
        read_value: |t| Some(t.observations.one_minute_load_average),
    }
    /// Bytes per second that a program received of one bulk TCP stream.
    StreamBytesPerSecond {
        kind: Stream, title: "bytes/s of one TCP stream",
        read_value: |t| {
            let stream = t.bulk_tcp_stream_result()?;
            (stream.seconds > 0.0).then(|| stream.bytes as f64 / stream.seconds)
        },
    }
    /// Segments of that stream that were sent again.
    StreamRetransmits {
        kind: Stream, title: "segments retransmitted",
        read_value: |t| Some(t.bulk_tcp_stream_result()?.retransmits as f64),
    }
    /// Packets per second of processor time whose first deciding rule a classifier found.
    LookupsPerSecond {
        kind: Lookups, title: "look-ups/s, first match",
        read_value: |t| t.lookup_measurement()?.first_match_pps,
        compared_as: "look-ups", More,
        run_overlay: Count("look-ups/s, first match"),
    }
    /// Nanoseconds of one core per such look-up.
    NsPerLookup {
        kind: Lookups, title: "time per look-up, ns",
        read_value: |t| t.lookup_measurement()?.first_match_pps.filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate),
    }
    /// Packets per second of processor time all of whose matching rules it found and counted.
    AllMatchesPerSecond {
        kind: Lookups, title: "look-ups/s, all matches",
        read_value: |t| t.lookup_measurement()?.count_all_pps,
    }
    /// Rules per second of processor time that it removed or inserted.
    UpdatesPerSecond {
        kind: Lookups, title: "updates/s",
        read_value: |t| t.lookup_measurement()?.updates_per_second,
    }
    /// Seconds to build its structure.
    BuildSeconds {
        kind: Lookups, title: "time to build",
        read_value: |t| t.lookup_measurement()?.build_seconds,
    }
    /// Size of its structure, bytes per rule.
    BytesPerRule {
        kind: Lookups, title: "bytes per rule",
        read_value: |t| t.lookup_measurement()?.bytes_per_rule,
    }
}

impl Quantity {
    /// The kind of trial that measures it.
    pub fn trial_kind(self) -> TrialKind {
        self.table_row().kind
    }

    /// Its title for readers.
    pub fn title(self) -> &'static str {
        self.table_row().title
    }

    /// How runs are compared by it; `None` if they are not.
    pub fn comparison_name_and_direction(self) -> Option<ComparisonNameAndDirection> {
        self.table_row().compared_as
    }

    /// The axis of several runs that are drawn by it; `None` if they are not.
    pub fn overlay_axis(self) -> Option<RunOverlayYAxis> {
        self.table_row().run_overlay
    }

    /// All quantities, in the order in which runs are compared and drawn: what is measured of
    /// traffic, then what is measured of commands, since a study of traffic times its loads too.
    pub fn list_traffic_first() -> Vec<Quantity> {
        let is_of_command =
            |one: &Quantity| matches!(one.trial_kind(), TrialKind::Load | TrialKind::Add);
        let mut all = Quantity::ALL.to_vec();
        all.sort_by_key(is_of_command);
        all
    }

    /// Its value in one trial; `None` if the trial measured something else.
    pub fn value_in_trial(self, trial: &Trial) -> Option<f64> {
        let row = self.table_row();
        if trial.kind == row.kind { (row.read_value)(trial) } else { None }
    }
}

#[cfg(test)]
mod tests;
