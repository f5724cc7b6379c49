//! Non-terminating targets: CT, NOTRACK, CLASSIFY, TOS, DSCP, TTL, HL, CHECKSUM, TRACE, AUDIT, TEE,
//! TCPMSS, ECN.

use weir_model::Hook::{Forward, Output, Postrouting};
use weir_model::matching::{OptionValue, Value};
use weir_model::target::{Effect, TtlChange};
use weir_model::{Family, Match, Span, TableName, Target};

use super::build::ModuleOptions;
use super::{fields, log, value};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, Taken, flag, opt};

const MANGLE: ExtensionScope = ExtensionScope::tables(&[TableName::Mangle]);
const RAW: ExtensionScope = ExtensionScope::tables(&[TableName::Raw]);

pub(super) static NOTRACK: Extension<Target> = Extension {
    name: "NOTRACK",
    family: None,
    options: &[],
    build: |_| Ok(effect(Effect::Notrack)),
    place: RAW,
};

pub(super) static CT: Extension<Target> = Extension {
    name: "CT",
    family: None,
    options: &[
        flag("notrack", 0),
        opt("helper", 1),
        opt("timeout", 2),
        opt("ctevents", 3),
        opt("expevents", 4),
        opt("zone-orig", 5),
        opt("zone-reply", 6),
        opt("zone", 7),
    ],
    build: ct,
    place: RAW,
};

pub(super) static CLASSIFY: Extension<Target> = Extension {
    name: "CLASSIFY",
    family: None,
    options: &[opt("set-class", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("no --set-class").fail() };
        Ok(effect(Effect::Classify { class: class(t)? }))
    },
    place: ExtensionScope::hooks(&[Forward, Output, Postrouting]),
};

pub(super) static TOS: Extension<Target> = Extension {
    name: "TOS",
    family: None,
    options: &[
        opt("set-tos", 0).excludes(0b1110),
        opt("and-tos", 1).excludes(0b1101),
        opt("or-tos", 2).excludes(0b1011),
        opt("xor-tos", 3).excludes(0b0111),
    ],
    build: tos,
    place: MANGLE,
};

pub(super) static DSCP: Extension<Target> = Extension {
    name: "DSCP",
    family: None,
    options: &[opt("set-dscp", 0).excludes(2), opt("set-dscp-class", 1).excludes(1)],
    build: |g| match g.iter().next() {
        Some(t) => Ok(effect(Effect::Dscp(fields::dscp(t)?))),
        None => g.problem("DSCP without a value").help("give --set-dscp").fail(),
    },
    place: MANGLE,
};

pub(super) static TTL: Extension<Target> = Extension {
    name: "TTL",
    family: Some(Family::V4),
    options: &[
        opt("ttl-set", 0).excludes(6),
        opt("ttl-inc", 1).excludes(5),
        opt("ttl-dec", 2).excludes(3),
    ],
    build: ttl,
    place: MANGLE,
};

pub(super) static HL: Extension<Target> = Extension {
    name: "HL",
    family: Some(Family::V6),
    options: &[
        opt("hl-set", 0).excludes(6),
        opt("hl-inc", 1).excludes(5),
        opt("hl-dec", 2).excludes(3),
    ],
    build: ttl,
    place: MANGLE,
};

pub(super) static CHECKSUM: Extension<Target> = Extension {
    name: "CHECKSUM",
    family: None,
    options: &[flag("checksum-fill", 0).mandatory()],
    build: |_| Ok(bare("CHECKSUM", "checksum-fill")),
    place: MANGLE,
};

pub(super) static TRACE: Extension<Target> = Extension {
    name: "TRACE",
    family: None,
    options: &[],
    build: |_| Ok(log::effect("TRACE", ModuleOptions::default())),
    place: RAW,
};

pub(super) static AUDIT: Extension<Target> = Extension {
    name: "AUDIT",
    family: None,
    options: &[opt("type", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("AUDIT without --type").fail() };
        let kinds = ["accept", "drop", "reject"];
        let Some(kind) = kinds.into_iter().find(|k| k.eq_ignore_ascii_case(t.arg)) else {
            return t.problem(format!("{} is not accept, drop or reject", t.arg)).fail();
        };
        let mut options = ModuleOptions::default();
        options.push("type", Value::Word(kind));
        Ok(log::effect("AUDIT", options))
    },
    place: ANYWHERE,
};

pub(super) static TEE: Extension<Target> = Extension {
    name: "TEE",
    family: None,
    options: &[opt("gateway", 0).mandatory(), opt("oif", 1)],
    build: tee,
    place: ANYWHERE,
};

