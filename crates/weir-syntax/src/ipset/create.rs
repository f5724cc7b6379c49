//! Parses a `create` line.

use weir_model::set::{Method, Part};
use weir_model::{Addr, Family, SetKind, SetOption, Span};

use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::word::Word;
use crate::{iptables::address, number};

/// What a `create` line says.
pub(super) struct Created {
    pub kind: SetKind,
    pub family: Option<Family>,
    pub options: Vec<SetOption>,
}

/// Kinds of set that there are.
const KINDS: [&str; 15] = [
    "bitmap:ip",
    "bitmap:ip,mac",
    "bitmap:port",
    "hash:ip",
    "hash:ip,mac",
    "hash:ip,mark",
    "hash:ip,port",
    "hash:ip,port,ip",
    "hash:ip,port,net",
    "hash:mac",
    "hash:net",
    "hash:net,iface",
    "hash:net,net",
    "hash:net,port",
    "hash:net,port,net",
];

/// The kind of a name.
pub(super) fn kind(name: &str) -> Option<SetKind> {
    if name == "list:set" {
        return Some(SetKind { method: Method::List, parts: vec![Part::Set] });
    }
    let (method, parts) = KINDS.iter().find(|k| **k == name)?.split_once(':')?;
    let method = if method == "hash" { Method::Hash } else { Method::Bitmap };
    let parts = parts
        .split(',')
        .map(|part| match part {
            "ip" => Part::Ip,
            "net" => Part::Net,
            "port" => Part::Port,
            "mac" => Part::Mac,
            "mark" => Part::Mark,
            _ => Part::Iface,
        })
        .collect();
    Some(SetKind { method, parts })
}

/// Reads what follows `create NAME`.
pub(super) fn read(words: &[Word], line: Span) -> Fallible<Created> {
    let Some(first) = words.first() else {
        return Diagnostic::new("create without a kind of set", line).fail();
    };
    let Some(kind) = kind(&first.text) else {
        return Diagnostic::new(format!("no kind of set {}", first.text), first.span)
            .help(format!("use one of {}, list:set", KINDS.join(", ")))
            .fail();
    };
    let mut out = Created { family: default_family(&kind), kind, options: Vec::new() };
    let mut at = 1;
    while at < words.len() {
        at += option(&words[at], words.get(at + 1), &mut out)?;
    }
    if out.kind.method == Method::Bitmap
        && !out.options.iter().any(|o| matches!(o, SetOption::Range(..) | SetOption::PortRange(..)))
    {
        return Diagnostic::new("bitmap without a range", line).help("write range FROM-TO").fail();
    }
    if out.kind.method == Method::List
        && !out.options.iter().any(|o| matches!(o, SetOption::Size(_)))
    {
        out.options.push(SetOption::Size(8));
    }
    Ok(out)
}

fn default_family(kind: &SetKind) -> Option<Family> {
    kind.parts.iter().any(|p| matches!(p, Part::Ip | Part::Net)).then_some(Family::V4)
}

