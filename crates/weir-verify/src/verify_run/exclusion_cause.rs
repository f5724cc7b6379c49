//! Why packets are not compared.

use std::collections::HashMap;

use weir_model::{CtState, Family, OriginalRuleIndex};
use weir_packet::Packet;
use weir_semantics::{JourneyKind, Outcome};

use crate::kernel_oracle::KernelOracle;
use crate::packet_batch::{PacketBatch, PacketPath};
use crate::result_difference;
use crate::testbed::{BatchObservation, PacketAtLastHook};

/// Most answers of one packet that are left open by counters and tried in turn.
const OPEN_QUESTIONS_MAX: usize = 5;

/// What was seen of a packet of a batch after the firewall without rules; else why it is not
/// compared. `conntrack_in_use`: conntrack is in use; `reassembling`: rules cause reassembly.
pub(super) fn find_observed_packet_to_compare<'s>(
    batch: &PacketBatch,
    at: usize,
    seen: &'s BatchObservation,
    conntrack_in_use: bool,
    reassembling: bool,
) -> Result<&'s PacketAtLastHook, &'static str> {
    let prepared = &batch.packets[at];
    let packet = &prepared.packet;
    if packet.is_fragment() && !conntrack_in_use && reassembling {
        return Err("skipped: TPROXY or -m socket causes reassembly of fragments");
    }
    let Some(left) = &seen.packets_at_last_hook[at] else {
        return Err(undelivered_packet_cause(packet, seen, at, conntrack_in_use));
    };
    if left.has_wrong_output_device {
        return Err("skipped: routed to another device than the packet's oif");
    }
    if let Some(cause) = sent_packet_exclusion_cause(packet, &batch.path) {
        return Err(cause);
    }
    if !prepared.conntrack_entries.is_empty() && seen.ct_states[at] == Some(CtState::New) {
        // Its connection clashes with another one: alone it might be taken otherwise.
        return Err("skipped: its connection could not be created beforehand");
    }
    Ok(left)
}

/// Why a packet that is delivered is not compared all the same.
fn sent_packet_exclusion_cause(packet: &Packet, path: &PacketPath) -> Option<&'static str> {
    if has_extension_headers(packet) {
        return Some("IPv6 extension headers are not modelled");
    }
    if path.journey_kind != JourneyKind::Output && packet.mark != 0 {
        return Some("skipped: a packet cannot arrive with a mark");
    }
    if packet.family == Family::V6 || path.journey_kind != JourneyKind::Output {
        return None;
    }
    if packet.daddr.0 == Family::V4.max_addr() {
        return Some("skipped: broadcast; the host also receives a copy");
    }
    (packet.saddr.0 == 0)
        .then_some("skipped: source address 0.0.0.0, which the host replaces by its own")
}

/// Whether headers follow that `-p` skips, and that weir's packets do not have.
fn has_extension_headers(packet: &Packet) -> bool {
    packet.family == Family::V6 && matches!(packet.proto, 0 | 43 | 44 | 51 | 60)
}

/// Why the host itself does not deliver a packet.
fn undelivered_packet_cause(
    packet: &Packet,
    seen: &BatchObservation,
    at: usize,
    conntrack_in_use: bool,
) -> &'static str {
    if packet.is_fragment() && conntrack_in_use {
        return "skipped: conntrack reassembles fragments";
    }
    if !seen.reached_first_hook[at] {
        return "rejected by the host: malformed, or no route";
    }
    "not delivered even with an empty ruleset: martian, broadcast or expired TTL"
}

/// Why the result of a packet is not known.
pub(super) fn unknown_result_cause(
    known: &KernelOracle<'_>,
    outcome: &Outcome<'_>,
    packet: &Packet,
) -> Option<String> {
    if known.open_question_count > OPEN_QUESTIONS_MAX {
        return Some("skipped: too many matches whose result the counters do not show".to_owned());
    }
    match &known.unknown_cause {
        Some(why) => Some(why.clone()),
        None => result_difference::incomparable_outcome_cause(outcome, packet).map(str::to_owned),
    }
}

/// Whether a rule was evaluated more often than it counted, and yet counted.
pub(super) fn has_stateful_rule_matching_only_sometimes(
    outcome: &Outcome<'_>,
    counted: &HashMap<OriginalRuleIndex, u64>,
) -> bool {
    outcome.questions.iter().any(|asked| {
        let Some(id) = asked.credited_originals.first() else { return false };
        let hits =
            outcome.hits.iter().filter(|h| h.credited_originals.first() == Some(id)).count() as u64;
        let counted = counted.get(id).copied().unwrap_or(0);
        counted > 0 && hits > counted
    })
}
