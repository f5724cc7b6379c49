//! What is read out of a trial and compared.

use serde::{Deserialize, Serialize};

use crate::connections::Connections;
use crate::members;
use crate::trial::{Kind, Trial};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Packets a second that met their verdict at overload: forwarded, or dropped by the rules.
    Pps,
    /// Nanoseconds of one core a packet takes on its whole way, generator and sink included.
    NsPerPacket,
    /// Packets a second that arrived although rules have to drop such packets: what a limit lets
    /// through.
    LeakedPps,
    /// Packets a second that arrived and were to arrive: of a mix, the legal ones alone.
    LegalPps,
    /// Share of the packets to drop that arrived all the same.
    LeakedShare,
    /// ICMP messages that the firewall sent for each packet that it took (destination unreachable).
    IcmpAnswersRatio,
    /// Share of packets lost at overload, of those that had to arrive.
    LostShare,
    /// Share of packets lost at a set rate.
    LossRatio,
    /// Seconds to load a ruleset at once.
    LoadSeconds,
    /// Kernel memory that a loaded ruleset takes, bytes.
    LoadMemoryBytes,
    /// Seconds to add one rule to those in force.
    AddSeconds,
    /// Complete TCP connections a second, request and reply validated, closed by FIN.
    ConnectionsPerSecond,
    /// The same with RST at the end.
    ConnectionsResetPerSecond,
    /// TCP connections opened a second, nothing sent on them.
    HandshakesPerSecond,
    /// Share of connections, closed by FIN, that failed.
    ConnectionFailureRatio,
    /// Packets a second that arrived at either end of connections closed by FIN.
    ConnectionPackets,
    /// SYNs a second of a flood beside connections closed by FIN.
    FloodPps,
    /// Share of them that reached the servers.
    FloodArrivedShare,
    /// Replies a second to connections between sockets of the kernel, of all clients together, or
    /// to the client that a subject names in their place.
    SocketsPerSecond,
    /// Share of those connections that failed.
    SocketFailureRatio,
    /// Share of them for which the client had no port left.
    NoPortRatio,
    /// Packets that entered the firewall, by either device, for each reply.
    PacketsPerReply,
    /// Mean time of a reply as its own client counts it, nanoseconds: weir's sockets from when the
    /// connection was planned, its small TCP from the first packet until FIN+ACK, programs from
    /// when they sent the request.
    ClientReplyNsMean,
    /// Median time of a reply to weir's own sockets, from when its connection was planned,
    /// nanoseconds.
    ReplyNsP50,
    /// Time that 99 of 100 replies do not exceed.
    ReplyNsP99,
    /// Connections a second that the clients' ports allow.
    PortsAllow,
    /// Connections a second that their descriptors allow where each lasts to its limit.
    DescriptorsAllow,
    /// The same of the memory for their buffers.
    BuffersAllow,
    /// Complete connections a second in the first third of a trial.
    EarlyConnections,
    /// Those of the last third over those of the first.
    LateOverEarly,
    /// Share of all complete TCP connections that the client with the fewest had.
    LeastClientShare,
    /// The same of the server.
    LeastServerShare,
    /// Bits a second of clients that arrived at servers, Ethernet headers included.
    BitsFromClients,
    /// The same of servers, that arrived at clients.
    BitsFromServers,
    /// Packets a second of clients that arrived at servers.
    PacketsFromClients,
    /// The same of servers, that arrived at clients.
    PacketsFromServers,
    /// ICMP redirects that the firewall has sent since it was set up.
    RedirectsSent,
    /// Share of all packets of connections that the busiest core took.
    BusiestCoreShare,
    /// Share of connections whose server saw another address than its client's.
    TranslatedShare,
    /// Most entries in the connection table during a trial of connections.
    TableEntries,
    /// Entries at the end of such a trial over the most there were.
    TableEndShare,
    /// Share of its time after which the table was within 2 % of its most.
    TableFullShare,
    /// Connections that the table held at once.
    ConnectionsHeld,
    /// Share of those that were to be held of which all three packets arrived.
    HeldShare,
    /// Kernel memory of one of them, bytes.
    BytesPerConnection,
    /// Shortest time of an echo, from when it was planned, nanoseconds.
    RoundTripNsMin,
    /// Mean time of an echo.
    RoundTripNsMean,
    /// Median time of an echo.
    RoundTripNsP50,
    /// Time that 99 of 100 echoes do not exceed.
    RoundTripNsP99,
    /// Longest time of an echo.
    RoundTripNsMax,
    /// Share of echoes that did not come back.
    RoundTripLossRatio,
    /// Median time until a process on the firewall answers, from when it was asked, nanoseconds.
    ResponseNsP50,
    /// Time that 99 of 100 of its answers do not exceed.
    ResponseNsP99,
    /// Longest time until it answers.
    ResponseNsMax,
    /// The machine's load average of the last minute, read where a process on the firewall was
    /// asked.
    LoadAverage,
    /// Bytes a second that a program received of one bulk TCP stream.
    StreamBytesPerSecond,
    /// Segments of that stream that were sent again.
    StreamRetransmits,
}

