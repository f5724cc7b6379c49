//! Matches that the field table does not model, as nft text.
//!
//! Each is exactly equivalent to the iptables match, as far as the kernel's sources show; an
//! approximation is refused.

use std::fmt::Write;

use weir_model::nft::{OpaqueNftTest, ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES, Statement};
use weir_model::rule_match::{ConntrackMatch, ExtensionValue, Negatable, TypedExtensionOption};
use weir_model::{AddrMatch, Family, Match, OriginalRuleIndex, PortSpan};

use super::nft_condition::{NftCondition, lower_ct_state};

/// The position of a match.
#[derive(Clone, Copy)]
pub(super) struct OpaqueMatchContext {
    pub rule: OriginalRuleIndex,
    pub index: usize,
    pub stateful: bool,
    pub family: Family,
}

impl OpaqueMatchContext {
    fn opaque_test_from_text(self, text: String, inverted: bool) -> OpaqueNftTest {
        let OpaqueMatchContext { rule, index, stateful, .. } = self;
        OpaqueNftTest { text, rule, match_index: index, stateful, is_inverted: inverted }
    }
}

/// Says a match in nft terms.
pub(super) fn lower_opaque_match(
    m: &Match,
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
    let (module, options) = match m {
        Match::Conntrack(c) => return lower_whole_conntrack_match(c, place),
        Match::Stateful(s) => (s.module, &s.options),
        Match::UnmodelledInput(h) => (h.module, &h.options),
        Match::Opaque(o) => return Err(format!("the unknown match {}", o.name)),
        Match::Tcp { .. } => return Err("-m tcp --tcp-option".into()),
        Match::Sctp { .. } => return Err("-m sctp --chunk-types".into()),
        Match::Dccp { .. } => return Err("-m dccp --dccp-types and --dccp-option".into()),
        _ => return Err("this match".into()),
    };
    match module {
        "limit" => lower_limit(options, place),
        "statistic" => lower_statistic(options, place),
        "addrtype" => lower_addrtype(options, place),
        "owner" => lower_owner(options, place),
        // xt_rpfilter requires a unicast route, nft_fib accepts any: they differ for the broadcast
        // addresses of the host (measured).
        "rpfilter" => {
            Err("-m rpfilter, which nft evaluates differently for broadcast addresses".into())
        }
        _ => Err(format!("-m {module}")),
    }
}

fn describe_unsupported_option(module: &str, o: &TypedExtensionOption) -> String {
    let not = if o.negated { "! " } else { "" };
    format!("-m {module} {not}--{}", o.name)
}

/// The same token bucket: `burst` tokens, one back each `1/rate`.
///
/// xt_limit counts credits in 32 bits (`user2credits` in net/netfilter/xt_limit.c): a bucket that
/// does not fit wraps to a smaller one. nft counts nanoseconds in 64 bits, so such a limit is
/// refused. That credits are rounded is a deviation (`LimitResolution`).
fn lower_limit(
    options: &[TypedExtensionOption],
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
    let (mut rate, mut burst) = ("3/hour".to_string(), 5);
    let mut ticks_between_packets = XT_LIMIT_TICKS_PER_SECOND * 3600 / 3;
    for o in options {
        match (o.name, &o.value) {
            ("limit", ExtensionValue::RateCountPerMilliseconds(count, unit_millis)) => {
                let unit = match unit_millis {
                    1000 => "second",
                    60_000 => "minute",
                    3_600_000 => "hour",
                    86_400_000 => "day",
                    _ => return Err(describe_unsupported_option("limit", o)),
                };
                rate = format!("{count}/{unit}");
                ticks_between_packets = XT_LIMIT_TICKS_PER_SECOND * unit_millis / 1000 / count;
            }
            ("limit-burst", ExtensionValue::Number(n)) => burst = *n,
            _ => return Err(describe_unsupported_option("limit", o)),
        }
    }
    if do_xt_limit_credits_wrap(ticks_between_packets.saturating_mul(burst)) {
        return Err(format!(
            "-m limit --limit {rate} --limit-burst {burst}, whose burst wraps in the kernel's 32 bits"
        ));
    }
    let text = format!("limit rate {rate} burst {burst} packets");
    Ok(vec![NftCondition::Opaque(place.opaque_test_from_text(text, false))])
}

/// `XT_LIMIT_SCALE`.
const XT_LIMIT_TICKS_PER_SECOND: u64 = 10_000;
/// `HZ * CREDITS_PER_JIFFY` of xt_limit.c, for kernels of 250 or 1000 ticks a second.
const XT_LIMIT_CREDITS_PER_SECOND: u64 = 32_000;

/// Whether `user2credits` of these ticks does not fit into 32 bits.
fn do_xt_limit_credits_wrap(ticks: u64) -> bool {
    const MAX: u64 = u32::MAX as u64;
    // The kernel divides first where the product would not fit.
    ticks > MAX
        || ticks > MAX / XT_LIMIT_CREDITS_PER_SECOND
            && ticks / XT_LIMIT_TICKS_PER_SECOND * XT_LIMIT_CREDITS_PER_SECOND > MAX
}

