//! Explains why a test is false.

use weir_model::rule_match::StatefulMatch;
use weir_model::{
    Addr, Family, Field, FieldReading, Match, Packet, Predicate, Rule, Test,
    lower_to_tests_with_match_index,
};
use weir_packet::Transport;
use weir_semantics::trace::FailedTest;

/// Why a rule did not match, in words: `dport 22 is not in 80,443`.
pub(crate) fn explain_mismatch(rule: &Rule, failed: &FailedTest) -> String {
    let packet = &*failed.packet;
    if failed.hotdrop {
        return hotdrop_reason(packet);
    }
    let (in_match, test) =
        lower_to_tests_with_match_index(rule, packet.family).swap_remove(failed.test_index);
    match &test {
        Test::Field { field, predicate, negated } => {
            field_mismatch_reason(*field, predicate, *negated, packet)
        }
        Test::EitherPort { spans, negated } => match packet.ports() {
            None => absent_field_reason(Field::Dport, packet),
            Some((s, d)) => {
                let list = spans_words(Field::Dport, spans, packet.family);
                match negated {
                    false => format!("neither sport {s} nor dport {d} is in {list}"),
                    true => format!("sport {s} or dport {d} is in {list}"),
                }
            }
        },
        Test::Set { .. } | Test::Opaque { .. } => {
            set_or_opaque_match_reason(in_match.map(|i| &rule.matches[i]), packet)
        }
        Test::Never => "it can never match".to_owned(),
    }
}

fn hotdrop_reason(packet: &Packet) -> String {
    if packet.fragment.offset == 1 {
        "dropped by the match: a TCP fragment at offset 1".to_owned()
    } else if packet.transport == Transport::Truncated {
        "dropped by the match: the header is truncated".to_owned()
    } else {
        "dropped by the match itself".to_owned()
    }
}

fn field_mismatch_reason(
    field: Field,
    predicate: &Predicate,
    negated: bool,
    packet: &Packet,
) -> String {
    if let Some(device) = field.device_name(packet) {
        return device_mismatch_reason(field, device, predicate, negated);
    }
    let value = match field.read(packet) {
        FieldReading::Value(v) => v,
        FieldReading::Absent => return absent_field_reason(field, packet),
        // Read by `-m multiport`, four bytes were enough.
        FieldReading::Truncated => return format!("{} is something else", field_name(field)),
    };
    let (has, wants) = (
        field.display_value(value, packet.family),
        predicate_words(field, predicate, packet.family),
    );
    let one = matches!(predicate, Predicate::InSpans(s) if s.len() == 1 && s[0].0 == s[0].1);
    let name = field_name(field);
    match (one, negated) {
        (true, false) => format!("{name} is {has}, not {wants}"),
        (true, true) => format!("{name} is {has}"),
        (false, false) => format!("{name} {has} is not in {wants}"),
        (false, true) => format!("{name} {has} is in {wants}"),
    }
}

fn device_mismatch_reason(
    field: Field,
    device: &str,
    predicate: &Predicate,
    negated: bool,
) -> String {
    let Predicate::Device { name: wanted, prefix } = predicate else { return String::new() };
    let plus = if *prefix { "+" } else { "" };
    let name = field_name(field);
    match (device.is_empty(), negated) {
        (true, false) => format!("there is no {name} at this hook"),
        (_, true) => format!("{name} is {device}"),
        (false, false) => format!("{name} is {device}, not {wanted}{plus}"),
    }
}

fn field_name(field: Field) -> &'static str {
    match field {
        Field::TcpFlags => "tcp flags",
        other => other.row().name,
    }
}

fn absent_field_reason(field: Field, packet: &Packet) -> String {
    match field {
        Field::Sport | Field::Dport if packet.fragment.offset != 0 => {
            "a later fragment has no ports".to_owned()
        }
        Field::TcpFlags | Field::IcmpTypeAndCode if packet.fragment.offset != 0 => {
            format!("a later fragment has no {}", field_name(field))
        }
        Field::SourceMac => "there is no Ethernet header".to_owned(),
        Field::CtMark => "there is no connection".to_owned(),
        _ => format!("the packet has no {}", field_name(field)),
    }
}

fn set_or_opaque_match_reason(m: Option<&Match>, packet: &Packet) -> String {
    match m {
        Some(Match::Set(s)) if s.negated => format!("it is in set {}", s.name),
        Some(Match::Set(s)) => format!("it is not in set {}", s.name),
        Some(Match::Conntrack(_)) if !packet.ct.has_entry() => {
            "conntrack has no entry for the packet".to_owned()
        }
        Some(Match::Conntrack(_)) => "the conntrack entry differs".to_owned(),
        Some(Match::Stateful(s)) => {
            let StatefulMatch { module, .. } = &**s;
            format!("{module} is assumed not to match")
        }
        Some(Match::UnmodelledInput(h)) => format!("{} is assumed not to match", h.module),
        Some(Match::Opaque(o)) => format!("{} is assumed not to match", o.name),
        _ => "it is assumed not to match".to_owned(),
    }
}

fn predicate_words(field: Field, predicate: &Predicate, family: Family) -> String {
    match predicate {
        Predicate::Present => "a whole header".to_owned(),
        Predicate::InSpans(spans) => spans_words(field, spans, family),
        Predicate::Masked { value, mask } => masked_words(field, *value, *mask, family),
        Predicate::AnyBit(mask) if field == Field::CtState => field.display_value(*mask, family),
        Predicate::AnyBit(mask) => format!("{mask:#x}"),
        Predicate::Device { name, prefix } => {
            format!("{name}{}", if *prefix { "+" } else { "" })
        }
    }
}

fn spans_words(field: Field, spans: &[(u128, u128)], family: Family) -> String {
    let span = |(lo, hi): &(u128, u128)| match lo == hi {
        true => field.display_value(*lo, family),
        false => {
            format!("{}-{}", field.display_value(*lo, family), field.display_value(*hi, family))
        }
    };
    spans.iter().map(span).collect::<Vec<_>>().join(",")
}

fn masked_words(field: Field, value: u128, mask: u128, family: Family) -> String {
    match field {
        Field::Saddr | Field::Daddr => {
            let addr = Addr(value).display(family);
            match family.prefix_len_of_mask(mask) {
                Some(len) if len == family.addr_bits() => addr.to_string(),
                Some(len) => format!("{addr}/{len}"),
                None => format!("{addr}/{}", Addr(mask).display(family)),
            }
        }
        Field::TcpFlags => format!(
            "{} of {}",
            field.display_value(value, family),
            field.display_value(mask, family)
        ),
        _ if mask == field.max_value(family) => field.display_value(value, family),
        _ => format!("{value:#x}/{mask:#x}"),
    }
}
