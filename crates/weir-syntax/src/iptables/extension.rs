//! The extensions that weir knows: one file for each, or for a small family of them, with options,
//! parser and printer together.
//!
//! To add one: its file, a row in [`MODELLED_MATCH_EXTENSIONS`] or [`MODELLED_TARGET_EXTENSIONS`],
//! and, if the model has a variant for it, an arm in [`print_match`] or [`print_target`]. The
//! agreement test includes the row automatically. An extension whose options are only checked goes
//! into [`checked_verbatim`].

mod checked_verbatim;
mod conntrack_matches;
mod divert_targets;
mod effect_targets;
mod esp_ah_spi_matches;
mod extension_value_builders;
mod hashlimit;
mod header_field_matches;
mod host_dependent_matches;
mod icmp;
mod ipsec_policy;
mod limit;
mod log_targets;
mod mac_mark_comment;
mod mark_targets;
mod nat;
pub(crate) mod option_values;
mod payload_matches;
mod port_matches;
mod reject;
mod sctp_chunks;
mod set_match_and_target;
mod stateful_matches;
mod tcpmss_ecn_matches;
mod time_match;

use weir_model::rule_match::{ExtensionOption, ExtensionValue, OpaqueExtension};
use weir_model::target::{Effect, TtlOperation};
use weir_model::{Family, Match, Target};

use super::option_specs_and_arguments::Extension;
use crate::append_text;

/// Matches, the frequent ones first.
pub(super) static MODELLED_MATCH_EXTENSIONS: &[&Extension<Match>] = &[
    &port_matches::TCP_MATCH,
    &port_matches::UDP_MATCH,
    &port_matches::MULTIPORT_MATCH,
    &conntrack_matches::STATE_MATCH,
    &conntrack_matches::CONNTRACK_MATCH,
    &mac_mark_comment::COMMENT_MATCH,
    &mac_mark_comment::MAC_MATCH,
    &limit::LIMIT_MATCH,
    &icmp::ICMP_MATCH,
    &icmp::ICMP6_MATCH,
    &mac_mark_comment::MARK_MATCH,
    &mac_mark_comment::CONNMARK_MATCH,
    &port_matches::SCTP_MATCH,
    &port_matches::DCCP_MATCH,
    &host_dependent_matches::ADDRTYPE_MATCH,
    &stateful_matches::RECENT_MATCH,
    &host_dependent_matches::OWNER_MATCH,
    &set_match_and_target::SET_MATCH,
    &header_field_matches::IPRANGE_MATCH,
    &header_field_matches::LENGTH_MATCH,
    &header_field_matches::TTL_MATCH,
    &header_field_matches::HL_MATCH,
    &header_field_matches::DSCP_MATCH,
    &header_field_matches::TOS_MATCH,
    &header_field_matches::PKTTYPE_MATCH,
    &hashlimit::HASHLIMIT_MATCH,
    &stateful_matches::STATISTIC_MATCH,
    &stateful_matches::QUOTA_MATCH,
    &stateful_matches::CONNLIMIT_MATCH,
    &stateful_matches::CONNBYTES_MATCH,
    &host_dependent_matches::PHYSDEV_MATCH,
    &host_dependent_matches::RPFILTER_MATCH,
    &host_dependent_matches::SOCKET_MATCH,
    &host_dependent_matches::HELPER_MATCH,
    &host_dependent_matches::CPU_MATCH,
    &host_dependent_matches::CGROUP_MATCH,
    &host_dependent_matches::DEVGROUP_MATCH,
    &host_dependent_matches::REALM_MATCH,
    &ipsec_policy::POLICY_MATCH,
    &tcpmss_ecn_matches::TCPMSS_MATCH,
    &tcpmss_ecn_matches::ECN_MATCH,
    &esp_ah_spi_matches::ESP_MATCH,
    &esp_ah_spi_matches::AH_MATCH,
    &esp_ah_spi_matches::AH6_MATCH,
    &time_match::TIME_MATCH,
    &payload_matches::STRING_MATCH,
    &payload_matches::U32_MATCH,
    &payload_matches::BPF_MATCH,
];

