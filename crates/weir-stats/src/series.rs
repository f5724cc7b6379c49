//! Samples picked out of trials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::connections::Connections;
use crate::estimate::{self, Estimate};
use crate::members;
use crate::scenario::Scenario;
use crate::trial::{Kind, State, Trial};

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
    /// Replies a second to connections between sockets of the kernel, of all clients together.
    SocketsPerSecond,
    /// Share of those connections that failed.
    SocketFailureRatio,
    /// Share of them for which the client had no port left.
    NoPortRatio,
    /// Packets that entered the firewall, by either device, for each reply.
    PacketsPerReply,
    /// Median time of a reply, from when its connection was planned, nanoseconds.
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
        match self {
            Quantity::NoPortRatio => {
                let count = connections.failed_at("address not available");
                share(count as f64, connections.offered)
            }
            Quantity::PacketsPerReply => share(trial.offered as f64, connections.completed),
            Quantity::ReplyNsP50 => connections.whole.at(0.5),
            Quantity::ReplyNsP99 => connections.whole.at(0.99),
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

/// Which samples: a subject (and copy of it) at the points that `scenario` is a part of.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// What is compared.
    pub quantity: Quantity,
    /// The subject.
    pub subject: &'a str,
    /// 0, or 1 for the second one of the A/A pair.
    pub copy: u32,
    /// The point, or a part of one.
    pub scenario: &'a Scenario,
}

impl<'a> Selection<'a> {
    /// The first copy of `subject` at `scenario`.
    pub fn new(quantity: Quantity, subject: &'a str, scenario: &'a Scenario) -> Selection<'a> {
        Selection { quantity, subject, copy: 0, scenario }
    }

    /// The accepted trials that it means.
    ///
    /// A trial of a load lies on fewer axes than one of packets (where packets come from makes
    /// no difference to it), so only the axes that both name are compared.
    pub fn trials<'t>(&self, trials: &'t [Trial]) -> impl Iterator<Item = &'t Trial> {
        let wanted = *self;
        let at_point = move |trial: &Trial| {
            wanted.scenario.0.iter().all(|(axis, value)| {
                trial.scenario.coordinate(axis).is_none_or(|there| there == value)
            })
        };
        trials.iter().filter(move |trial| {
            trial.kind == wanted.quantity.kind()
                && trial.state == State::Accepted
                && trial.subject == wanted.subject
                && trial.copy == wanted.copy
                && at_point(trial)
        })
    }

    /// One value a block: the mean of its accepted trials, the two legs of ABBA as a rule.
    pub fn by_block(&self, trials: &[Trial]) -> BTreeMap<u32, f64> {
        let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        for trial in self.trials(trials) {
            if let Some(value) = self.quantity.of(trial) {
                let sum = sums.entry(trial.block).or_default();
                *sum = (sum.0 + value, sum.1 + 1);
            }
        }
        sums.into_iter().map(|(block, (sum, count))| (block, sum / f64::from(count))).collect()
    }

    /// Median over blocks, with its interval.
    pub fn estimate(&self, trials: &[Trial], seed: u64) -> Option<Estimate> {
        let values: Vec<f64> = self.by_block(trials).into_values().collect();
        estimate::of_median(&values, seed)
    }
}

/// Ratio of two selections: median over the blocks that hold both, with its interval.
pub fn ratio(
    first: Selection<'_>,
    second: Selection<'_>,
    trials: &[Trial],
    seed: u64,
) -> Option<Estimate> {
    let seconds = second.by_block(trials);
    let pairs: Vec<(f64, f64)> = first
        .by_block(trials)
        .into_iter()
        .filter_map(|(block, value)| Some((value, *seconds.get(&block)?)))
        .collect();
    estimate::median_ratio(&pairs, seed)
}

/// What a step adds: the difference of two selections over the `steps` between them, median over
/// the blocks that hold both, with its interval.
pub fn slope(
    from: Selection<'_>,
    to: Selection<'_>,
    steps: f64,
    trials: &[Trial],
    seed: u64,
) -> Option<Estimate> {
    let starts = from.by_block(trials);
    let slopes: Vec<f64> = to
        .by_block(trials)
        .into_iter()
        .filter_map(|(block, value)| Some((value - starts.get(&block)?) / steps))
        .collect();
    estimate::of_median(&slopes, seed)
}

