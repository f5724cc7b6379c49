//! Matches that depend on the host: owner, addrtype, rpfilter, socket, physdev, helper, cpu,
//! cgroup.

use weir_model::Hook::{Forward, Input, Output, Postrouting, Prerouting};
use weir_model::matching::{OptionValue, Value};
use weir_model::{Family, Match, TableName};

use super::build::host;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, Taken, flag, opt};
use crate::{names, number};

pub(super) static OWNER: Extension<Match> = Extension {
    name: "owner",
    family: None,
    options: &[
        opt("uid-owner", 0).invert(),
        opt("gid-owner", 1).invert(),
        flag("socket-exists", 2).invert(),
        flag("suppl-groups", 3).also(1 << 1),
    ],
    build: owner,
    place: ExtensionScope::hooks(&[Output, Postrouting]),
};

pub(super) static ADDRTYPE: Extension<Match> = Extension {
    name: "addrtype",
    family: None,
    options: &[
        opt("src-type", 0).invert(),
        opt("dst-type", 1).invert(),
        flag("limit-iface-in", 2).excludes(1 << 3),
        flag("limit-iface-out", 3).excludes(1 << 2),
    ],
    build: addrtype,
    place: ANYWHERE,
};

pub(super) static RPFILTER: Extension<Match> = Extension {
    name: "rpfilter",
    family: None,
    options: &[flag("loose", 0), flag("validmark", 1), flag("accept-local", 2), flag("invert", 3)],
    build: |g| Ok(flags_in_order(g, "rpfilter", &[0, 1, 2, 3])),
    place: ExtensionScope::within(&[TableName::Raw, TableName::Mangle], &[Prerouting]),
};

pub(super) static SOCKET: Extension<Match> = Extension {
    name: "socket",
    family: None,
    options: &[flag("transparent", 0), flag("nowildcard", 1), flag("restore-skmark", 2)],
    build: |g| Ok(flags_in_order(g, "socket", &[0, 1, 2])),
    place: ExtensionScope::hooks(&[Prerouting, Input]),
};

pub(super) static PHYSDEV: Extension<Match> = Extension {
    name: "physdev",
    family: None,
    options: &[
        opt("physdev-in", 0).invert(),
        opt("physdev-out", 1).invert(),
        flag("physdev-is-in", 2).invert(),
        flag("physdev-is-out", 3).invert(),
        flag("physdev-is-bridged", 4).invert(),
    ],
    build: physdev,
    place: ANYWHERE,
};

pub(super) static HELPER: Extension<Match> = Extension {
    name: "helper",
    family: None,
    options: &[opt("helper", 0).invert().mandatory()],
    build: |g| {
        // The kernel's field has 29 bytes: longer names are truncated.
        let cut = |t: &Taken| {
            let mut end = t.arg.len().min(29);
            while !t.arg.is_char_boundary(end) {
                end -= 1;
            }
            Value::Text(t.arg[..end].to_owned())
        };
        one(g, "helper", "helper", |t| Ok(cut(t)))
    },
    place: ANYWHERE,
};

pub(super) static CPU: Extension<Match> = Extension {
    name: "cpu",
    family: None,
    options: &[opt("cpu", 0).invert().mandatory()],
    build: |g| one(g, "cpu", "cpu", |t| number(t, u32::MAX.into())),
    place: ANYWHERE,
};

pub(super) static CGROUP: Extension<Match> = Extension {
    name: "cgroup",
    family: None,
    options: &[opt("path", 0).invert().excludes(2), opt("cgroup", 1).invert().excludes(1)],
    build: |g| match g.iter().next() {
        Some(t) if t.id == 1 => one(g, "cgroup", "cgroup", |t| number(t, u32::MAX.into())),
        Some(t) if t.arg.len() > 511 => t.problem("path is longer than 511 bytes").fail(),
        Some(_) => one(g, "cgroup", "path", |t| Ok(Value::Text(t.arg.to_owned()))),
        None => g.problem("cgroup without --path or --cgroup").fail(),
    },
    place: ExtensionScope::hooks(&[Input, Output, Postrouting]),
};

pub(super) static DEVGROUP: Extension<Match> = Extension {
    name: "devgroup",
    family: None,
    options: &[opt("src-group", 0).invert(), opt("dst-group", 1).invert()],
    build: devgroup,
    place: ANYWHERE,
};

