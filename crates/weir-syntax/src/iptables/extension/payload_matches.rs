//! Matches of bytes: string, u32, bpf.

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::{Family, Match};

use super::extension_value_builders::unmodelled_input_match;
use super::option_value_printing::print_text_in_quotes;
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, flag_option, option_with_argument,
};
use crate::{append_text, strtoul};

pub(super) static STRING_MATCH: Extension<Match> = Extension {
    name: "string",
    options: &[
        option_with_argument("string", 0).invertible().excludes(1 << 1),
        option_with_argument("hex-string", 1).invertible().excludes(1 << 0),
        option_with_argument("algo", 2).mandatory(),
        option_with_argument("from", 3),
        option_with_argument("to", 4),
        flag_option("icase", 5),
    ],
    build: build_string_match,
    print_value: print_pattern,
    ..Extension::DEFAULT
};

pub(super) static U32_MATCH: Extension<Match> = Extension {
    name: "u32",
    options: &[option_with_argument("u32", 0).invertible().mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("u32 without --u32").into_err();
        };
        let Some(text) = canonicalize_u32_expression(t.arg) else {
            return t
                .arg_error(format!("{:?} is not a u32 expression", t.arg))
                .with_help(
                    "write for example 0>>22&0x3C@0&0xFF=1:5; at most 10 tests of 10 steps and 10 \
                     ranges, shifts below 32",
                )
                .into_err();
        };
        let options = vec![TypedExtensionOption {
            negated: t.negated,
            name: "u32",
            value: ExtensionValue::Text(text),
        }];
        Ok(unmodelled_input_match("u32", options))
    },
    print_value: print_text_in_quotes,
    ..Extension::DEFAULT
};

pub(super) static BPF_MATCH: Extension<Match> = Extension {
    name: "bpf",
    options: &[
        option_with_argument("bytecode", 0).excludes(1 << 1),
        option_with_argument("object-pinned", 1).excludes(1 << 0),
    ],
    build: build_bpf_match,
    print_value: print_text_in_quotes,
    ..Extension::DEFAULT
};

/// Longest pattern (`XT_STRING_MAX_PATTERN_SIZE`).
const STRING_PATTERN_MAX_BYTES: usize = 128;

fn build_string_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().find(|t| t.id <= 1) else {
        return g
            .extension_error("string without a pattern")
            .with_help("give --string or --hex-string")
            .into_err();
    };
    let bytes = if t.id == 0 {
        t.arg.as_bytes().to_vec()
    } else {
        match parse_hex_pattern(t.arg) {
            Some(bytes) => bytes,
            None => {
                return t
                    .arg_error("no hex pattern")
                    .with_help("write for example abc|0d 0a|")
                    .into_err();
            }
        }
    };
    if bytes.is_empty() || bytes.len() > STRING_PATTERN_MAX_BYTES {
        return t
            .arg_error(format!("pattern is not 1 to {STRING_PATTERN_MAX_BYTES} bytes"))
            .into_err();
    }
    let algo = match g.first_with_id(2).map(|t| (t, t.arg)) {
        Some((_, "bm")) => "bm",
        Some((_, "kmp")) => "kmp",
        Some((t, other)) => {
            return t.arg_error(format!("no algorithm {other}: bm or kmp")).into_err();
        }
        None => return g.extension_error("string without --algo").into_err(),
    };
    let bound = |id, default| {
        g.first_with_id(id).map_or(Ok(default), |t| option_values::parse_integer(t, 0, 0xffff))
    };
    let (from, to) = (bound(3, 0)?, bound(4, 0xffff)?);
    if from > to {
        return g.extension_error("--from is above --to").into_err();
    }
    let name = if needs_hex_string(&bytes) { "hex-string" } else { "string" };
    let mut options = vec![TypedExtensionOption {
        negated: t.negated,
        name,
        value: ExtensionValue::ByteString(bytes),
    }];
    let mut push = |name, value| options.push(TypedExtensionOption { negated: false, name, value });
    push("algo", ExtensionValue::Keyword(algo));
    if from != 0 {
        push("from", ExtensionValue::Number(from));
    }
    if to != 0xffff {
        push("to", ExtensionValue::Number(to));
    }
    if g.has_option(5) {
        push("icase", ExtensionValue::Flag);
    }
    Ok(unmodelled_input_match("string", options))
}

/// Text with hexadecimal parts between bars; a backslash escapes the next byte.
///
/// A blank may follow each pair of digits and are after an opening bar; a bar at the very end opens
/// nothing.
fn parse_hex_pattern(text: &str) -> Option<Vec<u8>> {
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

fn needs_hex_string(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| !(0x20..0x7f).contains(b))
}

/// The expression in the spelling of `iptables-save`.
fn canonicalize_u32_expression(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    let mut out = String::new();
    let mut tests = 0;
    loop {
        tests += 1;
        let mut steps = 1;
        rest = copy_number_as_hex(rest, &mut out)?;
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
            if matches!(operator, "<<" | ">>") && strtoul::parse_leading_number(after)?.0 > 31 {
                return None;
            }
            rest = copy_number_as_hex(after, &mut out)?;
            steps += 1;
        }
        let mut ranges = 0;
        loop {
            ranges += 1;
            rest = copy_number_as_hex(rest.trim_start(), &mut out)?;
            if let Some(hi) = rest.strip_prefix(':') {
                out.push(':');
                rest = copy_number_as_hex(hi.trim_start(), &mut out)?;
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

fn copy_number_as_hex<'t>(text: &'t str, out: &mut String) -> Option<&'t str> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (n, rest) = strtoul::parse_leading_number(text)?;
    append_text::append_0x_hex(out, u32::try_from(n).ok()?.into());
    Some(rest.trim_start())
}

fn build_bpf_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.iter().next() else {
        return g.extension_error("bpf without a program").with_help("give --bytecode").into_err();
    };
    let (name, text) = if t.id == 1 {
        ("object-pinned", t.arg.to_owned())
    } else {
        match canonicalize_bytecode(t.arg) {
            Some(text) => ("bytecode", text),
            None => {
                return t
                    .arg_error("not a classic BPF program")
                    .with_help(
                        "write COUNT,code jt jf k,… with at most 64 instructions; the last \
                         one returns",
                    )
                    .into_err();
            }
        }
    };
    let options =
        vec![TypedExtensionOption { negated: false, name, value: ExtensionValue::Text(text) }];
    Ok(unmodelled_input_match("bpf", options))
}

/// `4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0`, checked so far that it has its length and returns.
fn canonicalize_bytecode(text: &str) -> Option<String> {
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

/// Prints a pattern in quotes, in hexadecimal if it must be.
fn print_pattern(out: &mut String, o: &TypedExtensionOption, family: Family) {
    match &o.value {
        ExtensionValue::ByteString(bytes) if needs_hex_string(bytes) => {
            use std::fmt::Write as _;
            out.push_str("\"|");
            for b in bytes {
                let _ = std::write!(out, "{b:02x}");
            }
            out.push_str("|\"");
        }
        ExtensionValue::ByteString(bytes) => {
            append_text::append_quoted_minimal_escape(out, &String::from_utf8_lossy(bytes))
        }
        _ => print_text_in_quotes(out, o, family),
    }
}