/// What was measured of a second copy of a subject, and where.
pub fn copied(trials: &[Trial]) -> Vec<(Quantity, &Scenario)> {
    let mut places: Vec<(Quantity, &Scenario)> = trials
        .iter()
        .filter(|trial| trial.copy == 1)
        .filter_map(|trial| Some((Quantity::of_kind(trial.kind)?, &trial.scenario)))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The two copies of a subject at one place: block, second copy and first.
pub fn copies(
    trials: &[Trial],
    subject: &str,
    (quantity, scenario): (Quantity, &Scenario),
) -> Vec<(u32, f64, f64)> {
    let first = Selection::new(quantity, subject, scenario);
    let firsts = first.by_block(trials);
    let seconds = (Selection { copy: 1, ..first }).by_block(trials);
    let pair = |(block, second): (u32, f64)| Some((block, second, *firsts.get(&block)?));
    seconds.into_iter().filter_map(pair).collect()
}

/// Ratio of the second copy of `subject` to its first, over all points and blocks: the noise
/// floor.
pub fn noise_floor(trials: &[Trial], subject: &str, seed: u64) -> Option<Estimate> {
    let of_place = |place| copies(trials, subject, place);
    let pairs: Vec<(f64, f64)> = copied(trials)
        .into_iter()
        .flat_map(of_place)
        .map(|(_, second, first)| (second, first))
        .collect();
    estimate::median_ratio(&pairs, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::{Member, Volume};
    use crate::trial::tests::trial;

    fn rate(subject: &str, rules: u64, block: u32, pps: f64) -> Trial {
        let scenario = Scenario::default().with("rules", rules).with("source", "near");
        Trial { subject: subject.to_owned(), scenario, block, pps, ..trial(1, 1, &[]) }
    }

    #[test]
    fn the_sides_of_connections_are_told_apart() {
        let of = |connections| Member { connections, ..Member::default() };
        let connections = Connections {
            from_clients: Volume { packets: 40, bytes: 3000 },
            clients: vec![of(6), of(4)],
            ..crate::connections::tests::slowing()
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

    #[test]
    fn ratios_are_made_within_blocks() {
        let trials = [
            rate("ipset", 16, 0, 100.0),
            rate("ipset", 16, 0, 300.0),
            rate("ipset", 1024, 0, 100.0),
            rate("ipset", 16, 1, 20.0),
            rate("ipset", 1024, 1, 10.0),
            rate("ipset", 1024, 2, 7.0),
        ];
        let (few, many) =
            (Scenario::default().with("rules", 16), Scenario::default().with("rules", 1024));
        let first = Selection::new(Quantity::Pps, "ipset", &many);
        let second = Selection::new(Quantity::Pps, "ipset", &few);
        let ratio = ratio(first, second, &trials, 1).unwrap();
        assert_eq!((ratio.value, ratio.samples), (0.5, 2));
    }

    #[test]
    fn slopes_are_made_within_blocks() {
        let trials = [
            rate("linear", 16, 0, 1e9),
            rate("linear", 48, 0, 0.1e9),
            rate("linear", 16, 1, 0.5e9),
            rate("linear", 48, 1, 0.1e9),
            rate("linear", 48, 2, 1e9),
        ];
        let (few, many) =
            (Scenario::default().with("rules", 16), Scenario::default().with("rules", 48));
        let from = Selection::new(Quantity::NsPerPacket, "linear", &few);
        let to = Selection::new(Quantity::NsPerPacket, "linear", &many);
        // (10 - 1) and (10 - 2) nanoseconds over 32 rules.
        let slope = slope(from, to, 32.0, &trials, 1).unwrap();
        assert_eq!((slope.value, slope.samples), (8.5 / 32.0, 2));
    }

    #[test]
    fn trials_that_do_not_count_are_left_out() {
        let mut trials = vec![rate("nft", 16, 0, 100.0), rate("nft", 16, 0, 1.0)];
        trials[1].state = State::Disturbed;
        let point = Scenario::default().with("rules", 16);
        let selection = Selection::new(Quantity::Pps, "nft", &point);
        assert_eq!(selection.by_block(&trials), BTreeMap::from([(0, 100.0)]));
        trials[1].state = State::Accepted;
        assert_eq!(selection.by_block(&trials), BTreeMap::from([(0, 50.5)]));
    }

    #[test]
    fn a_load_lies_on_fewer_axes() {
        let mut load = rate("nft", 16, 0, 0.0);
        load.kind = Kind::Load;
        load.scenario = Scenario::default().with("rules", 16);
        load.seconds = 0.5;
        let point = Scenario::default().with("rules", 16).with("source", "far");
        let selection = Selection::new(Quantity::LoadSeconds, "nft", &point);
        assert_eq!(selection.estimate(&[load], 1).unwrap().value, 0.5);
    }

    #[test]
    fn the_noise_floor_pairs_the_copies() {
        let mut trials = vec![rate("none", 0, 0, 100.0), rate("none", 0, 0, 101.0)];
        trials[1].copy = 1;
        assert_eq!(noise_floor(&trials, "none", 1).unwrap().value, 1.01);
        assert_eq!(noise_floor(&trials[..1], "none", 1), None);
    }

    /// A trial of connections in which `completed` were.
    fn connecting(copy: u32, block: u32, completed: u64) -> Trial {
        let connections =
            Connections { offered: completed, completed, ..crate::connections::tests::slowing() };
        let kind = Kind::Connections;
        let subject = "tracked".to_owned();
        Trial { kind, subject, copy, block, connections: Some(connections), ..trial(1, 1, &[]) }
    }

    #[test]
    fn connections_have_a_noise_floor_too() {
        let trials: Vec<Trial> = (0..3)
            .flat_map(|block| [connecting(0, block, 1000), connecting(1, block, 1100)])
            .collect();
        let floor = noise_floor(&trials, "tracked", 1).unwrap();
        assert!((floor.value - 1.1).abs() < 1e-9 && floor.samples == 3, "{floor:?}");
        let alone: Vec<Trial> = trials.into_iter().filter(|trial| trial.copy == 0).collect();
        assert!(noise_floor(&alone, "tracked", 1).is_none(), "one copy has no floor");
    }
}
