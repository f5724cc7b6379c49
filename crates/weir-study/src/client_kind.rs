//! The clients of a study of sockets. The firewall, the servers and the records are the same for
//! all, so clients are compared like subjects.

use serde::Deserialize;
use weir_stats::DurationDistribution;

/// A client.
///
/// | client | opens a connection | what it shows |
/// |---|---|---|
/// | `sockets` | at planned times | what users see; times count from the plan |
/// | `stateless` | at planned times | the firewall: at its end every packet costs next to nothing |
/// | `httperf` | at planned times | what the papers measured with |
/// | `wrk` | when the last reply is there | the rate that a number of clients reaches |
/// | `wrk-kept` | once for all its requests | packets of connections that are there already |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// weir's own, with a socket of the kernel for each connection.
    #[default]
    Sockets,
    /// weir's small TCP, which remembers no connection.
    Stateless,
    /// The program `httperf`: a connection for each request, at planned times.
    Httperf,
    /// The program `wrk`, with a connection for each request (`Connection: close`); it has no
    /// rate, but a number of connections at once.
    Wrk,
    /// The same with connections that stay open: no measure of new connections.
    WrkKept,
}

impl ClientKind {
    /// The program that it is, which is also the name of its Debian package.
    pub fn program_name(self) -> Option<&'static str> {
        match self {
            ClientKind::Sockets | ClientKind::Stateless => None,
            ClientKind::Httperf => Some("httperf"),
            ClientKind::Wrk | ClientKind::WrkKept => Some("wrk"),
        }
    }

    /// Whether it opens connections at the rate of the study.
    pub fn opens_at_fixed_rate(self) -> bool {
        !matches!(self, ClientKind::Wrk | ClientKind::WrkKept)
    }

    /// Its description in a record, with the response times that it reports; nothing for weir's own
    /// sockets.
    pub fn to_substitute_client_report(
        self,
        reported: DurationDistribution,
    ) -> Option<weir_stats::SubstituteClientReport> {
        let name = match self {
            ClientKind::Sockets => return None,
            ClientKind::Stateless => "stateless",
            ClientKind::Httperf => "httperf",
            ClientKind::Wrk => "wrk",
            ClientKind::WrkKept => "wrk-kept",
        };
        Some(weir_stats::SubstituteClientReport { name: name.to_owned(), response_times: reported })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_client_has_the_configured_name() {
        #[derive(Deserialize)]
        struct Text {
            client: ClientKind,
        }
        let clients = ["sockets", "stateless", "httperf", "wrk", "wrk-kept"];
        for name in clients {
            let Text { client } = toml::from_str(&format!("client = \"{name}\"")).unwrap();
            let recorded = client
                .to_substitute_client_report(DurationDistribution::default())
                .map(|client| client.name);
            assert_eq!(recorded.as_deref().unwrap_or("sockets"), name);
        }
        let unknown = toml::from_str::<Text>("client = \"ab\"").err().unwrap();
        assert!(unknown.message().contains("wrk-kept"), "{unknown}");
    }
}
