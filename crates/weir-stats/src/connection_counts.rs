//! Counts of a trial of connections.

use serde::{Deserialize, Serialize};

use crate::duration_distribution::DurationDistribution;
use crate::endpoint_counts::{ArrivedTraffic, EndpointCounts};

/// How connections end, which defines when one is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionClose {
    /// Request, reply, then FIN by the client: seven packets.
    Fin,
    /// Request, reply, then RST by the client: five packets. Not what RFC 9411 calls a connection.
    Reset,
    /// Opened by three packets and left open.
    Never,
}

/// A limit of the clients themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientResourceRateLimit {
    /// Which: `ports`, `descriptors`, `buffers`, `listen queue`.
    pub name: String,
    /// Connections per second that it sustains.
    pub per_second: f64,
}

/// Who opened the connections of a trial, where it was another client than weir's own sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubstituteClientReport {
    /// `stateless`, `httperf`, `wrk`, `wrk-kept`; the version of a program is among the tools of
    /// the environment.
    pub name: String,
    /// Response times as a program reports them, counted from the sending of the request, with the
    /// quantiles that it reports. httperf's have a resolution of 0.1 ms; wrk corrects its own for
    /// requests that it could not send in time. Empty if it reports none.
    #[serde(default, skip_serializing_if = "DurationDistribution::is_empty")]
    #[serde(rename = "reported")]
    pub response_times: DurationDistribution,
}

/// Connections that did not get over one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionFailureCount {
    /// The packet that did not arrive as it had to be: `SYN`, `SYN+ACK`, `request`, `reply`, `FIN`,
    /// `FIN+ACK`, `last ACK`, `RST`, `ACK`. Of sockets, what was wrong: `refused`, `reset`, `timed
    /// out`, `address not available`, `descriptors`, `buffers`, `unreachable`, `closed early`,
    /// `wrong reply`, `another error`; of programs, what they distinguished, in these words or
    /// their own: `socket timed out`, `file table`, `connect error`, `read error`, `write error`.
    pub at: String,
    /// Connections.
    pub connections: i64,
}

