//! The `count` rules of an `ipf.conf` (IP Filter), as `iptables-save` text.
//!
//! A count rule without `quick` counts a packet and continues, like a rule without target. `in` is
//! every packet that arrives on a device, and so raw PREROUTING; `out` is every packet that leaves
//! by one, and so mangle POSTROUTING. Nothing else is supported: a rule that decides (`pass`,
//! `block`, …), and `quick`, which ends the search, are refused by name.
//!
//! The grammar is that of ipf(5): `count in|out [on DEVICE] [proto P] all`, or
//! `… from ADDR [port = N] to ADDR [port = N]`, with `any`, `A.B.C.D` and `A.B.C.D/LEN`.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use weir_model::Span;

use crate::Diagnostic;
use crate::diagnostic::ParseResult;

/// Reads `ipf.conf` text; the result is what [`iptables::parse`](crate::iptables::parse) reads.
///
/// ```
/// let text = weir_syntax::ipf_count_rules::convert_ipf_count_rules("count in on xl0 from 10.1.2.3 to any\n").unwrap();
/// assert!(text.contains("-A PREROUTING -s 10.1.2.3/32 -i xl0\n"));
/// ```
///
/// # Errors
/// All lines that are something else, each with its place.
pub fn convert_ipf_count_rules(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (mut raw, mut mangle) = (String::new(), String::new());
    let mut errors = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        match translate_ipf_count_rule(line, start) {
            Ok(Some((IpfDirection::In, tests))) => {
                append_iptables_rule(&mut raw, "PREROUTING", &tests)
            }
            Ok(Some((IpfDirection::Out, tests))) => {
                append_iptables_rule(&mut mangle, "POSTROUTING", &tests)
            }
            Ok(None) => (),
            Err(error) => errors.push(*error),
        }
        start += line.len();
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut out = String::new();
    for (table, chain, rules) in [("raw", "PREROUTING", raw), ("mangle", "POSTROUTING", mangle)] {
        if !rules.is_empty() {
            let _ = write!(out, "*{table}\n:{chain} ACCEPT [0:0]\n{rules}COMMIT\n");
        }
    }
    Ok(out)
}

fn append_iptables_rule(rules: &mut String, chain: &str, tests: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(rules, "-A {chain}{tests}");
}

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IpfDirection {
    In,
    Out,
}

/// The words of one line, and where they are in the text.
struct IpfWordCursor<'a> {
    line: &'a str,
    line_offset: usize,
    position: usize,
}

impl<'a> IpfWordCursor<'a> {
    /// The next word, without taking it.
    fn peek(&self) -> Option<&'a str> {
        self.line[self.position..].split_ascii_whitespace().next()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        let skipped = self.line[self.position..].find(word).unwrap_or(0);
        self.position += skipped + word.len();
        Some(word)
    }

    /// Takes the next word if it is `word`.
    fn take_keyword(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        if is_there {
            self.next();
        }
        is_there
    }

    /// A problem with the word that was taken last.
    fn error_at_last_word(&self, message: impl Into<String>) -> Box<Diagnostic> {
        let end = self.line_offset + self.position;
        let word = self.line[..self.position].split_ascii_whitespace().next_back().unwrap_or("");
        let span = Span { start: (end - word.len()) as u32, end: end as u32 };
        Box::new(Diagnostic::new(message, span))
    }

    /// The next word, or a problem that says what is missing.
    fn expect_word(&mut self, what: &str) -> ParseResult<&'a str> {
        match self.next() {
            Some(word) => Ok(word),
            None => {
                Err(self.error_at_last_word(format!("the line ends where {what} was expected")))
            }
        }
    }
}

/// One line: a rule's way and tests, or nothing.
fn translate_ipf_count_rule(
    line: &str,
    start: usize,
) -> ParseResult<Option<(IpfDirection, String)>> {
    let line = line.split('#').next().unwrap_or("").trim_end();
    let mut words = IpfWordCursor { line, line_offset: start, position: 0 };
    let Some(action) = words.next() else { return Ok(None) };
    if action != "count" {
        let help = "only `count` rules are supported: other rules may decide packets";
        return Err(words
            .error_at_last_word(format!("`{action}` is not a count rule"))
            .with_help(help)
            .into());
    }
    let way = match words.expect_word("`in` or `out`")? {
        "in" => IpfDirection::In,
        "out" => IpfDirection::Out,
        other => {
            return Err(words.error_at_last_word(format!("`{other}` is neither `in` nor `out`")));
        }
    };
    let mut device = None;
    let mut proto = None;
    if words.take_keyword("on") {
        device = Some(words.expect_word("a device")?.to_owned());
    }
    if words.take_keyword("proto") {
        proto = Some(parse_protocol(&mut words)?);
    }
    let mut tests = String::new();
    let mut ports = String::new();
    if !words.take_keyword("all") {
        parse_from_to(&mut words, proto, &mut tests, &mut ports)?;
    }
    if let Some(word) = words.next() {
        let help = "a rule is read completely or not at all";
        return Err(words
            .error_at_last_word(format!("`{word}` is not read"))
            .with_help(help)
            .into());
    }
    if let Some(device) = device {
        let flag = if way == IpfDirection::In { "-i" } else { "-o" };
        let _ = write!(tests, " {flag} {device}");
    }
    if let Some(proto) = proto {
        let _ = write!(tests, " -p {proto}");
        if !ports.is_empty() {
            let _ = write!(tests, " -m {proto}{ports}");
        }
    }
    Ok(Some((way, tests)))
}

