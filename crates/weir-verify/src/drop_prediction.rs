//! Packets that a match or target drops by its evaluation, if the packet's fields do not determine
//! it.
//!
//! They read bytes that the model does not represent. Their effect is computed from the
//! bytes, as the modules in net/netfilter do; `effects` in the tests compares it with the kernel.

use weir_model::effect::{Hotdrop, match_effects, verdict_or_extension_name};
use weir_model::rule_match::{ExtensionValue, StatefulMatch};
use weir_model::{CtState, Family, Match, Packet, Target};
use weir_packet::Transport;

/// Whether a match in question drops the packet; why not, if it is not known.
pub(crate) fn match_drops_packet(m: &Match, packet: &Packet) -> Result<bool, String> {
    let bytes = packet_bytes_after_network_header(packet);
    let is_later = packet.fragment.offset != 0;
    let unknown =
        |module: &str| format!("-m {module} may drop it because of data after its header");
    match m {
        Match::Tcp { .. } => Ok(false),
        Match::Sctp { chunks: Some(_), .. } if !is_later => match check_sctp_chunk_list(&bytes) {
            SctpChunkListValidity::Complete => Ok(false),
            SctpChunkListValidity::FirstChunkBad => Ok(true),
            SctpChunkListValidity::LaterChunkBad => Err(unknown("sctp")),
        },
        // A header of 12 bytes at least is three words.
        Match::Dccp { types, option: Some(_), .. } if !is_later => match bytes.get(4) {
            Some(0..3) if types.is_none() => Ok(true),
            _ => Err(unknown("dccp")),
        },
        Match::Sctp { .. } | Match::Dccp { .. } => Ok(false),
        Match::UnmodelledInput(host) => match host.module {
            "esp" => Ok(!is_later && bytes.len() < 8),
            "ah" if packet.family == Family::V4 => Ok(!is_later && bytes.len() < 12),
            "ah" if packet.proto != 51 => Ok(false),
            // xt_tcpmss.c reads later fragments, too. ip6_packet_match finds no transport header
            // there, and leaves its offset at the start of the packet.
            "tcpmss" if is_later && packet.family == Family::V6 => {
                Ok(is_truncated_tcp(&packet.to_bytes()))
            }
            "tcpmss" => Ok(is_truncated_tcp(&bytes)),
            module => Err(unknown(module)),
        },
        Match::Stateful(s) => match s.module {
            "hashlimit" => {
                hashlimit_drops_packet(s, packet, &bytes).ok_or_else(|| unknown("hashlimit"))
            }
            // nf_conncount counts no connection that was confirmed before, and drops its packets
            // once it counts none at all.
            "connlimit" if matches!(packet.ct.state, CtState::Established | CtState::Related) => {
                Err("connlimit may drop packets of a connection that it does not count".into())
            }
            "connlimit" if packet.ct.has_entry() => Ok(false),
            "connlimit" if packet.proto == 47 => Err(unknown("connlimit")),
            "connlimit" => Ok(!has_conntrack_tuple(packet, bytes.len())),
            module => Err(unknown(module)),
        },
        Match::Opaque(o) => Err(unknown(&o.name)),
        _ => Err(unknown("match")),
    }
}

/// Whether a target itself drops a packet.
pub(crate) fn target_drops_packet(target: &Target, packet: &Packet) -> Result<bool, String> {
    match verdict_or_extension_name(target) {
        // xt_TCPMSS.c and ipt_ECN.c: a truncated header. Only the former knows fragments.
        Some("TCPMSS") => Ok(packet.fragment.offset == 0
            && is_truncated_tcp(&packet_bytes_after_network_header(packet))),
        Some("ECN") => {
            Ok(packet.proto == 6 && packet_bytes_after_network_header(packet).len() < 20)
        }
        module => Err(format!("{} may drop it", module.unwrap_or("a target"))),
    }
}

fn packet_bytes_after_network_header(packet: &Packet) -> Vec<u8> {
    packet.to_bytes()[network_header_bytes(packet)..].to_vec()
}

/// Whether a match may drop the packet, by its fields or by its bytes.
pub(crate) fn can_match_drop_given_packet(m: &Match, packet: &Packet) -> bool {
    let cut = packet.transport == Transport::Truncated || packet.fragment.offset == 1;
    match match_effects(m, packet.family).hotdrop {
        Hotdrop::Never => false,
        Hotdrop::OnTruncatedHeader if cut || matches!(packet.proto, 33 | 50 | 51) => true,
        Hotdrop::OnTruncatedHeader => false,
        Hotdrop::Unpredictable | Hotdrop::MatchMayAlsoDrop => {
            match_drops_packet(m, packet) != Ok(false)
        }
    }
}

