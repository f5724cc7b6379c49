//! ipsets: the match `set` and the target `SET`.

use weir_model::Hook::{Forward, Output, Postrouting};
use weir_model::matching::{SetMatch, Value};
use weir_model::{Match, Name, TableName, Target};

use super::build::ModuleOptions;
use super::value;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::option::{ANYWHERE, Extension, Given, Opt, Taken, flag, opt};
use crate::write;

pub(super) static MATCH: Extension<Match> = Extension {
    name: "set",
    family: None,
    options: &[
        opt("match-set", 0).invert().two(),
        opt("set", 0).invert().two(),
        flag("return-nomatch", 1),
        flag("update-counters", 2).invert(),
        flag("update-subcounters", 3).invert(),
        opt("packets-eq", 4).invert().excludes(1 << 5 | 1 << 6),
        opt("packets-lt", 5).excludes(1 << 4 | 1 << 6),
        opt("packets-gt", 6).excludes(1 << 4 | 1 << 5),
        opt("bytes-eq", 7).invert().excludes(1 << 8 | 1 << 9),
        opt("bytes-lt", 8).excludes(1 << 7 | 1 << 9),
        opt("bytes-gt", 9).excludes(1 << 7 | 1 << 8),
    ],
    build,
    place: ANYWHERE,
};

const fn needs_add(o: Opt) -> Opt {
    o.also(1 << 0)
}

pub(super) static TARGET: Extension<Target> = Extension {
    name: "SET",
    family: None,
    options: &[
        // A `!` before them is read, and forgotten by the tool.
        opt("add-set", 0).two().invert(),
        opt("del-set", 1).two().invert(),
        opt("map-set", 2).two().invert(),
        needs_add(flag("exist", 3)),
        needs_add(opt("timeout", 4)),
        flag("map-mark", 5).also(1 << 2),
        flag("map-prio", 6).also(1 << 2),
        flag("map-queue", 7).also(1 << 2),
    ],
    build: target,
    place: ANYWHERE,
};

/// Most dimensions of a set (`IPSET_DIM_MAX`).
const DIRECTIONS_MAX: usize = 6;

fn name(t: &Taken) -> Fallible<Name> {
    if t.arg.is_empty() || t.arg.len() > 31 {
        return t.problem("set name is not 1 to 31 bytes").fail();
    }
    Ok(Name::from(t.arg))
}

fn directions(t: &Taken) -> Fallible<Vec<bool>> {
    let mut out = Vec::new();
    for word in t.second.split(',') {
        match word {
            "src" => out.push(true),
            "dst" => out.push(false),
            _ => {
                return t
                    .second_problem(format!("{word:?} is not src or dst"))
                    .help("write one for each part of the set's elements: src,dst")
                    .fail();
            }
        }
    }
    if out.len() > DIRECTIONS_MAX {
        return t.second_problem(format!("more than {DIRECTIONS_MAX} of src and dst")).fail();
    }
    Ok(out)
}

fn build(g: &Given) -> Fallible<Match> {
    let Some(t) = g.first(0) else {
        return g.problem("set without --match-set").help("write --match-set NAME src").fail();
    };
    let mut options = Vec::new();
    if g.has(1) {
        options.push("--return-nomatch".to_owned());
    }
    for o in [2, 3].into_iter().filter_map(|id| g.first(id)).filter(|o| o.negated) {
        options.extend(["!".to_owned(), format!("--{}", g.spelled(o.id))]);
    }
    for o in (4..=9).filter_map(|id| g.first(id)) {
        if o.negated {
            options.push("!".to_owned());
        }
        let n = value::integer(o, 0, u64::MAX)?;
        options.extend([format!("--{}", g.spelled(o.id)), n.to_string()]);
    }
    Ok(Match::Set(SetMatch { negated: t.negated, name: name(t)?, dirs: directions(t)?, options }))
}

fn target(g: &Given) -> Fallible<Target> {
    let mut options = ModuleOptions::default();
    for t in (0..=2).filter_map(|id| g.first(id)) {
        let mut words = name(t)?.to_string();
        words.push(' ');
        push_directions(&mut words, &directions(t)?);
        options.push(g.spelled(t.id), Value::Text(words));
        if t.id == 0 {
            if g.has(3) {
                options.push("exist", Value::Flag);
            }
            if let Some(t) = g.first(4) {
                options.push("timeout", Value::Number(value::integer(t, 0, 2_147_483)?));
            }
        }
    }
    if options.0.is_empty() {
        return g.problem("SET without an action").help("give --add-set or --del-set").fail();
    }
    if let Some(t) = g.first(2) {
        if !(5..=7).any(|id| g.has(id)) {
            return Diagnostic::new("--map-set without a value to map", t.span)
                .help("give --map-mark, --map-prio or --map-queue")
                .fail();
        }
        if g.table != TableName::Mangle {
            return Diagnostic::new(format!("--map-set in the {} table", g.table), t.span)
                .help("the kernel accepts it only in mangle")
                .fail();
        }
        if g.has(6) || g.has(7) {
            g.only_at(&[Forward, Output, Postrouting]);
        }
        for id in (5..=7).filter(|id| g.has(*id)) {
            options.push(g.spelled(id), Value::Flag);
        }
    }
    Ok(super::log::effect("SET", options))
}

fn push_directions(out: &mut String, dirs: &[bool]) {
    write::comma_list(out, dirs, |out, src| out.push_str(if *src { "src" } else { "dst" }));
}

/// A set's name, quoted where it needs it, and the directions.
pub(super) fn print_value(out: &mut String, v: &Value) -> bool {
    let Value::Text(words) = v else { return false };
    let (name, directions) = words.rsplit_once(' ').unwrap_or((words, ""));
    write::word(out, name);
    out.push(' ');
    out.push_str(directions);
    true
}

pub(super) fn print(out: &mut String, m: &SetMatch) {
    out.push_str(" -m set");
    write::option(out, m.negated, "--match-set");
    write::word(out, &m.name);
    out.push(' ');
    push_directions(out, &m.dirs);
    for word in &m.options {
        out.push(' ');
        out.push_str(word);
    }
}