pub(super) static REALM: Extension<Match> = Extension {
    name: "realm",
    family: Some(Family::V4),
    options: &[opt("realm", 0).invert().mandatory()],
    build: |g| one(g, "realm", "realm", |t| named_mask(t, "rt_realms")),
    place: ExtensionScope::hooks(&[Postrouting, Forward, Output, Input]),
};

fn number(t: &Taken, max: u64) -> Fallible<Value> {
    value::integer(t, 0, max).map(Value::Number)
}

/// A match of exactly one option.
fn one(
    g: &Given,
    module: &'static str,
    name: &'static str,
    read: impl Fn(&Taken) -> Fallible<Value>,
) -> Fallible<Match> {
    let Some(t) = g.iter().next() else { return g.problem(format!("{module} is empty")).fail() };
    let options = vec![OptionValue { negated: t.negated, name, value: read(t)? }];
    Ok(host(module, options))
}

/// A match of flags, printed in the given order.
fn flags_in_order(g: &Given, module: &'static str, order: &[u8]) -> Match {
    let options = order
        .iter()
        .filter_map(|id| g.first(*id))
        .map(|t| OptionValue { negated: t.negated, name: g.spelled(t.id), value: Value::Flag })
        .collect();
    host(module, options)
}

fn owner(g: &Given) -> Fallible<Match> {
    let mut options = Vec::new();
    let groups = g.iter().position(|t| t.id == 3);
    if groups < g.iter().position(|t| t.id == 1) && groups.is_some() {
        return g.problem("--suppl-groups before --gid-owner").help("write it after").fail();
    }
    for id in [2, 0, 1, 3] {
        let Some(t) = g.first(id) else { continue };
        let value = match id {
            0 => owner_range(t, "/etc/passwd")?,
            1 => owner_range(t, "/etc/group")?,
            _ => Value::Flag,
        };
        options.push(OptionValue { negated: t.negated, name: g.spelled(id), value });
    }
    if !options.iter().any(|o| o.name != "suppl-groups") {
        return g
            .problem("owner without an option")
            .help("give --uid-owner, --gid-owner or --socket-exists")
            .fail();
    }
    Ok(host("owner", options))
}

/// A name of the system's file, a number, or two joined by `-` or `:`.
fn owner_range(t: &Taken, file: &str) -> Fallible<Value> {
    if let Some(id) = names::account(file, t.arg) {
        return Ok(Value::Range(id.into(), id.into()));
    }
    let max = u64::from(u32::MAX) - 1;
    let read = || {
        let (lo, rest) = number::leading(t.arg).filter(|(n, _)| *n <= max)?;
        let hi = match rest.strip_prefix(['-', ':']) {
            Some(hi) => number::whole(hi, 0, max)?,
            None if rest.is_empty() => lo,
            None => return None,
        };
        Some((lo, hi))
    };
    match read() {
        Some((lo, hi)) if lo > hi => {
            t.problem(format!("the lower end of {} is above its upper end", t.arg)).fail()
        }
        Some((lo, hi)) => Ok(Value::Range(lo, hi)),
        None => t
            .problem(format!("no account {}", t.arg))
            .help(format!("write its number, or a name that {file} has"))
            .fail(),
    }
}

/// Route types (`RTN_*`) in the order of printing.
const TYPES: [&str; 12] = [
    "UNSPEC",
    "UNICAST",
    "LOCAL",
    "BROADCAST",
    "ANYCAST",
    "MULTICAST",
    "BLACKHOLE",
    "UNREACHABLE",
    "PROHIBIT",
    "THROW",
    "NAT",
    "XRESOLVE",
];

fn address_types(t: &Taken, g: &Given) -> Fallible<Value> {
    let mut set = [false; TYPES.len()];
    for word in t.arg.split(',') {
        let begins = |name: &str| {
            !word.is_empty()
                && word.len() <= name.len()
                && name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        };
        match TYPES.iter().position(|name| begins(name)) {
            Some(i) => set[i] = true,
            None => {
                return t
                    .problem(format!("no address type {word:?}"))
                    .help(format!("use one of {}", TYPES.join(", ")))
                    .fail();
            }
        }
    }
    let chosen: Vec<_> = (0..TYPES.len()).filter(|i| set[*i]).map(|i| TYPES[i]).collect();
    let foreign = ["BROADCAST", "BLACKHOLE", "PROHIBIT", "THROW", "NAT", "XRESOLVE"];
    let not_in_v6 = chosen.iter().find(|c| foreign.contains(c));
    match (g.family, not_in_v6) {
        (Family::V6, Some(name)) => t.problem(format!("IPv6 has no address type {name}")).fail(),
        _ => Ok(Value::Words(chosen)),
    }
}

