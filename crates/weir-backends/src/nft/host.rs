//! Matches that the field table does not model, as nft text.
//!
//! Each is exactly equivalent to the iptables match, as far as the kernel's sources show; an
//! approximation is refused.

use std::fmt::Write;

use weir_model::matching::{ConntrackMatch, Neg, OptionValue, Value};
use weir_model::nft::{OpaqueStatement, ROUTE_TYPES, Statement};
use weir_model::{AddrMatch, Family, Match, PortSpan, RuleIndex};

use super::cond::{Cond, ct_state_test};

/// The position of a match.
#[derive(Clone, Copy)]
pub(super) struct MatchPlace {
    pub rule: RuleIndex,
    pub index: usize,
    pub stateful: bool,
    pub family: Family,
}

impl MatchPlace {
    fn opaque(self, text: String, inverted: bool) -> OpaqueStatement {
        let MatchPlace { rule, index, stateful, .. } = self;
        OpaqueStatement { text, rule, index, stateful, inverted }
    }
}

/// Says a match in nft terms.
pub(super) fn lower(m: &Match, place: MatchPlace) -> Result<Vec<Cond>, String> {
    let (module, options) = match m {
        Match::Conntrack(c) => return conntrack(c, place),
        Match::Stateful(s) => (s.module, &s.options),
        Match::Host(h) => (h.module, &h.options),
        Match::Opaque(o) => return Err(format!("the unknown match {}", o.name)),
        Match::Tcp { .. } => return Err("-m tcp --tcp-option".into()),
        Match::Sctp { .. } => return Err("-m sctp --chunk-types".into()),
        Match::Dccp { .. } => return Err("-m dccp --dccp-types and --dccp-option".into()),
        _ => return Err("this match".into()),
    };
    match module {
        "limit" => limit(options, place),
        "statistic" => statistic(options, place),
        "addrtype" => addrtype(options, place),
        "owner" => owner(options, place),
        // xt_rpfilter requires a unicast route, nft_fib accepts any: they differ for the broadcast
        // addresses of the host (measured).
        "rpfilter" => {
            Err("-m rpfilter, which nft evaluates differently for broadcast addresses".into())
        }
        _ => Err(format!("-m {module}")),
    }
}

fn unknown(module: &str, o: &OptionValue) -> String {
    let not = if o.negated { "! " } else { "" };
    format!("-m {module} {not}--{}", o.name)
}

/// The same token bucket: `burst` tokens, one back each `1/rate`.
fn limit(options: &[OptionValue], place: MatchPlace) -> Result<Vec<Cond>, String> {
    let (mut rate, mut burst) = ("3/hour".to_string(), 5);
    for o in options {
        match (o.name, &o.value) {
            ("limit", Value::Rate(count, unit)) => {
                let unit = match unit {
                    1000 => "second",
                    60_000 => "minute",
                    3_600_000 => "hour",
                    86_400_000 => "day",
                    _ => return Err(unknown("limit", o)),
                };
                rate = format!("{count}/{unit}");
            }
            ("limit-burst", Value::Number(n)) => burst = *n,
            _ => return Err(unknown("limit", o)),
        }
    }
    let text = format!("limit rate {rate} burst {burst} packets");
    Ok(vec![Cond::Opaque(place.opaque(text, false))])
}

/// xt_statistic draws 31 bits and counts to `every`, `packet` being where it starts; numgen's
/// first number is 0 (net/netfilter/nft_numgen.c).
fn statistic(options: &[OptionValue], place: MatchPlace) -> Result<Vec<Cond>, String> {
    let (mut nth, mut packet, mut chance, mut not) = (None, 0, None, false);
    for o in options {
        not |= o.negated;
        match (o.name, &o.value) {
            ("mode", _) => {}
            ("probability", Value::Probability(p)) => chance = Some(*p),
            ("every", Value::Number(n)) => nth = Some(*n),
            ("packet", Value::Number(n)) => packet = *n,
            _ => return Err(unknown("statistic", o)),
        }
    }
    let text = match (nth, chance) {
        (Some(n), None) if n > 0 && packet < n => {
            let not = if not { "!=" } else { "==" };
            format!("numgen inc mod {n} {not} {}", n - 1 - packet)
        }
        (None, Some(p)) if (1 << 31) > p => {
            let less = if not { ">=" } else { "<" };
            format!("numgen random mod 0x80000000 {less} {p:#x}")
        }
        _ => return Err("-m statistic with these options".into()),
    };
    Ok(vec![Cond::Opaque(place.opaque(text, false))])
}

