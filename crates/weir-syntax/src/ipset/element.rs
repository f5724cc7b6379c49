//! The parts of an element, with ranges and prefixes that expand to several.

use weir_model::set::{Method, Part};
use weir_model::{Addr, ElementPart, Family, IpSet, Name, SetOption, Span};

use super::icmp;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::extension::value::bad_addr;
use crate::iptables::word::Word;
use crate::{names, number};

/// Maximum number of elements that one line may expand to, whatever the size of the set.
const EXPANSION_MAX: usize = 1 << 20;
/// Default size of a hash (`IPSET_DEFAULT_MAXELEM`).
const MAXELEM: usize = 65_536;

/// Maximum size of a set.
pub(super) fn capacity(set: &IpSet) -> usize {
    let given = set.options.iter().find_map(|o| match o {
        SetOption::MaxElem(n) => Some(*n as usize),
        _ => None,
    });
    given.unwrap_or(MAXELEM)
}

/// Parses `192.0.2.1,tcp:80` into elements: several if it has ranges.
pub(super) fn read(word: &Word, set: &IpSet) -> Fallible<Vec<Vec<ElementPart>>> {
    let family = set.family.unwrap_or(Family::V4);
    let texts: Vec<&str> = word.text.split(',').collect();
    // bitmap:ip,mac takes an address alone: the kernel fills the MAC in.
    let optional = set.kind.method == Method::Bitmap && set.kind.parts.contains(&Part::Mac);
    let fits = texts.len() == set.kind.parts.len() || (optional && texts.len() == 1);
    if !fits {
        return Diagnostic::new(format!("{} has {} parts", word.text, texts.len()), word.span)
            .help(format!("elements of {} have {}", set.name, set.kind.parts.len()))
            .fail();
    }
    let mut out: Vec<Vec<ElementPart>> = vec![Vec::with_capacity(texts.len())];
    for (text, part) in texts.iter().zip(&set.kind.parts) {
        let values = read_part(text, *part, set, family, word.span)?;
        if let [one] = &values[..] {
            for element in &mut out {
                element.push(one.clone());
            }
            continue;
        }
        if out.len() * values.len() > EXPANSION_MAX.min(capacity(set)) {
            return Diagnostic::new(format!("{text} expands to too many elements"), word.span)
                .help("use a set of prefixes (hash:net, …)")
                .fail();
        }
        out = out
            .iter()
            .flat_map(|e| values.iter().map(|v| [&e[..], std::slice::from_ref(v)].concat()))
            .collect();
    }
    Ok(out)
}

fn read_part(
    text: &str,
    part: Part,
    set: &IpSet,
    family: Family,
    span: Span,
) -> Fallible<Vec<ElementPart>> {
    match part {
        Part::Ip => addresses(text, set, family, span),
        Part::Net => networks(text, set, family, span),
        Part::Port => ports(text, set, span),
        Part::Mac => match mac(text) {
            Some(mac) => Ok(vec![ElementPart::Mac(mac)]),
            None => Diagnostic::new(format!("{text} is not a MAC address"), span).fail(),
        },
        Part::Mark => match number::whole(text, 0, u32::MAX.into()) {
            Some(mark) => Ok(vec![ElementPart::Mark(mark as u32)]),
            None => Diagnostic::new(format!("{text} is not a mark"), span).fail(),
        },
        Part::Iface => {
            let (physdev, name) = match text.strip_prefix("physdev:") {
                Some(name) => (true, name),
                None => (false, text),
            };
            if name.is_empty() || name.len() > 15 {
                return Diagnostic::new(format!("{name:?} is not a device name"), span)
                    .help("1 to 15 bytes")
                    .fail();
            }
            Ok(vec![ElementPart::Iface { physdev, name: Name::from(name) }])
        }
        Part::Set => Ok(vec![ElementPart::Set(Name::from(text))]),
    }
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut out = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut out {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len()) && !p.starts_with('+'))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(out)
}

/// First and last address of an address, a prefix, or a range.
fn span_of(text: &str, family: Family, span: Span) -> Fallible<(u128, u128, Option<u32>)> {
    if let Some((lo, hi)) = text.split_once('-')
        && family == Family::V4
    {
        return match (address::host(lo, family), address::host(hi, family)) {
            (Some(lo), Some(hi)) => Ok((lo.0.min(hi.0), lo.0.max(hi.0), None)),
            _ => Diagnostic::new(format!("{text} is not a range of addresses"), span).fail(),
        };
    }
    match address::host_net(text, family) {
        Ok((a, mask)) => match family.prefix_len(mask.0) {
            Some(len) => {
                let lo = a.0 & mask.0;
                Ok((lo, lo | (!mask.0 & family.max()), Some(len)))
            }
            None => bad_addr(text, span, BadAddr::Mask, family, false).fail(),
        },
        Err(bad) => bad_addr(text, span, bad, family, false).fail(),
    }
}

