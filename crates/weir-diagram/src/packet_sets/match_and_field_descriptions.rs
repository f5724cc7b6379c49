//! Short descriptions of matches and values.

use std::collections::BTreeMap;

use weir_model::field::Layer;
use weir_model::mask::interval_to_prefix_mask;
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption, ct_state};
use weir_model::{Family, Field, Match};

use crate::packet_sets::presence_and_field_predicates::decode_ct_state;
use crate::packet_sets::variable_layout::ct_code_bit;

/// The states of a connection.
const CT_STATE_MASK_WITHOUT_NAT: u16 = ct_state::INVALID
    | ct_state::NEW
    | ct_state::RELATED
    | ct_state::ESTABLISHED
    | ct_state::UNTRACKED;

/// A match as a rule would name it: `-m owner --uid-owner 0`, options as far as they say something.
pub(crate) fn format_match_as_iptables_option(m: &Match) -> String {
    match m {
        Match::Stateful(s) => describe_module_options(s.module, &s.options),
        Match::UnmodelledInput(h) => describe_module_options(h.module, &h.options),
        Match::Opaque(o) => format!("-m {} {}", o.name, o.words.join(" ")).trim_end().to_owned(),
        Match::Set(s) => {
            let dirs: Vec<_> =
                s.src_directions.iter().map(|d| if *d { "src" } else { "dst" }).collect();
            format!("-m set --match-set {} {}", s.name, dirs.join(","))
        }
        Match::Conntrack(_) => "-m conntrack".to_owned(),
        Match::Tcp { .. } => "-m tcp --tcp-option".to_owned(),
        Match::Sctp { .. } => "-m sctp --chunk-types".to_owned(),
        Match::Dccp { .. } => "-m dccp --dccp-types".to_owned(),
        other => format!("{other:?}"),
    }
}

fn describe_module_options(name: &str, options: &[TypedExtensionOption]) -> String {
    let mut out = format!("-m {name}");
    for TypedExtensionOption { negated, name, value } in options {
        let not = if *negated { " !" } else { "" };
        let value = format_option_value(value);
        out += &format!("{not} --{name}{}{value}", if value.is_empty() { "" } else { " " });
    }
    out
}

fn format_option_value(value: &ExtensionValue) -> String {
    match value {
        ExtensionValue::Flag => String::new(),
        ExtensionValue::Number(n) | ExtensionValue::DurationInModuleUnit(n) => n.to_string(),
        ExtensionValue::Hex(n) => format!("{n:#x}"),
        ExtensionValue::Range(lo, hi) if lo == hi => lo.to_string(),
        ExtensionValue::Range(lo, hi) => format!("{lo}:{hi}"),
        ExtensionValue::Masked(v, m) => format!("{v:#x}/{m:#x}"),
        ExtensionValue::RateCountPerMilliseconds(n, unit) => {
            let unit = match unit {
                1000 => "sec",
                60_000 => "min",
                3_600_000 => "hour",
                _ => "day",
            };
            format!("{n}/{unit}")
        }
        ExtensionValue::Probability(p) => format!("{:.4}", f64::from(*p) / 2f64.powi(31)),
        ExtensionValue::Keyword(w) => (*w).to_owned(),
        ExtensionValue::KeywordList(w) => w.join(","),
        ExtensionValue::Text(t) => t.clone(),
        ExtensionValue::ByteString(b) => String::from_utf8_lossy(b).into_owned(),
        other => format!("{other:?}"),
    }
}

/// A span of a field's values, addresses as prefixes where they are one.
pub(crate) fn describe_value_span(field: Field, (lo, hi): (u128, u128), family: Family) -> String {
    let word = |v| field.display_value(v, family);
    if lo == hi {
        return word(lo);
    }
    let is_address = matches!(field, Field::Saddr | Field::Daddr);
    let mask = interval_to_prefix_mask((lo, hi), family.max_addr()).filter(|_| is_address);
    match mask.and_then(|mask| family.prefix_len_of_mask(mask)) {
        Some(len) => format!("{}/{len}", word(lo)),
        None if field == Field::Proto => format!("{lo}-{hi}"),
        None => format!("{}-{}", word(lo), word(hi)),
    }
}

/// Whether some codes are all states but invalid, translated or not: nothing worth saying.
pub(crate) fn has_all_ct_states_but_invalid(codes: impl Iterator<Item = u32>) -> bool {
    let codes: Vec<u32> = codes.collect();
    let low = |c: &u32| c >> ct_code_bit::STATE_LOW & 1 == 1;
    let entry = |c: &u32| c >> ct_code_bit::HAS_ENTRY & 1 == 1;
    let high = |c: &u32| c >> ct_code_bit::STATE_HIGH & 1 == 1;
    let possible = |c: &u32| !low(c) || entry(c) && !high(c);
    let all = 1u32 << ct_code_bit::COUNT;
    // A new connection that was translated may be a corner case of its own.
    let translated = |c: &u32| entry(c) && !high(c) && !low(c) && c >> ct_code_bit::DNAT & 3 != 0;
    let states = (0..all).filter(possible).filter(|c| (entry(c) || high(c)) && !translated(c));
    states.into_iter().all(|c| codes.contains(&c))
}

/// States and translations that some codes stand for. Of a new connection, `omit_obvious` does not
/// say that it is not translated: it cannot be yet.
pub(crate) fn describe_ct_states_with_nat(
    codes: impl Iterator<Item = u32>,
    omit_obvious: bool,
) -> Vec<String> {
    let mut by_state: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for code in codes {
        by_state.entry(decode_ct_state(code) & CT_STATE_MASK_WITHOUT_NAT).or_default().push(code);
    }
    let mut out = Vec::new();
    for (state, codes) in by_state {
        let mut word = Field::CtState.display_value(state.into(), Family::V4);
        for (bit, name) in [
            (ct_code_bit::SNAT, "snat"),
            (ct_code_bit::DNAT, "dnat"),
            (ct_code_bit::REPLY, "reply"),
        ] {
            let set = codes.iter().filter(|c| **c >> bit & 1 == 1).count();
            match set {
                0 if omit_obvious && state == ct_state::NEW => {}
                0 => word += &format!(" not {name}"),
                n if n == codes.len() => word += &format!(" {name}"),
                _ => {}
            }
        }
        out.push(word);
    }
    out
}

/// A field in the words of `--packet`.
pub(crate) fn format_packet_language_field_name(
    field: Field,
    family: Family,
    proto: Option<u128>,
) -> String {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    let th = proto.map(|p| Field::Proto.display_value(p, family));
    match field {
        Field::Saddr | Field::Daddr => format!("{ip} {}", field.row().name),
        Field::Sport | Field::Dport => match th {
            Some(th) => format!("{th} {}", field.row().name),
            None => field.row().name.to_owned(),
        },
        Field::TcpFlags => "tcp flags".to_owned(),
        Field::IcmpTypeAndCode => {
            if ip == "ip" { "icmp type/code" } else { "icmpv6 type/code" }.to_owned()
        }
        Field::SourceMac => "ether saddr".to_owned(),
        _ if field.row().ordinary_value_if_freely_settable.is_some()
            && field.row().layer == Layer::Network =>
        {
            format!("{ip} {}", field.row().name)
        }
        _ => field.row().name.to_owned(),
    }
}
