//! The extensions that weir knows: one file for each, or for a small family of them, with options,
//! parser and printer together.
//!
//! To add one: its file, a row in [`MATCH_EXTENSIONS`] or [`TARGET_EXTENSIONS`], and, if the model
//! has a variant for it, an arm in [`print_match`] or [`print_target`]. An extension whose options
//! are only checked goes into [`checked_verbatim`]. The agreement test includes every extension
//! that has a row in the table of effects.

mod checked_verbatim;
mod divert_targets;
mod ecn_target;
mod effect_targets;
mod esp_ah_spi_matches;
mod extension_defaults;
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
mod option_value_printing;
pub(crate) mod option_values;
mod payload_matches;
mod port_matches;
mod reject;
mod sctp_chunks;
mod set_match_and_target;
mod state_and_conntrack_matches;
mod stateful_matches;
mod tcpmss_ecn_matches;
mod time_match;

use weir_model::rule_match::{OpaqueExtension, TypedExtensionOption};
use weir_model::target::{Effect, ExtensionTarget, TtlOperation};
use weir_model::{Family, Match, Target};

pub use self::limit::compute_rate_count_and_unit_millis;
use self::option_value_printing::{append_opaque_word, print_module_options, print_option_value};
pub(crate) use self::reject::find_reject_type;
use super::option_specs_and_arguments::Extension;
use crate::append_text;

/// Matches, the frequent ones first.
pub(super) static MATCH_EXTENSIONS: &[&Extension<Match>] = &[
    &port_matches::TCP_MATCH,
    &port_matches::UDP_MATCH,
    &port_matches::MULTIPORT_MATCH,
    &state_and_conntrack_matches::STATE_MATCH,
    &state_and_conntrack_matches::CONNTRACK_MATCH,
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
    &checked_verbatim::matches::CLUSTER_MATCH,
    &checked_verbatim::matches::CONNLABEL_MATCH,
    &checked_verbatim::matches::NFACCT_MATCH,
    &checked_verbatim::matches::OSF_MATCH,
    &checked_verbatim::matches::IPCOMP_MATCH,
    &checked_verbatim::matches::IPVS_MATCH,
    &checked_verbatim::ipv6_header_matches::EUI64_MATCH,
    &checked_verbatim::ipv6_header_matches::FRAG_MATCH,
    &checked_verbatim::ipv6_header_matches::MH_MATCH,
    &checked_verbatim::ipv6_header_matches::IPV6_DST_OPTIONS_MATCH,
    &checked_verbatim::ipv6_header_matches::IPV6_HOP_BY_HOP_MATCH,
    &checked_verbatim::ipv6_header_matches::IPV6HEADER_MATCH,
];

/// Targets.
pub(super) static TARGET_EXTENSIONS: &[&Extension<Target>] = &[
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
    &ecn_target::ECN_TARGET,
    &set_match_and_target::SET_TARGET,
    &divert_targets::NFQUEUE_TARGET,
    &divert_targets::TPROXY_TARGET,
    &divert_targets::SYNPROXY_TARGET,
    &checked_verbatim::hmark::HMARK_TARGET,
    &checked_verbatim::targets::IDLETIMER_TARGET,
    &checked_verbatim::targets::LED_TARGET,
    &checked_verbatim::targets::SECMARK_TARGET,
    &checked_verbatim::targets::CONNSECMARK_TARGET,
    &checked_verbatim::targets::TCPOPTSTRIP_TARGET,
    &checked_verbatim::rateest_target::RATEEST_TARGET,
    &checked_verbatim::targets::CLUSTERIP_TARGET,
    &checked_verbatim::targets::SNPT_TARGET,
    &checked_verbatim::targets::DNPT_TARGET,
];