fn network_header_bytes(packet: &Packet) -> usize {
    match packet.family {
        Family::V4 => 20,
        Family::V6 if packet.is_fragment() => 48,
        Family::V6 => 40,
    }
}

/// A list of SCTP chunks.
enum SctpChunkListValidity {
    Complete,
    /// The first one is truncated or has no length.
    FirstChunkBad,
    /// A later one: whether the match reaches it depends on its types.
    LaterChunkBad,
}

/// xt_sctp.c, `match_packet`.
fn check_sctp_chunk_list(header: &[u8]) -> SctpChunkListValidity {
    let mut at = 12;
    loop {
        let length = match header.get(at..at + 4) {
            Some([_, _, a, b]) => usize::from(u16::from_be_bytes([*a, *b])),
            _ => 0,
        };
        match (length, at) {
            (0, 12) => return SctpChunkListValidity::FirstChunkBad,
            (0, _) => return SctpChunkListValidity::LaterChunkBad,
            _ => at += length.next_multiple_of(4),
        }
        if at >= header.len() {
            return SctpChunkListValidity::Complete;
        }
    }
}

/// xt_tcpmss.c: the header, and the options that it says to have.
fn is_truncated_tcp(bytes: &[u8]) -> bool {
    let words = bytes.get(12).map_or(0, |b| usize::from(b >> 4));
    bytes.len() < 20 || words < 5 || bytes.len() < 4 * words
}

/// xt_hashlimit.c, `hashlimit_init_dst`: ports that are wanted and not there. A table that is full
/// drops what is new to it: `None`, but for a table of the default size, which a run does not fill.
fn hashlimit_drops_packet(limit: &StatefulMatch, packet: &Packet, bytes: &[u8]) -> Option<bool> {
    let option = |name: &str| limit.options.iter().find(|o| o.name == name).map(|o| &o.value);
    if option("hashlimit-htable-max").is_some() || option("hashlimit-htable-size").is_some() {
        return None;
    }
    let with_ports = match option("hashlimit-mode") {
        Some(ExtensionValue::KeywordList(words)) => words.iter().any(|w| w.ends_with("port")),
        Some(ExtensionValue::Keyword(word)) => word.contains("port"),
        Some(ExtensionValue::Text(text)) => text.contains("port"),
        _ => false,
    };
    // Of a later IPv6 fragment it takes the fragment header for the protocol (`ipv6_skip_exthdr`).
    let is_later_v6 = packet.family == Family::V6 && packet.fragment.offset != 0;
    let wanted = match packet.proto {
        _ if is_later_v6 => 0,
        6 | 17 | 33 | 50 | 132 | 136 => 4,
        51 => 8,
        _ => 0,
    };
    Some(with_ports && bytes.len() < wanted)
}

/// Whether conntrack can identify the packet's connection by its header (`nf_ct_get_tuplepr`).
fn has_conntrack_tuple(packet: &Packet, bytes: usize) -> bool {
    let wanted = match (packet.proto, packet.family) {
        (6 | 17 | 132 | 136, _) => 4,
        (1, Family::V4) | (58, Family::V6) => 8,
        _ => 0,
    };
    packet.fragment.offset == 0 && bytes >= wanted
}

#[cfg(test)]
mod tests {
    use weir_model::Addr;
    use weir_model::effect::{MATCH_ROWS, TARGET_ROWS};

    use super::*;

    fn udp(family: Family) -> Packet {
        let mut packet = Packet::new(family, Addr(1), Addr(2), 17);
        packet.transport = Transport::Udp { sport: 1, dport: 2 };
        packet
    }

    #[test]
    fn drops_are_computed_for_every_row_that_may_drop() {
        let (mut dropping_targets, mut dropping_matches) = (0, 0);
        for row in TARGET_ROWS.iter().filter(|row| row.may_drop) {
            let target = Target::from_written_options(row.name, Vec::new());
            assert!(target_drops_packet(&target, &udp(Family::V4)).is_ok(), "{}", row.name);
            dropping_targets += 1;
        }
        for row in MATCH_ROWS.iter().filter(|row| row.hotdrop != Hotdrop::Never) {
            let m = Match::from_written_options(row.name, Vec::new());
            // The others have a variant of their own, whose fields the interpreter reads.
            if matches!(m, Match::UnmodelledInput(_) | Match::Stateful(_)) {
                assert!(match_drops_packet(&m, &udp(Family::V4)).is_ok(), "{}", row.name);
                dropping_matches += 1;
            }
        }
        assert!(dropping_targets >= 2 && dropping_matches >= 5, "ECN, TCPMSS; esp, tcpmss, ...");
        let unknown = Target::from_written_options("no module", Vec::new());
        assert!(target_drops_packet(&unknown, &udp(Family::V4)).is_err());
    }
}
