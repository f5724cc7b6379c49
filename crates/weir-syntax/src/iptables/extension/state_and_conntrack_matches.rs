//! `-m state`, and `-m conntrack` with all of its options.

use weir_model::rule_match::{ConntrackMatch, Negatable, ct_state};
use weir_model::{AddrMatch, Family, Match, PortSpan};

use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, option_with_argument,
};
use crate::{append_text, strtoul, system_name_tables};

pub(super) static STATE_MATCH: Extension<Match> = Extension {
    name: "state",
    options: &[option_with_argument("state", 0).invertible().mandatory()],
    build: |g| match g.first_with_id(0) {
        Some(t) => {
            let value = parse_ct_states(t, &IPTABLES_CT_STATE_NAMES[..5])?;
            Ok(Match::State(Negatable { negated: t.negated, value }))
        }
        None => g.extension_error("state without --state").into_err(),
    },
    ..Extension::DEFAULT
};

pub(super) static CONNTRACK_MATCH: Extension<Match> = Extension {
    name: "conntrack",
    options: &[
        option_with_argument("ctstate", 0).invertible(),
        option_with_argument("ctproto", 1).invertible(),
        option_with_argument("ctorigsrc", 2).invertible(),
        option_with_argument("ctorigdst", 3).invertible(),
        option_with_argument("ctreplsrc", 4).invertible(),
        option_with_argument("ctrepldst", 5).invertible(),
        option_with_argument("ctorigsrcport", 6).invertible(),
        option_with_argument("ctorigdstport", 7).invertible(),
        option_with_argument("ctreplsrcport", 8).invertible(),
        option_with_argument("ctrepldstport", 9).invertible(),
        option_with_argument("ctstatus", 10).invertible(),
        option_with_argument("ctexpire", 11).invertible(),
        option_with_argument("ctdir", 12),
    ],
    build: build_conntrack_match,
    ..Extension::DEFAULT
};

/// In the order of printing; `-m state` has the first five.
const IPTABLES_CT_STATE_NAMES: [(&str, u16); 7] = [
    ("INVALID", ct_state::INVALID),
    ("NEW", ct_state::NEW),
    ("RELATED", ct_state::RELATED),
    ("ESTABLISHED", ct_state::ESTABLISHED),
    ("UNTRACKED", ct_state::UNTRACKED),
    ("SNAT", ct_state::SNAT),
    ("DNAT", ct_state::DNAT),
];

/// Bits of `--ctstatus` (`IPS_*`, include/uapi/linux/netfilter/nf_conntrack_common.h).
const CT_STATUS_NAMES_BESIDES_NONE: [(&str, u32); 4] =
    [("EXPECTED", 1), ("SEEN_REPLY", 2), ("ASSURED", 4), ("CONFIRMED", 8)];

/// Whether `name` begins with `word`, in any case: the tools take abbreviations here.
fn is_abbreviation_of(word: &str, name: &str) -> bool {
    !word.is_empty()
        && word.len() <= name.len()
        && name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
}

fn parse_ct_states(t: &ParsedOption, known: &[(&str, u16)]) -> ParseResult<u16> {
    let mut out = 0;
    for word in t.arg.split(',') {
        match known.iter().find(|(name, _)| is_abbreviation_of(word, name)) {
            Some((_, bit)) => out |= bit,
            None => {
                let names: Vec<_> = known.iter().map(|(n, _)| *n).collect();
                return t
                    .arg_error(format!("no connection state {word:?}"))
                    .with_help(format!("use one of {}", names.join(", ")))
                    .into_err();
            }
        }
    }
    Ok(out)
}

fn parse_ct_status(t: &ParsedOption) -> ParseResult<u32> {
    let mut out = 0;
    for word in t.arg.split(',') {
        if is_abbreviation_of(word, "NONE") {
            continue;
        }
        match CT_STATUS_NAMES_BESIDES_NONE.iter().find(|(name, _)| is_abbreviation_of(word, name)) {
            Some((_, bit)) => out |= bit,
            None => return t.arg_error(format!("no connection status {word:?}")).into_err(),
        }
    }
    Ok(out)
}

fn parse_ct_addr(t: &ParsedOption, g: &ParsedExtensionOptions) -> ParseResult<AddrMatch> {
    let (a, mask) = super::option_values::parse_unmasked_host_net(t, g)?;
    // Kept as written: the kernel compares under the mask, and the tools print all bits.
    Ok(AddrMatch { negated: t.negated, addr: a, mask })
}

fn parse_ct_port(t: &ParsedOption) -> ParseResult<Negatable<PortSpan>> {
    Ok(Negatable { negated: t.negated, value: super::port_matches::parse_port_span(t, t.arg, "")? })
}

/// A protocol by number or name; `status` is the test of `--ctstatus` before it.
fn parse_ct_protocol_after_status(
    t: &ParsedOption,
    status: Option<&Negatable<u32>>,
) -> ParseResult<Negatable<u8>> {
    let lower = t.arg.to_ascii_lowercase();
    let found = strtoul::parse_number_in_range(t.arg, 0, 255)
        .map(|n| n as u8)
        .or_else(|| system_name_tables::protocol_number(&lower));
    match found {
        // libxt_conntrack.c means to refuse `! --ctproto 0`, and tests the bit of `! --ctstatus`.
        Some(0) if status.is_some_and(|status| status.negated) => t
            .arg_error("iptables refuses --ctproto 0 after ! --ctstatus")
            .with_help("write --ctproto before --ctstatus")
            .into_err(),
        Some(value) => Ok(Negatable { negated: t.negated, value }),
        None => t.arg_error(format!("no protocol {}", t.arg)).into_err(),
    }
}

