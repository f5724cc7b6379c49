//! Stateful matches: recent, statistic, quota, connlimit, connbytes.

use weir_model::Match;
use weir_model::matching::{OptionValue, Value};
use weir_model::{Addr, Family};

use super::build::{ModuleOptions, stateful};
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::address;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, flag, opt};
use crate::write;

pub(super) static RECENT: Extension<Match> = Extension {
    name: "recent",
    family: None,
    options: &[
        flag("set", 0).invert().excludes(0b1110),
        flag("rcheck", 1).invert().excludes(0b1101),
        flag("update", 2).invert().excludes(0b1011),
        flag("remove", 3).invert().excludes(0b0111),
        opt("seconds", 4),
        flag("reap", 5).also(1 << 4),
        opt("hitcount", 6),
        flag("rttl", 7).excludes(1 << 0 | 1 << 3),
        opt("name", 8),
        opt("mask", 9),
        flag("rsource", 10),
        flag("rdest", 11),
    ],
    build: recent,
    place: ANYWHERE,
};

pub(super) static STATISTIC: Extension<Match> = Extension {
    name: "statistic",
    family: None,
    options: &[
        opt("mode", 0).mandatory(),
        opt("probability", 1).invert().excludes(0b1100),
        opt("every", 2).invert().excludes(0b0010).also(0b1000),
        opt("packet", 3).excludes(0b0010).also(0b0100),
    ],
    build: statistic,
    place: ANYWHERE,
};

pub(super) static QUOTA: Extension<Match> = Extension {
    name: "quota",
    family: None,
    options: &[opt("quota", 0).invert().mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("quota without --quota").fail() };
        let value = Value::Number(value::integer(t, 0, u64::MAX)?);
        let options = vec![OptionValue { negated: t.negated, name: "quota", value }];
        Ok(stateful("quota", options))
    },
    place: ANYWHERE,
};

pub(super) static CONNLIMIT: Extension<Match> = Extension {
    name: "connlimit",
    family: None,
    options: &[
        opt("connlimit-upto", 0).invert().excludes(0b0010),
        opt("connlimit-above", 1).invert().excludes(0b0001),
        opt("connlimit-mask", 2),
        flag("connlimit-saddr", 3).excludes(1 << 4),
        flag("connlimit-daddr", 4).excludes(1 << 3),
    ],
    build: connlimit,
    place: ANYWHERE,
};

pub(super) static CONNBYTES: Extension<Match> = Extension {
    name: "connbytes",
    family: None,
    options: &[
        opt("connbytes", 0).invert().mandatory(),
        opt("connbytes-dir", 1).mandatory(),
        opt("connbytes-mode", 2).mandatory(),
    ],
    build: connbytes,
    place: ANYWHERE,
};

/// Longest list name (`XT_RECENT_NAME_LEN`, with its end mark).
const RECENT_NAME_MAX: usize = 199;
/// Most packets that a list remembers of an address (`XT_RECENT_MAX_NSTAMPS`).
const RECENT_HITS_MAX: u64 = 65_535;

fn recent(g: &Given) -> Fallible<Match> {
    let Some(op) = g.iter().find(|t| t.id <= 3) else {
        return g
            .problem("recent without an operation")
            .help("give --set, --rcheck, --update or --remove")
            .fail();
    };
    let mut options =
        vec![OptionValue { negated: op.negated, name: g.spelled(op.id), value: Value::Flag }];
    let mut push = |name, value| options.push(OptionValue { negated: false, name, value });
    for (id, min, max) in [(4, 1, u32::MAX.into()), (5, 0, 0), (6, 0, RECENT_HITS_MAX)] {
        let Some(t) = g.first(id) else { continue };
        let given = match id {
            5 => Value::Flag,
            _ => match value::integer(t, min, max)? {
                0 => continue,
                n => Value::Number(n),
            },
        };
        if matches!(op.id, 0 | 3) {
            return t
                .problem(format!("--{} with --{}", g.spelled(id), g.spelled(op.id)))
                .help("it is an option of --rcheck and --update")
                .fail();
        }
        push(g.spelled(id), given);
    }
    if g.has(7) {
        push("rttl", Value::Flag);
    }
    let name = g.first(8).map_or("DEFAULT", |t| t.arg);
    if let Some(t) = g.first(8)
        && (name.is_empty()
            || name.len() > RECENT_NAME_MAX
            || name.contains('/')
            || name == "."
            || name == "..")
    {
        return t
            .problem("invalid list name")
            .help("a name has 1 to 199 bytes and no slash")
            .fail();
    }
    push("name", Value::Text(name.to_owned()));
    let mask = match g.first(9) {
        Some(t) => value::host(t, g)?,
        None => Addr(g.family.max()),
    };
    push("mask", Value::Addr(mask));
    let side = g.iter().filter(|t| t.id >= 10).last().map_or("rsource", |t| g.spelled(t.id));
    push(side, Value::Flag);
    Ok(stateful("recent", options))
}

