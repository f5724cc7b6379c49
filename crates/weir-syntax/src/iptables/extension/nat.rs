//! Address translation: DNAT, SNAT, MASQUERADE, REDIRECT, NETMAP.

use weir_model::Hook::{Input, Output, Postrouting, Prerouting};
use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, Base, Family, TableName, Target};

use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::address;
use crate::iptables::option::{Extension, ExtensionScope, Given, Taken, flag, opt};
use crate::{number, write};

const NAT: &[TableName] = &[TableName::Nat];

pub(super) static DNAT: Extension<Target> = Extension {
    name: "DNAT",
    family: None,
    options: &[opt("to-destination", 0).mandatory(), flag("random", 1), flag("persistent", 2)],
    build: |g| Ok(nat(NatTarget::Dnat(range(g, true)?))),
    place: ExtensionScope::within(NAT, &[Prerouting, Output]),
};

pub(super) static SNAT: Extension<Target> = Extension {
    name: "SNAT",
    family: None,
    options: &[
        opt("to-source", 0).mandatory(),
        flag("random", 1),
        flag("persistent", 2),
        flag("random-fully", 3),
    ],
    build: |g| Ok(nat(NatTarget::Snat(range(g, false)?))),
    place: ExtensionScope::within(NAT, &[Postrouting, Input]),
};

pub(super) static MASQUERADE: Extension<Target> = Extension {
    name: "MASQUERADE",
    family: None,
    options: &[opt("to-ports", 4), flag("random", 1), flag("random-fully", 3)],
    build: |g| Ok(nat(NatTarget::Masquerade(ports_only(g)?))),
    place: ExtensionScope::within(NAT, &[Postrouting]),
};

pub(super) static REDIRECT: Extension<Target> = Extension {
    name: "REDIRECT",
    family: None,
    options: &[opt("to-ports", 4), flag("random", 1)],
    build: |g| Ok(nat(NatTarget::Redirect(ports_only(g)?))),
    place: ExtensionScope::within(NAT, &[Prerouting, Output]),
};

pub(super) static NETMAP: Extension<Target> = Extension {
    name: "NETMAP",
    family: None,
    options: &[opt("to", 0).mandatory()],
    build: netmap,
    place: ExtensionScope::within(NAT, &[Prerouting, Output, Postrouting, Input]),
};

fn nat(target: NatTarget) -> Target {
    Target::Nat(Box::new(target))
}

fn netmap(g: &Given) -> Fallible<Target> {
    let Some(t) = g.first(0) else { return g.problem("NETMAP without --to").fail() };
    let (a, mask) = value::host_net(t, g)?;
    // The tool takes a mask that is no prefix for that of a host.
    let mask = if g.family.prefix_len(mask.0).is_some() { mask } else { Addr(g.family.max()) };
    Ok(nat(NatTarget::Netmap(Addr(a.0 & mask.0), mask)))
}

fn flags(g: &Given, range: &mut NatRange) {
    range.random = g.has(1);
    range.persistent = g.has(2);
    range.random_fully = g.has(3);
}

fn has_ports(base: &Base) -> bool {
    base.proto.is_some_and(|p| matches!(p.proto, 1 | 6 | 17 | 33 | 132))
}

fn need_ports(t: &Taken, g: &Given) -> Fallible<()> {
    if has_ports(g.base) {
        return Ok(());
    }
    t.problem("ports in a rule without a protocol that has ports")
        .help("write -p tcp, udp, sctp, dccp or icmp")
        .fail()
}

/// `[address[-address]][:port[-port[/base]]]`; IPv6 addresses with ports are in brackets.
fn range(g: &Given, destination: bool) -> Fallible<NatRange> {
    let mut out = NatRange::default();
    flags(g, &mut out);
    let Some(t) = g.first(0) else { return g.problem("no address given").fail() };
    let (addrs, ports) = match g.family {
        Family::V4 => match t.arg.split_once(':') {
            Some((a, p)) => (a, Some(p)),
            None => (t.arg, None),
        },
        Family::V6 => match t.arg.strip_prefix('[') {
            None => match t.arg.strip_prefix(':').filter(|p| !p.starts_with(':')) {
                Some(p) => ("", Some(p)),
                None => (t.arg, None),
            },
            Some(rest) => {
                let Some((a, p)) = rest.split_once(']') else {
                    return t.problem("bracket is not closed").fail();
                };
                match p.strip_prefix(':') {
                    Some(p) => (a, Some(p)),
                    None if p.is_empty() => (a, None),
                    None => return t.problem(format!("{p:?} after the bracket")).fail(),
                }
            }
        },
    };
    if let Some(p) = ports {
        need_ports(t, g)?;
        read_ports(t, p, if destination { Shift::Kept } else { Shift::Lost }, &mut out)?;
    }
    if !addrs.is_empty() {
        let (lo, hi) = addrs.split_once('-').unwrap_or((addrs, addrs));
        let read = |text: &str| match address::plain(text, g.family) {
            Some(a) => Ok(a),
            None => {
                let bad = address::not_an_addr(text, g.family);
                value::bad_addr(text, t.arg_span, bad, g.family, true).fail()
            }
        };
        out.addrs = Some((read(lo)?, read(hi)?));
    } else if ports.is_none() {
        return t.problem("no address given").fail();
    }
    Ok(out)
}

