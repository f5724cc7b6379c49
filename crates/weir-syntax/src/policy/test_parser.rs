//! A test: its name, the expected verdict, `packet` or `all`, `via`, and the packets.

use std::ops::Range;

use weir_model::{Field, Hook, Span};

use super::definitions::Definitions;
use super::policy_types::{AssumedMatchResult, ExpectedVerdict, PolicyTest, PolicyTestPackets};
use super::region_parser::parse_region;
use super::statements::{PolicyStatement, PolicyToken, span_of_bytes};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::find_reject_type;
use crate::packet::parse_packet_and_given_fields;

const STATEMENT_HELP: &str = "begin with group, define, a name in quotes, or a verdict: accept, \
                              drop, reject, deny, handed-over";
const SUBJECT_HELP: &str = "after the verdict write `packet` and the words of a packet, or `all` \
                            and those of a region";

/// Reads a test of a group.
pub(super) fn parse_test(
    text: &str,
    statement: &PolicyStatement<'_>,
    definitions: &Definitions,
    group: Option<String>,
) -> ParseResult<PolicyTest> {
    let (first, last) = (statement.tokens[0], statement.tokens[statement.tokens.len() - 1]);
    let mut rest = &statement.tokens[..];
    if first.is_quoted {
        rest = &rest[1..];
    }
    let missing = |what: &str, help: &str| {
        let end = span_of_bytes(last.end, last.end);
        Box::new(Diagnostic::new(format!("the test has no {what}"), end).with_help(help))
    };
    let words_start = rest.first().ok_or_else(|| missing("verdict", STATEMENT_HELP))?.start;
    let expected = parse_verdict(&mut rest)?;
    let Some((kind, after)) = rest.split_first() else {
        return Err(missing("packets", SUBJECT_HELP));
    };
    rest = after;
    let via = parse_via(&mut rest)?;
    let assumptions = split_assumptions(&mut rest)?;
    let subject = match kind.text {
        "packet" => parse_packet_subject(text, rest, definitions, last.end)?,
        "all" => parse_region(rest, definitions)?,
        _ => {
            return Err(kind.error(format!("{} instead of packet or all", kind.text), SUBJECT_HELP));
        }
    };
    let span = span_of_bytes(words_start, last.end);
    check_devices_of_path(&subject, via, span)?;
    let words = join_words(text, &statement.tokens, words_start);
    let name = if first.is_quoted { first.text.to_owned() } else { words.clone() };
    let line = statement.line;
    let TestAssumptions { assumed_results, assumed_not_to_drop } = assumptions;
    Ok(PolicyTest {
        group,
        name,
        words,
        expected,
        subject,
        via,
        assumed_results,
        assumed_not_to_drop,
        span,
        line,
    })
}