fn addresses(text: &str, set: &IpSet, family: Family, span: Span) -> Fallible<Vec<ElementPart>> {
    let (lo, hi, len) = span_of(text, family, span)?;
    let bits = family.bits();
    if family == Family::V6 && len != Some(bits) {
        return Diagnostic::new(format!("{text} is not a single address"), span)
            .help("IPv6 address sets accept single addresses only: use hash:net for prefixes")
            .fail();
    }
    let mut netmask = bits;
    for option in &set.options {
        match option {
            SetOption::Netmask(n) => netmask = u32::from(*n),
            SetOption::Range(from, to) if lo < from.0 || hi > to.0 => {
                return Diagnostic::new(format!("{text} is outside of the set's range"), span)
                    .help("widen the range in the create line")
                    .fail();
            }
            _ => {}
        }
    }
    let step = 1u128 << (bits - netmask).min(127);
    let first = lo & family.mask(netmask);
    if first == 0 && set.kind.method == Method::Hash && set.kind.parts == [Part::Ip] {
        return Diagnostic::new("address of all zeros in a hash:ip", span)
            .help("the kernel refuses it: such a set uses it to mark free slots")
            .fail();
    }
    let count = (hi - first) / step + 1;
    if count > EXPANSION_MAX.min(capacity(set)) as u128 {
        return Diagnostic::new(format!("{text} expands to too many elements"), span)
            .help("use hash:net")
            .fail();
    }
    let part = |i: u128| ElementPart::Net { addr: Addr(first + i * step), len: bits as u8 };
    Ok((0..count).map(part).collect())
}

fn networks(text: &str, set: &IpSet, family: Family, span: Span) -> Fallible<Vec<ElementPart>> {
    let (lo, hi, len) = span_of(text, family, span)?;
    if len == Some(0) && !set.kind.parts.contains(&Part::Iface) {
        return Diagnostic::new("prefix of length 0", span)
            .help("the kernel refuses it: write two halves, 0.0.0.0/1 and 128.0.0.0/1")
            .fail();
    }
    if let Some(len) = len {
        return Ok(vec![ElementPart::Net { addr: Addr(lo), len: len as u8 }]);
    }
    let mut out = Vec::new();
    let mut at = lo;
    loop {
        let fits = |len: u32| {
            let mask = family.mask(len);
            at & mask == at && at | (!mask & family.max()) <= hi
        };
        let len = (1..=family.bits()).find(|len| fits(*len)).unwrap_or(family.bits());
        out.push(ElementPart::Net { addr: Addr(at), len: len as u8 });
        let last = at | (!family.mask(len) & family.max());
        if last >= hi {
            return Ok(out);
        }
        at = last + 1;
    }
}

/// `80`, `tcp:80`, `udp:1000-1010`, `icmp:echo-request`, `gre:0`.
fn ports(text: &str, set: &IpSet, span: Span) -> Fallible<Vec<ElementPart>> {
    let (proto, port) = match text.split_once(':') {
        Some((p, port)) => (Some(protocol(p, span)?), port),
        None => (None, text),
    };
    let bad = |what: String| {
        Diagnostic::new(what, span).help("write PROTOCOL:PORT, e.g. tcp:80 or icmp:3/4").fail()
    };
    let bitmap = set.kind.method == Method::Bitmap;
    let proto = if bitmap { None } else { Some(proto.unwrap_or(6)) };
    let name = match proto {
        Some(1 | 58) => {
            let v6 = proto == Some(58);
            let numeric = || {
                let (kind, code) = port.split_once('/')?;
                let kind = number::whole(kind, 0, 255)? as u16;
                Some(kind << 8 | number::whole(code, 0, 255)? as u16)
            };
            return match icmp::code(port, v6).or_else(numeric) {
                Some(port) => Ok(vec![ElementPart::Port { proto, port }]),
                None => bad(format!("{port} is not an ICMP type and code")),
            };
        }
        Some(17) => "udp",
        Some(132) => "sctp",
        Some(136) => "udplite",
        Some(6) | None => "tcp",
        Some(_) if port == "0" => return Ok(vec![ElementPart::Port { proto, port: 0 }]),
        Some(_) => return bad(format!("{text}: this protocol has no ports, write 0")),
    };
    let one = |p: &str| number::word16(p).or_else(|| names::service(p, Some(name)));
    let (lo, hi) = match (one(port), port.split_once('-')) {
        (Some(p), _) => (p, p),
        (None, Some((lo, hi))) => match (one(lo), one(hi)) {
            (Some(lo), Some(hi)) => (lo.min(hi), lo.max(hi)),
            _ => return bad(format!("{port} is not a range of ports")),
        },
        _ => return bad(format!("{port} is not a port")),
    };
    for option in &set.options {
        if let SetOption::PortRange(from, to) = option
            && (lo < *from || hi > *to)
        {
            return Diagnostic::new(format!("{port} is outside of the set's range"), span)
                .help("widen the range in the create line")
                .fail();
        }
    }
    Ok((lo..=hi).map(|port| ElementPart::Port { proto, port }).collect())
}

fn protocol(text: &str, span: Span) -> Fallible<u8> {
    let found = number::whole(text, 1, 255)
        .map(|n| n as u8)
        .or_else(|| names::protocol(&text.to_ascii_lowercase()).filter(|n| *n != 0));
    match found {
        Some(n) => Ok(n),
        None => Diagnostic::new(format!("no protocol {text}"), span).fail(),
    }
}
