//! The extensions that weir knows: one file for each, or for a small family of them, with options,
//! parser and printer together.
//!
//! To add one: its file, a row in [`MATCHES`] or [`TARGETS`], and, if the model has a variant for
//! it, an arm in [`print_match`] or [`print_target`]. The agreement test includes the row
//! automatically. An extension whose options are only checked goes into [`letter`].

mod build;
mod chunks;
mod divert;
mod effects;
mod fields;
mod hashlimit;
mod header;
mod host;
mod icmp;
mod letter;
mod limit;
mod log;
mod marking;
mod nat;
mod payload;
mod policy;
mod ports;
mod reject;
mod set;
mod spi;
mod state;
mod stateful;
mod tcp_option;
mod time;
pub(crate) mod value;

use weir_model::matching::{Opaque, OptionValue, Value};
use weir_model::target::{Effect, TtlChange};
use weir_model::{Family, Match, Target};

use super::option::Extension;
use crate::write;

/// Matches, the frequent ones first.
pub(super) static MATCHES: &[&Extension<Match>] = &[
    &ports::TCP,
    &ports::UDP,
    &ports::MULTIPORT,
    &state::STATE,
    &state::CONNTRACK,
    &header::COMMENT,
    &header::MAC,
    &limit::LIMIT,
    &icmp::ICMP,
    &icmp::ICMP6,
    &header::MARK,
    &header::CONNMARK,
    &ports::SCTP,
    &ports::DCCP,
    &host::ADDRTYPE,
    &stateful::RECENT,
    &host::OWNER,
    &set::MATCH,
    &fields::IPRANGE,
    &fields::LENGTH,
    &fields::TTL,
    &fields::HL,
    &fields::DSCP,
    &fields::TOS,
    &fields::PKTTYPE,
    &hashlimit::HASHLIMIT,
    &stateful::STATISTIC,
    &stateful::QUOTA,
    &stateful::CONNLIMIT,
    &stateful::CONNBYTES,
    &host::PHYSDEV,
    &host::RPFILTER,
    &host::SOCKET,
    &host::HELPER,
    &host::CPU,
    &host::CGROUP,
    &host::DEVGROUP,
    &host::REALM,
    &policy::POLICY,
    &tcp_option::TCPMSS,
    &tcp_option::ECN,
    &spi::ESP,
    &spi::AH,
    &spi::AH6,
    &time::TIME,
    &payload::STRING,
    &payload::U32,
    &payload::BPF,
];

/// Targets.
pub(super) static TARGETS: &[&Extension<Target>] = &[
    &log::LOG,
    &reject::REJECT,
    &marking::MARK,
    &marking::CONNMARK,
    &nat::DNAT,
    &nat::SNAT,
    &nat::MASQUERADE,
    &nat::REDIRECT,
    &nat::NETMAP,
    &log::NFLOG,
    &effects::NOTRACK,
    &effects::CT,
    &effects::CLASSIFY,
    &effects::TOS,
    &effects::DSCP,
    &effects::TTL,
    &effects::HL,
    &effects::CHECKSUM,
    &effects::TCPMSS,
    &effects::TRACE,
    &effects::AUDIT,
    &effects::TEE,
    &effects::ECN,
    &set::TARGET,
    &divert::NFQUEUE,
    &divert::TPROXY,
    &divert::SYNPROXY,
];

/// The match of that name.
pub(super) fn find_match(name: &str, family: Family) -> Option<&'static Extension<Match>> {
    // The tool takes three names for this one (`xtables_find_match` of libxtables).
    let name = if matches!(name, "icmpv6" | "ipv6-icmp") { "icmp6" } else { name };
    let mut all = MATCHES.iter().chain(letter::MATCHES).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// The target of that name.
pub(super) fn find_target(name: &str, family: Family) -> Option<&'static Extension<Target>> {
    let mut all = TARGETS.iter().chain(letter::TARGETS).copied();
    all.find(|e| e.name == name && e.family.is_none_or(|f| f == family))
}

/// Whether a target is preserved verbatim, its options checked.
pub(super) fn is_checked_only(target: &Extension<Target>) -> bool {
    letter::TARGETS.iter().any(|e| e.name == target.name)
}

/// The module that has an option of that name, with the flag that names it.
pub(super) fn owner_of(option: &str, family: Family) -> Option<(&'static str, &'static str)> {
    let has = |options: &[super::option::Opt]| options.iter().any(|o| o.name == option);
    let fits = |f: Option<Family>| f.is_none_or(|f| f == family);
    let mut matches = MATCHES.iter().chain(letter::MATCHES);
    let mut targets = TARGETS.iter().chain(letter::TARGETS);
    let m = matches.find(|e| fits(e.family) && has(e.options)).map(|e| ("-m", e.name));
    m.or_else(|| targets.find(|e| fits(e.family) && has(e.options)).map(|e| ("-j", e.name)))
}

/// The match that an option loads by the rule's protocol alone.
pub(super) fn implicit(proto: u8, family: Family) -> Option<&'static Extension<Match>> {
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
    find_match(name, family)
}

/// What the kernel requires of a rule's matches because of its target.
pub(super) fn check_rule(
    target: &Target,
    matches: &[Match],
    span: weir_model::Span,
) -> crate::diagnostic::Fallible<()> {
    effects::check_rule(target, matches, span)
}

