//! Matches of bytes: string, u32, bpf.

use weir_model::Match;
use weir_model::matching::{OptionValue, Value};

use super::build::host;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, flag, opt};
use crate::{number, write};

pub(super) static STRING: Extension<Match> = Extension {
    name: "string",
    family: None,
    options: &[
        opt("string", 0).invert().excludes(1 << 1),
        opt("hex-string", 1).invert().excludes(1 << 0),
        opt("algo", 2).mandatory(),
        opt("from", 3),
        opt("to", 4),
        flag("icase", 5),
    ],
    build: string,
    place: ANYWHERE,
};

pub(super) static U32: Extension<Match> = Extension {
    name: "u32",
    family: None,
    options: &[opt("u32", 0).invert().mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("u32 without --u32").fail() };
        let Some(text) = u32_tests(t.arg) else {
            return t
                .problem(format!("{:?} is not a u32 expression", t.arg))
                .help(
                    "e.g. 0>>22&0x3C@0&0xFF=1:5; at most 10 tests of 10 steps and 10 ranges, \
                     shifts below 32",
                )
                .fail();
        };
        let options =
            vec![OptionValue { negated: t.negated, name: "u32", value: Value::Text(text) }];
        Ok(host("u32", options))
    },
    place: ANYWHERE,
};

pub(super) static BPF: Extension<Match> = Extension {
    name: "bpf",
    family: None,
    options: &[opt("bytecode", 0).excludes(1 << 1), opt("object-pinned", 1).excludes(1 << 0)],
    build: bpf,
    place: ANYWHERE,
};

/// Longest pattern (`XT_STRING_MAX_PATTERN_SIZE`).
const PATTERN_MAX: usize = 128;

fn string(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g.problem("string without a pattern").help("give --string or --hex-string").fail();
    };
    let bytes = if t.id == 0 {
        t.arg.as_bytes().to_vec()
    } else {
        match hex_pattern(t.arg) {
            Some(bytes) => bytes,
            None => return t.problem("no hex pattern").help("e.g. abc|0d 0a|").fail(),
        }
    };
    if bytes.is_empty() || bytes.len() > PATTERN_MAX {
        return t.problem(format!("pattern is not 1 to {PATTERN_MAX} bytes")).fail();
    }
    let algo = match g.first(2).map(|t| (t, t.arg)) {
        Some((_, "bm")) => "bm",
        Some((_, "kmp")) => "kmp",
        Some((t, other)) => return t.problem(format!("no algorithm {other}: bm or kmp")).fail(),
        None => return g.problem("string without --algo").fail(),
    };
    let bound = |id, default| g.first(id).map_or(Ok(default), |t| value::integer(t, 0, 0xffff));
    let (from, to) = (bound(3, 0)?, bound(4, 0xffff)?);
    if from > to {
        return g.problem("--from is above --to").fail();
    }
    let name = if needs_hex(&bytes) { "hex-string" } else { "string" };
    let mut options = vec![OptionValue { negated: t.negated, name, value: Value::Bytes(bytes) }];
    let mut push = |name, value| options.push(OptionValue { negated: false, name, value });
    push("algo", Value::Word(algo));
    if from != 0 {
        push("from", Value::Number(from));
    }
    if to != 0xffff {
        push("to", Value::Number(to));
    }
    if g.has(5) {
        push("icase", Value::Flag);
    }
    Ok(host("string", options))
}

/// Text with hexadecimal parts between bars; a backslash escapes the next byte.
///
/// A blank may follow each pair of digits and are after an opening bar; a bar at the very end opens
/// nothing.
fn hex_pattern(text: &str) -> Option<Vec<u8>> {
    let s = text.as_bytes();
    let mut out = Vec::new();
    let mut hex = false;
    let mut i = 0;
    while i < s.len() {
        if s[i] == b'\\' && !hex {
            out.push(*s.get(i + 1)?);
            i += 2;
            continue;
        }
        if s[i] == b'|' {
            hex = !hex;
            while hex && s.get(i + 1) == Some(&b' ') {
                i += 1;
            }
            if i + 1 >= s.len() {
                break;
            }
            i += 1;
        }
        if !hex {
            out.push(s[i]);
            i += 1;
            continue;
        }
        // A pair of digits must have something after it: at least the closing bar.
        s.get(i + 2)?;
        let digit = |b: u8| (b as char).to_digit(16);
        out.push((digit(s[i])? << 4 | digit(s[i + 1])?) as u8);
        i += if s[i + 2] == b' ' { 3 } else { 2 };
    }
    Some(out)
}

