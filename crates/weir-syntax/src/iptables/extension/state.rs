//! `-m state`, and `-m conntrack` with all of its options.

use weir_model::matching::{ConntrackMatch, Neg, ct_state};
use weir_model::{AddrMatch, Family, Match, PortSpan};

use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, Given, Taken, opt};
use crate::{names, number, write};

pub(super) static STATE: Extension<Match> = Extension {
    name: "state",
    family: None,
    options: &[opt("state", 0).invert().mandatory()],
    build: |g| match g.first(0) {
        Some(t) => {
            let value = states(t, &STATES[..5])?;
            Ok(Match::State(Neg { negated: t.negated, value }))
        }
        None => g.problem("state without --state").fail(),
    },
    place: ANYWHERE,
};

pub(super) static CONNTRACK: Extension<Match> = Extension {
    name: "conntrack",
    family: None,
    options: &[
        opt("ctstate", 0).invert(),
        opt("ctproto", 1).invert(),
        opt("ctorigsrc", 2).invert(),
        opt("ctorigdst", 3).invert(),
        opt("ctreplsrc", 4).invert(),
        opt("ctrepldst", 5).invert(),
        opt("ctorigsrcport", 6).invert(),
        opt("ctorigdstport", 7).invert(),
        opt("ctreplsrcport", 8).invert(),
        opt("ctrepldstport", 9).invert(),
        opt("ctstatus", 10).invert(),
        opt("ctexpire", 11).invert(),
        opt("ctdir", 12),
    ],
    build: conntrack,
    place: ANYWHERE,
};

/// In the order of printing; `-m state` has the first five.
const STATES: [(&str, u16); 7] = [
    ("INVALID", ct_state::INVALID),
    ("NEW", ct_state::NEW),
    ("RELATED", ct_state::RELATED),
    ("ESTABLISHED", ct_state::ESTABLISHED),
    ("UNTRACKED", ct_state::UNTRACKED),
    ("SNAT", ct_state::SNAT),
    ("DNAT", ct_state::DNAT),
];

/// Bits of `--ctstatus` (`IPS_*`, include/uapi/linux/netfilter/nf_conntrack_common.h).
const STATUS: [(&str, u32); 4] =
    [("EXPECTED", 1), ("SEEN_REPLY", 2), ("ASSURED", 4), ("CONFIRMED", 8)];

/// Whether `name` begins with `word`, in any case: the tools take abbreviations here.
fn abbreviates(word: &str, name: &str) -> bool {
    !word.is_empty()
        && word.len() <= name.len()
        && name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
}

fn states(t: &Taken, known: &[(&str, u16)]) -> Fallible<u16> {
    let mut out = 0;
    for word in t.arg.split(',') {
        match known.iter().find(|(name, _)| abbreviates(word, name)) {
            Some((_, bit)) => out |= bit,
            None => {
                let names: Vec<_> = known.iter().map(|(n, _)| *n).collect();
                return t
                    .problem(format!("no connection state {word:?}"))
                    .help(format!("use one of {}", names.join(", ")))
                    .fail();
            }
        }
    }
    Ok(out)
}

fn status(t: &Taken) -> Fallible<u32> {
    let mut out = 0;
    for word in t.arg.split(',') {
        if abbreviates(word, "NONE") {
            continue;
        }
        match STATUS.iter().find(|(name, _)| abbreviates(word, name)) {
            Some((_, bit)) => out |= bit,
            None => return t.problem(format!("no connection status {word:?}")).fail(),
        }
    }
    Ok(out)
}

fn addr(t: &Taken, g: &Given) -> Fallible<AddrMatch> {
    let (a, mask) = super::value::host_net(t, g)?;
    // Kept as written: the kernel compares under the mask, and the tools print all bits.
    Ok(AddrMatch { negated: t.negated, addr: a, mask })
}

fn port(t: &Taken) -> Fallible<Neg<PortSpan>> {
    Ok(Neg { negated: t.negated, value: super::ports::span(t, t.arg, "")? })
}

fn protocol(t: &Taken) -> Fallible<Neg<u8>> {
    let lower = t.arg.to_ascii_lowercase();
    let found = number::whole(t.arg, 0, 255).map(|n| n as u8).or_else(|| names::protocol(&lower));
    match found {
        Some(value) => Ok(Neg { negated: t.negated, value }),
        None => t.problem(format!("no protocol {}", t.arg)).fail(),
    }
}