/// Targets.
pub(super) static MODELLED_TARGET_EXTENSIONS: &[&Extension<Target>] = &[
    &log_targets::LOG_TARGET,
    &reject::REJECT_TARGET,
    &mark_targets::MARK_TARGET,
    &mark_targets::CONNMARK_TARGET,
    &nat::DNAT_TARGET,
    &nat::SNAT_TARGET,
    &nat::MASQUERADE_TARGET,
    &nat::REDIRECT_TARGET,
    &nat::NETMAP_TARGET,
    &log_targets::NFLOG_TARGET,
    &effect_targets::NOTRACK_TARGET,
    &effect_targets::CT_TARGET,
    &effect_targets::CLASSIFY_TARGET,
    &effect_targets::TOS_TARGET,
    &effect_targets::DSCP_TARGET,
    &effect_targets::TTL_TARGET,
    &effect_targets::HL_TARGET,
    &effect_targets::CHECKSUM_TARGET,
    &effect_targets::TCPMSS_TARGET,
    &effect_targets::TRACE_TARGET,
    &effect_targets::AUDIT_TARGET,
    &effect_targets::TEE_TARGET,
    &effect_targets::ECN_TARGET,
    &set_match_and_target::SET_TARGET,
    &divert_targets::NFQUEUE_TARGET,
    &divert_targets::TPROXY_TARGET,
    &divert_targets::SYNPROXY_TARGET,
];

