//! Logging targets: LOG and NFLOG.

use weir_model::Target;
use weir_model::matching::Value;
use weir_model::target::{Effect, ExtensionTarget as Plain};

use super::build::ModuleOptions;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, flag, opt};
use crate::number;

pub(super) static LOG: Extension<Target> = Extension {
    name: "LOG",
    family: None,
    options: &[
        opt("log-level", 0),
        opt("log-prefix", 1),
        flag("log-tcp-sequence", 2),
        flag("log-tcp-options", 3),
        flag("log-ip-options", 4),
        flag("log-uid", 5),
        flag("log-macdecode", 6),
    ],
    build: log,
    place: ANYWHERE,
};

pub(super) static NFLOG: Extension<Target> = Extension {
    name: "NFLOG",
    family: None,
    options: &[
        opt("nflog-group", 0),
        opt("nflog-prefix", 1),
        opt("nflog-range", 2).excludes(1 << 3),
        opt("nflog-size", 3).excludes(1 << 2),
        opt("nflog-threshold", 4),
    ],
    build: nflog,
    place: ANYWHERE,
};

const LEVELS: [(&str, u64); 9] = [
    ("alert", 1),
    ("crit", 2),
    ("debug", 7),
    ("emerg", 0),
    ("error", 3),
    ("info", 6),
    ("notice", 5),
    ("panic", 0),
    ("warning", 4),
];

/// Level where none is given; it is not printed back.
const LEVEL: u64 = 4;

fn level(t: &Taken) -> Fallible<u64> {
    let named = || LEVELS.iter().find(|(name, _)| *name == t.arg).map(|(_, n)| *n);
    match number::whole(t.arg, 0, 7).or_else(named) {
        Some(n) => Ok(n),
        None => t
            .problem(format!("no log level {}", t.arg))
            .help(
                "a number from 0 to 7, or alert, crit, debug, emerg, error, info, notice, warning",
            )
            .fail(),
    }
}

/// A prefix of at most `max` bytes: the tool cuts off the rest.
fn prefix(t: &Taken, max: usize) -> Fallible<Value> {
    if t.arg.is_empty() {
        return t.problem("empty prefix").help("remove the option").fail();
    }
    if t.arg.contains('\n') {
        return t.problem("line end in a prefix").fail();
    }
    match t.arg.get(..max.min(t.arg.len())) {
        Some(kept) => Ok(Value::Text(kept.to_owned())),
        None => t
            .problem(format!("the tool truncates the prefix after {max} bytes, inside a character"))
            .help("write a shorter prefix")
            .fail(),
    }
}

fn log(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    if let Some(t) = g.first(1) {
        options.push("log-prefix", prefix(t, 29)?);
    }
    if let Some(t) = g.first(0) {
        let level = level(t)?;
        if level != LEVEL {
            options.push("log-level", Value::Number(level));
        }
    }
    for id in 2..=6 {
        if g.has(id) {
            options.push(g.spelled(id), Value::Flag);
        }
    }
    Ok(effect("LOG", options))
}

fn nflog(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    if let Some(t) = g.first(1) {
        options.push("nflog-prefix", prefix(t, 63)?);
    }
    for (id, max) in [(0, 0xffff), (2, u32::MAX.into()), (3, u32::MAX.into()), (4, 0xffff)] {
        let Some(t) = g.first(id) else { continue };
        let n = value::integer(t, 0, max)?;
        if n != 0 || id == 3 {
            options.push(g.spelled(id), Value::Number(n));
        }
    }
    Ok(effect("NFLOG", options))
}

/// A target after which the traversal continues.
pub(super) fn effect(module: &'static str, options: ModuleOptions) -> Target {
    let options = options.0;
    Target::Effect(Box::new(Effect::Other(Plain { module, options })))
}