fn addrtype(g: &Given) -> Fallible<Match> {
    let mut options = Vec::new();
    for t in [0, 1].into_iter().filter_map(|id| g.first(id)) {
        let value = address_types(t, g)?;
        options.push(OptionValue { negated: t.negated, name: g.spelled(t.id), value });
    }
    if options.is_empty() {
        return g.problem("addrtype without a type").help("give --src-type or --dst-type").fail();
    }
    for (id, hooks) in
        [(2, &[Prerouting, Input, Forward][..]), (3, &[Postrouting, Output, Forward][..])]
    {
        if g.has(id) {
            g.only_at(hooks);
            let value = Value::Flag;
            options.push(OptionValue { negated: false, name: g.spelled(id), value });
        }
    }
    Ok(host("addrtype", options))
}

fn physdev(g: &Given) -> Fallible<Match> {
    let mut options = Vec::new();
    for t in [2, 0, 3, 1, 4].into_iter().filter_map(|id| g.first(id)) {
        let value = match t.id {
            0 | 1 if t.arg.len() > 15 => {
                return t.problem("device name is longer than 15 bytes").fail();
            }
            0 | 1 if t.arg.is_empty() => {
                return t.problem("empty device name").help("remove the option").fail();
            }
            0 | 1 => Value::Text(t.arg.to_owned()),
            _ => Value::Flag,
        };
        options.push(OptionValue { negated: t.negated, name: g.spelled(t.id), value });
    }
    if options.is_empty() {
        return g.problem("physdev without an option").fail();
    }
    let bridged = g.first(4).is_some_and(|t| !t.negated);
    if (g.has(1) || g.has(3)) && !bridged {
        g.only_at(&[Prerouting, Input, Forward, Postrouting]);
    }
    Ok(host("physdev", options))
}

fn devgroup(g: &Given) -> Fallible<Match> {
    let mut options = Vec::new();
    for t in [0, 1].into_iter().filter_map(|id| g.first(id)) {
        let value = named_mask(t, "group")?;
        options.push(OptionValue { negated: t.negated, name: g.spelled(t.id), value });
    }
    match (g.has(0), g.has(1)) {
        (true, true) => g.only_at(&[Forward]),
        (true, false) => g.only_at(&[Prerouting, Input, Forward]),
        (false, true) => g.only_at(&[Forward, Output, Postrouting]),
        (false, false) => return g.problem("devgroup without a group").fail(),
    }
    Ok(host("devgroup", options))
}

/// `value[/mask]`, or a name of a table of iproute2, which is printed back by its name.
fn named_mask(t: &Taken, table: &str) -> Fallible<Value> {
    if let Some(n) = names::iproute(table, t.arg) {
        return Ok(Value::Text(names::iproute_name(table, n).unwrap_or_else(|| t.arg.to_owned())));
    }
    let (v, mask) = value::masked(t, u32::MAX.into())?;
    if mask != u32::MAX.into() {
        return Ok(Value::Masked(v, mask));
    }
    Ok(match names::iproute_name(table, v as u32) {
        Some(name) => Value::Text(name),
        None => Value::Hex(v),
    })
}

/// Prints what the general way does not: ranges of accounts, device names, paths.
pub(super) fn print_value(out: &mut String, module: &str, o: &OptionValue) -> bool {
    match (module, &o.value) {
        ("owner", Value::Range(lo, hi)) => {
            crate::write::decimal(out, *lo);
            if lo != hi {
                out.push('-');
                crate::write::decimal(out, *hi);
            }
        }
        ("physdev" | "devgroup" | "realm", Value::Text(text)) => {
            crate::write::word(out, text);
        }
        ("cgroup", Value::Text(text)) => {
            crate::write::in_plain_quotes(out, text);
        }
        _ => return false,
    }
    true
}
