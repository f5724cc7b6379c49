//! The observing rules: one nft table per family, the same in every firewall that is compared.
//!
//! | where | what |
//! |---|---|
//! | PREROUTING, OUTPUT, first | each test packet is logged as begun |
//! | OUTPUT, first | packets that the host generates itself (replies, announcements) are dropped |
//! | PREROUTING, OUTPUT, after conntrack | its conntrack state is logged (empty firewall only) |
//! | INPUT, POSTROUTING, last | each packet is logged as arrived, and dropped |
//!
//! Packets that are dropped last are never confirmed by conntrack, so that no packet of a batch
//! belongs to a connection of another one. The rules do not use conntrack, unless the tested
//! ruleset uses it.

use weir_packet::{Addr, Family, Packet, Transport};

/// Log group of the probe.
pub(crate) const NFLOG_GROUP: u16 = 64_977;
/// Name of the probe's nft tables.
pub(crate) const OBSERVING_TABLE: &str = "weir_probe";
/// The loopback device's name in a firewall namespace: `lo` is free for the ruleset's own.
pub(crate) const RENAMED_LOOPBACK_DEVICE: &str = "weir-lo";

/// Prefixes of the log.
pub(crate) mod log_prefix {
    pub const REACHED_FIRST_HOOK: &[u8] = b"b";
    pub const REACHED_LAST_HOOK: &[u8] = b"e";
    pub const END_OF_BATCH_PACKET: &[u8] = b"m";
    pub const CT_NEW: &[u8] = b"n";
    pub const CT_ESTABLISHED: &[u8] = b"s";
    pub const CT_RELATED: &[u8] = b"r";
    pub const CT_INVALID: &[u8] = b"i";
    pub const CT_UNTRACKED: &[u8] = b"u";
}

const END_OF_BATCH_SADDR: u128 = 0xc000_00fa;
const END_OF_BATCH_DADDR: u128 = 0xc000_00fb;

/// The packet that says that all before it are through: 192.0.0.250 to 192.0.0.251.
pub(crate) fn make_end_of_batch_packet() -> Packet {
    let mut p = Packet::new(Family::V4, Addr(END_OF_BATCH_SADDR), Addr(END_OF_BATCH_DADDR), 17);
    p.transport = Transport::Udp { sport: 9, dport: 9 };
    p
}

/// The probe as text for `nft -f`. `states`: the families whose conntrack state is logged.
pub(crate) fn write_observing_tables(states: &[Family]) -> String {
    let mut out = String::new();
    for family in [Family::V4, Family::V6] {
        let log = |prefix: &[u8]| {
            format!("log prefix \"{}\" group {NFLOG_GROUP}", String::from_utf8_lossy(prefix))
        };
        let marker = match family {
            Family::V4 => {
                let (s, d) = (Addr(END_OF_BATCH_SADDR), Addr(END_OF_BATCH_DADDR));
                let (s, d) = (s.display(family), d.display(family));
                format!(
                    "    ip saddr {s} ip daddr {d} {} drop\n",
                    log(log_prefix::END_OF_BATCH_PACKET)
                )
            }
            Family::V6 => String::new(),
        };
        let name = match family {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        };
        let (begun, end) =
            (log(log_prefix::REACHED_FIRST_HOOK), log(log_prefix::REACHED_LAST_HOOK));
        out += &format!("table {name} {OBSERVING_TABLE} {{\n");
        out += &format_base_chain_with_rules(
            "first_in",
            "prerouting",
            -450,
            &format!("{marker}    {begun}\n"),
        );
        let own = format!("    meta skuid 0 {begun} accept\n    drop\n");
        out += &format_base_chain_with_rules("first_out", "output", -450, &own);
        out +=
            &format_base_chain_with_rules("last_in", "input", 1000, &format!("    {end} drop\n"));
        out += &format_base_chain_with_rules(
            "last_out",
            "postrouting",
            1000,
            &format!("    {end} drop\n"),
        );
        if states.contains(&family) {
            let states: String = [
                ("new", log_prefix::CT_NEW),
                ("established", log_prefix::CT_ESTABLISHED),
                ("related", log_prefix::CT_RELATED),
                ("invalid", log_prefix::CT_INVALID),
                ("untracked", log_prefix::CT_UNTRACKED),
            ]
            .iter()
            .map(|(state, prefix)| format!("    ct state {state} {} accept\n", log(prefix)))
            .collect();
            out += &format_base_chain_with_rules("state_in", "prerouting", -199, &states);
            out += &format_base_chain_with_rules("state_out", "output", -199, &states);
        }
        out += "}\n";
    }
    out
}

fn format_base_chain_with_rules(name: &str, hook: &str, priority: i32, rules: &str) -> String {
    format!("  chain {name} {{\n    type filter hook {hook} priority {priority};\n{rules}  }}\n")
}
