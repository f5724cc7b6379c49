//! What a study sends through its firewalls: frames of a file, connections, loopback.

use std::net::Ipv4Addr;

use serde::Deserialize;
use toml::Spanned;
use weir_stats::{Close, Scenario};

use crate::client::ClientKind;
use crate::endpoints::Endpoints;
use crate::source::GeneratedFile;

/// Bytes of the headers of IPv4 and UDP.
pub const HEADERS: u16 = 28;
/// The first port of a client that is a socket of the kernel.
pub const FIRST_PORT: u16 = 1024;

/// UDP that a host sends to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackUdp {
    /// Length of a packet, its headers included, bytes.
    pub bytes: u16,
    /// The port on which nobody listens.
    pub port: u16,
}

/// Sockets of the kernel as clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// How many ports a client address has; all above 1023 without it.
    pub ports: Option<u16>,
    /// Concurrent connections of a client that sends the next request after each reply; 64 by
    /// default.
    pub at_once: Option<u16>,
}

impl Sockets {
    /// Ports of one client address.
    pub fn ports(&self) -> u16 {
        self.ports.unwrap_or(u16::MAX - FIRST_PORT + 1)
    }
}

/// The `[traffic]` of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "TrafficText")]
pub enum Traffic {
    /// Frames that a command makes: a pcap file `FRAMES` and its verdicts.
    Frames(GeneratedFile),
    /// The same, of which a set share is to be dropped.
    Mixed {
        /// The command.
        source: GeneratedFile,
        /// The axis whose values are the share, percent.
        drop_axis: String,
    },
    /// New TCP connections.
    Connections(ConnectionLoad),
    /// UDP that a host sends to itself.
    Loopback(LoopbackUdp),
}

/// Connections as a study says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLoad {
    /// Who to whom.
    pub endpoints: Endpoints,
    /// How they end.
    pub close: Close,
    /// The axis whose values are connections per second; without it, the preset's `rate_pps`.
    pub rate_axis: Option<String>,
    /// The axis whose values are how many of the clients take part; all without it.
    pub clients_axis: Option<String>,
    /// The same of the servers.
    pub servers_axis: Option<String>,
    /// The axis whose values are SYNs of a flood for each connection; no flood without it.
    pub flood_axis: Option<String>,
    /// Both ends verify the checksums of every packet.
    pub verify: bool,
    /// The number of concurrent connections, if they are left open.
    pub hold: Option<Hold>,
    /// The ends are sockets of the kernel rather than the small TCP.
    pub sockets: Option<Sockets>,
}

/// The number of concurrent connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// So many.
    Connections(u64),
    /// The value on this axis.
    Axis(String),
    /// The percentage, given by the value on this axis, of the entries that the machine allows in a
    /// connection table.
    Limit(String),
}

impl Hold {
    /// The axis that it depends on.
    pub fn axis(&self) -> Option<&String> {
        match self {
            Hold::Connections(_) => None,
            Hold::Axis(axis) | Hold::Limit(axis) => Some(axis),
        }
    }
}

impl ConnectionLoad {
    /// The same as a client opens them: the small TCP has no sockets.
    pub fn by(&self, client: ClientKind) -> ConnectionLoad {
        let sockets = self.sockets.clone().filter(|_| client != ClientKind::Stateless);
        ConnectionLoad { sockets, ..self.clone() }
    }

    /// Clients and servers that take part at a point.
    pub fn endpoints_at(&self, point: &Scenario) -> (u32, u32) {
        let on = |axis: &Option<String>, all: u32| {
            let value = point.coordinate(axis.as_ref()?)?.number()?;
            Some(u32::try_from(value).unwrap_or(all).clamp(1, all))
        };
        let Endpoints { clients, servers, .. } = self.endpoints;
        (
            on(&self.clients_axis, clients).unwrap_or(clients),
            on(&self.servers_axis, servers).unwrap_or(servers),
        )
    }

    /// Every axis that they depend on.
    pub fn axes(&self) -> impl Iterator<Item = &String> {
        let held = self.hold.as_ref().and_then(Hold::axis);
        let ConnectionLoad { rate_axis, flood_axis, clients_axis, servers_axis, .. } = self;
        let all = [rate_axis, flood_axis, clients_axis, servers_axis].map(Option::as_ref);
        all.into_iter().flatten().chain(held)
    }

