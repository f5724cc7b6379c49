//! `-m policy`: the IPsec policy that was, or will be, applied to the packet.

use weir_model::Hook::{Forward, Input, Output, Postrouting, Prerouting};
use weir_model::matching::{OptionValue, Value};
use weir_model::{Family, Match};

use super::build::{ModuleOptions, host};
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, flag, opt};
use crate::{names, number, write};

const DIR: u8 = 0;
const POL: u8 = 1;
const STRICT: u8 = 2;
const REQID: u8 = 3;
const SPI: u8 = 4;
const TUNNEL_SRC: u8 = 5;
const TUNNEL_DST: u8 = 6;
const PROTO: u8 = 7;
const MODE: u8 = 8;
const NEXT: u8 = 9;

pub(super) static POLICY: Extension<Match> = Extension {
    name: "policy",
    family: None,
    options: &[
        opt("dir", DIR),
        opt("pol", POL),
        flag("strict", STRICT),
        opt("reqid", REQID).multi().invert(),
        opt("spi", SPI).multi().invert(),
        opt("tunnel-src", TUNNEL_SRC).multi().invert(),
        opt("tunnel-dst", TUNNEL_DST).multi().invert(),
        opt("proto", PROTO).multi().invert(),
        opt("mode", MODE).multi().invert(),
        flag("next", NEXT).multi().also(1 << STRICT),
    ],
    build: policy,
    place: ANYWHERE,
};

/// Most elements of a policy (`XT_POLICY_MAX_ELEM`).
const ELEMENTS_MAX: usize = 4;

/// In the order of printing.
const ORDER: [u8; 6] = [REQID, SPI, PROTO, MODE, TUNNEL_DST, TUNNEL_SRC];

fn policy(g: &Given) -> Fallible<Match> {
    let mut head = ModuleOptions::default();
    let Some(dir) = g.first(DIR) else {
        return g.problem("policy without --dir").help("write --dir in or --dir out").fail();
    };
    match dir.arg {
        "in" => {
            g.only_at(&[Prerouting, Input, Forward]);
            head.push("dir", Value::Word("in"));
        }
        "out" => {
            g.only_at(&[Forward, Output, Postrouting]);
            head.push("dir", Value::Word("out"));
        }
        other => return dir.problem(format!("{other} is not in or out")).fail(),
    }
    let none = match g.first(POL).map(|t| (t, t.arg)) {
        None | Some((_, "ipsec")) => false,
        Some((_, "none")) => true,
        Some((t, other)) => return t.problem(format!("{other} is not ipsec or none")).fail(),
    };
    head.push("pol", Value::Word(if none { "none" } else { "ipsec" }));
    let strict = g.has(STRICT);
    if none && strict {
        return g.problem("--strict with --pol none").help("remove one of them").fail();
    }
    if strict {
        head.push("strict", Value::Flag);
    }
    let mut elements = elements(g, none)?;
    if none {
        // Read, and forgotten by the tool.
        elements.clear();
    }
    if strict && elements.iter().any(Vec::is_empty) {
        return g
            .problem("empty element of a strict policy")
            .help("each needs --reqid, --spi, --tunnel-src, --tunnel-dst, --proto or --mode")
            .fail();
    }
    let mut options = head.0;
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            options.push(OptionValue { negated: false, name: "next", value: Value::Flag });
        }
        options.extend(element);
    }
    Ok(host("policy", options))
}

/// The elements, each with its options in the order of printing.
fn elements(g: &Given, none: bool) -> Fallible<Vec<Vec<OptionValue>>> {
    let mut given: Vec<Vec<&Taken>> = vec![Vec::new()];
    for t in g.iter().filter(|t| t.id >= REQID) {
        if t.id == NEXT {
            if given.len() == ELEMENTS_MAX {
                return t.problem(format!("more than {ELEMENTS_MAX} elements")).fail();
            }
            given.push(Vec::new());
            continue;
        }
        if let Some(last) = given.last_mut() {
            if last.iter().any(|other| other.id == t.id) {
                return t.problem(format!("--{} twice in an element", g.spelled(t.id))).fail();
            }
            last.push(t);
        }
    }
    let mut out = Vec::new();
    for element in given {
        let mut options = Vec::new();
        for t in ORDER.iter().filter_map(|id| element.iter().find(|t| t.id == *id)) {
            let value = element_value(t, g)?;
            options.push(OptionValue { negated: t.negated, name: g.spelled(t.id), value });
        }
        if !none {
            check_tunnel(&options, &element)?;
        }
        out.push(options);
    }
    Ok(out)
}

fn check_tunnel(options: &[OptionValue], element: &[&Taken]) -> Fallible<()> {
    let tunnel = |t: &&&Taken| matches!(t.id, TUNNEL_SRC | TUNNEL_DST);
    let transport = options
        .iter()
        .any(|o| o.name == "mode" && (o.value == Value::Word("transport")) != o.negated);
    match element.iter().find(tunnel) {
        Some(t) if transport || !options.iter().any(|o| o.name == "mode") => t
            .problem("the end of a tunnel without --mode tunnel")
            .help("write --mode tunnel beside it")
            .fail(),
        _ => Ok(()),
    }
}

fn element_value(t: &Taken, g: &Given) -> Fallible<Value> {
    Ok(match t.id {
        REQID => Value::Number(value::integer(t, 0, u32::MAX.into())?),
        SPI => Value::Hex(value::integer(t, 0, u32::MAX.into())?),
        PROTO => {
            let lower = t.arg.to_ascii_lowercase();
            let found =
                number::whole(t.arg, 0, 255).map(|n| n as u8).or_else(|| names::protocol(&lower));
            match found {
                Some(50) => Value::Word("esp"),
                Some(51) => Value::Word("ah"),
                Some(108) => Value::Word("ipcomp"),
                _ => return t.problem(format!("{} is not esp, ah or ipcomp", t.arg)).fail(),
            }
        }
        MODE => match t.arg {
            "transport" => Value::Word("transport"),
            "tunnel" => Value::Word("tunnel"),
            other => return t.problem(format!("{other} is not transport or tunnel")).fail(),
        },
        _ => {
            let (a, mask) = value::host_net(t, g)?;
            Value::Net(a, mask)
        }
    })
}

/// A host's mask is not printed here.
pub(super) fn print_value(out: &mut String, o: &OptionValue, family: Family) -> bool {
    let Value::Net(a, mask) = &o.value else { return false };
    if mask.0 == family.max() {
        write::addr(out, *a, family);
    } else {
        write::net(out, *a, *mask, family);
    }
    true
}