/// `port[-port[/base]]`. The first port and the base may be names of services; the end of a range
/// is a number.
fn read_ports(t: &Taken, text: &str, shift: Shift, out: &mut NatRange) -> Fallible<()> {
    let (lo, rest) = match number::leading(text) {
        Some((n, rest)) => (port_number(t, n)?, rest),
        // Names hold hyphens (`ftp-data`): the whole text is one.
        None => (super::ports::port(t, text, "")?, ""),
    };
    out.ports = Some((lo, lo));
    if rest.is_empty() {
        return Ok(());
    }
    let Some(range) = rest.strip_prefix('-') else {
        return t
            .problem(format!("{rest:?} after port {lo}"))
            .help("a range of ports is written with a hyphen: 1000-2000")
            .fail();
    };
    let Some((hi, rest)) = number::leading(range) else {
        return t
            .problem(format!("{range:?} is not a port number"))
            .help("a range of ports ends in a number, not in the name of a service")
            .fail();
    };
    let hi = port_number(t, hi)?;
    if hi < lo {
        return t
            .problem(format!("the lower port of {text} is above its upper port"))
            .help("write the lower port first")
            .fail();
    }
    out.ports = Some((lo, hi));
    if rest.is_empty() {
        return Ok(());
    }
    let Some(base) = rest.strip_prefix('/') else {
        return t
            .problem(format!("{rest:?} after the range of ports"))
            .help("only a base may follow it: 1000-2000/80")
            .fail();
    };
    let base = super::ports::port(t, base, "")?;
    if base == 0 {
        return t
            .problem("base port 0")
            .help("the base of a shifted range of ports is from 1 to 65535")
            .fail();
    }
    out.base_port = match shift {
        Shift::Kept => Some(base),
        // The tool reads the base and does not hand it to the kernel.
        Shift::Lost => Some(0),
        Shift::Refused => {
            return t
                .problem("a shifted range of ports is only for DNAT")
                .help("remove the base, or use DNAT")
                .fail();
        }
    };
    Ok(())
}

fn port_number(t: &Taken, n: u64) -> Fallible<u16> {
    match u16::try_from(n) {
        Ok(port) => Ok(port),
        Err(_) => t
            .problem(format!("port {n} is above 65535"))
            .help("ports are numbers of 16 bits")
            .fail(),
    }
}

/// The outcome of the base of a shifted range of ports.
#[derive(Clone, Copy)]
enum Shift {
    Kept,
    Lost,
    Refused,
}

fn ports_only(g: &Given) -> Fallible<NatRange> {
    let mut out = NatRange::default();
    flags(g, &mut out);
    if let Some(t) = g.first(4) {
        need_ports(t, g)?;
        read_ports(t, t.arg, Shift::Refused, &mut out)?;
    }
    Ok(out)
}

pub(super) fn print(out: &mut String, target: &NatTarget, family: Family) {
    match target {
        NatTarget::Dnat(r) => print_range(out, " -j DNAT --to-destination ", r, family),
        NatTarget::Snat(r) => print_range(out, " -j SNAT --to-source ", r, family),
        NatTarget::Masquerade(r) => print_to_ports(out, " -j MASQUERADE", r),
        NatTarget::Redirect(r) => print_to_ports(out, " -j REDIRECT", r),
        NatTarget::Netmap(a, mask) => {
            out.push_str(" -j NETMAP --to ");
            write::net(out, *a, *mask, family);
        }
    }
}

fn print_range(out: &mut String, words: &str, r: &NatRange, family: Family) {
    out.push_str(words);
    let bracket = family == Family::V6 && r.ports.is_some();
    if let Some((lo, hi)) = r.addrs {
        if bracket {
            out.push('[');
        }
        write::addr(out, lo, family);
        if lo != hi {
            out.push('-');
            write::addr(out, hi, family);
        }
        if bracket {
            out.push(']');
        }
    }
    if let Some((lo, hi)) = r.ports {
        out.push(':');
        print_ports(out, lo, hi);
        if let Some(base) = r.base_port {
            out.push('/');
            // SNAT loses its base, and 0 cannot be read back: any other loads as 0.
            write::decimal(out, base.max(1).into());
        }
    }
    print_flags(out, r);
}

fn print_ports(out: &mut String, lo: u16, hi: u16) {
    write::decimal(out, lo.into());
    if lo != hi {
        out.push('-');
        write::decimal(out, hi.into());
    }
}

fn print_to_ports(out: &mut String, words: &str, r: &NatRange) {
    out.push_str(words);
    if let Some((lo, hi)) = r.ports {
        out.push_str(" --to-ports ");
        print_ports(out, lo, hi);
    }
    print_flags(out, r);
}

fn print_flags(out: &mut String, r: &NatRange) {
    for (set, word) in [
        (r.random, " --random"),
        (r.random_fully, " --random-fully"),
        (r.persistent, " --persistent"),
    ] {
        if set {
            out.push_str(word);
        }
    }
}
