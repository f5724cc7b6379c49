//! Actions of rules: verdicts, reject types, translations, marks and logs.

use weir_model::matching::{OptionValue, Value};
use weir_model::nft::{Statement, Verdict};
use weir_model::target::{ExtensionTarget, NatRange, TtlChange};
use weir_model::{Effect, Family, NatTarget};

use super::cursor::{Cursor, Token};
use super::value;
use crate::diagnostic::Fallible;

/// A verdict, if one comes next.
pub(super) fn verdict(cursor: &mut Cursor<'_>) -> Fallible<Option<Verdict>> {
    let Token::Word(word) = cursor.peek() else { return Ok(None) };
    let plain = match word {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        "jump" | "goto" => {
            cursor.next();
            let chain = cursor.word("the name of a chain")?.to_owned();
            let jumps = word == "jump";
            return Ok(Some(if jumps { Verdict::Jump(chain) } else { Verdict::Goto(chain) }));
        }
        _ => return Ok(None),
    };
    cursor.next();
    Ok(Some(plain))
}

/// An action, if one comes next.
pub(super) fn action(cursor: &mut Cursor<'_>, family: Family) -> Fallible<Option<Statement>> {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    let ttl: [&str; 3] =
        if family == Family::V4 { [ip, "ttl", "set"] } else { [ip, "hoplimit", "set"] };
    let effect = if cursor.take_word("notrack") {
        Effect::Notrack
    } else if cursor.take_word("log") {
        Effect::Other(log(cursor)?)
    } else if cursor.take_words(&["meta", "mark", "set"]) {
        set_mark(cursor)?
    } else if cursor.take_words(&["ct", "mark", "set"]) {
        set_connmark(cursor)?
    } else if cursor.take_words(&["meta", "priority", "set"]) {
        Effect::Classify { class: class(cursor)? }
    } else if cursor.take_words(&[ip, "dscp", "set"]) {
        set_tos(cursor, ip)?
    } else if cursor.take_words(&ttl) {
        let value = number(cursor, 255)? as u8;
        Effect::Ttl { op: TtlChange::Set, value }
    } else if cursor.take_word("reject") {
        return Ok(Some(Statement::Reject(reject(cursor, family)?)));
    } else if let Some(target) = nat(cursor, family)? {
        return Ok(Some(Statement::Nat(target)));
    } else {
        return Ok(None);
    };
    Ok(Some(Statement::Effect(effect)))
}

fn number(cursor: &mut Cursor<'_>, max: u128) -> Fallible<u128> {
    let word = cursor.word("a number")?;
    match value::integer(word, max) {
        Some(number) => Ok(number),
        None => cursor.refuse(format!("{word} is not a number up to {max}")),
    }
}

