//! The extensions that weir knows: one file for each, or for a small family of them, with options,
//! parser and printer together.
//!
//! To add one: its file, a row in [`MATCH_EXTENSIONS`] or [`TARGET_EXTENSIONS`], and, if the model
//! has a variant for it, an arm in [`print_match`] or [`print_target`]. The agreement test includes
//! the row automatically. An extension whose options are only checked goes into [`verbatim`].

mod conntrack_state;
mod divert;
mod effect_targets;
mod hashlimit;
mod host_dependent;
mod icmp;
mod ipsec_policy;
mod limit;
mod log;
mod mac_mark_comment;
mod mark_targets;
mod module_options;
mod nat;
pub(crate) mod option_values;
mod packet_fields;
mod payload;
mod ports;
mod reject;
mod sctp_chunks;
mod set;
mod spi;
mod stateful;
mod tcpmss_ecn;
mod time;
mod verbatim;

use weir_model::rule_match::{ExtensionOption, ExtensionValue, OpaqueExtension};
use weir_model::target::{Effect, TtlOperation};
use weir_model::{Family, Match, Target};

use super::extension_options::Extension;
use crate::append_text;

/// Matches, the frequent ones first.
pub(super) static MATCH_EXTENSIONS: &[&Extension<Match>] = &[
    &ports::TCP_MATCH,
    &ports::UDP_MATCH,
    &ports::MULTIPORT_MATCH,
    &conntrack_state::STATE_MATCH,
    &conntrack_state::CONNTRACK_MATCH,
    &mac_mark_comment::COMMENT_MATCH,
    &mac_mark_comment::MAC_MATCH,
    &limit::LIMIT_MATCH,
    &icmp::ICMP_MATCH,
    &icmp::ICMP6_MATCH,
    &mac_mark_comment::MARK_MATCH,
    &mac_mark_comment::CONNMARK_MATCH,
    &ports::SCTP_MATCH,
    &ports::DCCP_MATCH,
    &host_dependent::ADDRTYPE_MATCH,
    &stateful::RECENT_MATCH,
    &host_dependent::OWNER_MATCH,
    &set::SET_MATCH,
    &packet_fields::IPRANGE_MATCH,
    &packet_fields::LENGTH_MATCH,
    &packet_fields::TTL_MATCH,
    &packet_fields::HL_MATCH,
    &packet_fields::DSCP_MATCH,
    &packet_fields::TOS_MATCH,
    &packet_fields::PKTTYPE_MATCH,
    &hashlimit::HASHLIMIT_MATCH,
    &stateful::STATISTIC_MATCH,
    &stateful::QUOTA_MATCH,
    &stateful::CONNLIMIT_MATCH,
    &stateful::CONNBYTES_MATCH,
    &host_dependent::PHYSDEV_MATCH,
    &host_dependent::RPFILTER_MATCH,
    &host_dependent::SOCKET_MATCH,
    &host_dependent::HELPER_MATCH,
    &host_dependent::CPU_MATCH,
    &host_dependent::CGROUP_MATCH,
    &host_dependent::DEVGROUP_MATCH,
    &host_dependent::REALM_MATCH,
    &ipsec_policy::POLICY_MATCH,
    &tcpmss_ecn::TCPMSS_MATCH,
    &tcpmss_ecn::ECN_MATCH,
    &spi::ESP_MATCH,
    &spi::AH_MATCH,
    &spi::AH6_MATCH,
    &time::TIME_MATCH,
    &payload::STRING_MATCH,
    &payload::U32_MATCH,
    &payload::BPF_MATCH,
];

/// Targets.
pub(super) static TARGET_EXTENSIONS: &[&Extension<Target>] = &[
    &log::LOG_TARGET,
    &reject::REJECT_TARGET,
    &mark_targets::MARK_TARGET,
    &mark_targets::CONNMARK_TARGET,
    &nat::DNAT_TARGET,
    &nat::SNAT_TARGET,
    &nat::MASQUERADE_TARGET,
    &nat::REDIRECT_TARGET,
    &nat::NETMAP_TARGET,
    &log::NFLOG_TARGET,
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
    &set::SET_TARGET,
    &divert::NFQUEUE_TARGET,
    &divert::TPROXY_TARGET,
    &divert::SYNPROXY_TARGET,
];