/// Both use inet_dev_addr_type. For IPv6 xt_addrtype queries the routing table differently.
fn addrtype(options: &[OptionValue], place: MatchPlace) -> Result<Vec<Cond>, String> {
    if place.family == Family::V6 {
        return Err("-m addrtype for IPv6".into());
    }
    let has = |name| options.iter().any(|o| o.name == name);
    let device = match (has("limit-iface-in"), has("limit-iface-out")) {
        (false, false) => "",
        (true, false) => " . iif",
        (false, true) => " . oif",
        (true, true) => return Err("-m addrtype --limit-iface-in --limit-iface-out".into()),
    };
    let mut out = Vec::new();
    for o in options {
        let address = match o.name {
            "src-type" => "saddr",
            "dst-type" => "daddr",
            "limit-iface-in" | "limit-iface-out" => continue,
            _ => return Err(unknown("addrtype", o)),
        };
        let words: Vec<&str> = match &o.value {
            Value::Word(w) => vec![w],
            Value::Words(w) => w.clone(),
            _ => return Err(unknown("addrtype", o)),
        };
        let types: Option<Vec<&str>> = words.iter().map(|w| route_type(w)).collect();
        let types = types.ok_or_else(|| unknown("addrtype", o))?.join(", ");
        let not = if o.negated { "!= " } else { "" };
        let text = format!("fib {address}{device} type {not}{{ {types} }}");
        out.push(Cond::Opaque(place.opaque(text, false)));
    }
    Ok(out)
}

fn route_type(word: &str) -> Option<&'static str> {
    ROUTE_TYPES.into_iter().find(|t| word.eq_ignore_ascii_case(t))
}

/// A packet without a socket matches every negated test of xt_owner and none of nft's.
fn owner(options: &[OptionValue], place: MatchPlace) -> Result<Vec<Cond>, String> {
    let mut out = Vec::new();
    for o in options {
        let key = match o.name {
            "uid-owner" => "meta skuid",
            "gid-owner" => "meta skgid",
            _ => return Err(unknown("owner", o)),
        };
        let text = match o.value {
            Value::Number(n) => format!("{key} {n}"),
            Value::Range(lo, hi) if lo == hi => format!("{key} {lo}"),
            Value::Range(lo, hi) => format!("{key} {lo}-{hi}"),
            _ => return Err(unknown("owner", o)),
        };
        if o.negated {
            let opaque = place.opaque(text, true);
            out.push(Cond::Unless(Box::new(Statement::Opaque(opaque))));
        } else {
            out.push(Cond::Opaque(place.opaque(text, false)));
        }
    }
    if out.len() > 1 && out.iter().any(|c| matches!(c, Cond::Unless(_))) {
        return Err("-m owner with several tests, one of them negated".into());
    }
    Ok(out)
}

/// Without an entry xt_conntrack is done once the state matched; nft's tests of an entry then stop
/// the rule. They agree if the state implies an entry, or if no state is tested.
fn conntrack(c: &ConntrackMatch, place: MatchPlace) -> Result<Vec<Cond>, String> {
    use weir_model::matching::ct_state::{ESTABLISHED, NEW, RELATED};
    let mut out = Vec::new();
    if let Some(Neg { negated, value }) = &c.state {
        if *negated || value & !(NEW | ESTABLISHED | RELATED) != 0 {
            return Err("-m conntrack with more than a state that implies no entry".into());
        }
        ct_state_test(&mut out, *value, false);
    }
    let mut push = |text: String| out.push(Cond::Opaque(place.opaque(text, false)));
    if let Some(n) = &c.proto {
        push(format!("ct original protocol {}{}", not(n.negated), n.value));
    }
    let addrs = [
        ("original", "saddr", &c.orig_src),
        ("original", "daddr", &c.orig_dst),
        ("reply", "saddr", &c.repl_src),
        ("reply", "daddr", &c.repl_dst),
    ];
    for (dir, what, m) in addrs {
        if let Some(m) = m {
            push(ct_address(dir, what, m, place.family)?);
        }
    }
    let ports = [
        ("original", "proto-src", &c.orig_sport),
        ("original", "proto-dst", &c.orig_dport),
        ("reply", "proto-src", &c.repl_sport),
        ("reply", "proto-dst", &c.repl_dport),
    ];
    for (dir, what, m) in ports {
        let Some(Neg { negated, value: PortSpan { lo, hi } }) = m else { continue };
        if c.proto.as_ref().is_none_or(|p| p.negated) {
            return Err(format!("-m conntrack with a port and no --ctproto ({dir} {what})"));
        }
        let value = if lo == hi { lo.to_string() } else { format!("{lo}-{hi}") };
        push(format!("ct {dir} {what} {}{value}", not(*negated)));
    }
    if let Some(Neg { negated, value }) = &c.status {
        if *value == 0 {
            return Err("-m conntrack --ctstatus NONE".into());
        }
        let compare = if *negated { "==" } else { "!=" };
        push(format!("ct status & {value:#x} {compare} 0"));
    }
    if c.expire.is_some() {
        return Err("-m conntrack --ctexpire".into());
    }
    if let Some(original) = c.original_dir {
        push(format!("ct direction {}", if original { "original" } else { "reply" }));
    }
    Ok(out)
}

fn not(negated: bool) -> &'static str {
    if negated { "!= " } else { "" }
}

fn ct_address(dir: &str, what: &str, m: &AddrMatch, family: Family) -> Result<String, String> {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    let len = family.prefix_len(m.mask.0).ok_or("-m conntrack with a mask with holes")?;
    let mut text = format!("ct {dir} {ip} {what} {}{}", not(m.negated), m.addr.display(family));
    if len < family.bits() {
        let _ = write!(text, "/{len}");
    }
    Ok(text)
}