fn reject(cursor: &mut Cursor<'_>, family: Family) -> Fallible<&'static str> {
    let (icmp, port) = match family {
        Family::V4 => ("icmp", "icmp-port-unreachable"),
        Family::V6 => ("icmpv6", "icmp6-port-unreachable"),
    };
    if !cursor.take_word("with") {
        return Ok(port);
    }
    if cursor.take_words(&["tcp", "reset"]) {
        return Ok("tcp-reset");
    }
    if !cursor.take_word(icmp) {
        return cursor.missing(icmp);
    }
    cursor.take_word("type");
    let word = cursor.word("an answer")?;
    let found = match (family, word) {
        (Family::V4, "net-unreachable") => "icmp-net-unreachable",
        (Family::V4, "host-unreachable") => "icmp-host-unreachable",
        (Family::V4, "prot-unreachable") => "icmp-proto-unreachable",
        (Family::V4, "port-unreachable") => port,
        (Family::V4, "net-prohibited") => "icmp-net-prohibited",
        (Family::V4, "host-prohibited") => "icmp-host-prohibited",
        (Family::V4, "admin-prohibited") => "icmp-admin-prohibited",
        (Family::V6, "no-route") => "icmp6-no-route",
        (Family::V6, "admin-prohibited") => "icmp6-adm-prohibited",
        (Family::V6, "addr-unreachable") => "icmp6-addr-unreachable",
        (Family::V6, "port-unreachable") => port,
        (Family::V6, "policy-fail") => "icmp6-policy-fail",
        (Family::V6, "reject-route") => "icmp6-reject-route",
        _ => return cursor.refuse(format!("{word} is not a REJECT type of iptables")),
    };
    Ok(found)
}

fn nat(cursor: &mut Cursor<'_>, family: Family) -> Fallible<Option<NatTarget>> {
    type Make = fn(NatRange) -> NatTarget;
    let Token::Word(word) = cursor.peek() else { return Ok(None) };
    let (make, needs): (Make, bool) = match word {
        "dnat" => (NatTarget::Dnat, true),
        "snat" => (NatTarget::Snat, true),
        "masquerade" => (NatTarget::Masquerade, false),
        "redirect" => (NatTarget::Redirect, false),
        _ => return Ok(None),
    };
    cursor.next();
    let mut range = NatRange::default();
    if cursor.take_word("to") {
        let to = cursor.word("an address or port")?;
        match nat_range(to, family) {
            Some(found) => range = found,
            None => return cursor.refuse(format!("{to} is not a range of addresses and ports")),
        }
    } else if needs {
        return cursor.missing("to");
    }
    if let Token::Word(flags) = cursor.peek() {
        let known = |f: &str| matches!(f, "random" | "fully-random" | "persistent");
        if flags.split(',').all(known) {
            cursor.next();
            let has = |flag| flags.split(',').any(|f| f == flag);
            range.random = has("random");
            range.random_fully = has("fully-random");
            range.persistent = has("persistent");
        }
    }
    Ok(Some(make(range)))
}

/// `10.0.0.1-10.0.0.9:80-90`, `[2001:db8::1]:80`, `:80`.
fn nat_range(word: &str, family: Family) -> Option<NatRange> {
    let (addrs, ports) = match family {
        Family::V6 if !word.starts_with(['[', ':']) => (word, None),
        Family::V6 if word.starts_with("::") => (word, None),
        Family::V6 => match word.rsplit_once("]:") {
            Some((addrs, ports)) => (addrs, Some(ports)),
            None => (&word[..0], Some(word.strip_prefix(':')?)),
        },
        Family::V4 => match word.split_once(':') {
            Some((addrs, ports)) => (addrs, Some(ports)),
            None => (word, None),
        },
    };
    let mut range = NatRange::default();
    if !addrs.is_empty() {
        let (lo, hi) = addrs.split_once('-').unwrap_or((addrs, addrs));
        let bare = |text: &str| value::address(text.trim_matches(['[', ']']), family);
        range.addrs = Some((bare(lo)?, bare(hi)?));
    }
    if let Some(ports) = ports {
        let (lo, hi) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text| value::integer(text, 0xffff).map(|p| p as u16);
        range.ports = Some((port(lo)?, port(hi)?));
    }
    Some(range)
}

/// `mark & KEEP ^ FLIP | SET`, as nft computes it, from left to right: `mark & keep ^ xor`.
struct Changed {
    keep: u32,
    xor: u32,
}

impl Changed {
    fn read(cursor: &mut Cursor<'_>) -> Fallible<Changed> {
        let mut changed = Changed { keep: u32::MAX, xor: 0 };
        loop {
            let Token::Word(op @ ("&" | "^" | "|")) = cursor.peek() else { return Ok(changed) };
            cursor.next();
            let bits = number(cursor, u32::MAX.into())? as u32;
            match op {
                "&" => {
                    changed.keep &= bits;
                    changed.xor &= bits;
                }
                "^" => changed.xor ^= bits,
                _ => {
                    changed.keep &= !bits;
                    changed.xor |= bits;
                }
            }
        }
    }

    /// Only `& mask`.
    fn mask(&self) -> Option<u32> {
        (self.xor == 0).then_some(self.keep)
    }
}

fn set_mark(cursor: &mut Cursor<'_>) -> Fallible<Effect> {
    if cursor.take_words(&["ct", "mark"]) {
        return match Changed::read(cursor)?.mask() {
            Some(mask) => Ok(connmark(vec![
                flag("restore-mark"),
                hex("nfmask", u32::MAX),
                hex("ctmask", mask),
            ])),
            None => cursor.refuse("a mark that is restored and changed in one statement"),
        };
    }
    if cursor.take_words(&["meta", "mark"]) || cursor.take_word("mark") {
        let Changed { keep, xor } = Changed::read(cursor)?;
        return Ok(Effect::Mark { value: xor, mask: !keep });
    }
    let value = number(cursor, u32::MAX.into())? as u32;
    Ok(Effect::Mark { value, mask: u32::MAX })
}

fn set_connmark(cursor: &mut Cursor<'_>) -> Fallible<Effect> {
    if cursor.take_words(&["meta", "mark"]) || cursor.take_word("mark") {
        return match Changed::read(cursor)?.mask() {
            Some(mask) => {
                Ok(connmark(vec![flag("save-mark"), hex("nfmask", mask), hex("ctmask", u32::MAX)]))
            }
            None => cursor.refuse("a mark that is saved and changed in one statement"),
        };
    }
    let (value, mask) = if cursor.take_words(&["ct", "mark"]) {
        let Changed { keep, xor } = Changed::read(cursor)?;
        (xor, !keep)
    } else {
        (number(cursor, u32::MAX.into())? as u32, u32::MAX)
    };
    let value = Value::Masked(value.into(), mask.into());
    Ok(connmark(vec![OptionValue { negated: false, name: "set-xmark", value }]))
}

fn connmark(options: Vec<OptionValue>) -> Effect {
    Effect::Other(ExtensionTarget { module: "CONNMARK", options })
}

fn flag(name: &'static str) -> OptionValue {
    OptionValue { negated: false, name, value: Value::Flag }
}

fn hex(name: &'static str, value: u32) -> OptionValue {
    OptionValue { negated: false, name, value: Value::Hex(value.into()) }
}

/// `1:a`, `none`, `root`, or one number.
fn class(cursor: &mut Cursor<'_>) -> Fallible<(u16, u16)> {
    let word = cursor.word("a class")?;
    let half = |text: &str| u16::from_str_radix(text, 16).ok();
    let found = match word.split_once(':') {
        Some((major, minor)) => half(major).zip(half(minor)),
        None if word == "none" => Some((0, 0)),
        None if word == "root" => Some((0xffff, 0xffff)),
        None => value::integer(word, u32::MAX.into()).map(|n| ((n >> 16) as u16, n as u16)),
    };
    match found {
        Some(class) => Ok(class),
        None => cursor.refuse(format!("{word} is not a class")),
    }
}

/// `ip dscp set 0x2`, and with `ip ecn set ce` behind it all of the octet.
fn set_tos(cursor: &mut Cursor<'_>, ip: &str) -> Fallible<Effect> {
    let word = cursor.word("a code point")?;
    let Some(dscp) = value::dscp(word) else {
        return cursor.refuse(format!("{word} is not a code point"));
    };
    if !cursor.take_words(&[ip, "ecn", "set"]) {
        return Ok(Effect::Dscp(dscp as u8));
    }
    let word = cursor.word("two bits")?;
    match value::ecn(word) {
        Some(ecn) => Ok(Effect::Tos { value: (dscp << 2 | ecn) as u8, mask: 0xff }),
        None => cursor.refuse(format!("{word} is not a congestion notification")),
    }
}

const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
/// iptables' and nft's default.
const LEVEL: usize = 4;

const FLAGS: [&str; 5] =
    ["log-tcp-sequence", "log-tcp-options", "log-ip-options", "log-uid", "log-macdecode"];

/// LOG, or NFLOG where a group is named. Options in the order of `iptables-save`.
fn log(cursor: &mut Cursor<'_>) -> Fallible<ExtensionTarget> {
    let (mut prefix, mut level, mut flags) = (None, LEVEL, [false; 5]);
    let (mut group, mut size, mut threshold) = (None, None, None);
    loop {
        if cursor.take_word("prefix") {
            prefix = Some(cursor.quoted("a prefix")?.to_owned());
        } else if cursor.take_word("level") {
            let word = cursor.word("a level")?;
            level = match LEVELS.iter().position(|l| *l == word) {
                Some(at) => at,
                None => return cursor.refuse(format!("LOG has no level {word}")),
            };
        } else if cursor.take_word("flags") {
            log_flags(cursor, &mut flags)?;
        } else if cursor.take_word("group") {
            group = Some(number(cursor, 0xffff)? as u64);
        } else if cursor.take_word("snaplen") {
            size = Some(number(cursor, u32::MAX.into())? as u64);
        } else if cursor.take_word("queue-threshold") {
            threshold = Some(number(cursor, 0xffff)? as u64);
        } else {
            break;
        }
    }
    let mut options = Vec::new();
    let mut push = |name, value| options.push(OptionValue { negated: false, name, value });
    let Some(group) = group else {
        if size.or(threshold).is_some() {
            return cursor.refuse("a kernel log has no length or threshold");
        }
        if let Some(prefix) = prefix {
            push("log-prefix", Value::Text(prefix));
        }
        if level != LEVEL {
            push("log-level", Value::Number(level as u64));
        }
        for (name, _) in FLAGS.into_iter().zip(flags).filter(|(_, is)| *is) {
            push(name, Value::Flag);
        }
        return Ok(ExtensionTarget { module: "LOG", options });
    };
    if let Some(prefix) = prefix {
        push("nflog-prefix", Value::Text(prefix));
    }
    if group != 0 {
        push("nflog-group", Value::Number(group));
    }
    if let Some(size) = size {
        push("nflog-size", Value::Number(size));
    }
    if let Some(threshold) = threshold.filter(|t| *t != 0) {
        push("nflog-threshold", Value::Number(threshold));
    }
    Ok(ExtensionTarget { module: "NFLOG", options })
}

fn log_flags(cursor: &mut Cursor<'_>, flags: &mut [bool; 5]) -> Fallible<()> {
    match cursor.word("a flag")? {
        "all" => *flags = [true; 5],
        "skuid" => flags[3] = true,
        "ether" => flags[4] = true,
        "ip" if cursor.take_word("options") => flags[2] = true,
        "tcp" => {
            for word in cursor.word("sequence or options")?.split(',') {
                match word {
                    "sequence" => flags[0] = true,
                    "options" => flags[1] = true,
                    _ => return cursor.refuse(format!("LOG has no flag {word} of tcp")),
                }
            }
        }
        other => return cursor.refuse(format!("LOG has no flag {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(text: &str) -> Effect {
        match action(&mut Cursor::new(text), Family::V4) {
            Ok(Some(Statement::Effect(effect))) => effect,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_spellings_of_a_changed_mark_are_one() {
        let given = effect("meta mark set mark & 0xfffffff0 ^ 0x12");
        let listed = effect("meta mark set meta mark & 0xfffffff2 ^ 0x00000010 | 0x00000002");
        assert_eq!(given, Effect::Mark { value: 0x12, mask: 0xf });
        assert_eq!(given, listed);
    }

    #[test]
    fn ranges_of_both_families_are_read() {
        let v6 = nat_range("[2001:db8::1]-[2001:db8::5]:80-90", Family::V6).expect("a range");
        assert_eq!(v6.ports, Some((80, 90)));
        assert_eq!(v6.addrs.map(|(lo, hi)| hi.0 - lo.0), Some(4));
        let bare = nat_range("2001:db8::1", Family::V6).expect("an address");
        assert!(bare.addrs.is_some() && bare.ports.is_none());
        let port = nat_range(":80", Family::V4).expect("a port");
        assert_eq!((port.addrs, port.ports), (None, Some((80, 80))));
        assert_eq!(nat_range("10.0.0.1:http", Family::V4), None);
    }
}
