//! Actions of rules: verdicts, reject types, translations, marks and logs.

use weir_model::nft::{Statement, Verdict};
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Effect, Family, NatTarget};

use super::reject_types::{icmp_keyword, reject_type_names};
use super::token_cursor::{NftToken, NftTokenCursor};
use super::value_parser;
use crate::diagnostic::ParseResult;

/// A verdict, if one comes next.
pub(super) fn parse_verdict(cursor: &mut NftTokenCursor<'_>) -> ParseResult<Option<Verdict>> {
    let NftToken::Word(word) = cursor.peek() else { return Ok(None) };
    let plain = match word {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        "jump" | "goto" => {
            cursor.next();
            let chain = cursor.expect_word("the name of a chain")?.to_owned();
            let jumps = word == "jump";
            return Ok(Some(if jumps { Verdict::Jump(chain) } else { Verdict::Goto(chain) }));
        }
        _ => return Ok(None),
    };
    cursor.next();
    Ok(Some(plain))
}

/// An action, if one comes next.
pub(super) fn parse_effect_reject_or_nat(
    cursor: &mut NftTokenCursor<'_>,
    family: Family,
) -> ParseResult<Option<Statement>> {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    let ttl: [&str; 3] =
        if family == Family::V4 { [ip, "ttl", "set"] } else { [ip, "hoplimit", "set"] };
    let effect = if cursor.take_keyword("notrack") {
        Effect::Notrack
    } else if cursor.take_keyword("log") {
        Effect::Other(parse_log(cursor)?)
    } else if cursor.take_keyword_sequence(&["meta", "mark", "set"]) {
        parse_mark_set_or_restore(cursor)?
    } else if cursor.take_keyword_sequence(&["ct", "mark", "set"]) {
        parse_ct_mark_set(cursor)?
    } else if cursor.take_keyword_sequence(&["meta", "priority", "set"]) {
        Effect::Classify { class: parse_tc_class(cursor)? }
    } else if cursor.take_keyword_sequence(&[ip, "dscp", "set"]) {
        parse_dscp_or_tos_set(cursor, ip)?
    } else if cursor.take_keyword_sequence(&ttl) {
        let value = parse_number(cursor, 255)? as u8;
        Effect::Ttl { op: TtlOperation::Set, value }
    } else if cursor.take_keyword("reject") {
        return Ok(Some(Statement::Reject(parse_reject(cursor, family)?)));
    } else if let Some(target) = parse_nat(cursor, family)? {
        return Ok(Some(Statement::Nat(target)));
    } else {
        return Ok(None);
    };
    Ok(Some(Statement::Effect(effect)))
}

fn parse_number(cursor: &mut NftTokenCursor<'_>, max: u128) -> ParseResult<u128> {
    let word = cursor.expect_word("a number")?;
    match value_parser::parse_integer(word, max) {
        Some(number) => Ok(number),
        None => cursor.refuse_last_token(format!("{word} is not a number up to {max}")),
    }
}

