//! Filter sets and traces in the format of ClassBench.
//!
//! One filter per line, `@saddr/len daddr/len sport_lo : sport_hi dport_lo : dport_hi proto/mask
//! flags/mask`, earlier lines first; the last pair is not used. One packet per line of a trace:
//! source and destination address, source and destination port, protocol, all decimal; what follows
//! is not used. Empty lines and lines that begin with `#` are left out.
//!
//! # Source
//! D. E. Taylor, J. S. Turner: ClassBench: A Packet Classification Benchmark, IEEE/ACM
//! Transactions on Networking 15(3), 2007.

use std::net::Ipv4Addr;

use thiserror::Error;

use crate::filter_set::{FilterSet, WordTest};
use crate::key::{KeySchema, KeyTable};

/// A line that is not of the format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}: `{text}`")]
pub struct ClassBenchError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What was expected.
    pub problem: &'static str,
    /// The part of the line that is not.
    pub text: String,
}

/// Reads a filter set. Rules are numbered from 0 in the order of the lines; each decides if
/// `is_deciding`, or only counts.
///
/// ```
/// use weir_classify::classbench::parse_filter_set;
/// let text = "@10.0.0.0/8 192.0.2.1/32 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n";
/// let filters = parse_filter_set(text, true).unwrap();
/// assert!(filters.filter(0).matches(&[0x0a00_0001, 0xc000_0201, 4711, 80, 6]));
/// ```
///
/// # Errors
/// The first line that is not of the format.
pub fn parse_filter_set(text: &str, is_deciding: bool) -> Result<FilterSet, ClassBenchError> {
    let mut filters = FilterSet::new(KeySchema::five_tuple());
    let mut number = 0;
    for (index, line) in text.lines().enumerate() {
        if is_left_out(line) {
            continue;
        }
        let tests = parse_filter(line).map_err(|(problem, text)| ClassBenchError {
            line: index + 1,
            problem,
            text,
        })?;
        filters.push_rule(number, is_deciding, &tests);
        number += 1;
    }
    Ok(filters)
}

/// Reads the keys of a trace.
///
/// # Errors
/// The first line that is not of the format.
pub fn parse_trace(text: &str) -> Result<KeyTable, ClassBenchError> {
    let mut keys = KeyTable::new(&KeySchema::five_tuple());
    for (index, line) in text.lines().enumerate() {
        if is_left_out(line) {
            continue;
        }
        let mut key = [0; 5];
        let mut fields = line.split_ascii_whitespace();
        let limits = [u32::MAX, u32::MAX, 0xffff, 0xffff, 0xff];
        for (word, max) in key.iter_mut().zip(limits) {
            let field = fields.next().unwrap_or("");
            *word = field.parse().ok().filter(|value| *value <= max).ok_or_else(|| {
                let problem = "expected two addresses, two ports and a protocol, all decimal";
                ClassBenchError { line: index + 1, problem, text: field.into() }
            })?;
        }
        keys.push(&key);
    }
    Ok(keys)
}

fn is_left_out(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

type LineProblem = (&'static str, String);

fn parse_filter(line: &str) -> Result<[WordTest; 5], LineProblem> {
    let line = line.trim();
    let rest = line.strip_prefix('@').ok_or(("a filter begins with `@`", line.to_string()))?;
    let mut fields = rest.split_ascii_whitespace();
    let saddr = parse_prefix(fields.next().unwrap_or(""))?;
    let daddr = parse_prefix(fields.next().unwrap_or(""))?;
    let sport = parse_port_range(&mut fields)?;
    let dport = parse_port_range(&mut fields)?;
    let proto = parse_exact_or_any_protocol(fields.next().unwrap_or(""))?;
    Ok([saddr, daddr, sport, dport, proto])
}

fn parse_prefix(text: &str) -> Result<WordTest, LineProblem> {
    let parsed = text.split_once('/').and_then(|(address, len)| {
        let address: Ipv4Addr = address.parse().ok()?;
        let len: u32 = len.parse().ok().filter(|len| *len <= 32)?;
        Some(WordTest::prefix(address.to_bits(), len))
    });
    parsed.ok_or(("expected a prefix such as 10.0.0.0/8", text.into()))
}

fn parse_port_range<'a>(
    fields: &mut impl Iterator<Item = &'a str>,
) -> Result<WordTest, LineProblem> {
    let [lo, colon, hi] = [(); 3].map(|()| fields.next().unwrap_or(""));
    let parsed = lo.parse::<u16>().ok().zip(hi.parse::<u16>().ok());
    match parsed {
        Some((lo, hi)) if colon == ":" && lo <= hi => {
            Ok(WordTest::Within { lo: lo.into(), hi: hi.into() })
        }
        _ => Err(("expected two ports such as `0 : 65535`", format!("{lo} {colon} {hi}"))),
    }
}

fn parse_exact_or_any_protocol(text: &str) -> Result<WordTest, LineProblem> {
    let parse_hex = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let parsed = text.split_once('/').and_then(|(value, mask)| {
        match (parse_hex(value)?, parse_hex(mask)?) {
            (_, 0) => Some(WordTest::ANY),
            (value @ 0..=0xff, 0xff) => Some(WordTest::exactly(value)),
            _ => None,
        }
    });
    parsed.ok_or(("expected a protocol such as 0x06/0xFF or 0x00/0x00", text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_filter_line_is_reported_by_number() {
        let good = "@10.0.0.0/8\t192.0.2.1/32\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t";
        assert_eq!(parse_filter_set(good, true).unwrap().rule_count(), 1);
        let bad = good.replace("80 : 80", "81 : 80");
        let error = parse_filter_set(&format!("{good}\n# comment\n{bad}"), true).unwrap_err();
        assert_eq!(error.to_string(), "line 3: expected two ports such as `0 : 65535`: `81 : 80`");
        for bad in ["10.0.0.0/8", "@10.0.0.0/33", "@10.0.0.0", &good.replace("0x06/0xFF", "6")] {
            assert!(parse_filter_set(bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_trace_line_requires_five_numbers_in_range() {
        let keys = parse_trace("1 2 3 4 6 4294967295 481\n").unwrap();
        assert_eq!(keys.key(0), [1, 2, 3, 4, 6]);
        assert!(parse_trace("1 2 3 4 256").is_err());
        assert!(parse_trace("1 2 3 4").is_err());
    }
}
