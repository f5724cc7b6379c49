//! Answers that a packet's fields do not determine: from the configuration of the namespaces if it
//! determines them, otherwise from the kernel's own counter of the rule.
//!
//! A counter shows whether all matches of its rule were true. It does not show which one was false,
//! which matters if one of them drops the packet ([`drop_prediction`]): such answers stay open,
//! and both are tried ([`KernelOracle::with_scripted_answers`]).

use std::collections::HashMap;

use weir_model::effect::{target_effects, verdict_or_extension_name};
use weir_model::rule_match::{ExtensionValue, UnmodelledInputMatch};
use weir_model::target::{ExtensionTarget, NatTarget};
use weir_model::{Addr, Effect, Family, Field, Match, OriginalRuleIndex, Target};
use weir_packet::{Packet, Transport};
use weir_semantics::{
    JourneyKind, NatQuestion, Oracle, OracleQuestion, QuestionSubject, UnknownWrite,
};

use crate::drop_prediction;
use crate::packet_batch::PacketPath;
use crate::testbed::FIREWALL_LINK_ADDRS;

/// What one packet is answered.
#[derive(Debug)]
pub(crate) struct KernelOracle<'a> {
    path: &'a PacketPath,
    /// The original destination, and where the host redirects it.
    daddr_and_journey_on_arrival: (Addr, JourneyKind),
    /// Whether each rule's own counter counted this packet; `None` if it was not evaluated.
    rule_counts: Option<&'a HashMap<OriginalRuleIndex, u64>>,
    /// Something was asked that only the kernel can say, and on which more depends than the
    /// counter of the rule that asked.
    pub needs_kernel_answer: bool,
    /// Rules on which nothing depends but their own counter, taken as true.
    pub rules_uncertain_in_own_counter_only: Vec<OriginalRuleIndex>,
    /// What is taken for granted of rules on which more depends, until counters contradict.
    guessed_answers: Option<&'a LastKernelAnswerByRule>,
    /// Answers to what the counters leave open, in the order of the questions; then `false`.
    scripted_answers: &'a [bool],
    /// How many questions the counters left open.
    pub open_question_count: usize,
    /// Why it is not known what happened to this packet, if so.
    pub unknown_cause: Option<String>,
}

/// What the kernel last answered each rule.
pub(crate) type LastKernelAnswerByRule = HashMap<(Family, OriginalRuleIndex), bool>;

impl<'a> KernelOracle<'a> {
    /// What the namespaces decide. `is_delivered_locally`: the host without rules took the packet
    /// as its own.
    pub fn from_namespaces(
        path: &'a PacketPath,
        packet: &Packet,
        is_delivered_locally: bool,
    ) -> Self {
        let to = if is_delivered_locally { JourneyKind::Input } else { path.journey_kind };
        let (open, maybe) = (false, Vec::new());
        let arrived = (packet.daddr, to);
        let (counted, guessed_answers, script, left_open, unknown) = (None, None, &[][..], 0, None);
        KernelOracle {
            path,
            daddr_and_journey_on_arrival: arrived,
            rule_counts: counted,
            needs_kernel_answer: open,
            rules_uncertain_in_own_counter_only: maybe,
            guessed_answers,
            scripted_answers: script,
            open_question_count: left_open,
            unknown_cause: unknown,
        }
    }

    /// And what the kernel's counters said.
    pub fn with_counters(self, counted: &'a HashMap<OriginalRuleIndex, u64>) -> Self {
        KernelOracle { rule_counts: Some(counted), ..self }
    }

    /// And answers to what these leave open.
    pub fn with_scripted_answers(self, script: &'a [bool]) -> Self {
        KernelOracle { scripted_answers: script, ..self }
    }

    /// And, where that leaves something open, guesses.
    pub fn with_guesses(self, guessed_answers: &'a LastKernelAnswerByRule) -> Self {
        KernelOracle { guessed_answers: Some(guessed_answers), ..self }
    }
}