fn build_conntrack_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut c = ConntrackMatch::default();
    for t in g.iter() {
        match t.id {
            0 => {
                c.state = Some(Negatable {
                    negated: t.negated,
                    value: parse_ct_states(t, &IPTABLES_CT_STATE_NAMES)?,
                })
            }
            1 => c.proto = Some(parse_ct_protocol_after_status(t, c.status.as_ref())?),
            2 => c.orig_src = Some(parse_ct_addr(t, g)?),
            3 => c.orig_dst = Some(parse_ct_addr(t, g)?),
            4 => c.repl_src = Some(parse_ct_addr(t, g)?),
            5 => c.repl_dst = Some(parse_ct_addr(t, g)?),
            6 => c.orig_sport = Some(parse_ct_port(t)?),
            7 => c.orig_dport = Some(parse_ct_port(t)?),
            8 => c.repl_sport = Some(parse_ct_port(t)?),
            9 => c.repl_dport = Some(parse_ct_port(t)?),
            10 => c.status = Some(Negatable { negated: t.negated, value: parse_ct_status(t)? }),
            11 => {
                let (lo, hi) = super::option_values::parse_number_range(t, u32::MAX.into())?;
                c.expire = Some(Negatable { negated: t.negated, value: (lo as u32, hi as u32) });
            }
            _ if t.arg.eq_ignore_ascii_case("ORIGINAL") => c.original_dir = Some(true),
            _ if t.arg.eq_ignore_ascii_case("REPLY") => c.original_dir = Some(false),
            _ => return t.arg_error(format!("{} is not ORIGINAL or REPLY", t.arg)).into_err(),
        }
    }
    if c == ConntrackMatch::default() {
        return g
            .extension_error("conntrack without an option")
            .with_help("give at least one, e.g. --ctstate RELATED,ESTABLISHED")
            .into_err();
    }
    Ok(Match::Conntrack(Box::new(c)))
}

fn print_ct_states(out: &mut String, bits: u16) {
    let set = IPTABLES_CT_STATE_NAMES.iter().filter(|(_, bit)| bits & bit != 0);
    append_text::append_comma_list(out, set, |out, (name, _)| out.push_str(name));
}

pub(super) fn print_state_match(out: &mut String, m: &Negatable<u16>) {
    out.push_str(" -m state");
    append_text::append_negatable_option_name(out, m.negated, "--state");
    print_ct_states(out, m.value);
}

pub(super) fn print_conntrack_match(out: &mut String, c: &ConntrackMatch, family: Family) {
    out.push_str(" -m conntrack");
    if let Some(state) = &c.state {
        append_text::append_negatable_option_name(out, state.negated, "--ctstate");
        print_ct_states(out, state.value);
    }
    if let Some(p) = &c.proto {
        append_text::append_negatable_option_name(out, p.negated, "--ctproto");
        append_text::append_decimal(out, p.value.into());
    }
    print_ct_addr(out, "--ctorigsrc", c.orig_src.as_ref(), family);
    print_ct_addr(out, "--ctorigdst", c.orig_dst.as_ref(), family);
    print_ct_addr(out, "--ctreplsrc", c.repl_src.as_ref(), family);
    print_ct_addr(out, "--ctrepldst", c.repl_dst.as_ref(), family);
    for (flag, port) in [
        ("--ctorigsrcport", &c.orig_sport),
        ("--ctorigdstport", &c.orig_dport),
        ("--ctreplsrcport", &c.repl_sport),
        ("--ctrepldstport", &c.repl_dport),
    ] {
        if let Some(Negatable { negated, value }) = port {
            append_text::append_negatable_option_name(out, *negated, flag);
            super::port_matches::print_port_span(out, *value);
        }
    }
    if let Some(Negatable { negated, value }) = &c.status {
        append_text::append_negatable_option_name(out, *negated, "--ctstatus");
        if *value == 0 {
            out.push_str("NONE");
        }
        let set = CT_STATUS_NAMES_BESIDES_NONE.iter().filter(|(_, bit)| value & bit != 0);
        append_text::append_comma_list(out, set, |out, (name, _)| out.push_str(name));
    }
    if let Some(Negatable { negated, value: (lo, hi) }) = &c.expire {
        append_text::append_negatable_option_name(out, *negated, "--ctexpire");
        super::option_values::print_number_range(out, (*lo).into(), (*hi).into());
    }
    if let Some(original) = c.original_dir {
        out.push_str(if original { " --ctdir ORIGINAL" } else { " --ctdir REPLY" });
    }
}

/// A host's mask is not printed here.
fn print_ct_addr(out: &mut String, flag: &str, m: Option<&AddrMatch>, family: Family) {
    let Some(m) = m else { return };
    append_text::append_negatable_option_name(out, m.negated, flag);
    if m.mask.0 == family.max_addr() {
        append_text::append_addr(out, m.addr, family);
    } else {
        append_text::append_net(out, m.addr, m.mask, family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_may_be_abbreviated() {
        assert!(is_abbreviation_of("est", "ESTABLISHED"));
        assert!(!is_abbreviation_of("", "NEW"));
        assert!(!is_abbreviation_of("NEWER", "NEW"));
    }
}