/// Reads one option; returns how many words it took.
fn option(word: &Word, next: Option<&Word>, out: &mut Created) -> Fallible<usize> {
    let bare = match &*word.text {
        "counters" => Some(SetOption::Counters),
        "comment" => Some(SetOption::Comment),
        "skbinfo" => Some(SetOption::SkbInfo),
        "forceadd" => Some(SetOption::ForceAdd),
        "-exist" | "-!" | "--exist" => return Ok(1),
        _ => None,
    };
    if let Some(option) = bare {
        return push(out, option, word).map(|()| 1);
    }
    let Some(value) = next else {
        return Diagnostic::new(format!("{} without its value, or unknown", word.text), word.span)
            .fail();
    };
    let hash = out.kind.method == Method::Hash;
    let n = |min: u64, max: u64| match number::whole(&value.text, min, max) {
        Some(n) => Ok(n),
        None => Diagnostic::new(
            format!("{} {} is not from {min} to {max}", word.text, value.text),
            value.span,
        )
        .fail(),
    };
    let u32_max = u64::from(u32::MAX);
    let option = match &*word.text {
        "family" if hash => {
            out.family = Some(match &*value.text {
                "inet" | "ipv4" | "-4" => Family::V4,
                "inet6" | "ipv6" | "-6" => Family::V6,
                other => {
                    return Diagnostic::new(format!("no family {other}"), value.span)
                        .help("write inet or inet6")
                        .fail();
                }
            });
            return Ok(2);
        }
        "hashsize" if hash => SetOption::HashSize(hash_size(n(0, u32_max)? as u32)),
        "maxelem" if hash => SetOption::MaxElem(n(0, u32_max)? as u32),
        "bucketsize" if hash => SetOption::BucketSize(n(0, 255)? as u8),
        "initval" if hash => SetOption::InitVal(n(0, u32_max)? as u32),
        "markmask" if out.kind.parts.contains(&Part::Mark) => {
            SetOption::MarkMask(n(0, u32_max)? as u32)
        }
        "netmask" if out.kind.parts == [Part::Ip] => {
            SetOption::Netmask(n(1, out.family.map_or(32, Family::bits).into())? as u8)
        }
        // Longer does not fit the kernel's timer (milliseconds in 32 bits).
        "timeout" => SetOption::Timeout(n(0, u32_max / 1000)? as u32),
        "size" if out.kind.method == Method::List => SetOption::Size(n(4, u32_max)? as u32),
        "range" if out.kind.method == Method::Bitmap => range(value, out)?,
        other => {
            return Diagnostic::new(format!("no option {other} of this kind of set"), word.span)
                .fail();
        }
    };
    push(out, option, word).map(|()| 2)
}

fn push(out: &mut Created, option: SetOption, word: &Word) -> Fallible<()> {
    let same = |o: &&SetOption| std::mem::discriminant(*o) == std::mem::discriminant(&option);
    if out.options.iter().any(|o| same(&o)) {
        return Diagnostic::new(format!("{} a second time", word.text), word.span).fail();
    }
    out.options.push(option);
    Ok(())
}

/// The kernel rounds up to a power of two, 64 at least.
fn hash_size(n: u32) -> u32 {
    n.max(64).checked_next_power_of_two().unwrap_or(1 << 31)
}

/// `FROM-TO`, or a prefix for addresses.
fn range(value: &Word, out: &Created) -> Fallible<SetOption> {
    let bad = || Diagnostic::new(format!("{} is not a range", value.text), value.span);
    let read = || -> Option<SetOption> {
        if out.kind.parts[0] == Part::Port {
            let (lo, hi) = value.text.split_once('-').unwrap_or((&value.text, &value.text));
            let (lo, hi) = (number::word16(lo)?, number::word16(hi)?);
            return Some(SetOption::PortRange(lo.min(hi), lo.max(hi)));
        }
        let (lo, hi) = match value.text.split_once('-') {
            Some((lo, hi)) => (address::addr(lo, Family::V4)?, address::addr(hi, Family::V4)?),
            None => {
                let (a, mask) = address::net(&value.text, Family::V4).ok()?;
                Family::V4.prefix_len(mask.0)?;
                (Addr(a.0 & mask.0), Addr(a.0 & mask.0 | (!mask.0 & Family::V4.max())))
            }
        };
        Some(SetOption::Range(Addr(lo.0.min(hi.0)), Addr(lo.0.max(hi.0))))
    };
    let Some(option) = read() else { return bad().fail() };
    if let SetOption::Range(lo, hi) = option {
        let netmask = out.options.iter().find_map(|o| match o {
            SetOption::Netmask(n) => Some(*n),
            _ => None,
        });
        if netmask.is_none() && hi.0 - lo.0 > 0xffff {
            return bad().help("a bitmap holds at most 65536 addresses: use hash:ip").fail();
        }
    }
    Ok(option)
}
