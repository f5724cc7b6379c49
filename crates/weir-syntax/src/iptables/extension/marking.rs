//! `-j MARK` and `-j CONNMARK`.

use weir_model::Target;
use weir_model::matching::Value;
use weir_model::target::Effect;

use super::build::ModuleOptions;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, Opt, Taken, flag, opt};
use crate::write;

const ALL: u64 = u32::MAX as u64;
const ONE_OF_FIVE: u32 = 0b1_1111;
const ONE_OF_SEVEN: u32 = 0b111_1111;

const fn form(name: &'static str, id: u8, group: u32) -> Opt {
    opt(name, id).excludes(group & !(1 << id))
}

pub(super) static MARK: Extension<Target> = Extension {
    name: "MARK",
    family: None,
    options: &[
        form("set-xmark", 0, ONE_OF_FIVE),
        form("set-mark", 1, ONE_OF_FIVE),
        form("and-mark", 2, ONE_OF_FIVE),
        form("or-mark", 3, ONE_OF_FIVE),
        form("xor-mark", 4, ONE_OF_FIVE),
    ],
    build: mark,
    place: ANYWHERE,
};

pub(super) static CONNMARK: Extension<Target> = Extension {
    name: "CONNMARK",
    family: None,
    options: &[
        form("set-xmark", 0, ONE_OF_SEVEN),
        form("set-mark", 1, ONE_OF_SEVEN),
        form("and-mark", 2, ONE_OF_SEVEN),
        form("or-mark", 3, ONE_OF_SEVEN),
        form("xor-mark", 4, ONE_OF_SEVEN),
        Opt { arity: flag("", 0).arity, ..form("save-mark", 5, ONE_OF_SEVEN) },
        Opt { arity: flag("", 0).arity, ..form("restore-mark", 6, ONE_OF_SEVEN) },
        opt("ctmask", 7).excludes(1 << 9),
        opt("nfmask", 8).excludes(1 << 9),
        opt("mask", 9).excludes(1 << 7 | 1 << 8),
        opt("left-shift-mark", 10),
        opt("right-shift-mark", 11),
    ],
    build: connmark,
    place: ANYWHERE,
};

/// Value to flip in and bits to clear, for the five spellings.
fn xmark(t: &Taken) -> Fallible<(u64, u64)> {
    Ok(match t.id {
        0 => value::masked(t, ALL)?,
        1 => {
            let (v, m) = value::masked(t, ALL)?;
            (v, v | m)
        }
        2 => (0, !value::integer(t, 0, ALL)? & ALL),
        3 => {
            let v = value::integer(t, 0, ALL)?;
            (v, v)
        }
        _ => (value::integer(t, 0, ALL)?, 0),
    })
}

fn mark(g: &Given) -> Fallible<Target> {
    let Some(t) = g.iter().next() else {
        return g.problem("MARK without a mark").help("give --set-mark or --set-xmark").fail();
    };
    let (v, mask) = xmark(t)?;
    Ok(Target::Effect(Box::new(Effect::Mark { value: v as u32, mask: mask as u32 })))
}

fn connmark(g: &Given) -> Fallible<Target> {
    let Some(t) = g.iter().find(|t| t.id <= 6) else {
        return g
            .problem("CONNMARK without an action")
            .help("give --set-mark, --save-mark or --restore-mark")
            .fail();
    };
    let mut m = Marking { value: 0, ctmask: ALL, nfmask: ALL, shift: (0, "") };
    for t in g.iter() {
        m.apply(t, g)?;
    }
    let mut options = ModuleOptions::default();
    if t.id <= 4 {
        options.push("set-xmark", Value::Masked(m.value, m.ctmask));
    } else {
        options.push(g.spelled(t.id), Value::Flag);
        options.push("nfmask", Value::Hex(m.nfmask));
        options.push("ctmask", Value::Hex(m.ctmask));
    }
    if m.shift.0 != 0 {
        options.push(m.shift.1, Value::Number(m.shift.0));
    }
    Ok(super::log::effect("CONNMARK", options))
}

/// The combined effect of CONNMARK's options; later ones take precedence.
struct Marking {
    value: u64,
    ctmask: u64,
    nfmask: u64,
    shift: (u64, &'static str),
}

impl Marking {
    fn apply(&mut self, t: &Taken, g: &Given) -> Fallible<()> {
        match t.id {
            0..=4 => (self.value, self.ctmask) = xmark(t)?,
            7 => self.ctmask = value::integer(t, 0, ALL)?,
            8 => self.nfmask = value::integer(t, 0, ALL)?,
            9 => {
                self.ctmask = value::integer(t, 0, ALL)?;
                self.nfmask = self.ctmask;
            }
            10.. => self.shift = (value::integer(t, 0, 31)?, g.spelled(t.id)),
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn print_mark(out: &mut String, value: u32, mask: u32) {
    out.push_str(" -j MARK --set-xmark ");
    write::hex(out, value.into());
    out.push('/');
    write::hex(out, mask.into());
}