fn needs_hex(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| !(0x20..0x7f).contains(b))
}

/// The expression in the spelling of `iptables-save`.
fn u32_tests(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    let mut out = String::new();
    let mut tests = 0;
    loop {
        tests += 1;
        let mut steps = 1;
        rest = hex_number(rest, &mut out)?;
        loop {
            let (operator, after) = if let Some(r) = rest.strip_prefix("<<") {
                ("<<", r)
            } else if let Some(r) = rest.strip_prefix(">>") {
                (">>", r)
            } else if let Some(r) = rest.strip_prefix('&').filter(|r| !r.starts_with('&')) {
                ("&", r)
            } else if let Some(r) = rest.strip_prefix('@') {
                ("@", r)
            } else {
                rest = rest.strip_prefix('=')?;
                out.push('=');
                break;
            };
            out.push_str(operator);
            let after = after.trim_start();
            // The kernel refuses to shift all bits out (`u32_mt_checkentry`).
            if matches!(operator, "<<" | ">>") && number::leading(after)?.0 > 31 {
                return None;
            }
            rest = hex_number(after, &mut out)?;
            steps += 1;
        }
        let mut ranges = 0;
        loop {
            ranges += 1;
            rest = hex_number(rest.trim_start(), &mut out)?;
            if let Some(hi) = rest.strip_prefix(':') {
                out.push(':');
                rest = hex_number(hi.trim_start(), &mut out)?;
            }
            match rest.strip_prefix(',') {
                Some(more) => {
                    out.push(',');
                    rest = more;
                }
                None => break,
            }
        }
        if tests > 10 || steps > 10 || ranges > 10 {
            return None;
        }
        if rest.is_empty() {
            return Some(out);
        }
        rest = rest.strip_prefix("&&")?.trim_start();
        out.push_str("&&");
    }
}

fn hex_number<'t>(text: &'t str, out: &mut String) -> Option<&'t str> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (n, rest) = number::leading(text)?;
    write::hex(out, u32::try_from(n).ok()?.into());
    Some(rest.trim_start())
}

fn bpf(g: &Given) -> Fallible<Match> {
    let Some(t) = g.iter().next() else {
        return g.problem("bpf without a program").help("give --bytecode").fail();
    };
    let (name, text) = if t.id == 1 {
        ("object-pinned", t.arg.to_owned())
    } else {
        match bytecode(t.arg) {
            Some(text) => ("bytecode", text),
            None => {
                return t
                    .problem("not a classic BPF program")
                    .help("COUNT,code jt jf k,… of at most 64 instructions; the last one returns")
                    .fail();
            }
        }
    };
    let options = vec![OptionValue { negated: false, name, value: Value::Text(text) }];
    Ok(host("bpf", options))
}

/// `4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0`, checked so far that it has its length and returns.
fn bytecode(text: &str) -> Option<String> {
    let (count, program) = text.split_once(',')?;
    let count: usize = count.trim().parse().ok().filter(|n| (1..=64).contains(n))?;
    let mut out = count.to_string();
    let instructions: Vec<&str> = program.trim_end_matches(',').split(',').collect();
    if instructions.len() != count {
        return None;
    }
    let mut last = 0;
    for (i, instruction) in instructions.iter().enumerate() {
        let mut words = instruction.split_ascii_whitespace();
        let mut field = |max: u64| words.next()?.parse::<u64>().ok().filter(|n| *n <= max);
        let (code, jt, jf, k) = (field(0xffff)?, field(255)?, field(255)?, field(u32::MAX.into())?);
        if words.next().is_some() {
            return None;
        }
        let left = (count - i - 1) as u64;
        let jumps = code & 7 == 5;
        if jumps && (jt >= left || jf >= left || (code == 5 && k >= left)) {
            return None;
        }
        last = code;
        use std::fmt::Write as _;
        let _ = std::write!(out, ",{code} {jt} {jf} {k}");
    }
    (last & 7 == 6).then_some(out)
}

/// Prints patterns and programs in their own quotes.
pub(super) fn print_value(out: &mut String, o: &OptionValue) -> bool {
    match &o.value {
        Value::Bytes(bytes) if needs_hex(bytes) => {
            use std::fmt::Write as _;
            out.push_str("\"|");
            for b in bytes {
                let _ = std::write!(out, "{b:02x}");
            }
            out.push_str("|\"");
        }
        Value::Bytes(bytes) => write::in_plain_quotes(out, &String::from_utf8_lossy(bytes)),
        Value::Text(text) => write::in_plain_quotes(out, text),
        _ => return false,
    }
    true
}
