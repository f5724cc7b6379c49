//! The quantities that are read from a trial and compared: one row each.
//!
//! A row has the kind of trial that measures the quantity, its title, the better direction, and how
//! it is read. All other code uses the table.

use serde::{Deserialize, Serialize};

use crate::per_endpoint;
use crate::spectrum::Spectrum;
use crate::trial::{Trial, TrialKind};

/// Which direction of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    /// A rate, or what is neither good nor bad.
    More,
    /// Times and memory.
    Less,
}

/// A row of the table.
struct QuantityRow {
    kind: TrialKind,
    words: &'static str,
    better: Better,
    of: fn(&Trial) -> Option<f64>,
}

/// Makes the enumeration and its table of the same rows.
macro_rules! quantities {
    ($(
        $(#[$doc:meta])*
        $name:ident { kind: $kind:ident, words: $words:literal, better: $better:ident, of: $of:expr, }
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
            fn row(self) -> QuantityRow {
                match self {
                    $(Quantity::$name => QuantityRow {
                        kind: TrialKind::$kind,
                        words: $words,
                        better: Better::$better,
                        of: $of,
                    },)*
                }
            }
        }
    };
}

quantities! {
    /// Packets per second with their expected verdict at overload: forwarded, or dropped by the
    /// rules.
    Pps {
        kind: Rate, words: "packets/s", better: More,
        of: |t| Some(t.pps),
    }
    /// Nanoseconds of one core per packet takes on its whole way, generator and sink included.
    NsPerPacket {
        kind: Rate, words: "time per packet", better: Less,
        of: |t| (t.pps > 0.0).then(|| 1e9 / t.pps),
    }
    /// Packets per second that arrived although rules must drop such packets: what a limit accepts.
    LeakedPps {
        kind: Rate, words: "packets/s let through", better: More,
        of: |t| per_second(t.leaked, t),
    }
    /// Packets a second that arrived and were to arrive: of a mix, the legal ones alone.
    LegalPps {
        kind: Rate, words: "legal packets/s", better: More,
        of: |t| per_second(t.delivered, t),
    }
    /// Share of the packets to drop that arrived all the same.
    LeakedShare {
        kind: Rate, words: "share of packets to be dropped that arrived", better: More,
        of: |t| share(t.leaked, t.to_drop),
    }
    /// ICMP messages that the firewall sent for each packet that it took (destination unreachable).
    IcmpAnswersRatio {
        kind: Rate, words: "ICMP replies per packet", better: More,
        of: |t| share(snmp(t, "Icmp.OutDestUnreachs"), t.delivered),
    }
    /// Share of packets lost at overload, of those that had to arrive.
    LostShare {
        kind: Rate, words: "loss", better: More,
        of: |t| Some(t.loss_ratio()),
    }
    /// Share of packets lost at a set rate.
    LossRatio {
        kind: Paced, words: "loss", better: More,
        of: |t| Some(t.loss_ratio()),
    }
    /// Seconds to load a ruleset at once.
    LoadSeconds {
        kind: Load, words: "load time", better: Less,
        of: |t| Some(t.seconds),
    }
    /// Kernel memory that a loaded ruleset takes, bytes.
    LoadMemoryBytes {
        kind: Load, words: "memory of the loaded ruleset", better: More,
        of: |t| t.collected.load_memory_bytes.map(|bytes| bytes as f64),
    }
    /// Seconds to add one rule to those in force.
    AddSeconds {
        kind: Add, words: "time to add a rule", better: Less,
        of: |t| (t.additions() > 0).then(|| t.seconds / t.additions() as f64),
    }
    /// Complete TCP connections per second, request and reply validated, closed by FIN.
    ConnectionsPerSecond {
        kind: Connections, words: "connections per second", better: More,
        of: completed_per_second,
    }
    /// The same with RST at the end.
    ConnectionsResetPerSecond {
        kind: ConnectionsReset, words: "connections per second (RST)", better: More,
        of: completed_per_second,
    }
    /// TCP connections opened a second, nothing sent on them.
    HandshakesPerSecond {
        kind: Handshakes, words: "handshakes per second", better: More,
        of: completed_per_second,
    }
    /// Share of connections, closed by FIN, that failed.
    ConnectionFailureRatio {
        kind: Connections, words: "failed connections", better: More,
        of: failed_share,
    }
    /// Packets a second that arrived at either end of connections closed by FIN.
    ConnectionPackets {
        kind: Connections, words: "packets/s of connections", better: More,
        of: |t| Some(t.pps),
    }
    /// SYNs per second of a flood during connections closed by FIN.
    FloodPps {
        kind: Connections, words: "SYNs per second of a flood", better: More,
        of: |t| per_second(t.to_drop, t),
    }
    /// Share of them that reached the servers.
    FloodArrivedShare {
        kind: Connections, words: "share of the flood that arrived", better: More,
        of: |t| share(t.leaked, t.to_drop),
    }
    /// Replies a second to connections between sockets of the kernel, of all clients together, or
    /// to the client that a subject names in their place.
    SocketsPerSecond {
        kind: Sockets, words: "replies per second", better: More,
        of: completed_per_second,
    }
    /// Share of those connections that failed.
    SocketFailureRatio {
        kind: Sockets, words: "failed connections of sockets", better: More,
        of: failed_share,
    }
    /// Share of them for which the client had no port left.
    NoPortRatio {
        kind: Sockets, words: "share of connections without a port", better: More,
        of: |t| {
            let all = t.connections()?;
            let without = all.failed_at("address not available") as f64;
            (all.offered > 0).then(|| without / all.offered as f64)
        },
    }
    /// Packets that entered the firewall, by either device, for each reply.
    PacketsPerReply {
        kind: Sockets, words: "packets per reply", better: More,
        of: |t| share(t.offered, t.connections()?.completed),
    }
    /// Mean time of a reply as its own client counts it, nanoseconds: weir's sockets from when the
    /// connection was planned, its small TCP from the first packet until FIN+ACK, programs from
    /// when they sent the request.
    ClientReplyNsMean {
        kind: Sockets, words: "mean response time as measured by the client, ns", better: Less,
        of: |t| t.connections()?.reply_ns_mean(),
    }
    /// Median time of a reply to weir's own sockets, from when its connection was planned,
    /// nanoseconds.
    ReplyNsP50 {
        kind: Sockets, words: "median response time, ns", better: Less,
        of: |t| own_replies(t)?.at(0.5),
    }
    /// Time that 99 of 100 replies do not exceed.
    ReplyNsP99 {
        kind: Sockets, words: "response time, 99th percentile, ns", better: Less,
        of: |t| own_replies(t)?.at(0.99),
    }
    /// Connections a second that the clients' ports allow.
    PortsAllow {
        kind: Sockets, words: "connections per second that ports allow", better: More,
        of: |t| t.connections()?.limit("ports"),
    }
    /// Connections a second that their descriptors allow where each lasts to its limit.
    DescriptorsAllow {
        kind: Sockets, words: "connections per second that descriptors allow", better: More,
        of: |t| t.connections()?.limit("descriptors"),
    }
    /// The same of the memory for their buffers.
    BuffersAllow {
        kind: Sockets, words: "connections per second that buffers allow", better: More,
        of: |t| t.connections()?.limit("buffers"),
    }
    /// Complete connections per second in the first third of a trial.
    EarlyConnections {
        kind: Connections, words: "connections per second, first third", better: More,
        of: |t| t.connections()?.early_rate(t.seconds),
    }
    /// Those of the last third over those of the first.
    LateOverEarly {
        kind: Connections, words: "connections per second, last third over first", better: More,
        of: |t| {
            let all = t.connections()?;
            let early = all.early_rate(t.seconds).filter(|rate| *rate > 0.0)?;
            Some(all.late_rate(t.seconds)? / early)
        },
    }
    /// Share of all complete TCP connections that the client with the fewest had.
    LeastClientShare {
        kind: Connections, words: "smallest share of connections of a client", better: More,
        of: |t| per_endpoint::least_share(&t.connections()?.clients),
    }
    /// The same of the server.
    LeastServerShare {
        kind: Connections, words: "smallest share of connections of a server", better: More,
        of: |t| per_endpoint::least_share(&t.connections()?.servers),
    }
    /// Bits a second of clients that arrived at servers, Ethernet headers included.
    BitsFromClients {
        kind: Connections, words: "bits/s from clients", better: More,
        of: |t| per_second(8 * t.connections()?.from_clients.bytes, t),
    }
    /// The same of servers, that arrived at clients.
    BitsFromServers {
        kind: Connections, words: "bits/s from servers", better: More,
        of: |t| per_second(8 * t.connections()?.from_servers.bytes, t),
    }
    /// Packets a second of clients that arrived at servers.
    PacketsFromClients {
        kind: Connections, words: "packets/s from clients", better: More,
        of: |t| per_second(t.connections()?.from_clients.packets, t),
    }
    /// The same of servers, that arrived at clients.
    PacketsFromServers {
        kind: Connections, words: "packets/s from servers", better: More,
        of: |t| per_second(t.connections()?.from_servers.packets, t),
    }
    /// ICMP redirects that the firewall has sent since it was set up.
    RedirectsSent {
        kind: Connections, words: "ICMP redirects sent", better: More,
        of: |t| t.connections().map(|_| t.collected.redirects_sent as f64),
    }
    /// Share of all packets of connections that the busiest core took.
    BusiestCoreShare {
        kind: Connections, words: "share of packets on the busiest core", better: More,
        of: |t| t.connections().and_then(|_| t.collected.busiest_core_share()),
    }
    /// Share of connections whose server saw another address than its client's.
    TranslatedShare {
        kind: Connections, words: "share of connections translated", better: More,
        of: |t| share(t.connections()?.translated, t.connections()?.offered),
    }
    /// Most entries in the connection table during a trial of connections.
    TableEntries {
        kind: Connections, words: "entries in the connection table", better: More,
        of: |t| Some(t.collected.table.as_ref()?.peak() as f64),
    }
    /// Entries at the end of such a trial over the most there were.
    TableEndShare {
        kind: Connections, words: "entries at the end over the maximum", better: More,
        of: |t| t.collected.table.as_ref()?.end_share(),
    }
    /// Share of its time after which the table was within 2 % of its most.
    TableFullShare {
        kind: Connections, words: "share of the time until the table reaches its \
             maximum", better: More,
        of: |t| {
            let full = t.collected.table.as_ref()?.full_seconds()?;
            (t.seconds > 0.0).then(|| full / t.seconds)
        },
    }
    /// Connections in the table at the same time.
    ConnectionsHeld {
        kind: Concurrent, words: "connections held", better: More,
        of: |t| Some(t.collected.table.as_ref()?.peak() as f64),
    }
    /// Share of the planned connections of which all three packets arrived.
    HeldShare {
        kind: Concurrent, words: "share of connections held", better: More,
        of: |t| share(t.connections()?.completed, t.connections()?.offered),
    }
    /// Kernel memory of one of them, bytes.
    BytesPerConnection {
        kind: Concurrent, words: "memory per connection", better: Less,
        of: |t| t.collected.table.as_ref()?.bytes_per_connection(),
    }
    /// Shortest time of an echo, from when it was planned, nanoseconds.
    RoundTripNsMin {
        kind: RoundTrip, words: "shortest round trip, ns", better: More,
        of: |t| latency(t)?.at(0.0),
    }
    /// Mean time of an echo.
    RoundTripNsMean {
        kind: RoundTrip, words: "mean round trip, ns", better: More,
        of: |t| latency(t).filter(|all| all.count > 0).map(|all| all.mean_ns),
    }
    /// Median time of an echo.
    RoundTripNsP50 {
        kind: RoundTrip, words: "median round trip, ns", better: Less,
        of: |t| latency(t)?.at(0.5),
    }
    /// Time that 99 of 100 echoes do not exceed.
    RoundTripNsP99 {
        kind: RoundTrip, words: "round trip, 99th percentile, ns", better: More,
        of: |t| latency(t)?.at(0.99),
    }
    /// Longest time of an echo.
    RoundTripNsMax {
        kind: RoundTrip, words: "longest round trip, ns", better: More,
        of: |t| latency(t)?.at(1.0),
    }
    /// Share of echoes that did not return.
    RoundTripLossRatio {
        kind: RoundTrip, words: "lost echoes", better: More,
        of: |t| share(t.probe()?.lost(), t.probe()?.planned),
    }
    /// Median response time of a process on the firewall, from the request, nanoseconds.
    ResponseNsP50 {
        kind: Response, words: "median response of a process, ns", better: Less,
        of: |t| latency(t)?.at(0.5),
    }
    /// Time that 99 of 100 of its answers do not exceed.
    ResponseNsP99 {
        kind: Response, words: "response of a process, 99th percentile, ns", better: More,
        of: |t| latency(t)?.at(0.99),
    }
    /// Longest time until it answers.
    ResponseNsMax {
        kind: Response, words: "longest response of a process, ns", better: More,
        of: |t| latency(t)?.at(1.0),
    }
    /// The machine's load average of the last minute, read while a process on the firewall was
    /// probed.
    LoadAverage {
        kind: Response, words: "load average", better: More,
        of: |t| Some(t.collected.load_average),
    }
    /// Bytes a second that a program received of one bulk TCP stream.
    StreamBytesPerSecond {
        kind: Stream, words: "bytes/s of one TCP stream", better: More,
        of: |t| {
            let stream = t.stream()?;
            (stream.seconds > 0.0).then(|| stream.bytes as f64 / stream.seconds)
        },
    }
    /// Segments of that stream that were sent again.
    StreamRetransmits {
        kind: Stream, words: "segments retransmitted", better: More,
        of: |t| Some(t.stream()?.retransmits as f64),
    }
}

impl Quantity {
    /// The kind of trial that measures it.
    pub fn kind(self) -> TrialKind {
        self.row().kind
    }

    /// Its title for readers.
    pub fn words(self) -> &'static str {
        self.row().words
    }

    /// Whether less of it is better: times and memory.
    pub fn is_cost(self) -> bool {
        self.row().better == Better::Less
    }

    /// Its value in one trial; `None` if the trial measured something else.
    pub fn of(self, trial: &Trial) -> Option<f64> {
        let row = self.row();
        if trial.kind == row.kind { (row.of)(trial) } else { None }
    }

    /// What trials of a kind are compared by first, and two copies of a subject; `None` if the
    /// study sets the rate of packets.
    pub fn of_kind(kind: TrialKind) -> Option<Quantity> {
        Some(match kind {
            TrialKind::Rate => Quantity::Pps,
            TrialKind::Paced => return None,
            TrialKind::Load => Quantity::LoadSeconds,
            TrialKind::Add => Quantity::AddSeconds,
            TrialKind::Connections => Quantity::ConnectionsPerSecond,
            TrialKind::ConnectionsReset => Quantity::ConnectionsResetPerSecond,
            TrialKind::Handshakes => Quantity::HandshakesPerSecond,
            TrialKind::Concurrent => Quantity::BytesPerConnection,
            // Their rate is the plan's.
            TrialKind::Sockets => Quantity::ReplyNsP50,
            TrialKind::RoundTrip => Quantity::RoundTripNsP50,
            TrialKind::Response => Quantity::ResponseNsP50,
            TrialKind::Stream => Quantity::StreamBytesPerSecond,
        })
    }
}

