//! What a study sends through its firewalls: frames of a file, connections, loopback.

use std::net::Ipv4Addr;

use serde::Deserialize;
use toml::Spanned;
use weir_stats::{ConnectionClose, Scenario};

use crate::client_kind::ClientKind;
use crate::endpoints::Endpoints;
use crate::generated_file::GeneratedFile;

/// Bytes of the headers of IPv4 and UDP.
pub const IPV4_UDP_HEADER_BYTES: u16 = 28;
/// The first port of a client that is a socket of the kernel.
pub const FIRST_KERNEL_SOCKET_CLIENT_PORT: u16 = 1024;

/// UDP that a host sends to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackUdpToClosedPort {
    /// Length of a packet, its headers included, bytes.
    pub packet_bytes: u16,
    /// The port on which nobody listens.
    pub closed_port: u16,
}

/// Sockets of the kernel as clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSocketClients {
    /// How many ports a client address has; all above 1023 without it.
    pub ports_per_client: Option<u16>,
    /// Concurrent connections of a client that sends the next request after each reply; 64 by
    /// default.
    pub max_concurrent_connections: Option<u16>,
}

impl KernelSocketClients {
    /// Ports of one client address.
    pub fn ports_per_client(&self) -> u16 {
        self.ports_per_client.unwrap_or(u16::MAX - FIRST_KERNEL_SOCKET_CLIENT_PORT + 1)
    }
}

/// The `[traffic]` of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "TrafficDefinition")]
pub enum Traffic {
    /// Frames that a command makes: a pcap file `FRAMES` and its verdicts.
    Frames(GeneratedFile),
    /// The same, of which a set share is to be dropped.
    FramesWithDropShare {
        /// The command.
        source: GeneratedFile,
        /// The axis whose values are the share, percent.
        drop_axis: String,
    },
    /// New TCP connections.
    Connections(ConnectionLoad),
    /// UDP that a host sends to itself.
    Loopback(LoopbackUdpToClosedPort),
}

/// Connections as a study says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLoad {
    /// Who to whom.
    pub endpoints: Endpoints,
    /// How they end.
    pub close: ConnectionClose,
    /// The axis whose values are connections per second; without it, the preset's `rate_pps`.
    pub rate_axis: Option<String>,
    /// The axis whose values are how many of the clients take part; all without it.
    pub clients_axis: Option<String>,
    /// The same of the servers.
    pub servers_axis: Option<String>,
    /// The axis whose values are SYNs of a flood for each connection; no flood without it.
    pub flood_axis: Option<String>,
    /// Both ends verify the checksums of every packet.
    pub verify_checksums: bool,
    /// The number of concurrent connections, if they are left open.
    pub concurrency: Option<ConcurrencyTarget>,
    /// The ends are sockets of the kernel rather than the small TCP.
    pub sockets: Option<KernelSocketClients>,
}

/// The number of concurrent connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcurrencyTarget {
    /// So many.
    Count(u64),
    /// The value on this axis.
    CountAxis(String),
    /// The percentage, given by the value on this axis, of the entries that the machine allows in a
    /// connection table.
    TableLimitPercentAxis(String),
}

impl ConcurrencyTarget {
    /// The axis that it depends on.
    pub fn axis_name(&self) -> Option<&String> {
        match self {
            ConcurrencyTarget::Count(_) => None,
            ConcurrencyTarget::CountAxis(axis) | ConcurrencyTarget::TableLimitPercentAxis(axis) => {
                Some(axis)
            }
        }
    }
}

impl ConnectionLoad {
    /// The same as a client opens them: the small TCP has no sockets.
    pub fn for_client(&self, client: ClientKind) -> ConnectionLoad {
        let sockets = self.sockets.clone().filter(|_| client != ClientKind::Stateless);
        ConnectionLoad { sockets, ..self.clone() }
    }

    /// Clients and servers that take part at a point.
    pub fn active_endpoint_counts_at(&self, point: &Scenario) -> (u32, u32) {
        let on = |axis: &Option<String>, all: u32| {
            let value = point.coordinate(axis.as_ref()?)?.as_number()?;
            Some(u32::try_from(value).unwrap_or(all).clamp(1, all))
        };
        let Endpoints { client_count: clients, server_count: servers, .. } = self.endpoints;
        (
            on(&self.clients_axis, clients).unwrap_or(clients),
            on(&self.servers_axis, servers).unwrap_or(servers),
        )
    }