/// The match of that name.
pub(super) fn find_match_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Match>> {
    // The tool takes three names for this one (`xtables_find_match` of libxtables).
    let name = if matches!(name, "icmpv6" | "ipv6-icmp") { "icmp6" } else { name };
    MATCH_EXTENSIONS
        .iter()
        .copied()
        .find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// The target of that name.
pub(super) fn find_target_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Target>> {
    TARGET_EXTENSIONS
        .iter()
        .copied()
        .find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// Whether iptables has a library for a target of that name. Those of other packages are not known.
pub(super) fn has_target_library(name: &str, family: Family) -> bool {
    // Its options are not read by weir, but its library is part of iptables.
    let is_ulog = name == "ULOG" && family == Family::V4;
    is_ulog || find_target_extension(name, family).is_some_and(|e| e.is_part_of_iptables)
}

/// The module that has an option of that name, with the flag that names it.
pub(super) fn find_flag_and_module_with_option(
    option: &str,
    family: Family,
) -> Option<(&'static str, &'static str)> {
    let has = |options: &[super::option_specs_and_arguments::OptionSpec]| {
        options.iter().any(|o| o.name == option)
    };
    let fits = |f: Option<Family>| f.is_none_or(|f| f == family);
    let (mut matches, mut targets) = (MATCH_EXTENSIONS.iter(), TARGET_EXTENSIONS.iter());
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

/// How the values of a match's options are printed.
fn match_value_printer(
    module: &str,
    family: Family,
) -> fn(&mut String, &TypedExtensionOption, Family) {
    find_match_extension(module, family).map_or(print_option_value, |e| e.print_value)
}

/// How the values of a target's options are printed.
fn target_value_printer(
    module: &str,
    family: Family,
) -> fn(&mut String, &TypedExtensionOption, Family) {
    find_target_extension(module, family).map_or(print_option_value, |e| e.print_value)
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
        Match::State(s) => state_and_conntrack_matches::print_state_match(out, s),
        Match::Conntrack(c) => state_and_conntrack_matches::print_conntrack_match(out, c, family),
        Match::Comment(text) => mac_mark_comment::print_comment_match(out, text),
        Match::Stateful(s) => print_match_options(out, s.module, &s.options, family),
        Match::UnmodelledInput(h) => print_match_options(out, h.module, &h.options, family),
        Match::Opaque(o) => print_opaque(out, " -m ", o, family),
        Match::IpRange { src, dst } => {
            header_field_matches::print_iprange_match(out, src, dst, family)
        }
        Match::Length(m) => header_field_matches::print_length_match(out, m),
        Match::Ttl { op, value } => {
            header_field_matches::print_ttl_or_hl_comparison(out, *op, *value, family)
        }
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
        Target::Divert(x) => print_target_options(out, x, family),
        Target::Nat(nat) => nat::print_nat_target(out, nat, family),
        Target::Effect(effect) => print_effect(out, effect, family),
        Target::Opaque(o) => print_opaque(out, " -j ", o, family),
    }
}

fn print_effect(out: &mut String, effect: &Effect, family: Family) {
    match effect {
        Effect::Mark { xor_value: value, clear_mask: mask } => {
            mark_targets::print_packet_mark_target(out, *value, *mask)
        }
        Effect::Notrack => out.push_str(" -j NOTRACK"),
        Effect::CtNotrack { ignored_options } => {
            out.push_str(" -j CT --notrack");
            let print_value = target_value_printer("CT", family);
            print_module_options(out, ignored_options, print_value, family);
        }
        Effect::Classify { class: (major, minor) } => {
            use std::fmt::Write as _;
            let _ = write!(out, " -j CLASSIFY --set-class {major:04x}:{minor:04x}");
        }
        Effect::Tos { xor_value: value, clear_mask: mask } => {
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
        Effect::Other(x) => print_target_options(out, x, family),
    }
}

fn print_opaque(out: &mut String, flag: &str, o: &OpaqueExtension, family: Family) {
    out.push_str(flag);
    append_text::append_word_quoted_if_needed(out, &o.name);
    for (i, w) in o.words.iter().enumerate() {
        out.push(' ');
        // A `!` at the end would negate what follows.
        if w == "!" && i + 1 == o.words.len() {
            append_text::append_quoted(out, w);
        } else {
            append_opaque_word(out, w, family);
        }
    }
}

/// A match whose options are values.
fn print_match_options(
    out: &mut String,
    module: &str,
    options: &[TypedExtensionOption],
    family: Family,
) {
    out.push_str(" -m ");
    out.push_str(module);
    print_module_options(out, options, match_value_printer(module, family), family);
}

/// A target whose options are values.
fn print_target_options(out: &mut String, target: &ExtensionTarget, family: Family) {
    out.push_str(" -j ");
    out.push_str(target.module);
    let print_value = target_value_printer(target.module, family);
    print_module_options(out, &target.options, print_value, family);
}
