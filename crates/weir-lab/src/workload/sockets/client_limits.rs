//! The client limit that applies first, reported before a run with kernel sockets.
//!
//! If clients reach these limits, a measurement of a firewall is one of its clients, and the
//! resulting errors look like the firewall's. Each limit is a number of resources that a connection
//! holds for a time, which gives a rate: resources divided by time. After Kadlecsik and Pásztor,
//! *Netfilter Performance Testing*, section 2, with the values of the machine at hand.

use std::fs;
use std::time::Duration;

use weir_kernel::Namespace;
use weir_stats::connection_counts::ClientResourceRateLimit;

/// How long a client waits for a reply.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a closed connection keeps its port, seconds (`TCP_TIMEWAIT_LEN` in net/tcp.h; no
/// sysctl sets it).
const TIME_WAIT_SECONDS: f64 = 60.0;
/// How long a busy server may be kept from accepting, seconds: a tenth, as a slice of a scheduler
/// that many tasks share.
const SERVER_STALL_SECONDS: f64 = 0.1;
/// Bytes of a page, in which `tcp_mem` counts.
const PAGE_BYTES: u64 = 4096;

/// A resource that a connection holds, and its total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClientResources {
    /// Client addresses, each with its ports.
    pub(crate) clients: u64,
    /// Ports of one client address.
    pub(crate) ports: u64,
    /// Server addresses.
    pub(crate) servers: u64,
    /// How long a port waits after a connection, seconds.
    pub(crate) time_wait_seconds: f64,
    /// Descriptors of the process.
    pub(crate) descriptors: u64,
    /// Descriptors of one connection: both ends are in this process.
    pub(crate) descriptors_per_connection: u64,
    /// How long a connection lasts at most, seconds.
    pub(crate) max_connection_seconds: f64,
    /// Memory of all TCP sockets, bytes; `None` if weir does not see it.
    pub(crate) tcp_memory_bytes: Option<u64>,
    /// Buffer of one connection, bytes.
    pub(crate) buffer_bytes_per_connection: u64,
    /// Connections that may wait to be accepted.
    pub(crate) listen_queue: u64,
}

/// A limit, and the rate at which it binds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientResourceLimit {
    /// Which.
    pub(crate) name: &'static str,
    /// Connections a second.
    pub(crate) per_second: f64,
    /// The explanation.
    pub(crate) explanation: String,
}

impl ClientResources {
    /// Those of this process, of `clients` client addresses with `ports` ports each in `source`,
    /// and of servers in `sink`.
    pub(crate) fn from_source_and_sink_namespaces(
        (clients, ports, servers): (u64, u64, u64),
        source: &Namespace,
        sink: &Namespace,
    ) -> ClientResources {
        let read = |namespace: &Namespace, key: &str| {
            parse_sysctl_numbers(&namespace.read_sysctl(key).unwrap_or_default())
        };
        // One for all namespaces, and shown in the machine's own alone.
        let memory = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
        let nofile = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        ClientResources {
            clients,
            ports,
            servers,
            time_wait_seconds: TIME_WAIT_SECONDS,
            descriptors: nofile.current.unwrap_or(u64::MAX),
            descriptors_per_connection: 2,
            max_connection_seconds: REPLY_TIMEOUT.as_secs_f64(),
            tcp_memory_bytes: parse_sysctl_numbers(&memory).get(2).map(|most| most * PAGE_BYTES),
            buffer_bytes_per_connection: read(source, "net.ipv4.tcp_wmem")
                .get(1)
                .copied()
                .unwrap_or(16_384),
            listen_queue: read(sink, "net.core.somaxconn").first().copied().unwrap_or(0),
        }
    }