fn parse_protocol(words: &mut IpfWordCursor<'_>) -> ParseResult<&'static str> {
    match words.expect_word("a protocol")? {
        "tcp" => Ok("tcp"),
        "udp" => Ok("udp"),
        "icmp" => Ok("icmp"),
        other => Err(words
            .error_at_last_word(format!("protocol `{other}` is not read"))
            .with_help(
                "tcp, udp and icmp are supported; `tcp/udp` counts two protocols with one rule, \
             which needs two rules here",
            )
            .into()),
    }
}

/// `from … to …`.
fn parse_from_to(
    words: &mut IpfWordCursor<'_>,
    proto: Option<&str>,
    tests: &mut String,
    ports: &mut String,
) -> ParseResult<()> {
    for (word, address, port) in [("from", "-s", "--sport"), ("to", "-d", "--dport")] {
        let found = words.expect_word("`from` or `all`")?;
        if found != word {
            return Err(words.error_at_last_word(format!("`{found}` where `{word}` was expected")));
        }
        if let Some(prefix) = parse_any_or_prefix(words)? {
            let _ = write!(tests, " {address} {prefix}");
        }
        if words.take_keyword("port") {
            if !matches!(proto, Some("tcp" | "udp")) {
                return Err(words.error_at_last_word("a port needs `proto tcp` or `proto udp`"));
            }
            let sign = words.expect_word("`=`")?;
            if sign != "=" {
                return Err(words.error_at_last_word(format!("ports by `{sign}` are not read")));
            }
            let number = words.expect_word("a port")?;
            let Ok(number) = number.parse::<u16>() else {
                return Err(words.error_at_last_word(format!("`{number}` is not a port number")));
            };
            let _ = write!(ports, " {port} {number}");
        }
    }
    Ok(())
}

/// `any`, an address, or a prefix.
fn parse_any_or_prefix(words: &mut IpfWordCursor<'_>) -> ParseResult<Option<String>> {
    let word = words.expect_word("an address")?;
    if word == "any" {
        return Ok(None);
    }
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    match (address.parse::<Ipv4Addr>(), length.parse::<u8>()) {
        (Ok(address), Ok(length)) if length <= 32 => Ok(Some(format!("{address}/{length}"))),
        _ => {
            let help = "an address is `any`, A.B.C.D or A.B.C.D/LENGTH";
            Err(words
                .error_at_last_word(format!("`{word}` is not an address"))
                .with_help(help)
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iptables::{self, ParserSettings};

    fn rendered_refusal(text: &str) -> String {
        let errors = convert_ipf_count_rules(text).unwrap_err();
        assert_eq!(errors.len(), 1, "{text}");
        crate::render_diagnostics(&errors, "ipf.conf", text, false)
    }

    #[test]
    fn count_rules_become_rules_without_a_target() {
        let text = "# by host\ncount in on xl0 from 10.1.2.3 to any\n\n\
                    count out proto tcp from any port = 80 to 10.0.0.0/8 # web\ncount in all\n";
        let text = convert_ipf_count_rules(text).unwrap();
        let rules: Vec<&str> = text.lines().filter(|line| line.starts_with("-A")).collect();
        assert_eq!(
            rules,
            [
                "-A PREROUTING -s 10.1.2.3/32 -i xl0",
                "-A PREROUTING",
                "-A POSTROUTING -d 10.0.0.0/8 -p tcp -m tcp --sport 80"
            ]
        );
        let ruleset = iptables::parse(&text, &ParserSettings::default()).unwrap();
        assert_eq!(iptables::print(&ruleset, false).matches("-A ").count(), 3);
    }

    #[test]
    fn unsupported_count_rules_are_refused_by_name() {
        for (text, named) in [
            ("pass in all\n", "`pass` is not a count rule"),
            ("count in quick all\n", "`quick` where `from` was expected"),
            ("count in from 10.0.0.1 to any keep state\n", "`keep` is not read"),
            ("count in from 10.0.0.300 to any\n", "`10.0.0.300` is not an address"),
            ("count in from any port = 80 to any\n", "a port needs"),
            ("count in proto tcp from any port > 80 to any\n", "ports by `>` are not read"),
            ("count in proto tcp/udp all\n", "`tcp/udp` is not read"),
            ("count\n", "the line ends where `in` or `out` was expected"),
            ("count in from any\n", "the line ends where"),
        ] {
            let drawn = rendered_refusal(text);
            assert!(drawn.contains(named), "{text}: {drawn}");
        }
    }

    #[test]
    fn all_refused_lines_are_reported() {
        let errors =
            convert_ipf_count_rules("count in all\nblock in all\npass in all\n").unwrap_err();
        let lines: Vec<usize> = errors
            .iter()
            .map(|e| e.line_number("count in all\nblock in all\npass in all\n"))
            .collect();
        assert_eq!(lines, [2, 3]);
    }
}