fn parse_reject(cursor: &mut NftTokenCursor<'_>, family: Family) -> ParseResult<&'static str> {
    let icmp = icmp_keyword(family);
    if !cursor.take_keyword("with") {
        return Ok(match family {
            Family::V4 => "icmp-port-unreachable",
            Family::V6 => "icmp6-port-unreachable",
        });
    }
    if cursor.take_keyword_sequence(&["tcp", "reset"]) {
        return Ok("tcp-reset");
    }
    if !cursor.take_keyword(icmp) {
        return cursor.missing_token_error(icmp);
    }
    cursor.take_keyword("type");
    let word = cursor.expect_word("an answer")?;
    match reject_type_names(family).iter().find(|(_, name)| *name == word) {
        Some((iptables_name, _)) => Ok(*iptables_name),
        None => cursor.refuse_last_token(format!("{word} is not a REJECT type of iptables")),
    }
}

fn parse_nat(cursor: &mut NftTokenCursor<'_>, family: Family) -> ParseResult<Option<NatTarget>> {
    type NatConstructor = fn(NatRange) -> NatTarget;
    let NftToken::Word(word) = cursor.peek() else { return Ok(None) };
    let (make, needs): (NatConstructor, bool) = match word {
        "dnat" => (NatTarget::Dnat, true),
        "snat" => (NatTarget::Snat, true),
        "masquerade" => (NatTarget::Masquerade, false),
        "redirect" => (NatTarget::Redirect, false),
        _ => return Ok(None),
    };
    cursor.next();
    let mut range = NatRange::default();
    if cursor.take_keyword("to") {
        let to = cursor.expect_word("an address or port")?;
        match parse_nat_range(to, family) {
            Some(found) => range = found,
            None => {
                return cursor
                    .refuse_last_token(format!("{to} is not a range of addresses and ports"));
            }
        }
    } else if needs {
        return cursor.missing_token_error("to");
    }
    if let NftToken::Word(flags) = cursor.peek() {
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
fn parse_nat_range(word: &str, family: Family) -> Option<NatRange> {
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
        let bare = |text: &str| value_parser::parse_address(text.trim_matches(['[', ']']), family);
        range.addrs = Some((bare(lo)?, bare(hi)?));
    }
    if let Some(ports) = ports {
        let (lo, hi) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text| value_parser::parse_integer(text, 0xffff).map(|p| p as u16);
        range.ports = Some((port(lo)?, port(hi)?));
    }
    Some(range)
}

/// `mark & KEEP ^ FLIP | SET`, as nft computes it, from left to right: `mark & keep ^ xor`.
struct MarkExpression {
    and_mask: u32,
    xor_bits: u32,
}

impl MarkExpression {
    fn parse(cursor: &mut NftTokenCursor<'_>) -> ParseResult<MarkExpression> {
        let mut changed = MarkExpression { and_mask: u32::MAX, xor_bits: 0 };
        loop {
            let NftToken::Word(op @ ("&" | "^" | "|")) = cursor.peek() else { return Ok(changed) };
            cursor.next();
            let bits = parse_number(cursor, u32::MAX.into())? as u32;
            match op {
                "&" => {
                    changed.and_mask &= bits;
                    changed.xor_bits &= bits;
                }
                "^" => changed.xor_bits ^= bits,
                _ => {
                    changed.and_mask &= !bits;
                    changed.xor_bits |= bits;
                }
            }
        }
    }

    /// Only `& mask`.
    fn and_mask_if_no_xor(&self) -> Option<u32> {
        (self.xor_bits == 0).then_some(self.and_mask)
    }
}

fn parse_mark_set_or_restore(cursor: &mut NftTokenCursor<'_>) -> ParseResult<Effect> {
    if cursor.take_keyword_sequence(&["ct", "mark"]) {
        return match MarkExpression::parse(cursor)?.and_mask_if_no_xor() {
            Some(mask) => Ok(connmark_target(vec![
                iptables_flag_option("restore-mark"),
                iptables_hex_option("nfmask", u32::MAX),
                iptables_hex_option("ctmask", mask),
            ])),
            None => {
                cursor.refuse_last_token("a mark that is restored and changed in one statement")
            }
        };
    }
    if cursor.take_keyword_sequence(&["meta", "mark"]) || cursor.take_keyword("mark") {
        let MarkExpression { and_mask: keep, xor_bits: xor } = MarkExpression::parse(cursor)?;
        return Ok(Effect::Mark { xor_value: xor, clear_mask: !keep });
    }
    let value = parse_number(cursor, u32::MAX.into())? as u32;
    Ok(Effect::Mark { xor_value: value, clear_mask: u32::MAX })
}

fn parse_ct_mark_set(cursor: &mut NftTokenCursor<'_>) -> ParseResult<Effect> {
    if cursor.take_keyword_sequence(&["meta", "mark"]) || cursor.take_keyword("mark") {
        return match MarkExpression::parse(cursor)?.and_mask_if_no_xor() {
            Some(mask) => Ok(connmark_target(vec![
                iptables_flag_option("save-mark"),
                iptables_hex_option("nfmask", mask),
                iptables_hex_option("ctmask", u32::MAX),
            ])),
            None => cursor.refuse_last_token("a mark that is saved and changed in one statement"),
        };
    }
    let (value, mask) = if cursor.take_keyword_sequence(&["ct", "mark"]) {
        let MarkExpression { and_mask: keep, xor_bits: xor } = MarkExpression::parse(cursor)?;
        (xor, !keep)
    } else {
        (parse_number(cursor, u32::MAX.into())? as u32, u32::MAX)
    };
    let value = ExtensionValue::Masked(value.into(), mask.into());
    Ok(connmark_target(vec![TypedExtensionOption { negated: false, name: "set-xmark", value }]))
}

fn connmark_target(options: Vec<TypedExtensionOption>) -> Effect {
    Effect::Other(ExtensionTarget { module: "CONNMARK", options })
}

fn iptables_flag_option(name: &'static str) -> TypedExtensionOption {
    TypedExtensionOption { negated: false, name, value: ExtensionValue::Flag }
}

fn iptables_hex_option(name: &'static str, value: u32) -> TypedExtensionOption {
    TypedExtensionOption { negated: false, name, value: ExtensionValue::Hex(value.into()) }
}

/// `1:a`, `none`, `root`, or one number.
fn parse_tc_class(cursor: &mut NftTokenCursor<'_>) -> ParseResult<(u16, u16)> {
    let word = cursor.expect_word("a class")?;
    let half = |text: &str| u16::from_str_radix(text, 16).ok();
    let found = match word.split_once(':') {
        Some((major, minor)) => half(major).zip(half(minor)),
        None if word == "none" => Some((0, 0)),
        None if word == "root" => Some((0xffff, 0xffff)),
        None => {
            value_parser::parse_integer(word, u32::MAX.into()).map(|n| ((n >> 16) as u16, n as u16))
        }
    };
    match found {
        Some(class) => Ok(class),
        None => cursor.refuse_last_token(format!("{word} is not a class")),
    }
}

/// `ip dscp set 0x2`, and with `ip ecn set ce` after it all of the octet.
fn parse_dscp_or_tos_set(cursor: &mut NftTokenCursor<'_>, ip: &str) -> ParseResult<Effect> {
    let word = cursor.expect_word("a code point")?;
    let Some(dscp) = value_parser::parse_unshifted_dscp(word) else {
        return cursor.refuse_last_token(format!("{word} is not a code point"));
    };
    if !cursor.take_keyword_sequence(&[ip, "ecn", "set"]) {
        return Ok(Effect::Dscp(dscp as u8));
    }
    let word = cursor.expect_word("two bits")?;
    match value_parser::parse_ecn(word) {
        Some(ecn) => Ok(Effect::Tos { xor_value: (dscp << 2 | ecn) as u8, clear_mask: 0xff }),
        None => cursor.refuse_last_token(format!("{word} is not a congestion notification")),
    }
}

const NFT_LOG_LEVELS: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
/// iptables' and nft's default.
const DEFAULT_LOG_LEVEL: usize = 4;

const IPTABLES_LOG_FLAG_OPTIONS: [&str; 5] =
    ["log-tcp-sequence", "log-tcp-options", "log-ip-options", "log-uid", "log-macdecode"];

/// LOG, or NFLOG where a group is named. Options in the order of `iptables-save`.
fn parse_log(cursor: &mut NftTokenCursor<'_>) -> ParseResult<ExtensionTarget> {
    let (mut prefix, mut level, mut flags) = (None, DEFAULT_LOG_LEVEL, [false; 5]);
    let (mut group, mut size, mut threshold) = (None, None, None);
    loop {
        if cursor.take_keyword("prefix") {
            prefix = Some(cursor.expect_quoted("a prefix")?.to_owned());
        } else if cursor.take_keyword("level") {
            let word = cursor.expect_word("a level")?;
            level = match NFT_LOG_LEVELS.iter().position(|l| *l == word) {
                Some(at) => at,
                None => return cursor.refuse_last_token(format!("LOG has no level {word}")),
            };
        } else if cursor.take_keyword("flags") {
            parse_log_flags(cursor, &mut flags)?;
        } else if cursor.take_keyword("group") {
            group = Some(parse_number(cursor, 0xffff)? as u64);
        } else if cursor.take_keyword("snaplen") {
            size = Some(parse_number(cursor, u32::MAX.into())? as u64);
        } else if cursor.take_keyword("queue-threshold") {
            threshold = Some(parse_number(cursor, 0xffff)? as u64);
        } else {
            break;
        }
    }
    let mut options = Vec::new();
    let mut push = |name, value| options.push(TypedExtensionOption { negated: false, name, value });
    let Some(group) = group else {
        if size.or(threshold).is_some() {
            return cursor.refuse_last_token("a kernel log has no length or threshold");
        }
        if let Some(prefix) = prefix {
            push("log-prefix", ExtensionValue::Text(prefix));
        }
        if level != DEFAULT_LOG_LEVEL {
            push("log-level", ExtensionValue::Number(level as u64));
        }
        for (name, _) in IPTABLES_LOG_FLAG_OPTIONS.into_iter().zip(flags).filter(|(_, is)| *is) {
            push(name, ExtensionValue::Flag);
        }
        return Ok(ExtensionTarget { module: "LOG", options });
    };
    if let Some(prefix) = prefix {
        push("nflog-prefix", ExtensionValue::Text(prefix));
    }
    if group != 0 {
        push("nflog-group", ExtensionValue::Number(group));
    }
    if let Some(size) = size {
        push("nflog-size", ExtensionValue::Number(size));
    }
    if let Some(threshold) = threshold.filter(|t| *t != 0) {
        push("nflog-threshold", ExtensionValue::Number(threshold));
    }
    Ok(ExtensionTarget { module: "NFLOG", options })
}

fn parse_log_flags(cursor: &mut NftTokenCursor<'_>, flags: &mut [bool; 5]) -> ParseResult<()> {
    match cursor.expect_word("a flag")? {
        "all" => *flags = [true; 5],
        "skuid" => flags[3] = true,
        "ether" => flags[4] = true,
        "ip" if cursor.take_keyword("options") => flags[2] = true,
        "tcp" => {
            for word in cursor.expect_word("sequence or options")?.split(',') {
                match word {
                    "sequence" => flags[0] = true,
                    "options" => flags[1] = true,
                    _ => return cursor.refuse_last_token(format!("LOG has no flag {word} of tcp")),
                }
            }
        }
        other => return cursor.refuse_last_token(format!("LOG has no flag {other}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(text: &str) -> Effect {
        match parse_effect_reject_or_nat(&mut NftTokenCursor::new(text), Family::V4) {
            Ok(Some(Statement::Effect(effect))) => effect,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn both_spellings_of_a_mark_change_are_parsed_equally() {
        let given = effect("meta mark set mark & 0xfffffff0 ^ 0x12");
        let listed = effect("meta mark set meta mark & 0xfffffff2 ^ 0x00000010 | 0x00000002");
        assert_eq!(given, Effect::Mark { xor_value: 0x12, clear_mask: 0xf });
        assert_eq!(given, listed);
    }

    #[test]
    fn nat_ranges_of_both_families_are_parsed() {
        let v6 = parse_nat_range("[2001:db8::1]-[2001:db8::5]:80-90", Family::V6).expect("a range");
        assert_eq!(v6.ports, Some((80, 90)));
        assert_eq!(v6.addrs.map(|(lo, hi)| hi.0 - lo.0), Some(4));
        let bare = parse_nat_range("2001:db8::1", Family::V6).expect("an address");
        assert!(bare.addrs.is_some() && bare.ports.is_none());
        let port = parse_nat_range(":80", Family::V4).expect("a port");
        assert_eq!((port.addrs, port.ports), (None, Some((80, 80))));
        assert_eq!(parse_nat_range("10.0.0.1:http", Family::V4), None);
    }
}
