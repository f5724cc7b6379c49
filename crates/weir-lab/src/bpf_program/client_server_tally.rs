//! What the ends of connections counted, and how far the connections came.

use weir_stats::{ConnectionClose, TrafficVolume};

/// What one end counted. The fields are those of `struct tally` in bpf/tcp_state.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientOrServerTally {
    /// Packets of the trial that arrived.
    pub received: u64,
    /// Answers that were sent; the client's SYNs are not among them.
    pub sent: u64,
    /// Steps that were reached: SYN, or SYN+ACK.
    pub opened: u64,
    /// Request, or reply.
    pub data: u64,
    /// FIN, or FIN+ACK.
    pub closed: u64,
    /// The server's last packet: ACK, or RST.
    pub ended: u64,
    /// Packets of the trial that were not as they had to be.
    pub invalid: u64,
    /// RST that neither end sent.
    pub resets: u64,
    /// ICMP messages.
    pub icmp: u64,
    /// Other packets.
    pub foreign: u64,
    /// SYN of another address than a client's, at the server.
    pub translated: u64,
    /// Bytes of what was received, Ethernet headers included.
    pub bytes: u64,
    /// SYNs of the flood, at the server.
    pub flood: u64,
}

/// What both ends counted since
/// [`StatelessTcpEndpoints`](super::stateless_tcp::StatelessTcpEndpoints) cleared its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientServerTallies {
    /// The clients.
    pub client: ClientOrServerTally,
    /// The servers.
    pub server: ClientOrServerTally,
}

impl ClientServerTallies {
    /// Packets of connections that arrived at either end.
    pub fn connection_packets_received(&self) -> u64 {
        self.client.received + self.server.received - self.server.flood
    }

    /// Answers that either end sent.
    pub fn answers_sent(&self) -> u64 {
        self.client.sent + self.server.sent
    }

    /// What one side received, and so what the other sent.
    pub(super) fn volume_received_by_one_side(side: &ClientOrServerTally) -> TrafficVolume {
        TrafficVolume { packets: side.received, bytes: side.bytes }
    }

    /// Connections by the step they reached, first to last: the packets of each step that arrived.
    pub(super) fn arrivals_per_step(&self, close: ConnectionClose) -> Vec<(&'static str, u64)> {
        let (client, server) = (&self.client, &self.server);
        let opened = [("SYN", server.opened), ("SYN+ACK", client.opened)];
        let served = [("request", server.data), ("reply", client.data)];
        let more = match close {
            ConnectionClose::Fin => {
                vec![("FIN", server.closed), ("FIN+ACK", client.closed), ("last ACK", server.ended)]
            }
            ConnectionClose::Reset => vec![("RST", server.ended)],
            ConnectionClose::Never => return [&opened[..], &[("ACK", server.ended)]].concat(),
        };
        [&opened[..], &served, &more].concat()
    }
}
