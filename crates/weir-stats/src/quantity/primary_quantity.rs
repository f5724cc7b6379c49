//! The quantity by which trials of a kind are compared first.

use super::Quantity;
use crate::trial::TrialKind;

impl Quantity {
    /// What trials of a kind are compared by first, and two copies of a subject; `None` if the
    /// study sets the rate of packets.
    pub fn primary_of_trial_kind(kind: TrialKind) -> Option<Quantity> {
        Some(match kind {
            TrialKind::Rate => Quantity::Pps,
            TrialKind::Paced => return None,
            TrialKind::Load => Quantity::LoadSeconds,
            TrialKind::Add => Quantity::AddSeconds,
            TrialKind::Connections => Quantity::ConnectionsPerSecond,
            TrialKind::ConnectionsReset => Quantity::ConnectionsResetPerSecond,
            TrialKind::Handshakes => Quantity::HandshakesPerSecond,
            TrialKind::Concurrent => Quantity::BytesPerConnection,
            // Their rate is the plan's.
            TrialKind::Sockets => Quantity::ReplyNsP50,
            TrialKind::RoundTrip => Quantity::RoundTripNsP50,
            TrialKind::FirewallProcessResponse => Quantity::ResponseNsP50,
            TrialKind::Stream => Quantity::StreamBytesPerSecond,
            TrialKind::Lookups => Quantity::LookupsPerSecond,
        })
    }
}