/// Packets a second of a trial; `None` if it took no time.
fn per_second(packets: u64, trial: &Trial) -> Option<f64> {
    (trial.seconds > 0.0).then(|| packets as f64 / trial.seconds)
}

/// A share; `None` of nothing.
fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

fn snmp(trial: &Trial, counter: &str) -> u64 {
    trial.collected.snmp.get(counter).copied().unwrap_or(0)
}

fn completed_per_second(trial: &Trial) -> Option<f64> {
    let completed = trial.connections()?.completed;
    (trial.seconds > 0.0).then(|| completed as f64 / trial.seconds)
}

fn failed_share(trial: &Trial) -> Option<f64> {
    let connections = trial.connections()?;
    share(connections.completed, connections.offered).map(|completed| 1.0 - completed)
}

/// Times of replies to weir's own sockets: other clients count from another moment.
fn own_replies(trial: &Trial) -> Option<&Spectrum> {
    let connections = trial.connections()?;
    connections.client.is_none().then_some(&connections.whole)
}

fn latency(trial: &Trial) -> Option<&Spectrum> {
    Some(&trial.probe()?.latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Close, Connections};
    use crate::per_endpoint::{Member, Volume};
    use crate::trial::Measured;
    use crate::trial::tests::trial;

    #[test]
    fn the_sides_of_connections_are_told_apart() {
        let of = |connections| Member { connections, ..Member::default() };
        let connections = Connections {
            from_clients: Volume { packets: 40, bytes: 3000 },
            clients: vec![of(6), of(4)],
            ..Connections::none(Close::Fin)
        };
        let measured = Measured::Connections(Box::new(connections));
        let trial =
            Trial { kind: TrialKind::Connections, seconds: 2.0, measured, ..trial(1, 1, &[]) };
        let of = |quantity: Quantity| quantity.of(&trial);
        assert_eq!(of(Quantity::PacketsFromClients), Some(20.0));
        assert_eq!(of(Quantity::BitsFromClients), Some(12_000.0));
        assert_eq!(of(Quantity::LeastClientShare), Some(0.4));
        assert_eq!(of(Quantity::LeastServerShare), None, "servers were not told apart");
        assert_eq!(of(Quantity::RedirectsSent), Some(0.0), "none is a number, too");
    }
}