impl Oracle for KernelOracle<'_> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        if let Some(Match::UnmodelledInput(host)) = question.match_in_question()
            && let Some(answer) = evaluate_host_dependent_match(host, question.packet, self.path)
        {
            return answer;
        }
        let id = question.rule.credited_originals.first();
        if let Some(counted) = self.rule_counts {
            let counts = id.and_then(|id| counted.get(id)).is_some_and(|n| *n > 0);
            if counts || !may_later_match_drop(question) {
                return counts;
            }
            self.open_question_count += 1;
            return self
                .scripted_answers
                .get(self.open_question_count - 1)
                .copied()
                .unwrap_or(false);
        }
        match id {
            Some(id) if affects_only_own_counter(question) && !may_later_match_drop(question) => {
                self.rules_uncertain_in_own_counter_only.push(*id);
                true
            }
            _ => {
                self.needs_kernel_answer = true;
                let guess =
                    self.guessed_answers.zip(id).and_then(|(g, id)| g.get(&(question.family, *id)));
                guess.copied().unwrap_or(false)
            }
        }
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        let dropped = match question.match_in_question() {
            Some(m) => drop_prediction::match_drops_packet(m, question.packet),
            None => drop_prediction::target_drops_packet(&question.rule.target, question.packet),
        };
        dropped.unwrap_or_else(|why| {
            self.unknown_cause = Some(why);
            false
        })
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        let UnknownWrite { question, field, old_value: old } = write;
        compute_written_value(&question.rule.target, *field, *old, question.packet).unwrap_or_else(
            || {
                self.unknown_cause = Some("a target wrote an unknown value".to_owned());
                *old
            },
        )
    }

    fn choose_nat_mapping(&mut self, translation: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        let link = match translation.target {
            NatTarget::Redirect(_) => 0,
            NatTarget::Masquerade(_) => 1,
            NatTarget::Dnat(_) | NatTarget::Snat(_) | NatTarget::Netmap(..) => return None,
        };
        let addr = FIREWALL_LINK_ADDRS[translation.packet.family as usize][link];
        Some((Addr(addr), None))
    }

    fn route_packet(&mut self, packet: &Packet, wish: JourneyKind) -> JourneyKind {
        let (daddr, to) = self.daddr_and_journey_on_arrival;
        if packet.daddr == daddr { to } else { wish }
    }
}

