//! An oracle that evaluates the bytes of a packet.
//!
//! A pass may replace a `u32` expression by a header match, or a search algorithm by another one.
//! The question then has a different text, and an answer derived from its hash would differ for the
//! same packet. So `u32` is evaluated on the packet's bytes, as net/netfilter/xt_u32.c does, and a
//! search by its pattern regardless of its algorithm. This is written independently of the pass
//! that it checks.

use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::rule_match::{ExtensionValue, Match};
use weir_model::{Addr, Hook, Packet};
use weir_semantics::{
    ConnectionFactOfHost, JourneyKind, NatQuestion, Oracle, OracleQuestion, UnknownWrite,
};

/// Answers what bytes say, and leaves all else to others.
#[derive(Clone, Copy, Debug, Default)]
pub struct U32EvaluatingOracle<A>(pub A);

impl<A: Oracle> Oracle for U32EvaluatingOracle<A> {
    fn match_holds_or_target_ends_traversal(&mut self, question: &OracleQuestion<'_>) -> bool {
        let Some(Match::UnmodelledInput(host)) = question.match_in_question() else {
            return self.0.match_holds_or_target_ends_traversal(question);
        };
        let option = |name| host.options.iter().find(|o| o.name == name);
        if let ("u32", Some(o)) = (host.module, option("u32"))
            && let ExtensionValue::Text(text) = &o.value
        {
            let bytes = question.packet.to_bytes();
            return evaluate_u32_expression(text, &bytes).unwrap_or(false) != o.negated;
        }
        if host.module != "string" {
            return self.0.match_holds_or_target_ends_traversal(question);
        }
        let mut h = DefaultHasher::new();
        for o in host.options.iter().filter(|o| o.name != "algo") {
            format!("{o:?}").hash(&mut h);
        }
        let content = h.finish();
        self.0.match_holds_or_target_ends_traversal(&OracleQuestion {
            content_digest: content,
            ..*question
        })
    }

    fn match_or_target_drops_packet(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.0.match_or_target_drops_packet(question)
    }

    fn is_reinjected(&mut self, question: &OracleQuestion<'_>) -> bool {
        self.0.is_reinjected(question)
    }

    fn is_connection_fact_of_host_true(
        &mut self,
        fact: ConnectionFactOfHost,
        hook: Hook,
        packet: &Packet,
    ) -> bool {
        self.0.is_connection_fact_of_host_true(fact, hook, packet)
    }

    fn existing_nat_destination(
        &mut self,
        hook: Hook,
        packet: &Packet,
    ) -> Option<(Addr, Option<u16>)> {
        self.0.existing_nat_destination(hook, packet)
    }

    fn choose_written_value(&mut self, write: &UnknownWrite<'_>) -> u128 {
        self.0.choose_written_value(write)
    }

    fn choose_nat_mapping(&mut self, translation: &NatQuestion<'_>) -> Option<(Addr, Option<u16>)> {
        self.0.choose_nat_mapping(translation)
    }

    fn route_packet(&mut self, packet: &Packet, wish: JourneyKind) -> JourneyKind {
        self.0.route_packet(packet, wish)
    }
}

/// Whether a `u32` expression in the spelling of `iptables-save` matches a packet's bytes from the
/// network header on; `None` if the text is not such an expression.
///
/// ```
/// use weir_passes::equivalence_check::evaluate_u32_expression;
/// assert_eq!(evaluate_u32_expression("0x0=0x1:0x3", &[0, 0, 0, 2]), Some(true));
/// assert_eq!(evaluate_u32_expression("0x0&0xff=0x1", &[0, 0, 0, 2]), Some(false));
/// ```
pub fn evaluate_u32_expression(text: &str, bytes: &[u8]) -> Option<bool> {
    for test in text.split("&&") {
        let (location, ranges) = test.split_once('=')?;
        let Some(value) = read_u32_location(location, bytes)? else { return Some(false) };
        let mut holds = false;
        for range in ranges.split(',') {
            let (lo, hi) = range.split_once(':').unwrap_or((range, range));
            holds |=
                (parse_hex_or_decimal_u32(lo)?..=parse_hex_or_decimal_u32(hi)?).contains(&value);
        }
        if !holds {
            return Some(false);
        }
    }
    Some(true)
}

/// The value at a location; inner `None` if it lies beyond the packet.
fn read_u32_location(location: &str, bytes: &[u8]) -> Option<Option<u32>> {
    let end = |s: &str| s.find(['<', '>', '&', '@']).unwrap_or(s.len());
    let read = |at: usize| -> Option<u32> {
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    };
    let first = end(location);
    let mut base = 0usize;
    let Some(mut value) = read(parse_hex_or_decimal_u32(&location[..first])? as usize) else {
        return Some(None);
    };
    let mut rest = &location[first..];
    while !rest.is_empty() {
        let operator = if rest.starts_with(['&', '@']) { 1 } else { 2 };
        let (word, after) = rest.split_at_checked(operator)?;
        let at = end(after);
        let operand = parse_hex_or_decimal_u32(&after[..at])?;
        match word {
            "&" => value &= operand,
            "<<" => value = value.checked_shl(operand).unwrap_or(0),
            ">>" => value = value.checked_shr(operand).unwrap_or(0),
            "@" => {
                base += value as usize;
                match read(base + operand as usize) {
                    Some(v) => value = v,
                    None => return Some(None),
                }
            }
            _ => return None,
        }
        rest = &after[at..];
    }
    Some(Some(value))
}

fn parse_hex_or_decimal_u32(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