    /// The limits, the one that binds first first.
    pub(crate) fn connection_rate_limits(&self) -> Vec<ClientResourceLimit> {
        let ClientResources { clients, ports, servers, descriptors, listen_queue: queue, .. } =
            *self;
        let (wait, session) = (self.time_wait_seconds, self.max_connection_seconds);
        let sessions = descriptors / self.descriptors_per_connection.max(1);
        let mut limits = vec![
            ClientResourceLimit {
                name: "ports",
                per_second: (clients * ports * servers) as f64 / wait,
                explanation: format!(
                    "{clients} clients with {ports} ports each to {servers} servers, unavailable \
                     for {wait} s after a connection"
                ),
            },
            ClientResourceLimit {
                name: "descriptors",
                per_second: sessions as f64 / session,
                explanation: format!("room for {sessions} connections, of up to {session} s each"),
            },
            ClientResourceLimit {
                name: "listen queue",
                per_second: queue as f64 / SERVER_STALL_SECONDS,
                explanation: format!(
                    "{queue} may wait while a server does not run for {SERVER_STALL_SECONDS} s"
                ),
            },
        ];
        if let Some(bytes) = self.tcp_memory_bytes {
            let held = bytes / self.buffer_bytes_per_connection.max(1);
            limits.push(ClientResourceLimit {
                name: "buffers",
                per_second: held as f64 / session,
                explanation: format!("memory for {held} connections, of up to {session} s each"),
            });
        }
        limits.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        limits
    }

    /// The text printed before a run that offers up to this many connections per second.
    pub(crate) fn describe_limits(&self, rate: u64) -> String {
        let limits = self.connection_rate_limits();
        let text = |limit: &ClientResourceLimit| {
            let ClientResourceLimit { name, per_second, explanation: why } = limit;
            format!("{name} at {per_second:.0} connections per second ({why})")
        };
        let all: Vec<String> = limits.iter().map(text).collect();
        let binds = limits.first().is_some_and(|first| first.per_second < rate as f64);
        let first = if binds { "may bind" } else { "do not bind" };
        format!("limits of the clients {first} at {rate} per second: {}", all.join("; "))
    }
}

/// The numbers of a sysctl.
fn parse_sysctl_numbers(text: &str) -> Vec<u64> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// What is kept of the limits.
pub(crate) fn to_limit_records(limits: &[ClientResourceLimit]) -> Vec<ClientResourceRateLimit> {
    let kept = limits.iter();
    kept.map(|limit| ClientResourceRateLimit {
        name: limit.name.to_owned(),
        per_second: limit.per_second,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client of the paper's section 2: one address, one server, descriptors and buffers of a
    /// machine of 2005.
    fn paper() -> ClientResources {
        ClientResources {
            clients: 1,
            ports: 64_512,
            servers: 1,
            time_wait_seconds: 240.0,
            descriptors: 1024,
            descriptors_per_connection: 1,
            max_connection_seconds: 5.0,
            tcp_memory_bytes: Some(40 << 20),
            buffer_bytes_per_connection: 16 << 10,
            listen_queue: 128,
        }
    }

    fn rate(resources: &ClientResources, name: &str) -> Option<u64> {
        let limits = resources.connection_rate_limits();
        limits.iter().find(|limit| limit.name == name).map(|limit| limit.per_second as u64)
    }

    #[test]
    fn rate_limits_equal_those_of_the_paper() {
        let minute = ClientResources { time_wait_seconds: 60.0, ..paper() };
        assert_eq!((rate(&paper(), "ports"), rate(&minute, "ports")), (Some(268), Some(1075)));
        assert_eq!(rate(&paper(), "descriptors"), Some(204));
        assert_eq!(rate(&paper(), "buffers"), Some(2560 / 5));
    }

    #[test]
    fn the_tightest_client_limit_is_listed_first() {
        let said = paper().describe_limits(1000);
        assert!(said.starts_with("limits of the clients may bind at 1000"), "{said}");
        let (first, second) = (said.find("descriptors at 205"), said.find("ports at 269"));
        assert!(first.is_some() && first < second, "{said}");
        assert!(paper().describe_limits(200).contains("do not bind"));
        let many = ClientResources { clients: 4096, descriptors: 1 << 20, ..paper() };
        assert_eq!(many.connection_rate_limits()[0].name, "buffers");
    }

    #[test]
    fn an_unreadable_sysctl_gives_no_limit() {
        assert_eq!(parse_sysctl_numbers("287832\t383779\t575664\n"), [287_832, 383_779, 575_664]);
        assert!(parse_sysctl_numbers("").is_empty());
        assert_eq!(rate(&ClientResources { tcp_memory_bytes: None, ..paper() }, "buffers"), None);
    }
}