/// The value that a target writes where its rule does not say it; `None` if it is not known.
fn compute_written_value(
    target: &Target,
    field: Field,
    old: u128,
    packet: &Packet,
) -> Option<u128> {
    let Target::Effect(effect) = target else { return None };
    let Effect::Other(extension) = &**effect else { return None };
    let number = |name: &str| {
        let option = extension.options.iter().find(|o| o.name == name)?;
        match option.value {
            ExtensionValue::Number(n) | ExtensionValue::Hex(n) => Some(u128::from(n)),
            _ => None,
        }
    };
    match (extension.module, field) {
        ("TCPMSS", Field::Length) => {
            Some(old + if is_lengthened_by_tcpmss(packet) { 4 } else { 0 })
        }
        // The template of CT has no mark.
        ("CT", Field::CtMark) => Some(0),
        ("CONNMARK", _) => Some(compute_shifted_connmark(extension, packet).into()),
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
fn compute_shifted_connmark(extension: &ExtensionTarget, packet: &Packet) -> u32 {
    let option = |name: &str| extension.options.iter().find(|o| o.name == name).map(|o| &o.value);
    let number = |name: &str| match option(name) {
        Some(ExtensionValue::Number(n) | ExtensionValue::Hex(n) | ExtensionValue::Masked(n, _)) => {
            Some(*n as u32)
        }
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
        (Some(ExtensionValue::Masked(value, mask)), _) => {
            shift((ct_mark & !(*mask as u32)) ^ *value as u32)
        }
        (_, Some(ExtensionValue::Masked(value, mask))) => {
            shift((ct_mark & !(*mask as u32 | *value as u32)) ^ *value as u32)
        }
        _ => shift(number("set-xmark").or(number("set-mark")).unwrap_or(0)),
    }
}

/// Whether TCPMSS adds its option (xt_TCPMSS.c, `tcpmss_mangle_packet`): it is not there, has room
/// in the header, and nothing follows the header.
fn is_lengthened_by_tcpmss(packet: &Packet) -> bool {
    let Transport::Tcp { options, .. } = &packet.transport else { return false };
    packet.payload.is_empty() && options.len() < 40 && !has_mss_option(options)
}

fn has_mss_option(options: &[u8]) -> bool {
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
fn affects_only_own_counter(question: &OracleQuestion<'_>) -> bool {
    let target = &question.rule.target;
    // Jumps and RETURN do nothing to a packet, but decide which rules it reaches.
    let continues_with_next_rule =
        *target == Target::None || verdict_or_extension_name(target).is_some();
    question.subject != QuestionSubject::Target
        && continues_with_next_rule
        && target_effects(target).has_no_effect_on_later_rules()
}

/// Whether a match after the one in question may drop the packet.
fn may_later_match_drop(question: &OracleQuestion<'_>) -> bool {
    let QuestionSubject::Match(at) = question.subject else { return false };
    question.rule.matches[at + 1..]
        .iter()
        .any(|m| drop_prediction::can_match_drop_given_packet(m, question.packet))
}

/// What a match of the host says in our namespaces, where that is certain.
fn evaluate_host_dependent_match(
    host: &UnmodelledInputMatch,
    packet: &Packet,
    path: &PacketPath,
) -> Option<bool> {
    let all_negated = || host.options.iter().all(|o| o.negated);
    match host.module {
        "addrtype" if packet.family == Family::V4 => evaluate_addrtype(host, packet, path),
        // Without a bridge every option is as if it were negated (xt_physdev.c).
        "physdev" => Some(all_negated()),
        // Without a socket, too (xt_owner.c).
        "owner" if path.journey_kind != JourneyKind::Output => Some(all_negated()),
        "rpfilter" => evaluate_rpfilter(host, packet, path),
        _ => None,
    }
}

/// ipt_rpfilter.c: the route back to any other host is the link on which packets arrive.
fn evaluate_rpfilter(
    host: &UnmodelledInputMatch,
    packet: &Packet,
    path: &PacketPath,
) -> Option<bool> {
    let has = |name: &str| host.options.iter().any(|o| o.name == name);
    let is_other = match packet.family {
        Family::V4 => classify_addrtype(packet.saddr, path) == Some("UNICAST"),
        Family::V6 => packet.saddr.0 >> 125 == 0b001 && !path.treats_all_addresses_as_own,
    };
    let plain = is_other
        && !has("loose")
        && !has("accept-local")
        && path.journey_kind != JourneyKind::Output;
    plain.then(|| !has("invert"))
}

/// xt_addrtype.c over our routing.
fn evaluate_addrtype(
    host: &UnmodelledInputMatch,
    packet: &Packet,
    path: &PacketPath,
) -> Option<bool> {
    let mut holds = true;
    for option in &host.options {
        let addr = match option.name {
            "src-type" => packet.saddr,
            "dst-type" => packet.daddr,
            _ => return None,
        };
        let wanted: Vec<&str> = match &option.value {
            ExtensionValue::Keyword(w) => vec![w],
            ExtensionValue::KeywordList(words) => words.clone(),
            _ => return None,
        };
        let kind = classify_addrtype(addr, path)?;
        holds &= wanted.contains(&kind) != option.negated;
    }
    Some(holds)
}

/// inet_addr_type: the local table, then UNICAST.
fn classify_addrtype(addr: Addr, path: &PacketPath) -> Option<&'static str> {
    let first = (addr.0 >> 24) as u8;
    let own = FIREWALL_LINK_ADDRS[Family::V4 as usize].contains(&addr.0);
    Some(match first {
        // Only these two are always broadcasts; the rest of 0.0.0.0/8 is routed like any other
        // network since Linux 5.3.
        _ if addr.0 == 0xffff_ffff || addr.0 == 0 => "BROADCAST",
        224..=239 => "MULTICAST",
        127 if addr.0 & 0xff_ffff == 0xff_ffff || addr.0 & 0xff_ffff == 0 => return None,
        127 => "LOCAL",
        _ if own || path.treats_all_addresses_as_own => "LOCAL",
        _ => "UNICAST",
    })
}

#[cfg(test)]
mod tests {
    use weir_model::effect::{TARGET_ROWS, TargetTermination};

    use super::*;

    /// Unknown values that depend on more than the rule and the packet: SET maps the mark of an
    /// element.
    const VALUES_OF_THE_HOST: &[(&str, Field)] = &[("SET", Field::Mark)];

    #[test]
    fn every_unknown_written_value_is_computed_or_host_dependent() {
        let packet = Packet::new(Family::V4, Addr(1), Addr(2), 6);
        let mut computed = 0;
        // What ends the traversal hands the packet to a program, and is not compared.
        let rows = TARGET_ROWS.iter().filter(|r| r.termination == TargetTermination::Never);
        for row in rows {
            let target = Target::from_written_options(row.name, Vec::new());
            for field in row.unknown_value_writes.iter() {
                let is_computed = compute_written_value(&target, field, 0, &packet).is_some();
                let is_of_host = VALUES_OF_THE_HOST.contains(&(row.name, field));
                assert!(is_computed != is_of_host, "{}: {field:?} is unknown", row.name);
                computed += usize::from(is_computed);
            }
        }
        assert!(computed >= 4, "TCPMSS, CT and ECN write values that rows do not give");
    }
}
