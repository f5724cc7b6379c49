//! Values of a field in a region: `V`, `V-W`, `{ V, W }`, `!= V`, `$NAME`, `any`.

use std::net::IpAddr;

use weir_model::rule_match::ct_state;
use weir_model::{Addr, Family, Field, Predicate};

use super::definitions::Definitions;
use super::region_draft::OPENING_FLAGS_MASK;
use super::statements::PolicyToken;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::packet::name_lookup::{
    builtin_service_port, icmp_type_number, parse_protocol_name_or_number, tcp_flag_bit,
};

/// How the values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValueKind {
    /// A name; `ppp*` are all that begin with `ppp`.
    Device,
    /// An address, a prefix or a range.
    Address(Family),
    /// A port or a service, or a range.
    Port,
    /// A number or a range.
    Number,
    /// The upper six bits of the TOS octet, or a range.
    Dscp,
    /// A number, with a mask.
    MaskedNumber,
    /// A name or a number.
    Protocol,
    /// An ICMP type of this protocol, with any code.
    IcmpType(u8),
    /// An ICMP code, of any type.
    IcmpCode,
    /// Flags that are set, of FIN, SYN, RST and ACK and those that are named.
    TcpFlags,
    /// A state of conntrack.
    CtState,
    /// `snat` or `dnat`.
    CtStatus,
    /// Unicast, broadcast, multicast.
    PktType,
    /// An Ethernet address.
    Mac,
}

/// The values after a field.
pub(super) struct FieldValueList<'p, 't> {
    /// Each with the word that stands for it.
    values: Vec<(&'p PolicyToken<'t>, String)>,
    pub negated: bool,
    /// `any`.
    pub is_any: bool,
    /// `{ A, B }`.
    pub has_braces: bool,
}

/// Takes the values after the name of a field from the words.
pub(super) fn parse_value_list<'p, 't>(
    tokens: &mut &'p [PolicyToken<'t>],
    field: &'p PolicyToken<'t>,
    definitions: &Definitions,
) -> ParseResult<FieldValueList<'p, 't>> {
    let mut list =
        FieldValueList { values: Vec::new(), negated: false, is_any: false, has_braces: false };
    if let Some((not, rest)) = tokens.split_first().filter(|(not, _)| not.text == "!=") {
        (list.negated, *tokens) = (true, rest);
        if rest.is_empty() {
            return Err(not.error("nothing after !=", "write a value after it"));
        }
    }
    let open = tokens.first().filter(|token| token.text == "{");
    list.has_braces = open.is_some();
    if open.is_some() {
        *tokens = &tokens[1..];
    }
    let mut last = open.unwrap_or(field);
    loop {
        let Some((word, rest)) = tokens.split_first().filter(|(w, _)| is_not_punctuation(w)) else {
            let message = format!("no value after {}", last.text);
            return Err(last.error(message, "write a value, or several: { A, B }"));
        };
        *tokens = rest;
        list.values.extend(definitions.expand_value(word)?.into_iter().map(|value| (word, value)));
        last = word;
        match tokens.split_first() {
            Some((comma, rest)) if comma.text == "," => (last, *tokens) = (comma, rest),
            Some((close, rest)) if close.text == "}" && open.is_some() => {
                *tokens = rest;
                break;
            }
            _ if open.is_some() => {
                return Err(last.error("the list is not closed", "values stand as { A, B }"));
            }
            _ => break,
        }
    }
    if let Some((word, _)) = list.values.iter().find(|(_, value)| value == "any") {
        if list.values.len() > 1 || list.negated {
            return Err(word.error("any among other values", "`any` stands alone"));
        }
        list.is_any = true;
    }
    Ok(list)
}

fn is_not_punctuation(word: &PolicyToken<'_>) -> bool {
    word.is_quoted || !matches!(word.text, "{" | "}" | "," | "=" | "!=")
}

impl FieldValueList<'_, '_> {
    /// What the field is compared with; for flags, all values together are one.
    pub fn predicates(&self, field: Field, kind: FieldValueKind) -> ParseResult<Vec<Predicate>> {
        if kind == FieldValueKind::TcpFlags {
            return Ok(vec![self.exact_tcp_flags_predicate()?]);
        }
        self.values.iter().map(|(word, value)| parse_value(word, value, field, kind)).collect()
    }

    /// These flags, and of the tested ones no others.
    pub fn tcp_flags_within(
        &self,
        slash: &PolicyToken<'_>,
        tested: &FieldValueList<'_, '_>,
    ) -> ParseResult<Predicate> {
        let help = "before the slash are the flags that are set, after it all that are tested: \
                    syn / fin,syn,rst,ack";
        if self.is_any || tested.is_any || tested.negated {
            return Err(slash.error("a slash without flags on both sides", help));
        }
        let (value, mask) = (self.tcp_flag_bits()?, tested.tcp_flag_bits()?);
        if value & !mask != 0 {
            return Err(slash.error("a flag is set that is not tested", help));
        }
        Ok(Predicate::Masked { value, mask })
    }

