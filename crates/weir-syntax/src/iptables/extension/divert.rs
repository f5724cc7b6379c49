//! Targets that hand the packet to a socket or a program: NFQUEUE, TPROXY, SYNPROXY.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::matching::Value;
use weir_model::target::ExtensionTarget as Plain;
use weir_model::{Addr, TableName, Target};

use super::build::ModuleOptions;
use super::{ports, value};
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, flag, opt};

pub(super) static NFQUEUE: Extension<Target> = Extension {
    name: "NFQUEUE",
    family: None,
    options: &[
        opt("queue-num", 0).excludes(1 << 1),
        opt("queue-balance", 1).excludes(1 << 0),
        flag("queue-bypass", 2),
        flag("queue-cpu-fanout", 3).also(1 << 1),
    ],
    build: nfqueue,
    place: ANYWHERE,
};

pub(super) static TPROXY: Extension<Target> = Extension {
    name: "TPROXY",
    family: None,
    options: &[opt("on-port", 0).mandatory(), opt("on-ip", 1), opt("tproxy-mark", 2)],
    build: tproxy,
    place: ExtensionScope {
        protocols: &[6, 17],
        tables: &[TableName::Mangle],
        hooks: &[Prerouting],
    },
};

pub(super) static SYNPROXY: Extension<Target> = Extension {
    name: "SYNPROXY",
    family: None,
    options: &[
        flag("sack-perm", 0),
        flag("timestamp", 1),
        opt("wscale", 2),
        opt("mss", 3),
        flag("ecn", 4),
    ],
    build: synproxy,
    place: ExtensionScope { protocols: &[6], tables: &[], hooks: &[Input, Forward] },
};

fn divert(module: &'static str, options: ModuleOptions) -> Target {
    Target::Divert(Box::new(Plain { module, options: options.0 }))
}

fn nfqueue(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    match g.first(1) {
        Some(t) => match value::range(t, 0xffff)? {
            (lo, hi) if lo < hi && hi - lo < 0xffff => {
                options.push("queue-balance", Value::Range(lo, hi));
            }
            _ => {
                return t
                    .problem(format!("{} is not a range of queues", t.arg))
                    .help("FIRST:LAST, at most 65535 of them")
                    .fail();
            }
        },
        None => {
            let n = g.first(0).map_or(Ok(0), |t| value::integer(t, 0, 0xffff))?;
            options.push("queue-num", Value::Number(n));
        }
    }
    for id in [2, 3].into_iter().filter(|id| g.has(*id)) {
        options.push(g.spelled(id), Value::Flag);
    }
    Ok(divert("NFQUEUE", options))
}

fn tproxy(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    let Some(t) = g.first(0) else { return g.problem("TPROXY without --on-port").fail() };
    options.push("on-port", Value::Number(ports::resolved_port(t, t.arg)?.into()));
    let ip = g.first(1).map_or(Ok(Addr(0)), |t| value::host(t, g))?;
    options.push("on-ip", Value::Addr(ip));
    let (mark, mask) = g.first(2).map_or(Ok((0, 0)), |t| value::masked(t, u32::MAX.into()))?;
    options.push("tproxy-mark", Value::Masked(mark, mask));
    Ok(divert("TPROXY", options))
}

fn synproxy(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    for id in 0..=4 {
        let Some(t) = g.first(id) else { continue };
        let v = match id {
            2 => Value::Number(value::integer(t, 0, 255)?),
            3 => Value::Number(value::integer(t, 0, 0xffff)?),
            _ => Value::Flag,
        };
        options.push(g.spelled(id), v);
    }
    Ok(divert("SYNPROXY", options))
}