    /// Every axis that they depend on.
    pub fn axis_names(&self) -> impl Iterator<Item = &String> {
        let held = self.concurrency.as_ref().and_then(ConcurrencyTarget::axis_name);
        let ConnectionLoad { rate_axis, flood_axis, clients_axis, servers_axis, .. } = self;
        let all = [rate_axis, flood_axis, clients_axis, servers_axis].map(Option::as_ref);
        all.into_iter().flatten().chain(held)
    }

    /// The number of concurrent connections at a point, on a machine that allows this number of
    /// entries in a connection table.
    pub fn concurrent_connections_at(&self, point: &Scenario, table_limit: u64) -> Option<u64> {
        match self.concurrency.as_ref()? {
            ConcurrencyTarget::Count(count) => Some(*count),
            ConcurrencyTarget::CountAxis(axis) => point.coordinate(axis)?.as_number(),
            ConcurrencyTarget::TableLimitPercentAxis(axis) => {
                Some(point.coordinate(axis)?.as_number()? * table_limit / 100)
            }
        }
    }
}

impl Default for ConnectionLoad {
    /// What a study gets that says nothing else.
    fn default() -> ConnectionLoad {
        let endpoints = Endpoints {
            first_client: Ipv4Addr::new(198, 19, 0, 0),
            client_count: 4096,
            first_server: Ipv4Addr::new(198, 19, 128, 0),
            server_count: 16,
            server_port: 80,
        };
        ConnectionLoad {
            endpoints,
            close: ConnectionClose::Fin,
            rate_axis: None,
            flood_axis: None,
            clients_axis: None,
            servers_axis: None,
            verify_checksums: false,
            concurrency: None,
            sockets: None,
        }
    }
}

const TRAFFIC_KINDS: [&str; 5] = ["frames", "connections", "concurrent", "sockets", "loopback"];

/// All kinds in one table; [`TrafficDefinition::field_presence`] says which fields belong to which.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrafficDefinition {
    #[serde(default = "default_traffic_kind")]
    kind: String,
    axes: Option<Vec<Spanned<String>>>,
    command: Option<String>,
    close: Option<ConnectionClose>,
    rate_axis: Option<String>,
    flood_axis: Option<String>,
    verify: Option<bool>,
    client: Option<Ipv4Addr>,
    clients: Option<u32>,
    clients_axis: Option<String>,
    server: Option<Ipv4Addr>,
    servers: Option<u32>,
    servers_axis: Option<String>,
    port: Option<u16>,
    connections: Option<u64>,
    connections_axis: Option<String>,
    limit_axis: Option<String>,
    drop_axis: Option<Spanned<String>>,
    ports: Option<u16>,
    at_once: Option<u16>,
    bytes: Option<u16>,
}