/// The sets that a target names.
pub(super) fn sets_of(target: &Target) -> impl Iterator<Item = &str> {
    let options = match target {
        Target::Effect(e) => match &**e {
            Effect::Other(x) if x.module == "SET" => &x.options[..],
            _ => &[],
        },
        _ => &[],
    };
    options.iter().filter_map(|o| match &o.value {
        Value::Text(words) => words.rsplit_once(' ').map(|(name, _)| name),
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
        Match::Icmp(t) => icmp::print(out, t, family),
        Match::Multiport { which, ports } => ports::print_multiport(out, *which, ports),
        Match::Mac(m) => header::print_mac(out, m),
        Match::Mark(m) => header::print_mark(out, "mark", m),
        Match::ConnMark(m) => header::print_mark(out, "connmark", m),
        Match::State(s) => state::print_state(out, s),
        Match::Conntrack(c) => state::print_conntrack(out, c, family),
        Match::Comment(text) => header::print_comment(out, text),
        Match::Stateful(s) => print_module(out, " -m ", s.module, &s.options, family),
        Match::Host(h) => print_module(out, " -m ", h.module, &h.options, family),
        Match::Opaque(o) => print_opaque(out, " -m ", o, family),
        Match::IpRange { src, dst } => fields::print_iprange(out, src, dst, family),
        Match::Length(m) => fields::print_length(out, m),
        Match::Ttl { op, value } => fields::print_ttl(out, *op, *value, family),
        Match::Dscp(m) => fields::print_dscp(out, m),
        Match::Tos(m) => fields::print_tos(out, m),
        Match::PktType(m) => fields::print_pkttype(out, m),
        Match::Set(m) => set::print(out, m),
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
            write::word(out, chain);
        }
        Target::Goto(chain) => {
            out.push_str(" -g ");
            write::word(out, chain);
        }
        Target::Reject(with) => reject::print(out, with),
        Target::Divert(x) => print_module(out, " -j ", x.module, &x.options, family),
        Target::Nat(nat) => nat::print(out, nat, family),
        Target::Effect(effect) => print_effect(out, effect, family),
        Target::Opaque(o) => print_opaque(out, " -j ", o, family),
    }
}

fn print_effect(out: &mut String, effect: &Effect, family: Family) {
    match effect {
        Effect::Mark { value, mask } => marking::print_mark(out, *value, *mask),
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
                TtlChange::Set => "set",
                TtlChange::Inc => "inc",
                TtlChange::Dec => "dec",
            };
            for piece in [" -j ", module, " --", prefix, "-", op, " "] {
                out.push_str(piece);
            }
            write::decimal(out, (*value).into());
        }
        Effect::Other(x) => print_module(out, " -j ", x.module, &x.options, family),
    }
}

fn print_opaque(out: &mut String, flag: &str, o: &Opaque, family: Family) {
    out.push_str(flag);
    write::word(out, &o.name);
    for (i, w) in o.words.iter().enumerate() {
        out.push(' ');
        // What would be read as the rule's own is quoted: then it stays the module's.
        let last_bang = w == "!" && i + 1 == o.words.len();
        if last_bang || super::base::begins_option(w, family) {
            write::in_quotes(out, w);
        } else {
            write::word(out, w);
        }
    }
}

/// A module whose options are values: each with its name before it, as most modules print.
fn print_module(
    out: &mut String,
    flag: &str,
    module: &str,
    options: &[OptionValue],
    family: Family,
) {
    out.push_str(flag);
    out.push_str(module);
    for o in options {
        out.push_str(if o.negated { " ! --" } else { " --" });
        out.push_str(o.name);
        if o.value != Value::Flag {
            out.push(' ');
            if !print_own(out, module, o, family) {
                print_value(out, &o.value, family);
            }
        }
    }
}

/// What a module prints in its own way; false leaves it to the general one.
fn print_own(out: &mut String, module: &str, o: &OptionValue, family: Family) -> bool {
    match module {
        "owner" | "physdev" | "devgroup" | "realm" | "cgroup" => host::print_value(out, module, o),
        "recent" | "connbytes" => stateful::print_value(out, module, o, family),
        "hashlimit" => hashlimit::print_value(out, &o.value),
        "policy" => policy::print_value(out, o, family),
        "time" => time::print_value(out, o),
        "string" | "u32" | "bpf" => payload::print_value(out, o),
        "SET" => set::print_value(out, &o.value),
        "CT" | "TEE" => match &o.value {
            Value::Text(text) => {
                write::word(out, text);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn print_value(out: &mut String, v: &Value, family: Family) {
    match v {
        Value::Flag => {}
        Value::Number(n) | Value::Duration(n) => write::decimal(out, *n),
        Value::Hex(n) => write::hex(out, *n),
        Value::Range(lo, hi) => value::print_range(out, *lo, *hi),
        Value::Masked(v, mask) => {
            write::hex(out, *v);
            out.push('/');
            write::hex(out, *mask);
        }
        Value::Rate(count, unit) => {
            write::decimal(out, *count);
            out.push_str(match unit {
                86_400_000 => "/day",
                3_600_000 => "/hour",
                60_000 => "/min",
                _ => "/sec",
            });
        }
        Value::Probability(p) => {
            use std::fmt::Write as _;
            let _ = write!(out, "{:.11}", f64::from(*p) / f64::from(1u32 << 31));
        }
        Value::Addr(a) => write::addr(out, *a, family),
        Value::Net(a, mask) => write::net(out, *a, *mask, family),
        Value::Word(w) => out.push_str(w),
        Value::Words(list) => write::comma_list(out, list, |out, w| out.push_str(w)),
        Value::Text(text) => write::quoted(out, text),
        Value::Bytes(bytes) => {
            out.push('"');
            out.push_str(&String::from_utf8_lossy(bytes));
            out.push('"');
        }
    }
}