impl Quantity {
    /// The kind of trial that measures it.
    pub fn kind(self) -> Kind {
        match self {
            Quantity::Pps
            | Quantity::NsPerPacket
            | Quantity::LeakedPps
            | Quantity::LegalPps
            | Quantity::LeakedShare
            | Quantity::LostShare
            | Quantity::IcmpAnswersRatio => Kind::Rate,
            Quantity::LossRatio => Kind::Paced,
            Quantity::LoadSeconds | Quantity::LoadMemoryBytes => Kind::Load,
            Quantity::AddSeconds => Kind::Add,
            Quantity::ConnectionsPerSecond
            | Quantity::ConnectionFailureRatio
            | Quantity::ConnectionPackets
            | Quantity::FloodPps
            | Quantity::FloodArrivedShare
            | Quantity::EarlyConnections
            | Quantity::LateOverEarly
            | Quantity::TranslatedShare
            | Quantity::LeastClientShare
            | Quantity::LeastServerShare
            | Quantity::BitsFromClients
            | Quantity::BitsFromServers
            | Quantity::PacketsFromClients
            | Quantity::PacketsFromServers
            | Quantity::RedirectsSent
            | Quantity::BusiestCoreShare
            | Quantity::TableEntries
            | Quantity::TableEndShare
            | Quantity::TableFullShare => Kind::Connections,
            Quantity::SocketsPerSecond
            | Quantity::SocketFailureRatio
            | Quantity::NoPortRatio
            | Quantity::PacketsPerReply
            | Quantity::ClientReplyNsMean
            | Quantity::ReplyNsP50
            | Quantity::ReplyNsP99
            | Quantity::PortsAllow
            | Quantity::DescriptorsAllow
            | Quantity::BuffersAllow => Kind::Sockets,
            Quantity::ConnectionsResetPerSecond => Kind::ConnectionsReset,
            Quantity::HandshakesPerSecond => Kind::Handshakes,
            Quantity::ConnectionsHeld | Quantity::HeldShare | Quantity::BytesPerConnection => {
                Kind::Concurrent
            }
            Quantity::RoundTripNsMin
            | Quantity::RoundTripNsMean
            | Quantity::RoundTripNsP50
            | Quantity::RoundTripNsP99
            | Quantity::RoundTripNsMax
            | Quantity::RoundTripLossRatio => Kind::RoundTrip,
            Quantity::ResponseNsP50
            | Quantity::ResponseNsP99
            | Quantity::ResponseNsMax
            | Quantity::LoadAverage => Kind::Response,
            Quantity::StreamBytesPerSecond | Quantity::StreamRetransmits => Kind::Stream,
        }
    }

    /// What trials of a kind are compared by first, and two copies of a subject; `None` where the
    /// study sets the rate of packets.
    pub fn of_kind(kind: Kind) -> Option<Quantity> {
        Some(match kind {
            Kind::Rate => Quantity::Pps,
            Kind::Paced => return None,
            Kind::Load => Quantity::LoadSeconds,
            Kind::Add => Quantity::AddSeconds,
            Kind::Connections => Quantity::ConnectionsPerSecond,
            Kind::ConnectionsReset => Quantity::ConnectionsResetPerSecond,
            Kind::Handshakes => Quantity::HandshakesPerSecond,
            Kind::Concurrent => Quantity::BytesPerConnection,
            // Their rate is the plan's.
            Kind::Sockets => Quantity::ReplyNsP50,
            Kind::RoundTrip => Quantity::RoundTripNsP50,
            Kind::Response => Quantity::ResponseNsP50,
            Kind::Stream => Quantity::StreamBytesPerSecond,
        })
    }

