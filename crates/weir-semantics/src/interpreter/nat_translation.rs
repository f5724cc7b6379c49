//! The effect of translations on a packet.
use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, Hook, Packet};
use weir_packet::Transport;

use crate::oracle::{NatQuestion, Oracle};

/// Rewrites a packet as a nat target says.
pub(crate) fn apply_nat_target(
    hook: Hook,
    target: &NatTarget,
    packet: &mut Packet,
    answers: &mut dyn Oracle,
) {
    let source = match target {
        NatTarget::Snat(_) | NatTarget::Masquerade(_) => true,
        NatTarget::Dnat(_) | NatTarget::Redirect(_) => false,
        NatTarget::Netmap(..) => matches!(hook, Hook::Input | Hook::Postrouting),
    };
    let old = if source { packet.saddr } else { packet.daddr };
    let old_port = packet.ports().map(|(s, d)| if source { s } else { d });
    let (addr, port) = match target {
        NatTarget::Netmap(Addr(to), Addr(mask)) => (Addr(old.0 & !mask | to), None),
        NatTarget::Snat(r)
        | NatTarget::Dnat(r)
        | NatTarget::Masquerade(r)
        | NatTarget::Redirect(r) => {
            let chosen = match has_single_nat_result(target) {
                true => None,
                false => answers.choose_nat_mapping(&NatQuestion { hook, target, packet }),
            };
            let (addr, port) = choose_lowest_addr_and_kept_or_lowest_port(r, old, old_port);
            chosen.map_or((addr, port), |(addr, chosen)| (addr, chosen.or(port)))
        }
    };
    let changed = addr != old || port.is_some_and(|p| old_port.is_some_and(|o| o != p));
    if source {
        packet.saddr = addr;
        packet.ct.snat |= changed;
    } else {
        packet.daddr = addr;
        packet.ct.dnat |= changed;
    }
    if let Some(port) = port {
        set_transport_port(packet, source, port);
    }
}

/// Whether the rule alone says the result of the packet.
fn has_single_nat_result(target: &NatTarget) -> bool {
    match target {
        NatTarget::Dnat(r) | NatTarget::Snat(r) => {
            r.addrs.is_none_or(|(lo, hi)| lo == hi) && r.ports.is_none_or(|(lo, hi)| lo == hi)
        }
        NatTarget::Masquerade(_) | NatTarget::Redirect(_) => false,
        NatTarget::Netmap(..) => true,
    }
}

/// The default address and port of a translation with a choice: see [`Oracle::choose_nat_mapping`].
/// The port is `None` if it is unchanged, or if the packet has none.
pub fn default_nat_mapping(target: &NatTarget, packet: &Packet) -> (Addr, Option<u16>) {
    let ports = packet.ports();
    let (range, old, old_port) = match target {
        NatTarget::Snat(r) | NatTarget::Masquerade(r) => (r, packet.saddr, ports.map(|p| p.0)),
        NatTarget::Dnat(r) | NatTarget::Redirect(r) => (r, packet.daddr, ports.map(|p| p.1)),
        NatTarget::Netmap(..) => return (packet.daddr, None),
    };
    choose_lowest_addr_and_kept_or_lowest_port(range, old, old_port)
}

fn choose_lowest_addr_and_kept_or_lowest_port(
    range: &NatRange,
    old: Addr,
    old_port: Option<u16>,
) -> (Addr, Option<u16>) {
    let addr = range.addrs.map_or(old, |(lo, _)| lo);
    let port = match (range.ports, old_port) {
        (Some((lo, hi)), Some(p)) if (lo..=hi).contains(&p) => Some(p),
        (Some((lo, _)), Some(_)) => Some(lo),
        _ => None,
    };
    (addr, port)
}

pub(super) fn set_transport_port(packet: &mut Packet, source: bool, port: u16) {
    if let Transport::Tcp { sport, dport, .. }
    | Transport::Udp { sport, dport }
    | Transport::Sctp { sport, dport, .. }
    | Transport::DccpPorts { sport, dport } = &mut packet.transport
    {
        *(if source { sport } else { dport }) = port;
    }
}