fn statistic(g: &Given) -> Fallible<Match> {
    let Some(mode) = g.first(0) else { return g.problem("statistic without --mode").fail() };
    let mut options = ModuleOptions::default();
    match (mode.arg, g.first(1), g.first(2), g.first(3)) {
        ("random", Some(t), None, _) => {
            options.push("mode", Value::Word("random"));
            let value = Value::Probability(probability(t)?);
            options.0.push(OptionValue { negated: t.negated, name: "probability", value });
        }
        ("nth", None, Some(every), Some(packet)) => {
            options.push("mode", Value::Word("nth"));
            let n = value::integer(every, 1, u32::MAX.into())?;
            let p = value::integer(packet, 0, u32::MAX.into())?;
            if p >= n {
                return packet.problem(format!("{p} is not below --every {n}")).fail();
            }
            let value = Value::Number(n);
            options.0.push(OptionValue { negated: every.negated, name: "every", value });
            options.push("packet", Value::Number(p));
        }
        ("random", None, ..) => return g.problem("mode random without --probability").fail(),
        ("nth", ..) => return g.problem("mode nth needs --every and --packet").fail(),
        ("random", ..) => return g.problem("mode random with options of nth").fail(),
        (other, ..) => return mode.problem(format!("{other} is not random or nth")).fail(),
    }
    Ok(stateful("statistic", options.0))
}

fn probability(t: &Taken) -> Fallible<u32> {
    match t.arg.trim_start().parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok((p * f64::from(1u32 << 31)).round() as u32),
        _ => t.problem(format!("{} is not a probability from 0 to 1", t.arg)).fail(),
    }
}

fn connlimit(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g
            .problem("connlimit without a limit")
            .help("give --connlimit-upto or --connlimit-above")
            .fail();
    };
    let limit = value::integer(t, 0, u32::MAX.into())?;
    let mut options = ModuleOptions::default();
    let above = (t.id == 1) != t.negated;
    options.push(if above { "connlimit-above" } else { "connlimit-upto" }, Value::Number(limit));
    let len = match g.first(2) {
        None => g.family.bits(),
        Some(t) => match address::mask(t.arg, g.family).map(|m| g.family.prefix_len(m.0)) {
            Some(Some(len)) => len,
            _ => {
                let bits = g.family.bits();
                return t.problem(format!("{} is not a prefix length to {bits}", t.arg)).fail();
            }
        },
    };
    options.push("connlimit-mask", Value::Number(len.into()));
    let side = if g.has(4) { "connlimit-daddr" } else { "connlimit-saddr" };
    options.push(side, Value::Flag);
    Ok(stateful("connlimit", options.0))
}

fn connbytes(g: &Given) -> Fallible<Match> {
    let (Some(t), Some(dir), Some(mode)) = (g.first(0), g.first(1), g.first(2)) else {
        return g.problem("connbytes needs all of its options").fail();
    };
    let (lo, hi) = value::range(t, u64::MAX)?;
    // A single number is a lower bound.
    let hi = if t.arg.contains(':') { hi } else { u64::MAX };
    if lo > hi {
        return t.problem(format!("the lower end of {} is above its upper end", t.arg)).fail();
    }
    let value = Value::Range(lo, hi);
    let word = |t: &Taken, words: &[&'static str]| match words.iter().find(|w| **w == t.arg) {
        Some(w) => Ok(Value::Word(w)),
        None => t.problem(format!("{} is not one of {}", t.arg, words.join(", "))).fail(),
    };
    // The tool says "not" by swapping the bounds: with equal ones that says nothing.
    let negated = t.negated && lo != hi;
    let options = vec![
        OptionValue { negated, name: "connbytes", value },
        OptionValue {
            negated: false,
            name: "connbytes-mode",
            value: word(mode, &["packets", "bytes", "avgpkt"])?,
        },
        OptionValue {
            negated: false,
            name: "connbytes-dir",
            value: word(dir, &["original", "reply", "both"])?,
        },
    ];
    Ok(stateful("connbytes", options))
}

/// Prints what the general way does not: list names unquoted, masks, open ranges.
pub(super) fn print_value(out: &mut String, module: &str, o: &OptionValue, f: Family) -> bool {
    match (module, &o.value) {
        ("recent", Value::Text(name)) => write::word(out, name),
        ("recent", Value::Addr(mask)) => write::addr(out, *mask, f),
        ("connbytes", Value::Range(lo, hi)) => {
            write::decimal(out, *lo);
            if *hi != u64::MAX {
                out.push(':');
                write::decimal(out, *hi);
            }
        }
        _ => return false,
    }
    true
}