pub(super) static TCPMSS: Extension<Target> = Extension {
    name: "TCPMSS",
    family: None,
    options: &[opt("set-mss", 0), flag("clamp-mss-to-pmtu", 1)],
    build: tcpmss,
    place: ExtensionScope::protocols(&[6]),
};

pub(super) static ECN: Extension<Target> = Extension {
    name: "ECN",
    family: Some(Family::V4),
    options: &[
        flag("ecn-tcp-remove", 0).excludes(0b0110),
        opt("ecn-tcp-cwr", 1).excludes(0b0001),
        opt("ecn-tcp-ece", 2).excludes(0b0001),
        opt("ecn-ip-ect", 3),
    ],
    build: ecn,
    place: MANGLE,
};

fn effect(e: Effect) -> Target {
    Target::Effect(Box::new(e))
}

fn bare(module: &'static str, option: &'static str) -> Target {
    let mut options = ModuleOptions::default();
    options.push(option, Value::Flag);
    log::effect(module, options)
}

fn ecn(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    let mut zeros = 0;
    for t in [0, 2, 1, 3].into_iter().filter_map(|id| g.first(id)) {
        let tcp = g.base.proto.is_some_and(|p| p.proto == 6 && !p.negated);
        if t.id != 3 && !tcp {
            return Diagnostic::new("test of TCP bits in a rule that is not for TCP only", t.span)
                .help("write -p tcp in the rule")
                .fail();
        }
        let v = match t.id {
            0 => Value::Flag,
            id => {
                let n = value::integer(t, 0, if id == 3 { 3 } else { 1 })?;
                zeros += u8::from(id != 3 && n == 0);
                Value::Number(n)
            }
        };
        options.push(g.spelled(t.id), v);
    }
    // Both bits set to zero is what --ecn-tcp-remove says.
    if zeros == 2 {
        options.0.retain(|o| o.name == "ecn-ip-ect");
        let remove = OptionValue { negated: false, name: "ecn-tcp-remove", value: Value::Flag };
        options.0.insert(0, remove);
    }
    if options.0.is_empty() {
        return g.problem("ECN without an operation").help("give --ecn-tcp-remove").fail();
    }
    Ok(log::effect("ECN", options))
}

const EVENTS: [&str; 10] = [
    "new",
    "related",
    "destroy",
    "reply",
    "assured",
    "protoinfo",
    "helper",
    "mark",
    "natseqinfo",
    "secmark",
];

