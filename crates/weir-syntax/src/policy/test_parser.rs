//! A test: its name, the expected verdict, `packet` or `all`, `via`, and the packets.

use std::ops::Range;

use weir_model::{Field, Hook, Span};

use super::definitions::Definitions;
use super::policy_types::{AssumedMatchResult, ExpectedVerdict, PolicySubject, PolicyTest};
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
    let assumed_results = split_assumed_results(&mut rest)?;
    let subject = match kind.text {
        "packet" => parse_packet_subject(text, rest, last.end)?,
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
    Ok(PolicyTest { group, name, words, expected, subject, via, assumed_results, span, line })
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

/// `if limit matches`, `if limit does not match`: takes these from the end of the words.
fn split_assumed_results(rest: &mut &[PolicyToken<'_>]) -> ParseResult<Vec<AssumedMatchResult>> {
    let is_if = |token: &PolicyToken<'_>| token.text == "if" && !token.is_quoted;
    let Some(first) = rest.iter().position(is_if) else { return Ok(Vec::new()) };
    let (packets, assumptions) = rest.split_at(first);
    *rest = packets;
    let mut assumed: Vec<AssumedMatchResult> = Vec::new();
    for clause in assumptions.chunk_by(|_, next| !is_if(next)) {
        let words: Vec<&str> = clause.iter().map(|token| token.text).collect();
        let (module, matches) = match words[..] {
            [_, module, "matches"] => (module, true),
            [_, module, "does", "not", "match"] => (module, false),
            _ => {
                let help =
                    "write `if limit matches` or `if limit does not match` after the packets";
                return Err(clause[0].error("an assumption that is not complete", help));
            }
        };
        if assumed.iter().any(|earlier| earlier.module == module) {
            let message = format!("a second assumption about {module}");
            return Err(clause[1].error(message, "one result holds for all matches of a module"));
        }
        assumed.push(AssumedMatchResult { module: module.to_owned(), matches });
    }
    Ok(assumed)
}

/// The packet of the words from the first token to byte `end`.
fn parse_packet_subject(
    text: &str,
    tokens: &[PolicyToken<'_>],
    end: usize,
) -> ParseResult<PolicySubject> {
    let start = tokens.first().map_or(end, |token| token.start);
    let end = tokens.last().map_or(end, |token| token.end);
    if let Some(several) = tokens.iter().find(|t| t.text == "{" || t.text.starts_with('$')) {
        let help = "a packet has one value in each field; write `all` for several packets";
        return Err(several.error(format!("{} in a packet", several.text), help));
    }
    let words = blank_between_tokens(text, tokens, start..end);
    match parse_packet_and_given_fields(&words) {
        Ok((packet, given)) => Ok(PolicySubject::Packet { packet: Box::new(packet), given }),
        Err(error) => {
            let span = span_of_bytes(start + error.span.start, start + error.span.end);
            Diagnostic::new(error.message, span).with_help(error.help).into_err()
        }
    }
}

/// Refuses a device that packets of the path do not have, and a packet without a path.
fn check_devices_of_path(
    subject: &PolicySubject,
    via: Option<Hook>,
    span: Span,
) -> ParseResult<()> {
    let given = match subject {
        PolicySubject::Packet { given, .. } | PolicySubject::Region { given, .. } => given,
    };
    let (has_iif, has_oif) = (given.contains(Field::Iif), given.contains(Field::Oif));
    let (message, help) = match via {
        Some(Hook::Input) if has_oif => {
            ("a packet to this host has no output device", "remove oif, or write via forward")
        }
        Some(Hook::Output) if has_iif => {
            ("a packet from this host has no input device", "remove iif, or write via forward")
        }
        None if !has_iif && !has_oif && matches!(subject, PolicySubject::Packet { .. }) => (
            "the path of the packet is not known",
            "add iif (to this host), oif (from it), both (through it), or via input, via output, \
             via forward",
        ),
        _ => return Ok(()),
    };
    Diagnostic::new(message, span).with_help(help).into_err()
}

/// A part of the text with spaces instead of comments and line ends.
fn blank_between_tokens(text: &str, tokens: &[PolicyToken<'_>], range: Range<usize>) -> String {
    let mut words = String::with_capacity(range.len());
    for token in tokens {
        words.extend(std::iter::repeat_n(' ', token.start - range.start - words.len()));
        words.push_str(&text[token.start..token.end]);
    }
    words
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