/// What both ends counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// How they end.
    pub close: ConnectionClose,
    /// Connections that the client began. Of a program: its replies and errors.
    #[serde(rename = "offered")]
    pub started: u64,
    /// Connections whose every packet arrived as it had to be, at both ends. Of a program: its
    /// replies, of which there are several on a connection that is kept.
    pub completed: u64,
    /// The others, by the step that failed. Less than 0: packets were duplicated.
    pub failed: Vec<ConnectionFailureCount>,
    /// Packets of the trial that arrived with wrong numbers or contents.
    #[serde(rename = "invalid")]
    pub invalid_packets: u64,
    /// RST segments of strangers: what `REJECT --reject-with tcp-reset` sends.
    #[serde(rename = "resets")]
    pub foreign_resets: u64,
    /// ICMP messages.
    pub icmp: u64,
    /// Connections of the rate that the client could not open in time.
    #[serde(rename = "given_up")]
    pub skipped_behind_schedule: u64,
    /// Connections whose first packet reached the server with another address than its client's.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "translated")]
    pub nat_translated_connections: u64,
    /// Packets of clients that arrived at servers.
    #[serde(default, skip_serializing_if = "ArrivedTraffic::is_zero")]
    #[serde(rename = "from_clients")]
    pub arrived_at_servers: ArrivedTraffic,
    /// Packets of servers that arrived at clients.
    #[serde(default, skip_serializing_if = "ArrivedTraffic::is_zero")]
    #[serde(rename = "from_servers")]
    pub arrived_at_clients: ArrivedTraffic,
    /// Each client's part, where there are at most 16 of them and of servers; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<EndpointCounts>,
    /// Each server's part, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<EndpointCounts>,
    /// Seconds since the beginning, and connections completed until then; empty in short trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<(f64, u64)>,
    /// From the first packet until SYN+ACK is back.
    pub establish: DurationDistribution,
    /// From the first packet until FIN+ACK is back; empty where none is sent. Of sockets both times
    /// count from when the connection was planned, and this one until the reply is there.
    pub whole: DurationDistribution,
    /// Limits of clients that are sockets, the one that binds first first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ClientResourceRateLimit>,
    /// Who opened them; `None`: weir's own client of this kind of trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SubstituteClientReport>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ConnectionCounts {
    /// Complete connections per second over the time of a trial, between samples that lie one of so
    /// many parts of it apart: seconds, and the rate around them.
    pub fn connection_rates_over_time(&self, parts: u32) -> Vec<(f64, f64)> {
        let Some((first, rest)) = self.progress.split_first() else { return Vec::new() };
        let (mut since, mut before) = *first;
        let end = rest.last().map_or(0.0, |(seconds, _)| *seconds);
        let mut course = Vec::new();
        for (seconds, completed) in rest {
            let apart = seconds - since;
            if apart >= end / f64::from(parts) && apart > 0.0 {
                let rate = completed.saturating_sub(before) as f64 / apart;
                course.push((since + apart / 2.0, rate));
                (since, before) = (*seconds, *completed);
            }
        }
        course
    }

    /// None at all, of those that end in this way.
    pub fn empty(close: ConnectionClose) -> ConnectionCounts {
        ConnectionCounts {
            close,
            started: 0,
            completed: 0,
            failed: Vec::new(),
            invalid_packets: 0,
            foreign_resets: 0,
            icmp: 0,
            skipped_behind_schedule: 0,
            nat_translated_connections: 0,
            arrived_at_servers: ArrivedTraffic::default(),
            arrived_at_clients: ArrivedTraffic::default(),
            clients: Vec::new(),
            servers: Vec::new(),
            progress: Vec::new(),
            establish: DurationDistribution::default(),
            whole: DurationDistribution::default(),
            limits: Vec::new(),
            client: None,
        }
    }

    /// Complete connections per second in the first third of a trial of so many seconds.
    pub fn first_third_connection_rate(&self, seconds: f64) -> Option<f64> {
        self.connection_rate_between_nearest_samples(0.0, seconds / 3.0)
    }

    /// Complete connections per second in its last third.
    pub fn last_third_connection_rate(&self, seconds: f64) -> Option<f64> {
        self.connection_rate_between_nearest_samples(seconds * 2.0 / 3.0, seconds)
    }

    /// Between the samples that come next to both moments; `None` if they are the same.
    fn connection_rate_between_nearest_samples(&self, from: f64, to: f64) -> Option<f64> {
        let nearest = |moment: f64| {
            let distance = |sample: &&(f64, u64)| (sample.0 - moment).abs();
            self.progress.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
        };
        let (first, last) = (nearest(from)?, nearest(to)?);
        (last.0 > first.0).then(|| (last.1 - first.1) as f64 / (last.0 - first.0))
    }

    /// Connections that failed in this way.
    pub fn failed_connections_of_kind(&self, at: &str) -> i64 {
        let of_kind = self.failed.iter().filter(|failure| failure.at == at);
        of_kind.map(|failure| failure.connections).sum()
    }

    /// Mean time of a reply as its own client counts it, nanoseconds.
    pub fn mean_reply_ns_reported_or_own(&self) -> Option<f64> {
        let reported = self.client.as_ref().map(|client| &client.response_times);
        let of_client = reported.filter(|reported| reported.count > 0).unwrap_or(&self.whole);
        (of_client.count > 0).then_some(of_client.mean_ns)
    }

    /// Connections a second that a limit of the clients allows; `None` if it is not known.
    pub fn rate_limit_of_client_resource(&self, name: &str) -> Option<f64> {
        self.limits.iter().find(|limit| limit.name == name).map(|limit| limit.per_second)
    }

    /// Connections that are neither complete nor failed: never anything but 0.
    pub fn unaccounted_connections(&self) -> i64 {
        let failed: i64 = self.failed.iter().map(|failure| failure.connections).sum();
        self.started as i64 - self.completed as i64 - failed
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A hundred a second for three seconds, then fifty.
    pub(crate) fn slowing_connection_counts() -> ConnectionCounts {
        let done = |at: u64| if at <= 30 { at * 10 } else { 300 + (at - 30) * 5 };
        let progress = (0..=90).map(|at| (at as f64 / 10.0, done(at))).collect();
        ConnectionCounts { progress, ..ConnectionCounts::empty(ConnectionClose::Fin) }
    }

    #[test]
    fn a_falling_rate_differs_between_first_and_last_third() {
        let all = slowing_connection_counts();
        assert_eq!(
            (all.first_third_connection_rate(9.0), all.last_third_connection_rate(9.0)),
            (Some(100.0), Some(50.0))
        );
    }

    #[test]
    fn reply_time_is_the_clients_reported_time_if_present() {
        let spectrum = |ns| DurationDistribution::from_counts(&[(ns, 9)]);
        let own = ConnectionCounts {
            whole: spectrum(500.0),
            ..ConnectionCounts::empty(ConnectionClose::Fin)
        };
        assert_eq!(own.mean_reply_ns_reported_or_own(), Some(500.0));
        let asked = |reported| {
            Some(SubstituteClientReport { name: "wrk".to_owned(), response_times: reported })
        };
        let said = ConnectionCounts { client: asked(spectrum(70.0)), ..own.clone() };
        assert_eq!(said.mean_reply_ns_reported_or_own(), Some(70.0));
        let silent = ConnectionCounts { client: asked(DurationDistribution::default()), ..own };
        assert_eq!(silent.mean_reply_ns_reported_or_own(), Some(500.0));
        assert_eq!(
            ConnectionCounts::empty(ConnectionClose::Fin).mean_reply_ns_reported_or_own(),
            None
        );
    }

    #[test]
    fn without_samples_there_are_no_third_rates() {
        let short = ConnectionCounts { progress: vec![(0.0, 0)], ..slowing_connection_counts() };
        assert_eq!(
            (short.first_third_connection_rate(9.0), short.last_third_connection_rate(9.0)),
            (None, None)
        );
    }
}