    /// The number of concurrent connections at a point, on a machine that allows this number of
    /// entries in a connection table.
    pub fn held_at(&self, point: &Scenario, table_limit: u64) -> Option<u64> {
        match self.hold.as_ref()? {
            Hold::Connections(count) => Some(*count),
            Hold::Axis(axis) => point.coordinate(axis)?.number(),
            Hold::Limit(axis) => Some(point.coordinate(axis)?.number()? * table_limit / 100),
        }
    }
}

impl Default for ConnectionLoad {
    /// What a study gets that says nothing else.
    fn default() -> ConnectionLoad {
        let endpoints = Endpoints {
            client: Ipv4Addr::new(198, 19, 0, 0),
            clients: 4096,
            server: Ipv4Addr::new(198, 19, 128, 0),
            servers: 16,
            port: 80,
        };
        ConnectionLoad {
            endpoints,
            close: Close::Fin,
            rate_axis: None,
            flood_axis: None,
            clients_axis: None,
            servers_axis: None,
            verify: false,
            hold: None,
            sockets: None,
        }
    }
}

const KINDS: [&str; 5] = ["frames", "connections", "concurrent", "sockets", "loopback"];

/// All kinds in one table; [`Text::fields`] says which fields belong to which.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrafficText {
    #[serde(default = "frames")]
    kind: String,
    axes: Option<Vec<Spanned<String>>>,
    command: Option<String>,
    close: Option<Close>,
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