/// The match of that name.
pub(super) fn find_match_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Match>> {
    // The tool takes three names for this one (`xtables_find_match` of libxtables).
    let name = if matches!(name, "icmpv6" | "ipv6-icmp") { "icmp6" } else { name };
    let mut all = MATCH_EXTENSIONS.iter().chain(verbatim::VERBATIM_MATCHES).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// The target of that name.
pub(super) fn find_target_extension(
    name: &str,
    family: Family,
) -> Option<&'static Extension<Target>> {
    let mut all = TARGET_EXTENSIONS.iter().chain(verbatim::VERBATIM_TARGETS).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// Whether a target is preserved verbatim, its options checked.
pub(super) fn is_verbatim_target(target: &Extension<Target>) -> bool {
    verbatim::VERBATIM_TARGETS.iter().any(|e| e.name == target.name)
}

/// The module that has an option of that name, with the flag that names it.
pub(super) fn extension_with_option(
    option: &str,
    family: Family,
) -> Option<(&'static str, &'static str)> {
    let has =
        |options: &[super::extension_options::OptionSpec]| options.iter().any(|o| o.name == option);
    let fits = |f: Option<Family>| f.is_none_or(|f| f == family);
    let mut matches = MATCH_EXTENSIONS.iter().chain(verbatim::VERBATIM_MATCHES);
    let mut targets = TARGET_EXTENSIONS.iter().chain(verbatim::VERBATIM_TARGETS);
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
pub(super) fn check_target_requirements(
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
            ports::print_tcp(out, sport, dport, flags.as_ref(), option.as_ref());
        }
        Match::Udp { sport, dport } => ports::print_udp(out, sport, dport),
        Match::Sctp { sport, dport, chunks } => {
            ports::print_sctp(out, sport, dport, chunks.as_ref());
        }
        Match::Dccp { sport, dport, types, option } => {
            ports::print_dccp(out, sport, dport, types.as_ref(), option.as_ref());
        }
        Match::Icmp(t) => icmp::print_icmp_match(out, t, family),
        Match::Multiport { which, ports } => ports::print_multiport(out, *which, ports),
        Match::Mac(m) => mac_mark_comment::print_mac(out, m),
        Match::Mark(m) => mac_mark_comment::print_mark_match(out, "mark", m),
        Match::ConnMark(m) => mac_mark_comment::print_mark_match(out, "connmark", m),
        Match::State(s) => conntrack_state::print_state_match(out, s),
        Match::Conntrack(c) => conntrack_state::print_conntrack_match(out, c, family),
        Match::Comment(text) => mac_mark_comment::print_comment(out, text),
        Match::Stateful(s) => print_module_options(out, " -m ", s.module, &s.options, family),
        Match::HostDependent(h) => print_module_options(out, " -m ", h.module, &h.options, family),
        Match::Opaque(o) => print_opaque(out, " -m ", o, family),
        Match::IpRange { src, dst } => packet_fields::print_iprange(out, src, dst, family),
        Match::Length(m) => packet_fields::print_length(out, m),
        Match::Ttl { op, value } => packet_fields::print_ttl(out, *op, *value, family),
        Match::Dscp(m) => packet_fields::print_dscp(out, m),
        Match::Tos(m) => packet_fields::print_tos(out, m),
        Match::PktType(m) => packet_fields::print_pkttype(out, m),
        Match::Set(m) => set::print_set_match(out, m),
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
            append_text::append_word(out, chain);
        }
        Target::Goto(chain) => {
            out.push_str(" -g ");
            append_text::append_word(out, chain);
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
        Effect::Mark { value, mask } => mark_targets::print_mark_target(out, *value, *mask),
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
    append_text::append_word(out, &o.name);
    for (i, w) in o.words.iter().enumerate() {
        out.push(' ');
        // What would be read as the rule's own is quoted: then it stays the module's.
        let last_bang = w == "!" && i + 1 == o.words.len();
        if last_bang || super::base_options::is_base_option_word(w, family) {
            append_text::append_quoted(out, w);
        } else {
            append_text::append_word(out, w);
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
            if !print_module_value(out, module, o, family) {
                print_generic_value(out, &o.value, family);
            }
        }
    }
}

/// What a module prints in its own way; false leaves it to the general one.
fn print_module_value(out: &mut String, module: &str, o: &ExtensionOption, family: Family) -> bool {
    match module {
        "owner" | "physdev" | "devgroup" | "realm" | "cgroup" => {
            host_dependent::print_module_value(out, module, o)
        }
        "recent" | "connbytes" => stateful::print_module_value(out, module, o, family),
        "hashlimit" => hashlimit::print_module_value(out, &o.value),
        "policy" => ipsec_policy::print_module_value(out, o, family),
        "time" => time::print_module_value(out, o),
        "string" | "u32" | "bpf" => payload::print_module_value(out, o),
        "SET" => set::print_module_value(out, &o.value),
        "CT" | "TEE" => match &o.value {
            ExtensionValue::Text(text) => {
                append_text::append_word(out, text);
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
        ExtensionValue::Number(n) | ExtensionValue::Duration(n) => {
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
        ExtensionValue::Net(a, mask) => append_text::append_net(out, *a, *mask, family),
        ExtensionValue::Keyword(w) => out.push_str(w),
        ExtensionValue::KeywordList(list) => {
            append_text::append_comma_list(out, list, |out, w| out.push_str(w))
        }
        ExtensionValue::Text(text) => append_text::append_save_string(out, text),
        ExtensionValue::Bytes(bytes) => {
            out.push('"');
            out.push_str(&String::from_utf8_lossy(bytes));
            out.push('"');
        }
    }
}