    /// Whether less of it is better: times and memory.
    pub fn is_cost(self) -> bool {
        matches!(
            self,
            Quantity::LoadSeconds
                | Quantity::AddSeconds
                | Quantity::NsPerPacket
                | Quantity::BytesPerConnection
                | Quantity::RoundTripNsP50
                | Quantity::ClientReplyNsMean
                | Quantity::ReplyNsP50
                | Quantity::ReplyNsP99
                | Quantity::ResponseNsP50
        )
    }

    /// Its value in one trial; `None` where the trial measured something else.
    pub fn of(self, trial: &Trial) -> Option<f64> {
        if trial.kind != self.kind() {
            return None;
        }
        match self {
            Quantity::Pps | Quantity::ConnectionPackets => Some(trial.pps),
            Quantity::LeakedPps => a_second(trial.leaked, trial),
            Quantity::LegalPps => a_second(trial.delivered, trial),
            Quantity::FloodPps => a_second(trial.to_drop, trial),
            Quantity::LeakedShare | Quantity::FloodArrivedShare => {
                (trial.to_drop > 0).then(|| trial.leaked as f64 / trial.to_drop as f64)
            }
            Quantity::IcmpAnswersRatio => {
                let sent = trial.collected.snmp.get("Icmp.OutDestUnreachs").copied().unwrap_or(0);
                (trial.delivered > 0).then(|| sent as f64 / trial.delivered as f64)
            }
            Quantity::NsPerPacket => (trial.pps > 0.0).then(|| 1e9 / trial.pps),
            Quantity::LostShare | Quantity::LossRatio => Some(trial.loss_ratio()),
            Quantity::LoadSeconds => Some(trial.seconds),
            Quantity::LoadMemoryBytes => trial.collected.load_memory_bytes.map(|n| n as f64),
            Quantity::AddSeconds => {
                (trial.additions > 0).then(|| trial.seconds / trial.additions as f64)
            }
            Quantity::ConnectionsPerSecond
            | Quantity::ConnectionsResetPerSecond
            | Quantity::HandshakesPerSecond
            | Quantity::SocketsPerSecond => {
                let completed = trial.connections.as_ref()?.completed as f64;
                (trial.seconds > 0.0).then(|| completed / trial.seconds)
            }
            Quantity::EarlyConnections => trial.connections.as_ref()?.early_rate(trial.seconds),
            Quantity::LateOverEarly => {
                let connections = trial.connections.as_ref()?;
                let early = connections.early_rate(trial.seconds).filter(|rate| *rate > 0.0)?;
                Some(connections.late_rate(trial.seconds)? / early)
            }
            Quantity::TranslatedShare => {
                let connections = trial.connections.as_ref()?;
                let offered = connections.offered as f64;
                (offered > 0.0).then(|| connections.translated as f64 / offered)
            }
            Quantity::TableEntries => Some(trial.collected.table.as_ref()?.peak() as f64),
            Quantity::TableEndShare => trial.collected.table.as_ref()?.end_share(),
            Quantity::TableFullShare => {
                let full = trial.collected.table.as_ref()?.full_seconds()?;
                (trial.seconds > 0.0).then(|| full / trial.seconds)
            }
            Quantity::ConnectionsHeld => Some(trial.collected.table.as_ref()?.peak() as f64),
            Quantity::HeldShare => {
                let connections = trial.connections.as_ref()?;
                let offered = connections.offered as f64;
                (offered > 0.0).then(|| connections.completed as f64 / offered)
            }
            Quantity::BytesPerConnection => trial.collected.table.as_ref()?.bytes_per_connection(),
            Quantity::ConnectionFailureRatio | Quantity::SocketFailureRatio => {
                let connections = trial.connections.as_ref()?;
                let offered = connections.offered as f64;
                (offered > 0.0).then(|| 1.0 - connections.completed as f64 / offered)
            }
            _ => self
                .of_sides(trial)
                .or_else(|| self.of_sockets(trial))
                .or_else(|| self.of_probe(trial)),
        }
    }

