//! What the ends of connections counted, and how far the connections came.

use weir_stats::{ArrivedTraffic, ConnectionClose};

/// What one end counted. The fields are those of `struct tally` in bpf/tcp_state.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientOrServerTally {
    /// Packets of the trial that arrived.
    pub received: u64,
    /// Answers that were sent; the client's SYNs are not among them.
    pub answers_sent: u64,
    /// Steps that were reached: SYN, or SYN+ACK.
    pub syn_or_syn_ack_received: u64,
    /// Request, or reply.
    pub request_or_reply_received: u64,
    /// FIN, or FIN+ACK.
    pub fin_or_fin_ack_received: u64,
    /// The server's last packet: ACK, or RST.
    pub last_ack_or_rst_received: u64,
    /// Packets of the trial that were not as they had to be.
    pub invalid: u64,
    /// RST that neither end sent.
    pub unexpected_resets: u64,
    /// ICMP messages.
    pub icmp: u64,
    /// Other packets.
    pub foreign: u64,
    /// SYN of another address than a client's, at the server.
    pub source_translated_syns: u64,
    /// Bytes of what was received, Ethernet headers included.
    pub bytes: u64,
    /// SYNs of the flood, at the server.
    pub flood_syns_received: u64,
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
        self.client.received + self.server.received - self.server.flood_syns_received
    }

    /// Answers that either end sent.
    pub fn answers_sent(&self) -> u64 {
        self.client.answers_sent + self.server.answers_sent
    }

    /// What one side received, and so what the other sent.
    pub(super) fn volume_received_by_one_side(side: &ClientOrServerTally) -> ArrivedTraffic {
        ArrivedTraffic { packets: side.received, frame_bytes: side.bytes }
    }

    /// Connections by the step they reached, first to last: the packets of each step that arrived.
    pub(super) fn arrivals_per_step(&self, close: ConnectionClose) -> Vec<(&'static str, u64)> {
        let (client, server) = (&self.client, &self.server);
        let opened =
            [("SYN", server.syn_or_syn_ack_received), ("SYN+ACK", client.syn_or_syn_ack_received)];
        let served = [
            ("request", server.request_or_reply_received),
            ("reply", client.request_or_reply_received),
        ];
        let more = match close {
            ConnectionClose::Fin => {
                vec![
                    ("FIN", server.fin_or_fin_ack_received),
                    ("FIN+ACK", client.fin_or_fin_ack_received),
                    ("last ACK", server.last_ack_or_rst_received),
                ]
            }
            ConnectionClose::Reset => vec![("RST", server.last_ack_or_rst_received)],
            ConnectionClose::Never => {
                return [&opened[..], &[("ACK", server.last_ack_or_rst_received)]].concat();
            }
        };
        [&opened[..], &served, &more].concat()
    }
}