/// The match of that name.
pub(super) fn find_match_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Match>> {
    // The tool takes three names for this one (`xtables_find_match` of libxtables).
    let name = if matches!(name, "icmpv6" | "ipv6-icmp") { "icmp6" } else { name };
    let mut all =
        MODELLED_MATCH_EXTENSIONS.iter().chain(checked_verbatim::VERBATIM_MATCHES).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// The target of that name.
pub(super) fn find_target_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Target>> {
    let mut all =
        MODELLED_TARGET_EXTENSIONS.iter().chain(checked_verbatim::VERBATIM_TARGETS).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// The module that has an option of that name, with the flag that names it.
pub(super) fn extension_with_option(
    option: &str,
    family: Family,
) -> Option<(&'static str, &'static str)> {
    let has = |options: &[super::option_specs_and_arguments::OptionSpec]| {
        options.iter().any(|o| o.name == option)
    };
    let fits = |f: Option<Family>| f.is_none_or(|f| f == family);
    let mut matches = MODELLED_MATCH_EXTENSIONS.iter().chain(checked_verbatim::VERBATIM_MATCHES);
    let mut targets = MODELLED_TARGET_EXTENSIONS.iter().chain(checked_verbatim::VERBATIM_TARGETS);
    let m = matches.find(|e| fits(e.family) && has(e.options)).map(|e| ("-m", e.name));
    m.or_else(|| targets.find(|e| fits(e.family) && has(e.options)).map(|e| ("-j", e.name)))
}

/// The match that an option loads by the rule's protocol alone.
pub(super) fn implicit_protocol_match(
    proto: u8,
    family: Family,
) -> Option<&'static Extension<Match>> {
    let name = match (proto, family) {
        (6, _) => "tcp",
        (17, _) => "udp",
        (1, Family::V4) => "icmp",
        (58, Family::V6) => "icmp6",
        (132, _) => "sctp",
        (33, _) => "dccp",
        (50, _) => "esp",
        (51, _) => "ah",
        _ => return None,
    };
    find_match_extension(name, family)
}

/// What the kernel requires of a rule's matches because of its target.
pub(super) fn check_matches_required_by_target(
    target: &Target,
    matches: &[Match],
    span: weir_model::Span,
) -> crate::diagnostic::ParseResult<()> {
    effect_targets::check_tcpmss_syn_match(target, matches, span)
}

/// The sets that a target names.
pub(super) fn target_set_names(target: &Target) -> impl Iterator<Item = &str> {
    let options = match target {
        Target::Effect(e) => match &**e {
            Effect::Other(x) if x.module == "SET" => &x.options[..],
            _ => &[],
        },
        _ => &[],
    };
    options.iter().filter_map(|o| match &o.value {
        ExtensionValue::Text(words) => words.rsplit_once(' ').map(|(name, _)| name),
        _ => None,
    })
}

/// Appends ` -m …`.
pub(super) fn print_match(out: &mut String, m: &Match, family: Family) {
    match m {
        Match::Tcp { sport, dport, flags, option } => {
            port_matches::print_tcp_match(out, sport, dport, flags.as_ref(), option.as_ref());
        }
        Match::Udp { sport, dport } => port_matches::print_udp_match(out, sport, dport),
        Match::Sctp { sport, dport, chunks } => {
            port_matches::print_sctp_match(out, sport, dport, chunks.as_ref());
        }
        Match::Dccp { sport, dport, types, option } => {
            port_matches::print_dccp_match(out, sport, dport, types.as_ref(), option.as_ref());
        }
        Match::Icmp(t) => icmp::print_icmp_match(out, t, family),
        Match::Multiport { which, ports } => {
            port_matches::print_multiport_match(out, *which, ports)
        }
        Match::Mac(m) => mac_mark_comment::print_mac_match(out, m),
        Match::Mark(m) => mac_mark_comment::print_mark_match(out, "mark", m),
        Match::ConnMark(m) => mac_mark_comment::print_mark_match(out, "connmark", m),
        Match::State(s) => conntrack_matches::print_state_match(out, s),
        Match::Conntrack(c) => conntrack_matches::print_conntrack_match(out, c, family),
        Match::Comment(text) => mac_mark_comment::print_comment_match(out, text),
        Match::Stateful(s) => print_module_options(out, " -m ", s.module, &s.options, family),
        Match::UnmodelledInput(h) => {
            print_module_options(out, " -m ", h.module, &h.options, family)
        }
        Match::Opaque(o) => print_opaque(out, " -m ", o, family),
        Match::IpRange { src, dst } => {
            header_field_matches::print_iprange_match(out, src, dst, family)
        }
        Match::Length(m) => header_field_matches::print_length_match(out, m),
        Match::Ttl { op, value } => header_field_matches::print_ttl_match(out, *op, *value, family),
        Match::Dscp(m) => header_field_matches::print_dscp_match(out, m),
        Match::Tos(m) => header_field_matches::print_tos_match(out, m),
        Match::PktType(m) => header_field_matches::print_pkttype_match(out, m),
        Match::Set(m) => set_match_and_target::print_set_match(out, m),
    }
}

/// Appends ` -j …`, or nothing for a rule that only counts.
pub(super) fn print_target(out: &mut String, target: &Target, family: Family) {
    match target {
        Target::None => {}
        Target::Accept => out.push_str(" -j ACCEPT"),
        Target::Drop => out.push_str(" -j DROP"),
        Target::Return => out.push_str(" -j RETURN"),
        Target::Jump(chain) => {
            out.push_str(" -j ");
            append_text::append_word_quoted_if_needed(out, chain);
        }
        Target::Goto(chain) => {
            out.push_str(" -g ");
            append_text::append_word_quoted_if_needed(out, chain);
        }
        Target::Reject(with) => reject::print_reject_target(out, with),
        Target::Divert(x) => print_module_options(out, " -j ", x.module, &x.options, family),
        Target::Nat(nat) => nat::print_nat_target(out, nat, family),
        Target::Effect(effect) => print_effect(out, effect, family),
        Target::Opaque(o) => print_opaque(out, " -j ", o, family),
    }
}

fn print_effect(out: &mut String, effect: &Effect, family: Family) {
    match effect {
        Effect::Mark { value, mask } => mark_targets::print_packet_mark_target(out, *value, *mask),
        Effect::Notrack => out.push_str(" -j NOTRACK"),
        Effect::CtNotrack => out.push_str(" -j CT --notrack"),
        Effect::Classify { class: (major, minor) } => {
            use std::fmt::Write as _;
            let _ = write!(out, " -j CLASSIFY --set-class {major:04x}:{minor:04x}");
        }
        Effect::Tos { value, mask } => {
            use std::fmt::Write as _;
            let _ = write!(out, " -j TOS --set-tos 0x{value:02x}/0x{mask:02x}");
        }
        Effect::Dscp(value) => {
            use std::fmt::Write as _;
            let _ = write!(out, " -j DSCP --set-dscp 0x{value:02x}");
        }
        Effect::Ttl { op, value } => {
            let (module, prefix) = match family {
                Family::V4 => ("TTL", "ttl"),
                Family::V6 => ("HL", "hl"),
            };
            let op = match op {
                TtlOperation::Set => "set",
                TtlOperation::Inc => "inc",
                TtlOperation::Dec => "dec",
            };
            for piece in [" -j ", module, " --", prefix, "-", op, " "] {
                out.push_str(piece);
            }
            append_text::append_decimal(out, (*value).into());
        }
        Effect::Other(x) => print_module_options(out, " -j ", x.module, &x.options, family),
    }
}

fn print_opaque(out: &mut String, flag: &str, o: &OpaqueExtension, family: Family) {
    out.push_str(flag);
    append_text::append_word_quoted_if_needed(out, &o.name);
    for (i, w) in o.words.iter().enumerate() {
        out.push(' ');
        // What would be read as the rule's own is quoted: then it stays the module's.
        let last_bang = w == "!" && i + 1 == o.words.len();
        if last_bang || super::base_option_table::is_option_ending_opaque_words(w, family) {
            append_text::append_quoted(out, w);
        } else {
            append_text::append_word_quoted_if_needed(out, w);
        }
    }
}

/// A module whose options are values: each with its name before it, as most modules print.
fn print_module_options(
    out: &mut String,
    flag: &str,
    module: &str,
    options: &[ExtensionOption],
    family: Family,
) {
    out.push_str(flag);
    out.push_str(module);
    for o in options {
        out.push_str(if o.negated { " ! --" } else { " --" });
        out.push_str(o.name);
        if o.value != ExtensionValue::Flag {
            out.push(' ');
            if !try_print_module_specific_value(out, module, o, family) {
                print_generic_value(out, &o.value, family);
            }
        }
    }
}

/// What a module prints in its own way; false leaves it to the general one.
fn try_print_module_specific_value(
    out: &mut String,
    module: &str,
    o: &ExtensionOption,
    family: Family,
) -> bool {
    match module {
        "owner" | "physdev" | "devgroup" | "realm" | "cgroup" => {
            host_dependent_matches::try_print_option_value(out, module, o)
        }
        "recent" | "connbytes" => stateful_matches::try_print_option_value(out, module, o, family),
        "hashlimit" => hashlimit::try_print_option_value(out, &o.value),
        "policy" => ipsec_policy::try_print_option_value(out, o, family),
        "time" => time_match::try_print_time_or_date(out, o),
        "string" | "u32" | "bpf" => payload_matches::try_print_quoted_value(out, o),
        "SET" => set_match_and_target::try_print_option_value(out, &o.value),
        "CT" | "TEE" => match &o.value {
            ExtensionValue::Text(text) => {
                append_text::append_word_quoted_if_needed(out, text);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn print_generic_value(out: &mut String, v: &ExtensionValue, family: Family) {
    match v {
        ExtensionValue::Flag => {}
        ExtensionValue::Number(n) | ExtensionValue::DurationInModuleUnit(n) => {
            append_text::append_decimal(out, *n)
        }
        ExtensionValue::Hex(n) => append_text::append_hex(out, *n),
        ExtensionValue::Range(lo, hi) => option_values::print_number_range(out, *lo, *hi),
        ExtensionValue::Masked(v, mask) => {
            append_text::append_hex(out, *v);
            out.push('/');
            append_text::append_hex(out, *mask);
        }
        ExtensionValue::Rate(count, unit) => {
            append_text::append_decimal(out, *count);
            out.push_str(match unit {
                86_400_000 => "/day",
                3_600_000 => "/hour",
                60_000 => "/min",
                _ => "/sec",
            });
        }
        ExtensionValue::Probability(p) => {
            use std::fmt::Write as _;
            let _ = write!(out, "{:.11}", f64::from(*p) / f64::from(1u32 << 31));
        }
        ExtensionValue::Addr(a) => append_text::append_addr(out, *a, family),
        ExtensionValue::AddrAndMask(a, mask) => append_text::append_net(out, *a, *mask, family),
        ExtensionValue::Keyword(w) => out.push_str(w),
        ExtensionValue::KeywordList(list) => {
            append_text::append_comma_list(out, list, |out, w| out.push_str(w))
        }
        ExtensionValue::Text(text) => append_text::append_xtables_save_string(out, text),
        ExtensionValue::ByteString(bytes) => {
            out.push('"');
            out.push_str(&String::from_utf8_lossy(bytes));
            out.push('"');
        }
    }
}
