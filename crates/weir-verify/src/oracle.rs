//! Answers that a packet's fields do not determine: from the configuration of the namespaces if it
//! determines them, otherwise from the kernel's own counter of the rule.
//!
//! A counter shows whether all matches of its rule were true. It does not show which one was false,
//! which matters if one of them drops the packet ([`hotdrop`]): such answers stay open, and both
//! are tried ([`Known::with_script`]).

use std::collections::HashMap;

use weir_model::matching::{HostMatch, Value};
use weir_model::target::{ExtensionTarget, NatTarget};
use weir_model::{Addr, Effect, Family, Field, Match, RuleIndex, Target};
use weir_packet::{Packet, Transport};
use weir_semantics::{Entry, Oracle, Question, QuestionSubject, Translation, Write};

use crate::batch::PacketPath;
use crate::hotdrop;
use crate::testbed::ADDRS;

/// Targets that change neither the packet nor anything that later rules see.
const SILENT: [&str; 5] = ["LOG", "NFLOG", "AUDIT", "TRACE", "CHECKSUM"];

/// What one packet is answered.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    path: &'a PacketPath,
    /// The original destination, and where the host redirects it.
    arrived: (Addr, Entry),
    /// Whether each rule's own counter counted this packet; `None` where it was not asked.
    counted: Option<&'a HashMap<RuleIndex, u64>>,
    /// Something was asked that only the kernel can say, and on which more depends than the
    /// counter of the rule that asked.
    pub open: bool,
    /// Rules on which nothing depends but their own counter, taken as true.
    pub maybe: Vec<RuleIndex>,
    /// What is taken for granted of rules on which more depends, until counters contradict.
    guesses: Option<&'a Guesses>,
    /// Answers to what the counters leave open, in the order of the questions; then `false`.
    script: &'a [bool],
    /// How many questions the counters left open.
    pub left_open: usize,
    /// Why it is not known what happened to this packet, if so.
    pub unknown: Option<String>,
}

/// What the kernel last answered each rule.
pub(crate) type Guesses = HashMap<(Family, RuleIndex), bool>;

impl<'a> Known<'a> {
    /// What the namespaces decide. `is_local`: the host without rules took the packet as its own.
    pub fn by_place(path: &'a PacketPath, packet: &Packet, is_local: bool) -> Self {
        let to = if is_local { Entry::Input } else { path.entry };
        let (open, maybe) = (false, Vec::new());
        let arrived = (packet.daddr, to);
        let (counted, guesses, script, left_open, unknown) = (None, None, &[][..], 0, None);
        Known { path, arrived, counted, open, maybe, guesses, script, left_open, unknown }
    }

    /// And what the kernel's counters said.
    pub fn and_counters(self, counted: &'a HashMap<RuleIndex, u64>) -> Self {
        Known { counted: Some(counted), ..self }
    }

    /// And answers to what these leave open.
    pub fn with_script(self, script: &'a [bool]) -> Self {
        Known { script, ..self }
    }

    /// And, where that leaves something open, guesses.
    pub fn and_guesses(self, guesses: &'a Guesses) -> Self {
        Known { guesses: Some(guesses), ..self }
    }
}