    fn tcp_flag_bits(&self) -> ParseResult<u128> {
        if let (true, Some((word, _))) = (self.has_braces, self.values.first()) {
            let help = "the flags of a packet are written as syn,ack; write a test for each \
                        combination of flags";
            return Err(word.error("TCP flags in braces", help));
        }
        let mut set = 0;
        for (word, flag) in &self.values {
            let help = "fin, syn, rst, psh, ack, urg, or none, separated by commas; then \
                        ` / ` and all flags that are tested, if these are others";
            let bit = tcp_flag_bit(flag)
                .ok_or_else(|| word.error(format!("unknown TCP flag {flag}"), help))?;
            set |= u128::from(bit);
        }
        Ok(set)
    }

    fn exact_tcp_flags_predicate(&self) -> ParseResult<Predicate> {
        let set = self.tcp_flag_bits()?;
        let mask = if set == 0 { 0x3f } else { OPENING_FLAGS_MASK | set };
        Ok(Predicate::Masked { value: set, mask })
    }
}

fn parse_value(
    word: &PolicyToken<'_>,
    value: &str,
    field: Field,
    kind: FieldValueKind,
) -> ParseResult<Predicate> {
    let refuse = |what: &str, help: &str| word.error(format!("{value} is not {what}"), help);
    Ok(match kind {
        FieldValueKind::Device => parse_device(word, value)?,
        FieldValueKind::Address(family) => parse_addresses(word, value, family)?,
        FieldValueKind::Port => {
            let port = |text: &str| {
                builtin_service_port(text).or_else(|| text.parse().ok()).map(u128::from)
            };
            parse_range(
                word,
                value,
                "a port",
                "a number up to 65535, a service, or 1024-65535",
                port,
            )?
        }
        FieldValueKind::Number => {
            let max = field.max_value(Family::V4);
            let number = |text: &str| parse_number(text).filter(|number| *number <= max);
            parse_range(
                word,
                value,
                "a value of the field",
                &format!("0 to {max}, or A-B"),
                number,
            )?
        }
        FieldValueKind::Dscp => {
            let number = |text: &str| parse_number(text).filter(|number| *number <= 63);
            match parse_range(word, value, "a DSCP", "0 to 63, or A-B", number)? {
                Predicate::InSpans(spans) => Predicate::InSpans(
                    spans.into_iter().map(|(low, high)| (low << 2, high << 2 | 3)).collect(),
                ),
                other => other,
            }
        }
        FieldValueKind::MaskedNumber => {
            let (number, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
            let fits = |text: &str| parse_number(text).filter(|n| *n <= u32::MAX.into());
            match (fits(number), fits(mask)) {
                (Some(value), Some(mask)) if value & !mask == 0 => {
                    Predicate::Masked { value, mask }
                }
                _ => {
                    return Err(refuse(
                        "a mark",
                        "0x1, or 0x1/0xff: the bits of the value within the mask",
                    ));
                }
            }
        }
        FieldValueKind::IcmpType(proto) => {
            let number = |text: &str| {
                icmp_type_number(proto, text).or_else(|| text.parse().ok()).map(u128::from)
            };
            let help = "0 to 255, a name of nft such as echo-request, or A-B";
            match parse_range(word, value, "an ICMP type", help, number)? {
                Predicate::InSpans(spans) => Predicate::InSpans(
                    spans.into_iter().map(|(low, high)| (low << 8, high << 8 | 0xff)).collect(),
                ),
                other => other,
            }
        }
        _ => return parse_named_value(word, value, kind),
    })
}

/// A value that is a name, or an address of Ethernet.
fn parse_named_value(
    word: &PolicyToken<'_>,
    value: &str,
    kind: FieldValueKind,
) -> ParseResult<Predicate> {
    let refuse = |what: &str, help: &str| word.error(format!("{value} is not {what}"), help);
    let single = |number: u128| Predicate::InSpans(vec![(number, number)]);
    Ok(match kind {
        FieldValueKind::Protocol => match parse_protocol_name_or_number(value) {
            Some(number) => single(number.into()),
            None => {
                return Err(refuse(
                    "a protocol",
                    "tcp, udp, icmp, icmpv6, gre, esp, …, or 1 to 255",
                ));
            }
        },
        FieldValueKind::IcmpCode => match value.parse::<u8>() {
            Ok(code) => Predicate::Masked { value: code.into(), mask: 0xff },
            Err(_) => return Err(refuse("an ICMP code", "0 to 255")),
        },
        FieldValueKind::CtState => Predicate::AnyBit(match value.to_ascii_lowercase().as_str() {
            "new" => ct_state::NEW.into(),
            "established" => ct_state::ESTABLISHED.into(),
            "related" => ct_state::RELATED.into(),
            "invalid" => ct_state::INVALID.into(),
            "untracked" => ct_state::UNTRACKED.into(),
            _ => {
                let help = "new, established, related, invalid, untracked, or any";
                return Err(refuse("a state", help));
            }
        }),
        FieldValueKind::CtStatus => Predicate::AnyBit(match value {
            "snat" => ct_state::SNAT.into(),
            "dnat" => ct_state::DNAT.into(),
            _ => return Err(refuse("a status", "snat, dnat, or any")),
        }),
        FieldValueKind::PktType => single(match value {
            "unicast" | "host" => 0,
            "broadcast" => 1,
            "multicast" => 2,
            _ => return Err(refuse("a packet type", "unicast, broadcast, multicast, or any")),
        }),
        FieldValueKind::Mac => {
            let bytes: Vec<_> = value.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
            let bytes: Result<Vec<u8>, _> = bytes.into_iter().collect();
            match bytes {
                Ok(bytes) if bytes.len() == 6 => {
                    single(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
                }
                _ => return Err(refuse("a MAC address", "as 02:00:00:00:00:01")),
            }
        }
        _ => return Err(refuse("a value of the field", "write a number or a name")),
    })
}

fn parse_device(word: &PolicyToken<'_>, value: &str) -> ParseResult<Predicate> {
    let (name, prefix) = match value.strip_suffix('*') {
        Some(name) => (name, true),
        None => (value, false),
    };
    let is_name = !name.is_empty() && name.len() <= 15 && !name.contains(['/', '*', '+']);
    if !is_name {
        let help = "eth0, or ppp* for all that begin with ppp";
        return Err(word.error(format!("{value} is not a device name"), help));
    }
    Ok(Predicate::Device { name: name.into(), prefix })
}

fn parse_number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `V` or `V-W`.
fn parse_range(
    word: &PolicyToken<'_>,
    value: &str,
    what: &str,
    help: &str,
    parse: impl Fn(&str) -> Option<u128>,
) -> ParseResult<Predicate> {
    let span = match parse(value) {
        Some(number) => Some((number, number)),
        None => value.split_once('-').and_then(|(low, high)| Some((parse(low)?, parse(high)?))),
    };
    let Some((low, high)) = span else {
        return Err(word.error(format!("{value} is not {what}"), help));
    };
    if low > high {
        let help = format!("write {high}-{low}");
        return Err(word.error(format!("the range {value} is empty"), help));
    }
    Ok(Predicate::InSpans(vec![(low, high)]))
}

fn parse_addresses(word: &PolicyToken<'_>, value: &str, family: Family) -> ParseResult<Predicate> {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let help = "an address, a prefix (192.0.2.0/24) or a range (192.0.2.1-192.0.2.9); no name";
    let (first, rest, separator) = match (value.split_once('/'), value.split_once('-')) {
        (Some((first, length)), _) => (first, Some(length), '/'),
        (None, Some((first, last))) => (first, Some(last), '-'),
        (None, None) => (value, None, ' '),
    };
    let not_an_address = || word.error(format!("{value} is not an address"), help);
    let first = address(first).ok_or_else(not_an_address)?;
    let of_family = |address: IpAddr| {
        if address.is_ipv4() == (family == Family::V4) {
            return Ok(Addr::from(address).0);
        }
        let word_of_family = if address.is_ipv4() { "ip" } else { "ip6" };
        let message = format!("{value} is of the other family");
        let help = format!("write {word_of_family} before it; a test for each family");
        Diagnostic::new(message, word.span()).with_help(help).into_err()
    };
    let low = of_family(first)?;
    let high = match (separator, rest) {
        (' ', _) | (_, None) => low,
        ('/', Some(length)) => {
            let bits = family.addr_bits();
            let length: u32 = length.parse().ok().filter(|l| *l <= bits).ok_or_else(|| {
                word.error(format!("/{length} is not a prefix length"), format!("/0 to /{bits}"))
            })?;
            let hosts = match bits - length {
                128 => u128::MAX,
                host_bits => (1 << host_bits) - 1,
            };
            if low & hosts != 0 {
                let prefix = Addr(low & !hosts).display(family).to_string();
                let help = format!("write {prefix}/{length} for the prefix, or the address alone");
                return Err(word.error(format!("{value} has bits beyond its prefix"), help));
            }
            low | hosts
        }
        (_, Some(last)) => of_family(address(last).ok_or_else(not_an_address)?)?,
    };
    if low > high {
        return Err(word.error(format!("the range {value} is empty"), "write the lower end first"));
    }
    Ok(Predicate::InSpans(vec![(low, high)]))
}
