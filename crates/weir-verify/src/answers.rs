//! Answers to what a packet's fields do not say: from how the namespaces are made where that
//! decides, else from what the kernel's own counter of the rule said.

use std::collections::HashMap;

use weir_model::matching::{Host, Value};
use weir_model::target::NatTarget;
use weir_model::{Addr, Effect, Family, Match, RuleId, Target};
use weir_packet::Packet;
use weir_semantics::{Answers, Entry, Question, Subject, Translation};

use crate::arm::ADDRS;
use crate::batch::Way;

/// Targets that leave the packet and all that later rules see as they are.
const SILENT: [&str; 5] = ["LOG", "NFLOG", "AUDIT", "TRACE", "CHECKSUM"];

/// What one packet is answered.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    way: &'a Way,
    /// Destination as it came, and where the host takes it.
    arrived: (Addr, Entry),
    /// Whether each rule's own counter counted this packet; `None` where it was not asked.
    counted: Option<&'a HashMap<RuleId, u64>>,
    /// Something was asked that only the kernel can say, and on which more depends than the
    /// counter of the rule that asked.
    pub open: bool,
    /// Rules on which nothing depends but their own counter, taken as true.
    pub maybe: Vec<RuleId>,
    /// What is taken for granted of rules on which more depends, until counters contradict.
    guesses: Option<&'a Guesses>,
}

/// What the kernel last answered each rule.
pub(crate) type Guesses = HashMap<(Family, RuleId), bool>;

impl<'a> Known<'a> {
    /// What the namespaces decide. `is_local`: the host without rules took the packet as its own.
    pub fn by_place(way: &'a Way, packet: &Packet, is_local: bool) -> Self {
        let to = if is_local { Entry::Input } else { way.entry };
        let (open, maybe) = (false, Vec::new());
        let arrived = (packet.daddr, to);
        Known { way, arrived, counted: None, open, maybe, guesses: None }
    }

    /// And what the kernel's counters said.
    pub fn and_counters(self, counted: &'a HashMap<RuleId, u64>) -> Self {
        Known { counted: Some(counted), ..self }
    }

    /// And, where that leaves something open, guesses.
    pub fn and_guesses(self, guesses: &'a Guesses) -> Self {
        Known { guesses: Some(guesses), ..self }
    }
}

impl Answers for Known<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        if let Some(Match::Host(host)) = question.asked_match()
            && let Some(answer) = by_place(host, question.packet, self.way)
        {
            return answer;
        }
        let id = question.rule.credit.first();
        if let Some(counted) = self.counted {
            return id.and_then(|id| counted.get(id)).is_some_and(|n| *n > 0);
        }
        match id {
            Some(id) if is_silent(question) => {
                self.maybe.push(*id);
                true
            }
            _ => {
                self.open = true;
                let guess = self.guesses.zip(id).and_then(|(g, id)| g.get(&(question.family, *id)));
                guess.copied().unwrap_or(false)
            }
        }
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

    fn route(&mut self, packet: &Packet, wish: Entry) -> Entry {
        let (daddr, to) = self.arrived;
        if packet.daddr == daddr { to } else { wish }
    }
}

/// Whether nothing but the rule's own counter depends on the answer.
fn is_silent(question: &Question<'_>) -> bool {
    question.subject != Subject::Target
        && match &question.rule.target {
            Target::None => true,
            Target::Effect(effect) => {
                matches!(&**effect, Effect::Other(x) if SILENT.contains(&x.module))
            }
            _ => false,
        }
}

/// What a match of the host says in our namespaces, where that is certain.
fn by_place(host: &Host, packet: &Packet, way: &Way) -> Option<bool> {
    let all_negated = || host.options.iter().all(|o| o.negated);
    match host.module {
        "addrtype" if packet.family == Family::V4 => addrtype(host, packet, way),
        // Without a bridge every option is as if it were negated (xt_physdev.c).
        "physdev" => Some(all_negated()),
        // Without a socket, too (xt_owner.c).
        "owner" if way.entry != Entry::Output => Some(all_negated()),
        "rpfilter" => rpfilter(host, packet, way),
        _ => None,
    }
}

/// ipt_rpfilter.c: the way back to any other host is the link that packets come in by.
fn rpfilter(host: &Host, packet: &Packet, way: &Way) -> Option<bool> {
    let has = |name: &str| host.options.iter().any(|o| o.name == name);
    let is_other = match packet.family {
        Family::V4 => address_type(packet.saddr, way) == Some("UNICAST"),
        Family::V6 => packet.saddr.0 >> 125 == 0b001 && !way.own,
    };
    let plain = is_other && !has("loose") && !has("accept-local") && way.entry != Entry::Output;
    plain.then(|| !has("invert"))
}

/// xt_addrtype.c over our routing.
fn addrtype(host: &Host, packet: &Packet, way: &Way) -> Option<bool> {
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
        let kind = address_type(addr, way)?;
        holds &= wanted.contains(&kind) != option.negated;
    }
    Some(holds)
}

/// inet_addr_type: the local table, then UNICAST.
fn address_type(addr: Addr, way: &Way) -> Option<&'static str> {
    let first = (addr.0 >> 24) as u8;
    let own = ADDRS[Family::V4 as usize].contains(&addr.0);
    Some(match first {
        _ if addr.0 == 0xffff_ffff || first == 0 => "BROADCAST",
        224..=239 => "MULTICAST",
        127 if addr.0 & 0xff_ffff == 0xff_ffff || addr.0 & 0xff_ffff == 0 => return None,
        127 => "LOCAL",
        _ if own || way.own => "LOCAL",
        _ => "UNICAST",
    })
}
