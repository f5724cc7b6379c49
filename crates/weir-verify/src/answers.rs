//! Answers to what a packet's fields do not say: from how the namespaces are made where that
//! decides, else from what the kernel's own counter of the rule said.

use std::collections::HashMap;

use weir_model::matching::{Host, Value};
use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Match, RuleId};
use weir_packet::Packet;
use weir_semantics::{Answers, Entry, Question, Translation};

use crate::arm::ADDRS;

/// What one packet is answered.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    entry: Entry,
    /// Whether each rule's own counter counted this packet; `None` where it was not asked.
    counted: Option<&'a HashMap<RuleId, u64>>,
    /// Something was asked that only the kernel can say.
    pub open: bool,
}

impl<'a> Known<'a> {
    /// What the namespaces decide.
    pub fn by_place(entry: Entry) -> Self {
        Known { entry, counted: None, open: false }
    }

    /// And what the kernel's counters said.
    pub fn by_counters(entry: Entry, counted: &'a HashMap<RuleId, u64>) -> Self {
        Known { entry, counted: Some(counted), open: false }
    }
}

impl Answers for Known<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        if let Some(Match::Host(host)) = question.asked_match()
            && let Some(answer) = by_place(host, question.packet, self.entry)
        {
            return answer;
        }
        let counted = self.counted.zip(question.rule.credit.first());
        let Some((counted, id)) = counted else {
            self.open = true;
            return false;
        };
        counted.get(id).is_some_and(|n| *n > 0)
    }

    fn translate(&mut self, translation: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        let link = match translation.target {
            NatTarget::Redirect(_) => 0,
            NatTarget::Masquerade(_) => 1,
            NatTarget::Dnat(_) | NatTarget::Snat(_) | NatTarget::Netmap(..) => return None,
        };
        let addr = ADDRS[translation.packet.family as usize][link];
        Some((Addr(addr), None))
    }
}

/// What a match of the host says in our namespaces, where that is certain.
fn by_place(host: &Host, packet: &Packet, entry: Entry) -> Option<bool> {
    match host.module {
        // No bridge: nf_bridge_info is never there, so that each test fails (xt_physdev.c).
        "addrtype" if packet.family == Family::V4 => addrtype(host, packet, entry),
        "owner" if entry != Entry::Output => {
            // Without a socket every option is as if it were negated (xt_owner.c).
            Some(host.options.iter().all(|o| o.negated))
        }
        _ => None,
    }
}

/// xt_addrtype.c over our routing: what is for this host is all that there is.
fn addrtype(host: &Host, packet: &Packet, entry: Entry) -> Option<bool> {
    let mut holds = true;
    for option in &host.options {
        let addr = match option.name {
            "src-type" => packet.saddr,
            "dst-type" => packet.daddr,
            _ => return None,
        };
        let wanted: Vec<&str> = match &option.value {
            Value::Word(w) => vec![w],
            Value::Words(words) => words.clone(),
            _ => return None,
        };
        let kind = address_type(addr, entry)?;
        holds &= wanted.contains(&kind) != option.negated;
    }
    Some(holds)
}

/// inet_addr_type: the local table, then UNICAST.
fn address_type(addr: Addr, entry: Entry) -> Option<&'static str> {
    let octets = (addr.0 as u32).to_be_bytes();
    let own = ADDRS[Family::V4 as usize].contains(&addr.0);
    Some(match octets[0] {
        _ if addr.0 == 0xffff_ffff || octets[0] == 0 => "BROADCAST",
        224..=239 => "MULTICAST",
        127 => "LOCAL",
        _ if own || entry == Entry::Input => "LOCAL",
        _ => "UNICAST",
    })
}