fn conntrack(g: &Given) -> Fallible<Match> {
    let mut c = ConntrackMatch::default();
    for t in g.iter() {
        match t.id {
            0 => c.state = Some(Neg { negated: t.negated, value: states(t, &STATES)? }),
            1 => c.proto = Some(protocol(t)?),
            2 => c.orig_src = Some(addr(t, g)?),
            3 => c.orig_dst = Some(addr(t, g)?),
            4 => c.repl_src = Some(addr(t, g)?),
            5 => c.repl_dst = Some(addr(t, g)?),
            6 => c.orig_sport = Some(port(t)?),
            7 => c.orig_dport = Some(port(t)?),
            8 => c.repl_sport = Some(port(t)?),
            9 => c.repl_dport = Some(port(t)?),
            10 => c.status = Some(Neg { negated: t.negated, value: status(t)? }),
            11 => {
                let (lo, hi) = super::value::range(t, u32::MAX.into())?;
                c.expire = Some(Neg { negated: t.negated, value: (lo as u32, hi as u32) });
            }
            _ if t.arg.eq_ignore_ascii_case("ORIGINAL") => c.original_dir = Some(true),
            _ if t.arg.eq_ignore_ascii_case("REPLY") => c.original_dir = Some(false),
            _ => return t.problem(format!("{} is not ORIGINAL or REPLY", t.arg)).fail(),
        }
    }
    if c == ConntrackMatch::default() {
        return g
            .problem("conntrack without an option")
            .help("give at least one, e.g. --ctstate RELATED,ESTABLISHED")
            .fail();
    }
    Ok(Match::Conntrack(Box::new(c)))
}

fn print_states(out: &mut String, bits: u16) {
    let set = STATES.iter().filter(|(_, bit)| bits & bit != 0);
    write::comma_list(out, set, |out, (name, _)| out.push_str(name));
}

pub(super) fn print_state(out: &mut String, m: &Neg<u16>) {
    out.push_str(" -m state");
    write::option(out, m.negated, "--state");
    print_states(out, m.value);
}

pub(super) fn print_conntrack(out: &mut String, c: &ConntrackMatch, family: Family) {
    out.push_str(" -m conntrack");
    if let Some(state) = &c.state {
        write::option(out, state.negated, "--ctstate");
        print_states(out, state.value);
    }
    if let Some(p) = &c.proto {
        write::option(out, p.negated, "--ctproto");
        write::decimal(out, p.value.into());
    }
    write_addr(out, "--ctorigsrc", c.orig_src.as_ref(), family);
    write_addr(out, "--ctorigdst", c.orig_dst.as_ref(), family);
    write_addr(out, "--ctreplsrc", c.repl_src.as_ref(), family);
    write_addr(out, "--ctrepldst", c.repl_dst.as_ref(), family);
    for (flag, port) in [
        ("--ctorigsrcport", &c.orig_sport),
        ("--ctorigdstport", &c.orig_dport),
        ("--ctreplsrcport", &c.repl_sport),
        ("--ctrepldstport", &c.repl_dport),
    ] {
        if let Some(Neg { negated, value }) = port {
            write::option(out, *negated, flag);
            super::ports::print_span(out, *value);
        }
    }
    if let Some(Neg { negated, value }) = &c.status {
        write::option(out, *negated, "--ctstatus");
        if *value == 0 {
            out.push_str("NONE");
        }
        let set = STATUS.iter().filter(|(_, bit)| value & bit != 0);
        write::comma_list(out, set, |out, (name, _)| out.push_str(name));
    }
    if let Some(Neg { negated, value: (lo, hi) }) = &c.expire {
        write::option(out, *negated, "--ctexpire");
        super::value::print_range(out, (*lo).into(), (*hi).into());
    }
    if let Some(original) = c.original_dir {
        out.push_str(if original { " --ctdir ORIGINAL" } else { " --ctdir REPLY" });
    }
}

/// A host's mask is not printed here.
fn write_addr(out: &mut String, flag: &str, m: Option<&AddrMatch>, family: Family) {
    let Some(m) = m else { return };
    write::option(out, m.negated, flag);
    if m.mask.0 == family.max() {
        write::addr(out, m.addr, family);
    } else {
        write::net(out, m.addr, m.mask, family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_may_be_abbreviated() {
        assert!(abbreviates("est", "ESTABLISHED"));
        assert!(!abbreviates("", "NEW"));
        assert!(!abbreviates("NEWER", "NEW"));
    }
}
