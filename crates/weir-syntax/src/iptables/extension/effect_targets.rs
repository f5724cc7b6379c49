//! Non-terminating targets: CT, NOTRACK, CLASSIFY, TOS, DSCP, TTL, HL, CHECKSUM, TRACE, AUDIT, TEE,
//! TCPMSS.

use weir_model::Hook::{Forward, Output, Postrouting};
use weir_model::rule_match::ExtensionValue;
use weir_model::target::{CT_EVENT_NAMES, Effect, TtlOperation};
use weir_model::{Family, Match, Span, TableName, Target};

use super::extension_value_builders::ModuleOptionsBuilder;
use super::option_value_printing::print_text_quoted_if_needed;
use super::{header_field_matches, log_targets, option_values};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, ParsedOption, flag_option,
    option_with_argument,
};

const MANGLE_SCOPE: ExtensionScope = ExtensionScope::in_tables(&[TableName::Mangle]);
const RAW_SCOPE: ExtensionScope = ExtensionScope::in_tables(&[TableName::Raw]);

pub(super) static NOTRACK_TARGET: Extension<Target> = Extension {
    name: "NOTRACK",
    options: &[],
    build: |_| Ok(wrap_effect_as_target(Effect::Notrack)),
    scope: RAW_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static CT_TARGET: Extension<Target> = Extension {
    name: "CT",
    options: &[
        flag_option("notrack", 0),
        option_with_argument("helper", 1),
        option_with_argument("timeout", 2),
        option_with_argument("ctevents", 3),
        option_with_argument("expevents", 4),
        option_with_argument("zone-orig", 5),
        option_with_argument("zone-reply", 6),
        option_with_argument("zone", 7),
    ],
    build: build_ct_target,
    scope: RAW_SCOPE,
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

pub(super) static CLASSIFY_TARGET: Extension<Target> = Extension {
    name: "CLASSIFY",
    options: &[option_with_argument("set-class", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("no --set-class").into_err();
        };
        Ok(wrap_effect_as_target(Effect::Classify { class: parse_tc_class(t)? }))
    },
    scope: ExtensionScope::from_hooks(&[Forward, Output, Postrouting]),
    ..Extension::DEFAULT
};

pub(super) static TOS_TARGET: Extension<Target> = Extension {
    name: "TOS",
    options: &[
        option_with_argument("set-tos", 0).excludes(0b1110),
        option_with_argument("and-tos", 1).excludes(0b1101),
        option_with_argument("or-tos", 2).excludes(0b1011),
        option_with_argument("xor-tos", 3).excludes(0b0111),
    ],
    build: build_tos_target,
    scope: MANGLE_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static DSCP_TARGET: Extension<Target> = Extension {
    name: "DSCP",
    options: &[
        option_with_argument("set-dscp", 0).excludes(2),
        option_with_argument("set-dscp-class", 1).excludes(1),
    ],
    build: |g| match g.iter().next() {
        Some(t) => Ok(wrap_effect_as_target(Effect::Dscp(header_field_matches::parse_dscp(t)?))),
        None => g.extension_error("DSCP without a value").with_help("give --set-dscp").into_err(),
    },
    scope: MANGLE_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static TTL_TARGET: Extension<Target> = Extension {
    name: "TTL",
    family: Some(Family::V4),
    options: &[
        option_with_argument("ttl-set", 0).excludes(6),
        option_with_argument("ttl-inc", 1).excludes(5),
        option_with_argument("ttl-dec", 2).excludes(3),
    ],
    build: build_ttl_target,
    scope: MANGLE_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static HL_TARGET: Extension<Target> = Extension {
    name: "HL",
    family: Some(Family::V6),
    options: &[
        option_with_argument("hl-set", 0).excludes(6),
        option_with_argument("hl-inc", 1).excludes(5),
        option_with_argument("hl-dec", 2).excludes(3),
    ],
    build: build_ttl_target,
    scope: MANGLE_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static CHECKSUM_TARGET: Extension<Target> = Extension {
    name: "CHECKSUM",
    options: &[flag_option("checksum-fill", 0).mandatory()],
    build: |_| Ok(effect_target_with_one_flag("CHECKSUM", "checksum-fill")),
    scope: MANGLE_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static TRACE_TARGET: Extension<Target> = Extension {
    name: "TRACE",
    options: &[],
    build: |_| {
        Ok(log_targets::effect_target_with_options("TRACE", ModuleOptionsBuilder::default()))
    },
    scope: RAW_SCOPE,
    ..Extension::DEFAULT
};

pub(super) static AUDIT_TARGET: Extension<Target> = Extension {
    name: "AUDIT",
    options: &[option_with_argument("type", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("AUDIT without --type").into_err();
        };
        let kinds = ["accept", "drop", "reject"];
        let Some(kind) = kinds.into_iter().find(|k| k.eq_ignore_ascii_case(t.arg)) else {
            return t.arg_error(format!("{} is not accept, drop or reject", t.arg)).into_err();
        };
        let mut options = ModuleOptionsBuilder::default();
        options.push_non_negated("type", ExtensionValue::Keyword(kind));
        Ok(log_targets::effect_target_with_options("AUDIT", options))
    },
    ..Extension::DEFAULT
};

pub(super) static TEE_TARGET: Extension<Target> = Extension {
    name: "TEE",
    options: &[option_with_argument("gateway", 0).mandatory(), option_with_argument("oif", 1)],
    build: build_tee_target,
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

pub(super) static TCPMSS_TARGET: Extension<Target> = Extension {
    name: "TCPMSS",
    options: &[option_with_argument("set-mss", 0), flag_option("clamp-mss-to-pmtu", 1)],
    build: build_tcpmss_target,
    scope: ExtensionScope::for_protocols(&[6]),
    check_rule_matches: check_syn_match,
    ..Extension::DEFAULT
};

fn wrap_effect_as_target(e: Effect) -> Target {
    Target::Effect(Box::new(e))
}

fn effect_target_with_one_flag(module: &'static str, option: &'static str) -> Target {
    let mut options = ModuleOptionsBuilder::default();
    options.push_non_negated(option, ExtensionValue::Flag);
    log_targets::effect_target_with_options(module, options)
}

fn parse_ct_events_as_keywords(
    t: &ParsedOption,
    known: &[&'static str],
) -> ParseResult<ExtensionValue> {
    let mut set = vec![false; known.len()];
    for word in t.arg.split(',') {
        match known.iter().position(|k| *k == word) {
            Some(i) => set[i] = true,
            None => {
                return t
                    .arg_error(format!("no event {word:?}"))
                    .with_help(format!("use one of {}", known.join(", ")))
                    .into_err();
            }
        }
    }
    Ok(ExtensionValue::KeywordList(
        (0..known.len()).filter(|i| set[*i]).map(|i| known[i]).collect(),
    ))
}

/// Helpers of the kernel and the protocols that they listen to.
const CT_HELPER_PROTOCOLS: [(&str, &[u8]); 9] = [
    ("ftp", &[6]),
    ("sip", &[6, 17]),
    ("irc", &[6]),
    ("tftp", &[17]),
    ("amanda", &[17]),
    ("pptp", &[6]),
    ("sane", &[6]),
    ("snmp", &[17]),
    ("netbios-ns", &[17]),
];

fn build_ct_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    for id in 0..=4 {
        let Some(t) = g.first_with_id(id) else { continue };
        let v = match id {
            0 => ExtensionValue::Flag,
            1 | 2 if t.arg.is_empty() => continue,
            1 | 2 if t.arg.len() > 31 => {
                return t.arg_error("name is longer than 31 bytes").into_err();
            }
            1 | 2 => ExtensionValue::Text(t.arg.to_owned()),
            3 => parse_ct_events_as_keywords(t, &CT_EVENT_NAMES)?,
            _ => parse_ct_events_as_keywords(t, &CT_EVENT_NAMES[..1])?,
        };
        if id == 1 && !g.has_option(0) {
            check_ct_helper_protocol(t, g)?;
        }
        options.push_non_negated(g.option_name_without_dashes(id), v);
    }
    push_ct_zone(g, &mut options)?;
    if !g.has_option(0) {
        return Ok(log_targets::effect_target_with_options("CT", options));
    }
    let mut ignored_options = options.0;
    ignored_options.retain(|option| option.name != "notrack");
    Ok(wrap_effect_as_target(Effect::CtNotrack { ignored_options }))
}

fn check_ct_helper_protocol(t: &ParsedOption, g: &ParsedExtensionOptions) -> ParseResult<()> {
    let protocol = g.base.proto.filter(|p| !p.negated).map(|p| p.proto);
    let known = CT_HELPER_PROTOCOLS
        .iter()
        .find(|(name, _)| *name == t.arg)
        .map(|(_, protocols)| *protocols);
    match (protocol, known) {
        (None, _) => t
            .arg_error("helper in a rule that is not for a single protocol")
            .with_help("write -p tcp or -p udp in the rule")
            .into_err(),
        (Some(p), Some(known)) if !known.contains(&p) => t
            .arg_error(format!("helper {} does not listen to the rule's protocol", t.arg))
            .into_err(),
        _ => Ok(()),
    }
}

/// Of several zones the last number counts, `mark` before any; both directions are none.
fn push_ct_zone(g: &ParsedExtensionOptions, options: &mut ModuleOptionsBuilder) -> ParseResult<()> {
    let mut zone = ExtensionValue::Number(0);
    for t in g.iter().filter(|t| t.id >= 5) {
        if t.arg == "mark" {
            zone = ExtensionValue::Keyword("mark");
            continue;
        }
        let n = option_values::parse_integer(t, 0, 0xffff)?;
        if zone != ExtensionValue::Keyword("mark") {
            zone = ExtensionValue::Number(n);
        }
    }
    // Zone 0 of one direction is preserved: the kernel stores the direction, iptables-save omits
    // it.
    if zone != ExtensionValue::Number(0) || g.has_option(5) != g.has_option(6) {
        let name = match (g.has_option(5), g.has_option(6)) {
            (true, false) => "zone-orig",
            (false, true) => "zone-reply",
            _ => "zone",
        };
        options.push_non_negated(name, zone);
    }
    Ok(())
}

/// Two hexadecimal numbers, of which 16 bits count.
fn parse_tc_class(t: &ParsedOption) -> ParseResult<(u16, u16)> {
    fn parse_leading_hex(text: &str) -> Option<(u16, &str)> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let end = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let n = u32::from_str_radix(&digits[..end], 16).ok()?;
        Some((n as u16, &digits[end..]))
    }
    let read = || {
        let (major, rest) = parse_leading_hex(t.arg)?;
        let (minor, _) = parse_leading_hex(rest.strip_prefix(':')?)?;
        Some((major, minor))
    };
    match read() {
        Some(class) => Ok(class),
        None => t
            .arg_error(format!("{} is not a class", t.arg))
            .with_help("write MAJOR:MINOR, both hexadecimal")
            .into_err(),
    }
}

fn build_tos_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.iter().next() else {
        return g.extension_error("TOS without an action").with_help("give --set-tos").into_err();
    };
    let (value, mask) = match t.id {
        0 => header_field_matches::parse_tos(t)?,
        1 => (0, !(option_values::parse_integer(t, 0, 255)? as u8)),
        2 => {
            let v = option_values::parse_integer(t, 0, 255)? as u8;
            (v, v)
        }
        _ => (option_values::parse_integer(t, 0, 255)? as u8, 0),
    };
    Ok(wrap_effect_as_target(Effect::Tos { xor_value: value, clear_mask: mask }))
}

fn build_ttl_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.iter().next() else {
        return g.extension_error(format!("{} without an action", g.name)).into_err();
    };
    let op = [TtlOperation::Set, TtlOperation::Inc, TtlOperation::Dec][t.id as usize];
    let min = u64::from(t.id != 0);
    Ok(wrap_effect_as_target(Effect::Ttl {
        op,
        value: option_values::parse_integer(t, min, 255)? as u8,
    }))
}

/// Bytes of a device's name (`IFNAMSIZ`, with a zero at the end).
const TEE_DEVICE_NAME_BYTES_KEPT: usize = 15;

fn build_tee_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("TEE without --gateway").into_err();
    };
    let gateway = option_values::parse_host_addr(t, g)?;
    if gateway.0 == 0 {
        return t.arg_error("gateway of all zeros").into_err();
    }
    let mut options = ModuleOptionsBuilder::default();
    options.push_non_negated("gateway", ExtensionValue::Addr(gateway));
    if let Some(t) = g.first_with_id(1) {
        // The tool keeps as much of a name as a device can have.
        let Some(device) = t.arg.get(..t.arg.len().min(TEE_DEVICE_NAME_BYTES_KEPT)) else {
            return t.arg_error("device name is longer than 15 bytes").into_err();
        };
        if !device.is_empty() {
            options.push_non_negated("oif", ExtensionValue::Text(device.to_owned()));
        }
    }
    Ok(log_targets::effect_target_with_options("TEE", options))
}

fn build_tcpmss_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    let max = if g.family == Family::V4 { 65_515 } else { 65_495 };
    let mss = g.first_with_id(0).map(|t| option_values::parse_integer(t, 0, max)).transpose()?;
    // Both may be given: the later one counts.
    match (g.iter().last().map(|t| t.id), mss) {
        (Some(0), Some(mss)) => options.push_non_negated("set-mss", ExtensionValue::Number(mss)),
        (Some(_), _) => {
            g.restrict_hooks(&[Forward, Output, Postrouting]);
            options.push_non_negated("clamp-mss-to-pmtu", ExtensionValue::Flag);
        }
        (None, _) => {
            return g
                .extension_error("TCPMSS without an action")
                .with_help("give --clamp-mss-to-pmtu or --set-mss")
                .into_err();
        }
    }
    Ok(log_targets::effect_target_with_options("TCPMSS", options))
}

/// TCPMSS requires a match of SYN packets (`find_syn_match` in net/netfilter/xt_TCPMSS.c).
fn check_syn_match(matches: &[Match], span: Span) -> ParseResult<()> {
    let syn = |m: &Match| matches!(m, Match::Tcp { flags: Some(f), .. } if !f.negated && f.value.comp & 2 != 0);
    if matches.iter().any(syn) {
        return Ok(());
    }
    Diagnostic::new("TCPMSS in a rule that is not for SYN packets", span)
        .with_help("write --tcp-flags SYN,RST SYN in the rule")
        .into_err()
}