fn events(t: &Taken, known: &[&'static str]) -> Fallible<Value> {
    let mut set = vec![false; known.len()];
    for word in t.arg.split(',') {
        match known.iter().position(|k| *k == word) {
            Some(i) => set[i] = true,
            None => {
                return t
                    .problem(format!("no event {word:?}"))
                    .help(format!("use one of {}", known.join(", ")))
                    .fail();
            }
        }
    }
    Ok(Value::Words((0..known.len()).filter(|i| set[*i]).map(|i| known[i]).collect()))
}

/// Helpers of the kernel and the protocols that they listen to.
const HELPERS: [(&str, &[u8]); 9] = [
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

fn ct(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    for id in 0..=4 {
        let Some(t) = g.first(id) else { continue };
        let v = match id {
            0 => Value::Flag,
            1 | 2 if t.arg.is_empty() => continue,
            1 | 2 if t.arg.len() > 31 => {
                return t.problem("name is longer than 31 bytes").fail();
            }
            1 | 2 => Value::Text(t.arg.to_owned()),
            3 => events(t, &EVENTS)?,
            _ => events(t, &EVENTS[..1])?,
        };
        if id == 1 && !g.has(0) {
            check_helper(t, g)?;
        }
        options.push(g.spelled(id), v);
    }
    push_zone(g, &mut options)?;
    match &options.0[..] {
        [only] if only.name == "notrack" => Ok(effect(Effect::CtNotrack)),
        _ => Ok(log::effect("CT", options)),
    }
}

fn check_helper(t: &Taken, g: &Given) -> Fallible<()> {
    let protocol = g.base.proto.filter(|p| !p.negated).map(|p| p.proto);
    let known = HELPERS.iter().find(|(name, _)| *name == t.arg).map(|(_, protocols)| *protocols);
    match (protocol, known) {
        (None, _) => t
            .problem("helper in a rule that is not for a single protocol")
            .help("write -p tcp or -p udp in the rule")
            .fail(),
        (Some(p), Some(known)) if !known.contains(&p) => {
            t.problem(format!("helper {} does not listen to the rule's protocol", t.arg)).fail()
        }
        _ => Ok(()),
    }
}

/// Of several zones the last number counts, `mark` before any; both directions are none.
fn push_zone(g: &Given, options: &mut ModuleOptions) -> Fallible<()> {
    let mut zone = Value::Number(0);
    for t in g.iter().filter(|t| t.id >= 5) {
        if t.arg == "mark" {
            zone = Value::Word("mark");
            continue;
        }
        let n = value::integer(t, 0, 0xffff)?;
        if zone != Value::Word("mark") {
            zone = Value::Number(n);
        }
    }
    // Zone 0 of one direction is preserved: the kernel stores the direction, iptables-save omits
    // it.
    if zone != Value::Number(0) || g.has(5) != g.has(6) {
        let name = match (g.has(5), g.has(6)) {
            (true, false) => "zone-orig",
            (false, true) => "zone-reply",
            _ => "zone",
        };
        options.push(name, zone);
    }
    Ok(())
}

/// Two hexadecimal numbers, of which 16 bits count.
fn class(t: &Taken) -> Fallible<(u16, u16)> {
    fn hex(text: &str) -> Option<(u16, &str)> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let end = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let n = u32::from_str_radix(&digits[..end], 16).ok()?;
        Some((n as u16, &digits[end..]))
    }
    let read = || {
        let (major, rest) = hex(t.arg)?;
        let (minor, _) = hex(rest.strip_prefix(':')?)?;
        Some((major, minor))
    };
    match read() {
        Some(class) => Ok(class),
        None => t
            .problem(format!("{} is not a class", t.arg))
            .help("MAJOR:MINOR, both hexadecimal")
            .fail(),
    }
}

fn tos(g: &Given) -> Fallible<Target> {
    let Some(t) = g.iter().next() else {
        return g.problem("TOS without an action").help("give --set-tos").fail();
    };
    let (value, mask) = match t.id {
        0 => fields::tos(t)?,
        1 => (0, !(value::integer(t, 0, 255)? as u8)),
        2 => {
            let v = value::integer(t, 0, 255)? as u8;
            (v, v)
        }
        _ => (value::integer(t, 0, 255)? as u8, 0),
    };
    Ok(effect(Effect::Tos { value, mask }))
}

fn ttl(g: &Given) -> Fallible<Target> {
    let Some(t) = g.iter().next() else {
        return g.problem(format!("{} without an action", g.name)).fail();
    };
    let op = [TtlChange::Set, TtlChange::Inc, TtlChange::Dec][t.id as usize];
    let min = u64::from(t.id != 0);
    Ok(effect(Effect::Ttl { op, value: value::integer(t, min, 255)? as u8 }))
}

fn tee(g: &Given) -> Fallible<Target> {
    let Some(t) = g.first(0) else { return g.problem("TEE without --gateway").fail() };
    let gateway = value::host(t, g)?;
    if gateway.0 == 0 {
        return t.problem("gateway of all zeros").fail();
    }
    let mut options = ModuleOptions::default();
    options.push("gateway", Value::Addr(gateway));
    if let Some(t) = g.first(1) {
        if t.arg.len() > 15 {
            return t.problem("device name is longer than 15 bytes").fail();
        }
        if !t.arg.is_empty() {
            options.push("oif", Value::Text(t.arg.to_owned()));
        }
    }
    Ok(log::effect("TEE", options))
}

fn tcpmss(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    let max = if g.family == Family::V4 { 65_515 } else { 65_495 };
    let mss = g.first(0).map(|t| value::integer(t, 0, max)).transpose()?;
    // Both may be given: the later one counts.
    match (g.iter().last().map(|t| t.id), mss) {
        (Some(0), Some(mss)) => options.push("set-mss", Value::Number(mss)),
        (Some(_), _) => {
            g.only_at(&[Forward, Output, Postrouting]);
            options.push("clamp-mss-to-pmtu", Value::Flag);
        }
        (None, _) => {
            return g
                .problem("TCPMSS without an action")
                .help("give --clamp-mss-to-pmtu or --set-mss")
                .fail();
        }
    }
    Ok(log::effect("TCPMSS", options))
}

/// TCPMSS requires a match of SYN packets (`find_syn_match` in net/netfilter/xt_TCPMSS.c).
pub(super) fn check_rule(target: &Target, matches: &[Match], span: Span) -> Fallible<()> {
    let Target::Effect(e) = target else { return Ok(()) };
    if !matches!(&**e, Effect::Other(x) if x.module == "TCPMSS") {
        return Ok(());
    }
    let syn = |m: &Match| matches!(m, Match::Tcp { flags: Some(f), .. } if !f.negated && f.value.comp & 2 != 0);
    if matches.iter().any(syn) {
        return Ok(());
    }
    Diagnostic::new("TCPMSS in a rule that is not for SYN packets", span)
        .help("write --tcp-flags SYN,RST SYN in the rule")
        .fail()
}