/// xt_statistic draws 31 bits. Its count starts at `every - 1 - packet` (libxt_statistic.c) and
/// matches when it wraps, so the first packet that matches has the number `packet`, counted from 0.
/// numgen's first number is 0 (net/netfilter/nft_numgen.c).
fn lower_statistic(
    options: &[TypedExtensionOption],
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
    let (mut nth, mut packet, mut chance, mut not) = (None, 0, None, false);
    for o in options {
        not |= o.negated;
        match (o.name, &o.value) {
            ("mode", _) => {}
            ("probability", ExtensionValue::Probability(p)) => chance = Some(*p),
            ("every", ExtensionValue::Number(n)) => nth = Some(*n),
            ("packet", ExtensionValue::Number(n)) => packet = *n,
            _ => return Err(describe_unsupported_option("statistic", o)),
        }
    }
    let text = match (nth, chance) {
        (Some(n), None) if n > 0 && packet < n => {
            let not = if not { "!=" } else { "==" };
            format!("numgen inc mod {n} {not} {packet}")
        }
        (None, Some(p)) if (1 << 31) > p => {
            let less = if not { ">=" } else { "<" };
            format!("numgen random mod 0x80000000 {less} {p:#x}")
        }
        _ => return Err("-m statistic with these options".into()),
    };
    Ok(vec![NftCondition::Opaque(place.opaque_test_from_text(text, false))])
}

/// Both use inet_dev_addr_type. For IPv6 xt_addrtype queries the routing table differently.
fn lower_addrtype(
    options: &[TypedExtensionOption],
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
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
            _ => return Err(describe_unsupported_option("addrtype", o)),
        };
        let words: Vec<&str> = match &o.value {
            ExtensionValue::Keyword(w) => vec![w],
            ExtensionValue::KeywordList(w) => w.clone(),
            _ => return Err(describe_unsupported_option("addrtype", o)),
        };
        let types: Option<Vec<&str>> = words.iter().map(|w| parse_route_type(w)).collect();
        let types = types.ok_or_else(|| describe_unsupported_option("addrtype", o))?.join(", ");
        let not = if o.negated { "!= " } else { "" };
        let text = format!("fib {address}{device} type {not}{{ {types} }}");
        out.push(NftCondition::Opaque(place.opaque_test_from_text(text, false)));
    }
    Ok(out)
}

fn parse_route_type(word: &str) -> Option<&'static str> {
    ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES.into_iter().find(|t| word.eq_ignore_ascii_case(t))
}

/// A packet without a socket matches every negated test of xt_owner and none of nft's.
fn lower_owner(
    options: &[TypedExtensionOption],
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
    let mut out = Vec::new();
    for o in options {
        let key = match o.name {
            "uid-owner" => "meta skuid",
            "gid-owner" => "meta skgid",
            _ => return Err(describe_unsupported_option("owner", o)),
        };
        let text = match o.value {
            ExtensionValue::Number(n) => format!("{key} {n}"),
            ExtensionValue::Range(lo, hi) if lo == hi => format!("{key} {lo}"),
            ExtensionValue::Range(lo, hi) => format!("{key} {lo}-{hi}"),
            _ => return Err(describe_unsupported_option("owner", o)),
        };
        if o.negated {
            let opaque = place.opaque_test_from_text(text, true);
            out.push(NftCondition::UnlessStatement(Box::new(Statement::OpaqueTest(opaque))));
        } else {
            out.push(NftCondition::Opaque(place.opaque_test_from_text(text, false)));
        }
    }
    if out.len() > 1 && out.iter().any(|c| matches!(c, NftCondition::UnlessStatement(_))) {
        return Err("-m owner with several tests, one of them negated".into());
    }
    Ok(out)
}

/// Without an entry xt_conntrack is done once the state matched; nft's tests of an entry then stop
/// the rule. They agree if the state implies an entry, or if no state is tested.
fn lower_whole_conntrack_match(
    c: &ConntrackMatch,
    place: OpaqueMatchContext,
) -> Result<Vec<NftCondition>, String> {
    use weir_model::rule_match::ct_state::{ESTABLISHED, NEW, RELATED};
    let mut out = Vec::new();
    if let Some(Negatable { negated, value }) = &c.state {
        if *negated || value & !(NEW | ESTABLISHED | RELATED) != 0 {
            return Err("-m conntrack with more than a state that implies no entry".into());
        }
        lower_ct_state(&mut out, *value, false);
    }
    let mut push =
        |text: String| out.push(NftCondition::Opaque(place.opaque_test_from_text(text, false)));
    if let Some(n) = &c.proto {
        push(format!("ct original protocol {}{}", negation_prefix(n.negated), n.value));
    }
    let addrs = [
        ("original", "saddr", &c.orig_src),
        ("original", "daddr", &c.orig_dst),
        ("reply", "saddr", &c.repl_src),
        ("reply", "daddr", &c.repl_dst),
    ];
    for (dir, what, m) in addrs {
        if let Some(m) = m {
            push(format_ct_address(dir, what, m, place.family)?);
        }
    }
    let ports = [
        ("original", "proto-src", &c.orig_sport),
        ("original", "proto-dst", &c.orig_dport),
        ("reply", "proto-src", &c.repl_sport),
        ("reply", "proto-dst", &c.repl_dport),
    ];
    for (dir, what, m) in ports {
        let Some(Negatable { negated, value: PortSpan { lo, hi } }) = m else { continue };
        if c.proto.as_ref().is_none_or(|p| p.negated) {
            return Err(format!("-m conntrack with a port and no --ctproto ({dir} {what})"));
        }
        let value = if lo == hi { lo.to_string() } else { format!("{lo}-{hi}") };
        push(format!("ct {dir} {what} {}{value}", negation_prefix(*negated)));
    }
    if let Some(Negatable { negated, value }) = &c.status {
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

fn negation_prefix(negated: bool) -> &'static str {
    if negated { "!= " } else { "" }
}

fn format_ct_address(
    dir: &str,
    what: &str,
    m: &AddrMatch,
    family: Family,
) -> Result<String, String> {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    let len = family.prefix_len_of_mask(m.mask.0).ok_or("-m conntrack with a mask with holes")?;
    let mut text =
        format!("ct {dir} {ip} {what} {}{}", negation_prefix(m.negated), m.addr.display(family));
    if len < family.addr_bits() {
        let _ = write!(text, "/{len}");
    }
    Ok(text)
}