impl TrafficDefinition {
    /// Each field except `kind`: its name, whether it is present, and the kinds that accept it.
    fn field_presence(&self) -> [(&'static str, bool, &'static [&'static str]); 20] {
        const TCP_KINDS: &[&str] = &["connections", "concurrent", "sockets"];
        const WEIR_TCP_KINDS: &[&str] = &["connections", "concurrent"];
        [
            ("axes", self.axes.is_some(), &["frames"]),
            ("command", self.command.is_some(), &["frames"]),
            ("drop_axis", self.drop_axis.is_some(), &["frames"]),
            ("connections", self.connections.is_some(), &["concurrent"]),
            ("connections_axis", self.connections_axis.is_some(), &["concurrent"]),
            ("limit_axis", self.limit_axis.is_some(), &["concurrent"]),
            ("close", self.close.is_some(), &["connections"]),
            ("rate_axis", self.rate_axis.is_some(), TCP_KINDS),
            ("flood_axis", self.flood_axis.is_some(), WEIR_TCP_KINDS),
            ("verify", self.verify.is_some(), WEIR_TCP_KINDS),
            ("client", self.client.is_some(), TCP_KINDS),
            ("clients", self.clients.is_some(), TCP_KINDS),
            ("clients_axis", self.clients_axis.is_some(), TCP_KINDS),
            ("server", self.server.is_some(), TCP_KINDS),
            ("servers", self.servers.is_some(), TCP_KINDS),
            ("servers_axis", self.servers_axis.is_some(), WEIR_TCP_KINDS),
            ("bytes", self.bytes.is_some(), &["loopback"]),
            ("port", self.port.is_some(), &["connections", "concurrent", "sockets", "loopback"]),
            ("ports", self.ports.is_some(), &["sockets"]),
            ("at_once", self.at_once.is_some(), &["sockets"]),
        ]
    }
}

fn default_traffic_kind() -> String {
    "frames".to_owned()
}

impl TryFrom<TrafficDefinition> for Traffic {
    type Error = String;

    fn try_from(text: TrafficDefinition) -> Result<Traffic, String> {
        let Some(kind) = TRAFFIC_KINDS.into_iter().find(|kind| *kind == text.kind) else {
            return Err(format!("no kind `{}`; there are {}", text.kind, TRAFFIC_KINDS.join(", ")));
        };
        let fields = text.field_presence();
        let takes = |kinds: &[&str]| kinds.contains(&kind);
        if let Some((other, ..)) = fields.iter().find(|(_, given, of)| *given && !takes(of)) {
            let own: Vec<&str> = fields.iter().filter(|f| takes(f.2)).map(|f| f.0).collect();
            return Err(format!(
                "kind `{kind}` takes no `{other}`; it takes `{}`",
                own.join("`, `")
            ));
        }
        match kind {
            "loopback" => parse_loopback_traffic(&text).map(Traffic::Loopback),
            "frames" => parse_frames_traffic(text),
            "connections" => parse_connections_traffic(text).map(Traffic::Connections),
            "sockets" => parse_sockets_traffic(text).map(Traffic::Connections),
            "concurrent" => {
                let axes = (text.connections_axis.clone(), text.limit_axis.clone());
                let hold = match (text.connections, axes) {
                    (Some(count), (None, None)) if count > 0 => ConcurrencyTarget::Count(count),
                    (None, (Some(axis), None)) => ConcurrencyTarget::CountAxis(axis),
                    (None, (None, Some(axis))) => ConcurrencyTarget::TableLimitPercentAxis(axis),
                    _ => {
                        return Err(
                            "kind `concurrent` needs `connections` or an axis of them".into()
                        );
                    }
                };
                let load = parse_connections_traffic(text)?;
                let (close, hold) = (ConnectionClose::Never, Some(hold));
                Ok(Traffic::Connections(ConnectionLoad { close, concurrency: hold, ..load }))
            }
            other => unreachable!("{other} is no kind"),
        }
    }
}

/// Frames of a command, mixed where an axis says how.
fn parse_frames_traffic(text: TrafficDefinition) -> Result<Traffic, String> {
    let (Some(mut axes), Some(command)) = (text.axes, text.command) else {
        return Err("kind `frames` needs `axes` and `command`".into());
    };
    let Some(axis) = text.drop_axis else {
        return Ok(Traffic::Frames(GeneratedFile { axes, command }));
    };
    let drop_axis = axis.get_ref().clone();
    if axes.iter().all(|other| *other.get_ref() != drop_axis) {
        axes.push(axis);
    }
    Ok(Traffic::FramesWithDropShare { source: GeneratedFile { axes, command }, drop_axis })
}

/// Packets of 128 bytes to the port that discards (RFC 863), which a host of today leaves alone.
fn parse_loopback_traffic(text: &TrafficDefinition) -> Result<LoopbackUdpToClosedPort, String> {
    let loopback = LoopbackUdpToClosedPort {
        packet_bytes: text.bytes.unwrap_or(128),
        closed_port: text.port.unwrap_or(9),
    };
    if !(IPV4_UDP_HEADER_BYTES..=1500).contains(&loopback.packet_bytes) || loopback.closed_port == 0
    {
        return Err(format!(
            "`bytes` are {IPV4_UDP_HEADER_BYTES} to 1500, headers included, and `port` is above 0"
        ));
    }
    Ok(loopback)
}

/// Connections of kernel sockets, at rates that an axis sets: a client with planned times cannot
/// overload.
fn parse_sockets_traffic(text: TrafficDefinition) -> Result<ConnectionLoad, String> {
    if text.rate_axis.is_none() {
        return Err("kind `sockets` needs `rate_axis`: connections have planned times".into());
    }
    if text
        .ports
        .is_some_and(|ports| ports == 0 || ports > u16::MAX - FIRST_KERNEL_SOCKET_CLIENT_PORT + 1)
    {
        return Err("`ports` are 1 to 64512, because they begin at 1024".into());
    }
    if text.at_once == Some(0) {
        return Err("`at_once` is above 0".into());
    }
    let sockets = KernelSocketClients {
        ports_per_client: text.ports,
        max_concurrent_connections: text.at_once,
    };
    Ok(ConnectionLoad { sockets: Some(sockets), ..parse_connections_traffic(text)? })
}

/// 198.18.0.0/15 is for measurements of devices (RFC 2544, appendix C.2.2); its first half is for
/// the links.
fn parse_connections_traffic(text: TrafficDefinition) -> Result<ConnectionLoad, String> {
    let usual = ConnectionLoad::default().endpoints;
    let endpoints = Endpoints {
        first_client: text.client.unwrap_or(usual.first_client),
        client_count: text.clients.unwrap_or(usual.client_count),
        first_server: text.server.unwrap_or(usual.first_server),
        server_count: text.servers.unwrap_or(usual.server_count),
        server_port: text.port.unwrap_or(usual.server_port),
    };
    if endpoints.client_count == 0 || endpoints.server_count == 0 || endpoints.server_port == 0 {
        return Err("connections need clients, servers and a port, all above 0".to_owned());
    }
    let range = |first: Ipv4Addr, count: u32| {
        let first = u64::from(u32::from(first));
        first..first + u64::from(count)
    };
    let clients = range(endpoints.first_client, endpoints.client_count);
    let servers = range(endpoints.first_server, endpoints.server_count);
    if clients.end > 1 << 32 || servers.end > 1 << 32 {
        return Err("addresses end at 255.255.255.255".to_owned());
    }
    if clients.start < servers.end && servers.start < clients.end {
        return Err("clients and servers have addresses in common".to_owned());
    }
    let close = text.close.unwrap_or(ConnectionClose::Fin);
    let verify = text.verify.unwrap_or(false);
    let TrafficDefinition { rate_axis, flood_axis, clients_axis, servers_axis, .. } = text;
    Ok(ConnectionLoad {
        endpoints,
        close,
        rate_axis,
        flood_axis,
        clients_axis,
        servers_axis,
        verify_checksums: verify,
        concurrency: None,
        sockets: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Traffic, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn connections_have_defaults() {
        let Traffic::Connections(load) = read("kind = \"connections\"").unwrap() else {
            panic!("connections are connections");
        };
        assert_eq!(load.close, ConnectionClose::Fin);
        assert_eq!((load.endpoints.server_port, load.endpoints.client_count), (80, 4096));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let cases = [
            (
                "axes = []\ncommand = \"\"\nport = 80",
                "takes no `port`; it takes `axes`, `command`, `drop_axis`",
            ),
            ("kind = \"sockets\"", "needs `rate_axis`"),
            ("kind = \"sockets\"\nrate_axis = \"x\"\nclose = \"fin\"", "no `close`"),
            ("kind = \"sockets\"\nrate_axis = \"x\"\nports = 65000", "1 to 64512"),
            ("kind = \"sockets\"\nrate_axis = \"x\"\nat_once = 0", "above 0"),
            ("kind = \"connections\"\nat_once = 9", "takes no `at_once`"),
            ("kind = \"connections\"\nports = 9", "takes no `ports`"),
            ("kind = \"connections\"\ndrop_axis = \"x\"", "takes no `drop_axis`"),
            ("kind = \"connections\"\nlimit_axis = \"x\"", "takes no `limit_axis`"),
            ("kind = \"concurrent\"\nlimit_axis = \"x\"\nconnections = 9", "needs `connections`"),
            (
                "kind = \"loopback\"\nflood_axis = \"x\"",
                "no `flood_axis`; it takes `bytes`, `port`",
            ),
            ("kind = \"loopback\"\nverify = true", "takes no `verify`"),
            ("kind = \"frames\"\nverify = true", "takes no `verify`"),
            ("axes = []", "needs `axes` and `command`"),
            ("kind = \"connections\"\ncommand = \"\"", "no `command`"),
            ("kind = \"letters\"", "no kind `letters`"),
            ("kind = \"loopback\"\ncommand = \"\"", "takes no `command`"),
            ("kind = \"loopback\"\nbytes = 20", "28 to 1500"),
            ("kind = \"connections\"\nbytes = 100", "takes no `bytes`"),
            ("kind = \"connections\"\nconnections = 9", "takes no `connections`"),
            ("kind = \"concurrent\"", "needs `connections`"),
            ("kind = \"concurrent\"\nconnections = 9\nclose = \"fin\"", "no `close`"),
            ("kind = \"connections\"\nservers = 0", "above 0"),
            ("kind = \"connections\"\nclients = 4000000000", "255.255.255.255"),
            ("kind = \"connections\"\nserver = \"198.19.1.0\"", "in common"),
            ("kind = \"connections\"\nclose = \"slam\"", "slam"),
        ];
        for (text, message) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(matches!(read("axes = []\ncommand = \"true\""), Ok(Traffic::Frames(_))));
    }

    #[test]
    fn mixed_frames_depend_on_their_share() {
        let text = "axes = [\"rules\"]\ncommand = \"true\"\ndrop_axis = \"illegal\"";
        let Ok(Traffic::FramesWithDropShare { source, drop_axis }) = read(text) else {
            panic!("frames with a share are mixed");
        };
        assert_eq!(
            (source.axis_names(), drop_axis.as_str()),
            (vec!["rules", "illegal"], "illegal")
        );
    }
}