impl Oracle for Known<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        if let Some(Match::Host(host)) = question.asked_match()
            && let Some(answer) = by_place(host, question.packet, self.path)
        {
            return answer;
        }
        let id = question.rule.credit.first();
        if let Some(counted) = self.counted {
            let counts = id.and_then(|id| counted.get(id)).is_some_and(|n| *n > 0);
            if counts || !drops_behind(question) {
                return counts;
            }
            self.left_open += 1;
            return self.script.get(self.left_open - 1).copied().unwrap_or(false);
        }
        match id {
            Some(id) if is_silent(question) && !drops_behind(question) => {
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

    fn drops(&mut self, question: &Question<'_>) -> bool {
        let dropped = match question.asked_match() {
            Some(m) => hotdrop::drops(m, question.packet),
            None => hotdrop::target_drops(&question.rule.target, question.packet),
        };
        dropped.unwrap_or_else(|why| {
            self.unknown = Some(why);
            false
        })
    }

    fn write(&mut self, write: &Write<'_>) -> u128 {
        let Write { question, field, old } = write;
        written(&question.rule.target, *field, *old, question.packet).unwrap_or_else(|| {
            self.unknown = Some("a target wrote an unknown value".to_owned());
            *old
        })
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

/// The value that a target writes where its rule does not say it; `None` if it is not known.
fn written(target: &Target, field: Field, old: u128, packet: &Packet) -> Option<u128> {
    let Target::Effect(effect) = target else { return None };
    let Effect::Other(extension) = &**effect else { return None };
    let number = |name: &str| {
        let option = extension.options.iter().find(|o| o.name == name)?;
        match option.value {
            Value::Number(n) | Value::Hex(n) => Some(u128::from(n)),
            _ => None,
        }
    };
    match (extension.module, field) {
        ("TCPMSS", Field::Length) => Some(old + if is_lengthened(packet) { 4 } else { 0 }),
        // The template of CT has no mark.
        ("CT", Field::CtMark) => Some(0),
        ("CONNMARK", _) => Some(shifted_mark(extension, packet).into()),
        ("ECN", Field::Tos) => Some(number("ecn-ip-ect").map_or(old, |ect| old & !3 | ect & 3)),
        ("ECN", Field::TcpFlags) => {
            let removed = extension.options.iter().any(|o| o.name == "ecn-tcp-remove");
            let bit = |old: u128, name: &str, bit: u128| {
                let value = if removed { Some(0) } else { number(name) };
                value.map_or(old, |v| if v == 0 { old & !bit } else { old | bit })
            };
            Some(bit(bit(old, "ecn-tcp-cwr", 0x80), "ecn-tcp-ece", 0x40))
        }
        _ => None,
    }
}

/// The mark that CONNMARK writes where it shifts one (xt_connmark.c, `connmark_tg_shift`).
fn shifted_mark(extension: &ExtensionTarget, packet: &Packet) -> u32 {
    let option = |name: &str| extension.options.iter().find(|o| o.name == name).map(|o| &o.value);
    let number = |name: &str| match option(name) {
        Some(Value::Number(n) | Value::Hex(n) | Value::Masked(n, _)) => Some(*n as u32),
        _ => None,
    };
    let mask = |name: &str| number(name).unwrap_or(u32::MAX);
    let shift = |mark: u32| match (number("left-shift-mark"), number("right-shift-mark")) {
        (Some(bits), _) => mark << bits,
        (None, Some(bits)) => mark >> bits,
        (None, None) => mark,
    };
    let (mark, ct_mark) = (packet.mark, packet.ct.mark);
    if option("save-mark").is_some() {
        return (ct_mark & !mask("ctmask")) ^ shift(mark & mask("nfmask"));
    }
    if option("restore-mark").is_some() {
        return (mark & !mask("nfmask")) ^ shift(ct_mark & mask("ctmask"));
    }
    match (option("set-xmark"), option("set-mark")) {
        (Some(Value::Masked(value, mask)), _) => shift((ct_mark & !(*mask as u32)) ^ *value as u32),
        (_, Some(Value::Masked(value, mask))) => {
            shift((ct_mark & !(*mask as u32 | *value as u32)) ^ *value as u32)
        }
        _ => shift(number("set-xmark").or(number("set-mark")).unwrap_or(0)),
    }
}

/// Whether TCPMSS adds its option (xt_TCPMSS.c, `tcpmss_mangle_packet`): it is not there, has room
/// in the header, and nothing follows the header.
fn is_lengthened(packet: &Packet) -> bool {
    let Transport::Tcp { options, .. } = &packet.transport else { return false };
    packet.payload.is_empty() && options.len() < 40 && !has_mss(options)
}

fn has_mss(options: &[u8]) -> bool {
    let mut at = 0;
    while at + 4 <= options.len() {
        match options[at..] {
            [2, 4, ..] => return true,
            [0 | 1, ..] => at += 1,
            [_, length, ..] => at += usize::from(length.max(1)),
            _ => return false,
        }
    }
    false
}

/// Whether nothing but the rule's own counter depends on the answer.
fn is_silent(question: &Question<'_>) -> bool {
    question.subject != QuestionSubject::Target
        && match &question.rule.target {
            Target::None => true,
            Target::Effect(effect) => {
                matches!(&**effect, Effect::Other(x) if SILENT.contains(&x.module))
            }
            _ => false,
        }
}

/// Whether a match after the one in question may drop the packet.
fn drops_behind(question: &Question<'_>) -> bool {
    let QuestionSubject::Match(at) = question.subject else { return false };
    question.rule.matches[at + 1..].iter().any(|m| hotdrop::may_drop(m, question.packet))
}

/// What a match of the host says in our namespaces, where that is certain.
fn by_place(host: &HostMatch, packet: &Packet, path: &PacketPath) -> Option<bool> {
    let all_negated = || host.options.iter().all(|o| o.negated);
    match host.module {
        "addrtype" if packet.family == Family::V4 => addrtype(host, packet, path),
        // Without a bridge every option is as if it were negated (xt_physdev.c).
        "physdev" => Some(all_negated()),
        // Without a socket, too (xt_owner.c).
        "owner" if path.entry != Entry::Output => Some(all_negated()),
        "rpfilter" => rpfilter(host, packet, path),
        _ => None,
    }
}

/// ipt_rpfilter.c: the route back to any other host is the link on which packets arrive.
fn rpfilter(host: &HostMatch, packet: &Packet, path: &PacketPath) -> Option<bool> {
    let has = |name: &str| host.options.iter().any(|o| o.name == name);
    let is_other = match packet.family {
        Family::V4 => address_type(packet.saddr, path) == Some("UNICAST"),
        Family::V6 => packet.saddr.0 >> 125 == 0b001 && !path.own,
    };
    let plain = is_other && !has("loose") && !has("accept-local") && path.entry != Entry::Output;
    plain.then(|| !has("invert"))
}

/// xt_addrtype.c over our routing.
fn addrtype(host: &HostMatch, packet: &Packet, path: &PacketPath) -> Option<bool> {
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
        let kind = address_type(addr, path)?;
        holds &= wanted.contains(&kind) != option.negated;
    }
    Some(holds)
}

/// inet_addr_type: the local table, then UNICAST.
fn address_type(addr: Addr, path: &PacketPath) -> Option<&'static str> {
    let first = (addr.0 >> 24) as u8;
    let own = ADDRS[Family::V4 as usize].contains(&addr.0);
    Some(match first {
        // Only these two are always broadcasts; the rest of 0.0.0.0/8 is routed like any other
        // network since Linux 5.3.
        _ if addr.0 == 0xffff_ffff || addr.0 == 0 => "BROADCAST",
        224..=239 => "MULTICAST",
        127 if addr.0 & 0xff_ffff == 0xff_ffff || addr.0 & 0xff_ffff == 0 => return None,
        127 => "LOCAL",
        _ if own || path.own => "LOCAL",
        _ => "UNICAST",
    })
}
