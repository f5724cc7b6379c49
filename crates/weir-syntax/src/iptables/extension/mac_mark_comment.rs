//! Matches of one field each: mac, mark, connmark, comment.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::Match;
use weir_model::rule_match::{MaskedValue, Negatable};

use super::option_values;
use crate::append_text;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, ParsedOption, option_with_argument,
};

pub(super) static MAC_MATCH: Extension<Match> = Extension {
    name: "mac",
    options: &[option_with_argument("mac-source", 0).invertible().mandatory()],
    build: |g| match g.first_with_id(0) {
        Some(t) => Ok(Match::Mac(Negatable { negated: t.negated, value: parse_mac(t)? })),
        None => g.extension_error("mac without --mac-source").into_err(),
    },
    scope: ExtensionScope::from_hooks(&[Prerouting, Input, Forward]),
    ..Extension::DEFAULT
};

pub(super) static MARK_MATCH: Extension<Match> = Extension {
    name: "mark",
    options: &[option_with_argument("mark", 0).invertible().mandatory()],
    build: |g| Ok(Match::Mark(parse_mark_option(g)?)),
    ..Extension::DEFAULT
};

pub(super) static CONNMARK_MATCH: Extension<Match> = Extension {
    name: "connmark",
    options: &[option_with_argument("mark", 0).invertible().mandatory()],
    build: |g| Ok(Match::ConnMark(parse_mark_option(g)?)),
    ..Extension::DEFAULT
};

/// Longest comment in bytes (`XT_MAX_COMMENT_LEN`, with its end mark).
const IPTABLES_COMMENT_MAX_BYTES: usize = 255;

pub(super) static COMMENT_MATCH: Extension<Match> = Extension {
    name: "comment",
    options: &[option_with_argument("comment", 0).mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("comment without --comment").into_err();
        };
        if t.arg.len() > IPTABLES_COMMENT_MAX_BYTES {
            return t
                .arg_error(format!("comment is longer than {IPTABLES_COMMENT_MAX_BYTES} bytes"))
                .into_err();
        }
        Ok(Match::Comment(t.arg.to_owned()))
    },
    ..Extension::DEFAULT
};

fn parse_mac(t: &ParsedOption) -> ParseResult<[u8; 6]> {
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
    let d = t.arg_error(format!("{} is not a MAC address", t.arg));
    if anonymised {
        d.with_help("it was anonymised: replace it by any address, e.g. 02:00:00:00:00:01")
            .into_err()
    } else if t.arg.contains('-') {
        d.with_help(format!("write colons instead of hyphens: {}", t.arg.replace('-', ":")))
            .into_err()
    } else {
        d.with_help("write six bytes in hexadecimal, separated by colons").into_err()
    }
}

fn parse_mark_option(g: &ParsedExtensionOptions) -> ParseResult<Negatable<MaskedValue>> {
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("no --mark given").into_err();
    };
    let (v, mask) = option_values::parse_masked_number(t, u32::MAX.into())?;
    Ok(Negatable { negated: t.negated, value: MaskedValue { value: v as u32, mask: mask as u32 } })
}

pub(super) fn print_mac_match(out: &mut String, m: &Negatable<[u8; 6]>) {
    use std::fmt::Write as _;
    out.push_str(" -m mac");
    append_text::append_negatable_option_name(out, m.negated, "--mac-source");
    let [a, b, c, d, e, f] = m.value;
    let _ = write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
}

pub(super) fn print_mark_match(out: &mut String, module: &str, m: &Negatable<MaskedValue>) {
    out.push_str(" -m ");
    out.push_str(module);
    append_text::append_negatable_option_name(out, m.negated, "--mark");
    option_values::print_masked_hex(
        out,
        m.value.value.into(),
        m.value.mask.into(),
        u32::MAX.into(),
    );
}

pub(super) fn print_comment_match(out: &mut String, text: &str) {
    out.push_str(" -m comment --comment ");
    append_text::append_xtables_save_string(out, text);
}
