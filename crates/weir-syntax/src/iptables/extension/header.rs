//! Matches of one field each: mac, mark, connmark, comment.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::Match;
use weir_model::matching::{Masked, Neg};

use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, Taken, opt};
use crate::write;

pub(super) static MAC: Extension<Match> = Extension {
    name: "mac",
    family: None,
    options: &[opt("mac-source", 0).invert().mandatory()],
    build: |g| match g.first(0) {
        Some(t) => Ok(Match::Mac(Neg { negated: t.negated, value: mac(t)? })),
        None => g.problem("mac without --mac-source").fail(),
    },
    place: ExtensionScope::hooks(&[Prerouting, Input, Forward]),
};

pub(super) static MARK: Extension<Match> = Extension {
    name: "mark",
    family: None,
    options: &[opt("mark", 0).invert().mandatory()],
    build: |g| Ok(Match::Mark(mark(g)?)),
    place: ANYWHERE,
};

pub(super) static CONNMARK: Extension<Match> = Extension {
    name: "connmark",
    family: None,
    options: &[opt("mark", 0).invert().mandatory()],
    build: |g| Ok(Match::ConnMark(mark(g)?)),
    place: ANYWHERE,
};

/// Longest comment in bytes (`XT_MAX_COMMENT_LEN`, with its end mark).
const COMMENT_MAX: usize = 255;

pub(super) static COMMENT: Extension<Match> = Extension {
    name: "comment",
    family: None,
    options: &[opt("comment", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("comment without --comment").fail() };
        if t.arg.len() > COMMENT_MAX {
            return t.problem(format!("comment is longer than {COMMENT_MAX} bytes")).fail();
        }
        Ok(Match::Comment(t.arg.to_owned()))
    },
    place: ANYWHERE,
};

fn mac(t: &Taken) -> Fallible<[u8; 6]> {
    let mut out = [0u8; 6];
    let mut count = 0;
    let mut good = true;
    for part in t.arg.split(':') {
        match (u8::from_str_radix(part, 16), part.len()) {
            (Ok(byte), 1 | 2) if count < 6 && !part.starts_with('+') => out[count] = byte,
            _ => good = false,
        }
        count += 1;
    }
    if good && count == 6 {
        return Ok(out);
    }
    let anonymised =
        t.arg.contains([':', '-']) && t.arg.bytes().any(|b| matches!(b, b'x' | b'X' | b'*' | b'?'));
    let d = t.problem(format!("{} is not a MAC address", t.arg));
    if anonymised {
        d.help("it was anonymised: replace it by any address, e.g. 02:00:00:00:00:01").fail()
    } else if t.arg.contains('-') {
        d.help(format!("separate its bytes by colons: {}", t.arg.replace('-', ":"))).fail()
    } else {
        d.help("six bytes in hexadecimal, separated by colons").fail()
    }
}

fn mark(g: &Given) -> Fallible<Neg<Masked>> {
    let Some(t) = g.first(0) else { return g.problem("no --mark given").fail() };
    let (v, mask) = value::masked(t, u32::MAX.into())?;
    Ok(Neg { negated: t.negated, value: Masked { value: v as u32, mask: mask as u32 } })
}

pub(super) fn print_mac(out: &mut String, m: &Neg<[u8; 6]>) {
    use std::fmt::Write as _;
    out.push_str(" -m mac");
    write::option(out, m.negated, "--mac-source");
    let [a, b, c, d, e, f] = m.value;
    let _ = write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
}

pub(super) fn print_mark(out: &mut String, module: &str, m: &Neg<Masked>) {
    out.push_str(" -m ");
    out.push_str(module);
    write::option(out, m.negated, "--mark");
    value::print_masked(out, m.value.value.into(), m.value.mask.into(), u32::MAX.into());
}

pub(super) fn print_comment(out: &mut String, text: &str) {
    out.push_str(" -m comment --comment ");
    write::quoted(out, text);
}
