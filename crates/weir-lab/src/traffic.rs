//! What a study plays through its firewalls: frames of a file, or connections.

use std::net::Ipv4Addr;

use serde::Deserialize;
use toml::Spanned;
use weir_stats::{Close, Scenario};

use crate::connections::Parties;
use crate::looping::{HEADERS, Looping};
use crate::study::Source;

/// The `[traffic]` of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Text")]
pub enum Traffic {
    /// Frames that a command makes: a pcap file `FRAMES` and its verdicts.
    Frames(Source),
    /// New TCP connections ([`crate::connections`]).
    Connections(Connecting),
    /// UDP that a host sends to itself.
    Loopback(Looping),
}

/// Connections as a study says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connecting {
    /// Who to whom.
    pub parties: Parties,
    /// How they end.
    pub close: Close,
    /// The axis whose values are connections a second; without it, the preset's `rate_pps`.
    pub rate_axis: Option<String>,
    /// The axis whose values are how many of the clients take part; all without it.
    pub clients_axis: Option<String>,
    /// The same of the servers.
    pub servers_axis: Option<String>,
    /// Both ends verify the checksums of every packet.
    pub verify: bool,
    /// How many are held at once, where they are opened to be held.
    pub hold: Option<Hold>,
}

/// How many connections are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// So many.
    Connections(u64),
    /// The value on this axis.
    Axis(String),
}

impl Connecting {
    /// Clients and servers that take part at a point.
    pub(crate) fn parties_at(&self, point: &Scenario) -> (u32, u32) {
        let on = |axis: &Option<String>, all: u32| {
            let value = point.coordinate(axis.as_ref()?)?.number()?;
            Some(u32::try_from(value).unwrap_or(all).min(all))
        };
        let Parties { clients, servers, .. } = self.parties;
        (
            on(&self.clients_axis, clients).unwrap_or(clients),
            on(&self.servers_axis, servers).unwrap_or(servers),
        )
    }

    /// How many are held at a point.
    pub(crate) fn held_at(&self, point: &Scenario) -> Option<u64> {
        match self.hold.as_ref()? {
            Hold::Connections(count) => Some(*count),
            Hold::Axis(axis) => point.coordinate(axis)?.number(),
        }
    }
}

impl Default for Connecting {
    /// What a study gets that says nothing else.
    fn default() -> Connecting {
        let parties = Parties {
            client: Ipv4Addr::new(198, 19, 0, 0),
            clients: 4096,
            server: Ipv4Addr::new(198, 19, 128, 0),
            servers: 16,
            port: 80,
        };
        Connecting {
            parties,
            close: Close::Fin,
            rate_axis: None,
            clients_axis: None,
            servers_axis: None,
            verify: false,
            hold: None,
        }
    }
}

/// Both kinds in one table; which fields belong to which is said by [`Traffic::try_from`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default = "frames")]
    kind: String,
    axes: Option<Vec<Spanned<String>>>,
    command: Option<String>,
    close: Option<Close>,
    rate_axis: Option<String>,
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
    bytes: Option<u16>,
}

fn frames() -> String {
    "frames".to_owned()
}

impl TryFrom<Text> for Traffic {
    type Error = String;

    fn try_from(text: Text) -> Result<Traffic, String> {
        let of_connections = text.close.is_some()
            || text.rate_axis.is_some()
            || text.verify.is_some()
            || text.client.is_some()
            || text.clients.is_some()
            || text.clients_axis.is_some()
            || text.server.is_some()
            || text.servers.is_some()
            || text.servers_axis.is_some()
            || text.port.is_some();
        let of_holding = text.connections.is_some() || text.connections_axis.is_some();
        if of_holding && text.kind != "concurrent" {
            return Err("only kind `concurrent` takes `connections` or `connections_axis`".into());
        }
        if text.bytes.is_some() && text.kind != "loopback" {
            return Err("only kind `loopback` takes `bytes`".into());
        }
        match text.kind.as_str() {
            "loopback" => looping(&text).map(Traffic::Loopback),
            "frames" if of_connections => {
                Err("kind `frames` takes `axes` and `command` only".into())
            }
            "frames" => match (text.axes, text.command) {
                (Some(axes), Some(command)) => Ok(Traffic::Frames(Source { axes, command })),
                _ => Err("kind `frames` needs `axes` and `command`".into()),
            },
            "connections" | "concurrent" if text.axes.is_some() || text.command.is_some() => {
                Err(format!("kind `{}` takes no `axes` and no `command`", text.kind))
            }
            "connections" => connecting(text).map(Traffic::Connections),
            "concurrent" if text.close.is_some() => {
                Err("kind `concurrent` holds connections: it takes no `close`".into())
            }
            "concurrent" => {
                let hold = match (text.connections, text.connections_axis.clone()) {
                    (Some(count), None) if count > 0 => Hold::Connections(count),
                    (None, Some(axis)) => Hold::Axis(axis),
                    _ => {
                        return Err(
                            "kind `concurrent` needs `connections` or an axis of them".into()
                        );
                    }
                };
                let connecting = connecting(text)?;
                let (close, hold) = (Close::Never, Some(hold));
                Ok(Traffic::Connections(Connecting { close, hold, ..connecting }))
            }
            other => Err(format!(
                "no kind `{other}`; there are frames, connections, concurrent, loopback"
            )),
        }
    }
}