impl TrafficText {
    /// Each field except `kind`: its name, whether it is present, and the kinds that accept it.
    fn fields(&self) -> [(&'static str, bool, &'static [&'static str]); 20] {
        const TCP: &[&str] = &["connections", "concurrent", "sockets"];
        const OWN_TCP: &[&str] = &["connections", "concurrent"];
        [
            ("axes", self.axes.is_some(), &["frames"]),
            ("command", self.command.is_some(), &["frames"]),
            ("drop_axis", self.drop_axis.is_some(), &["frames"]),
            ("connections", self.connections.is_some(), &["concurrent"]),
            ("connections_axis", self.connections_axis.is_some(), &["concurrent"]),
            ("limit_axis", self.limit_axis.is_some(), &["concurrent"]),
            ("close", self.close.is_some(), &["connections"]),
            ("rate_axis", self.rate_axis.is_some(), TCP),
            ("flood_axis", self.flood_axis.is_some(), OWN_TCP),
            ("verify", self.verify.is_some(), OWN_TCP),
            ("client", self.client.is_some(), TCP),
            ("clients", self.clients.is_some(), TCP),
            ("clients_axis", self.clients_axis.is_some(), TCP),
            ("server", self.server.is_some(), TCP),
            ("servers", self.servers.is_some(), TCP),
            ("servers_axis", self.servers_axis.is_some(), OWN_TCP),
            ("bytes", self.bytes.is_some(), &["loopback"]),
            ("port", self.port.is_some(), &["connections", "concurrent", "sockets", "loopback"]),
            ("ports", self.ports.is_some(), &["sockets"]),
            ("at_once", self.at_once.is_some(), &["sockets"]),
        ]
    }
}

fn frames() -> String {
    "frames".to_owned()
}

impl TryFrom<TrafficText> for Traffic {
    type Error = String;

    fn try_from(text: TrafficText) -> Result<Traffic, String> {
        let Some(kind) = KINDS.into_iter().find(|kind| *kind == text.kind) else {
            return Err(format!("no kind `{}`; there are {}", text.kind, KINDS.join(", ")));
        };
        let fields = text.fields();
        let takes = |kinds: &[&str]| kinds.contains(&kind);
        if let Some((other, ..)) = fields.iter().find(|(_, given, of)| *given && !takes(of)) {
            let own: Vec<&str> = fields.iter().filter(|f| takes(f.2)).map(|f| f.0).collect();
            return Err(format!(
                "kind `{kind}` takes no `{other}`; it takes `{}`",
                own.join("`, `")
            ));
        }
        match kind {
            "loopback" => loopback_of(&text).map(Traffic::Loopback),
            "frames" => frames_of(text),
            "connections" => connections_of(text).map(Traffic::Connections),
            "sockets" => of_sockets(text).map(Traffic::Connections),
            "concurrent" => {
                let axes = (text.connections_axis.clone(), text.limit_axis.clone());
                let hold = match (text.connections, axes) {
                    (Some(count), (None, None)) if count > 0 => Hold::Connections(count),
                    (None, (Some(axis), None)) => Hold::Axis(axis),
                    (None, (None, Some(axis))) => Hold::Limit(axis),
                    _ => {
                        return Err(
                            "kind `concurrent` needs `connections` or an axis of them".into()
                        );
                    }
                };
                let load = connections_of(text)?;
                let (close, hold) = (Close::Never, Some(hold));
                Ok(Traffic::Connections(ConnectionLoad { close, hold, ..load }))
            }
            other => unreachable!("{other} is no kind"),
        }
    }
}

/// Frames of a command, mixed where an axis says how.
fn frames_of(text: TrafficText) -> Result<Traffic, String> {
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
    Ok(Traffic::Mixed { source: GeneratedFile { axes, command }, drop_axis })
}

/// Packets of 128 bytes to the port that discards (RFC 863), which a host of today leaves alone.
fn loopback_of(text: &TrafficText) -> Result<LoopbackUdp, String> {
    let loopback = LoopbackUdp { bytes: text.bytes.unwrap_or(128), port: text.port.unwrap_or(9) };
    if !(HEADERS..=1500).contains(&loopback.bytes) || loopback.port == 0 {
        return Err(format!(
            "`bytes` are {HEADERS} to 1500, headers included, and `port` is above 0"
        ));
    }
    Ok(loopback)
}

/// Connections of kernel sockets, at rates that an axis sets: a client with planned times cannot
/// overload.
fn of_sockets(text: TrafficText) -> Result<ConnectionLoad, String> {
    if text.rate_axis.is_none() {
        return Err("kind `sockets` needs `rate_axis`: connections have planned times".into());
    }
    if text.ports.is_some_and(|ports| ports == 0 || ports > u16::MAX - FIRST_PORT + 1) {
        return Err("`ports` are 1 to 64512, because they begin at 1024".into());
    }
    if text.at_once == Some(0) {
        return Err("`at_once` is above 0".into());
    }
    let sockets = Sockets { ports: text.ports, at_once: text.at_once };
    Ok(ConnectionLoad { sockets: Some(sockets), ..connections_of(text)? })
}

/// 198.18.0.0/15 is for measurements of devices (RFC 2544, appendix C.2.2); its first half is for
/// the links.
fn connections_of(text: TrafficText) -> Result<ConnectionLoad, String> {
    let usual = ConnectionLoad::default().endpoints;
    let endpoints = Endpoints {
        client: text.client.unwrap_or(usual.client),
        clients: text.clients.unwrap_or(usual.clients),
        server: text.server.unwrap_or(usual.server),
        servers: text.servers.unwrap_or(usual.servers),
        port: text.port.unwrap_or(usual.port),
    };
    if endpoints.clients == 0 || endpoints.servers == 0 || endpoints.port == 0 {
        return Err("connections need clients, servers and a port, all above 0".to_owned());
    }
    let range = |first: Ipv4Addr, count: u32| {
        let first = u64::from(u32::from(first));
        first..first + u64::from(count)
    };
    let clients = range(endpoints.client, endpoints.clients);
    let servers = range(endpoints.server, endpoints.servers);
    if clients.end > 1 << 32 || servers.end > 1 << 32 {
        return Err("addresses end at 255.255.255.255".to_owned());
    }
    if clients.start < servers.end && servers.start < clients.end {
        return Err("clients and servers have addresses in common".to_owned());
    }
    let close = text.close.unwrap_or(Close::Fin);
    let verify = text.verify.unwrap_or(false);
    let TrafficText { rate_axis, flood_axis, clients_axis, servers_axis, .. } = text;
    Ok(ConnectionLoad {
        endpoints,
        close,
        rate_axis,
        flood_axis,
        clients_axis,
        servers_axis,
        verify,
        hold: None,
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
        assert_eq!(load.close, Close::Fin);
        assert_eq!((load.endpoints.port, load.endpoints.clients), (80, 4096));
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
        let Ok(Traffic::Mixed { source, drop_axis }) = read(text) else {
            panic!("frames with a share are mixed");
        };
        assert_eq!(
            (source.axis_names(), drop_axis.as_str()),
            (vec!["rules", "illegal"], "illegal")
        );
    }
}