fn parse_verdict(rest: &mut &[PolicyToken<'_>]) -> ParseResult<ExpectedVerdict> {
    let (word, after) = (rest[0], &rest[1..]);
    *rest = after;
    let expected = match word.text {
        _ if word.is_quoted => return Err(word.error("a second name", STATEMENT_HELP)),
        "accept" => ExpectedVerdict::Accept,
        "drop" => ExpectedVerdict::Drop,
        "deny" => ExpectedVerdict::Deny,
        "handed-over" => ExpectedVerdict::HandedOver,
        "reject" => match after {
            [with, kind, tail @ ..] if with.text == "with" => {
                *rest = tail;
                ExpectedVerdict::Reject(Some(parse_reject_type(kind)?))
            }
            _ => ExpectedVerdict::Reject(None),
        },
        other => return Err(word.error(format!("unknown word {other}"), STATEMENT_HELP)),
    };
    Ok(expected)
}

fn parse_reject_type(word: &PolicyToken<'_>) -> ParseResult<&'static str> {
    find_reject_type(word.text).map_err(|known| {
        let message = format!("unknown REJECT type {}", word.text);
        word.error(message, format!("use one of {}", known.join(", ")))
    })
}

/// `via forward`: the hook of the filter table.
fn parse_via(rest: &mut &[PolicyToken<'_>]) -> ParseResult<Option<Hook>> {
    let [via, after @ ..] = *rest else { return Ok(None) };
    if via.text != "via" {
        return Ok(None);
    }
    let help = "via forward, via input or via output";
    let [path, after @ ..] = after else {
        return Err(via.error("via without a path", help));
    };
    *rest = after;
    Ok(Some(match path.text.to_ascii_lowercase().as_str() {
        "forward" => Hook::Forward,
        "input" => Hook::Input,
        "output" => Hook::Output,
        _ => return Err(path.error(format!("unknown path {}", path.text), help)),
    }))
}

/// What a test assumes of modules and targets.
#[derive(Default)]
struct TestAssumptions {
    assumed_results: Vec<AssumedMatchResult>,
    assumed_not_to_drop: Vec<String>,
}

/// `if limit matches`, `if limit does not match`, `if TCPMSS does not drop`: takes these from the
/// end of the words.
fn split_assumptions(rest: &mut &[PolicyToken<'_>]) -> ParseResult<TestAssumptions> {
    let is_if = |token: &PolicyToken<'_>| token.text == "if" && !token.is_quoted;
    let mut assumed = TestAssumptions::default();
    let Some(first) = rest.iter().position(is_if) else { return Ok(assumed) };
    let (packets, assumptions) = rest.split_at(first);
    *rest = packets;
    for clause in assumptions.chunk_by(|_, next| !is_if(next)) {
        let words: Vec<&str> = clause.iter().map(|token| token.text).collect();
        let (name, matches) = match words[..] {
            [_, module, "matches"] => (module, Some(true)),
            [_, module, "does", "not", "match"] => (module, Some(false)),
            [_, name, "does", "not", "drop"] => (name, None),
            _ => {
                let help = "write `if limit matches`, `if limit does not match` or `if TCPMSS \
                            does not drop` after the packets";
                return Err(clause[0].error("an assumption that is not complete", help));
            }
        };
        let is_second = match matches {
            Some(_) => assumed.assumed_results.iter().any(|earlier| earlier.module == name),
            None => assumed.assumed_not_to_drop.iter().any(|earlier| earlier == name),
        };
        if is_second {
            let message = format!("a second assumption about {name}");
            return Err(clause[1].error(message, "one result holds for all matches of a module"));
        }
        let name = name.to_owned();
        match matches {
            Some(matches) => {
                assumed.assumed_results.push(AssumedMatchResult { module: name, matches });
            }
            None => assumed.assumed_not_to_drop.push(name),
        }
    }
    Ok(assumed)
}

/// The packet of the words up to byte `end`.
fn parse_packet_subject(
    text: &str,
    tokens: &[PolicyToken<'_>],
    definitions: &Definitions,
    end: usize,
) -> ParseResult<PolicyTestPackets> {
    if let Some(via) = tokens.iter().find(|token| token.text == "via" && !token.is_quoted) {
        return Err(via.misplaced_via_error());
    }
    let mut words = PacketWords::default();
    for token in tokens {
        let help = "a packet has one value in each field; write `all` for several packets";
        let several = || token.error(format!("{} in a packet", token.text), help);
        if token.text == "{" {
            return Err(several());
        }
        match token.text.starts_with('$') {
            true => match &definitions.expand_value(token)?[..] {
                [value] => words.push(token, value),
                _ => return Err(several()),
            },
            false => words.push(token, &text[token.start..token.end]),
        }
    }
    match parse_packet_and_given_fields(&words.text) {
        Ok((packet, given)) => Ok(PolicyTestPackets::Packet { packet: Box::new(packet), given }),
        Err(error) => {
            let span = words.span_in_policy(error.span.clone(), end);
            Diagnostic::new(error.message, span).with_help(error.help).into_err()
        }
    }
}

/// Refuses a device that packets of the path do not have, and a packet without a path.
fn check_devices_of_path(
    subject: &PolicyTestPackets,
    via: Option<Hook>,
    span: Span,
) -> ParseResult<()> {
    let given = match subject {
        PolicyTestPackets::Packet { given, .. } | PolicyTestPackets::Region { given, .. } => given,
    };
    let (has_iif, has_oif) = (given.contains(Field::Iif), given.contains(Field::Oif));
    let (message, help) = match via {
        Some(Hook::Input) if has_oif => {
            ("a packet to this host has no output device", "remove oif, or write via forward")
        }
        Some(Hook::Output) if has_iif => {
            ("a packet from this host has no input device", "remove iif, or write via forward")
        }
        None if !has_iif && !has_oif && matches!(subject, PolicyTestPackets::Packet { .. }) => (
            "the path of the packet is not known",
            "add iif (to this host), oif (from it), both (through it), or via input, via output, \
             via forward",
        ),
        _ => return Ok(()),
    };
    Diagnostic::new(message, span).with_help(help).into_err()
}

/// The words of a packet without comments and line ends, with the values of definitions.
#[derive(Default)]
struct PacketWords {
    text: String,
    /// Bytes of the words, and the bytes of the policy that they stand for.
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl PacketWords {
    fn push(&mut self, token: &PolicyToken<'_>, word: &str) {
        if self.places.last().is_some_and(|(_, above)| above.end < token.start) {
            self.text.push(' ');
        }
        let start = self.text.len();
        self.text.push_str(word);
        self.places.push((start..self.text.len(), token.start..token.end));
    }

    /// The place in the policy of a place in the words; `end` if there are no words.
    fn span_in_policy(&self, span: Range<usize>, end: usize) -> Span {
        let (start, last) = (span.start, span.end.saturating_sub(1));
        let place_of = |at: usize| {
            let (_, of_policy) = self
                .places
                .iter()
                .find(|(words, _)| at < words.end)
                .or_else(|| self.places.last())?;
            Some(of_policy.clone())
        };
        match (place_of(start), place_of(last.max(start))) {
            (Some(first), Some(last)) => span_of_bytes(first.start, last.end),
            _ => span_of_bytes(end, end),
        }
    }
}

/// The words of a test with single spaces, as it is shown.
fn join_words(text: &str, tokens: &[PolicyToken<'_>], start: usize) -> String {
    let mut words = String::new();
    let mut end = start;
    for token in tokens.iter().filter(|token| token.start >= start) {
        if token.start > end {
            words.push(' ');
        }
        words.push_str(&text[token.start..token.end]);
        end = token.end;
    }
    words
}