/// Packets of 128 bytes to the port that discards (RFC 863), which a host of today leaves alone.
fn looping(text: &Text) -> Result<Looping, String> {
    let others = text.axes.is_some()
        || text.command.is_some()
        || text.close.is_some()
        || text.rate_axis.is_some()
        || text.client.or(text.server).is_some()
        || text.clients.or(text.servers).is_some()
        || text.clients_axis.as_ref().or(text.servers_axis.as_ref()).is_some();
    if others {
        return Err("kind `loopback` takes `bytes` and `port` only".to_owned());
    }
    let looping = Looping { bytes: text.bytes.unwrap_or(128), port: text.port.unwrap_or(9) };
    if !(HEADERS..=1500).contains(&looping.bytes) || looping.port == 0 {
        return Err(format!(
            "`bytes` are {HEADERS} to 1500, headers included, and `port` is above 0"
        ));
    }
    Ok(looping)
}

/// 198.18.0.0/15 is for measurements of devices (RFC 2544, appendix C.2.2); its first half holds
/// the links.
fn connecting(text: Text) -> Result<Connecting, String> {
    let usual = Connecting::default().parties;
    let parties = Parties {
        client: text.client.unwrap_or(usual.client),
        clients: text.clients.unwrap_or(usual.clients),
        server: text.server.unwrap_or(usual.server),
        servers: text.servers.unwrap_or(usual.servers),
        port: text.port.unwrap_or(usual.port),
    };
    if parties.clients == 0 || parties.servers == 0 || parties.port == 0 {
        return Err("connections need clients, servers and a port, all above 0".to_owned());
    }
    let range = |first: Ipv4Addr, count: u32| {
        let first = u64::from(u32::from(first));
        first..first + u64::from(count)
    };
    let clients = range(parties.client, parties.clients);
    let servers = range(parties.server, parties.servers);
    if clients.end > 1 << 32 || servers.end > 1 << 32 {
        return Err("addresses end at 255.255.255.255".to_owned());
    }
    if clients.start < servers.end && servers.start < clients.end {
        return Err("clients and servers have addresses in common".to_owned());
    }
    let close = text.close.unwrap_or(Close::Fin);
    let verify = text.verify.unwrap_or(false);
    let Text { rate_axis, clients_axis, servers_axis, .. } = text;
    Ok(Connecting { parties, close, rate_axis, clients_axis, servers_axis, verify, hold: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Traffic, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn connections_have_defaults() {
        let Traffic::Connections(connecting) = read("kind = \"connections\"").unwrap() else {
            panic!("connections are connections");
        };
        assert_eq!(connecting.close, Close::Fin);
        assert_eq!((connecting.parties.port, connecting.parties.clients), (80, 4096));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let cases = [
            ("axes = []\ncommand = \"\"\nport = 80", "`axes` and `command` only"),
            ("axes = []", "needs `axes` and `command`"),
            ("kind = \"connections\"\ncommand = \"\"", "no `command`"),
            ("kind = \"letters\"", "no kind `letters`"),
            ("kind = \"loopback\"\ncommand = \"\"", "`bytes` and `port` only"),
            ("kind = \"loopback\"\nbytes = 20", "28 to 1500"),
            ("kind = \"connections\"\nbytes = 100", "only kind `loopback`"),
            ("kind = \"connections\"\nconnections = 9", "only kind `concurrent`"),
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
}