    /// The same of connections between sockets of the kernel.
    fn of_sockets(self, trial: &Trial) -> Option<f64> {
        let connections = trial.connections.as_ref()?;
        let share = |count: f64, of: u64| (of > 0).then(|| count / of as f64);
        // Others count from another moment.
        let own = connections.client.is_none().then_some(&connections.whole);
        match self {
            Quantity::NoPortRatio => {
                let count = connections.failed_at("address not available");
                share(count as f64, connections.offered)
            }
            Quantity::PacketsPerReply => share(trial.offered as f64, connections.completed),
            Quantity::ClientReplyNsMean => connections.reply_ns_mean(),
            Quantity::ReplyNsP50 => own?.at(0.5),
            Quantity::ReplyNsP99 => own?.at(0.99),
            Quantity::PortsAllow => connections.limit("ports"),
            Quantity::DescriptorsAllow => connections.limit("descriptors"),
            Quantity::BuffersAllow => connections.limit("buffers"),
            _ => None,
        }
    }

    /// The same of the two sides of connections, and of what is between them.
    fn of_sides(self, trial: &Trial) -> Option<f64> {
        let Connections { from_clients, from_servers, clients, servers, .. } =
            trial.connections.as_ref()?;
        let count = match self {
            Quantity::RedirectsSent => return Some(trial.collected.redirects_sent as f64),
            Quantity::BusiestCoreShare => return trial.collected.busiest_core_share(),
            Quantity::LeastClientShare => return members::least_share(clients),
            Quantity::LeastServerShare => return members::least_share(servers),
            Quantity::BitsFromClients => 8 * from_clients.bytes,
            Quantity::BitsFromServers => 8 * from_servers.bytes,
            Quantity::PacketsFromClients => from_clients.packets,
            Quantity::PacketsFromServers => from_servers.packets,
            _ => return None,
        };
        (trial.seconds > 0.0).then(|| count as f64 / trial.seconds)
    }

    /// The same of what probes found.
    fn of_probe(self, trial: &Trial) -> Option<f64> {
        match self {
            Quantity::RoundTripNsMin => trial.probe.as_ref()?.latency.at(0.0),
            Quantity::RoundTripNsMean => {
                let latency = &trial.probe.as_ref()?.latency;
                (latency.count > 0).then_some(latency.mean_ns)
            }
            Quantity::RoundTripNsP50 | Quantity::ResponseNsP50 => {
                trial.probe.as_ref()?.latency.at(0.5)
            }
            Quantity::RoundTripNsP99 | Quantity::ResponseNsP99 => {
                trial.probe.as_ref()?.latency.at(0.99)
            }
            Quantity::RoundTripNsMax | Quantity::ResponseNsMax => {
                trial.probe.as_ref()?.latency.at(1.0)
            }
            Quantity::RoundTripLossRatio => {
                let probe = trial.probe.as_ref()?;
                (probe.planned > 0).then(|| probe.lost() as f64 / probe.planned as f64)
            }
            Quantity::LoadAverage => Some(trial.collected.load_average),
            Quantity::StreamBytesPerSecond => {
                let stream = trial.stream.as_ref()?;
                (stream.seconds > 0.0).then(|| stream.bytes as f64 / stream.seconds)
            }
            Quantity::StreamRetransmits => Some(trial.stream.as_ref()?.retransmits as f64),
            _ => None,
        }
    }
}

/// Packets a second of a trial; `None` where it took no time.
fn a_second(packets: u64, trial: &Trial) -> Option<f64> {
    (trial.seconds > 0.0).then(|| packets as f64 / trial.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Close;
    use crate::members::{Member, Volume};
    use crate::trial::tests::trial;

    #[test]
    fn the_sides_of_connections_are_told_apart() {
        let of = |connections| Member { connections, ..Member::default() };
        let connections = Connections {
            from_clients: Volume { packets: 40, bytes: 3000 },
            clients: vec![of(6), of(4)],
            ..Connections::none(Close::Fin)
        };
        let connections = Some(connections);
        let trial =
            Trial { kind: Kind::Connections, seconds: 2.0, connections, ..trial(1, 1, &[]) };
        let of = |quantity: Quantity| quantity.of(&trial);
        assert_eq!(of(Quantity::PacketsFromClients), Some(20.0));
        assert_eq!(of(Quantity::BitsFromClients), Some(12_000.0));
        assert_eq!(of(Quantity::LeastClientShare), Some(0.4));
        assert_eq!(of(Quantity::LeastServerShare), None, "servers were not told apart");
        assert_eq!(of(Quantity::RedirectsSent), Some(0.0), "none is a number, too");
    }
}
