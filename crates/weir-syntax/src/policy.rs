//! The language of `weir test`: packets and regions, each with the verdict that it must have.
//!
//! ```text
//! # What the office may be asked from outside.
//! define web = { 80, 443 }
//!
//! group "from the Internet"
//!
//! "the web server is reachable"
//!   accept all iif wan0 oif dmz0 ip daddr 192.168.20.5 tcp dport $web
//!   # an indented line continues the one above
//! drop packet iif wan0 ip saddr 198.51.100.7 tcp dport 22
//! ```
//!
//! A statement begins at the start of a line. `packet` is followed by the words of one packet
//! ([`packet`](crate::packet)), `all` by those of a region, in which a field has a value, a prefix,
//! a range, several of these, or the opposite (`!=`). [`region_parser`] says what packets of a
//! region have in the other fields. `if limit matches` at the end assumes the result of matches
//! that packets do not determine, `if TCPMSS does not drop` that a target drops nothing itself.

mod definitions;
mod field_values;
mod policy_types;
mod region_draft;
mod region_parser;
mod statements;
mod test_parser;

use std::collections::HashMap;

use weir_model::Span;

use self::definitions::Definitions;
pub use self::policy_types::{
    AssumedMatchResult, ExpectedVerdict, FirewallPolicy, PolicyTest, PolicyTestPackets,
};
use self::statements::{PolicyStatement, split_statements};
use crate::diagnostic::{Diagnostic, ParseResult};

/// Reads a policy.
///
/// # Errors
/// All errors of the text, each with its place and a cure.
///
/// ```
/// use weir_syntax::policy::{ExpectedVerdict, parse_policy};
/// let policy = parse_policy("\"no ssh\" drop all iif wan0 tcp dport 22\n").unwrap();
/// assert_eq!(policy.tests[0].name, "no ssh");
/// assert_eq!(policy.tests[0].expected, ExpectedVerdict::Drop);
/// ```
pub fn parse_policy(text: &str) -> Result<FirewallPolicy, Vec<Diagnostic>> {
    if let Some(span) = span_of_leading_table_line(text) {
        let message = "this is a ruleset of iptables-save, not a policy";
        let help = "the policy is the first argument: `weir test POLICY FILE`";
        return Err(vec![Diagnostic::new(message, span).with_help(help)]);
    }
    let mut reader = PolicyReader::default();
    let mut errors = Vec::new();
    match split_statements(text) {
        Ok(statements) => {
            for statement in &statements {
                if let Err(error) = reader.read_statement(text, statement) {
                    errors.push(*error);
                }
            }
        }
        Err(found) => errors = found,
    }
    if errors.is_empty() && reader.policy.tests.is_empty() {
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX - 1);
        errors.push(
            Diagnostic::new("the policy has no test", Span { start: end, end })
                .with_help("a test is a line such as `drop all iif wan0 tcp dport 22`"),
        );
    }
    if errors.is_empty() { Ok(reader.policy) } else { Err(errors) }
}

/// The first line, if it begins a table of `iptables-save`: no statement begins with an asterisk.
fn span_of_leading_table_line(text: &str) -> Option<Span> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        if !words.is_empty() && !words.starts_with('#') {
            let end = start + line.trim_end().len();
            return words.starts_with('*').then(|| statements::span_of_bytes(start, end));
        }
        start += line.len();
    }
    None
}

/// What was read so far.
#[derive(Default)]
struct PolicyReader {
    policy: FirewallPolicy,
    group: Option<String>,
    definitions: Definitions,
    /// Named tests by group and name, with their places.
    named_tests: HashMap<(Option<String>, String), Span>,
}

impl PolicyReader {
    fn read_statement(&mut self, text: &str, statement: &PolicyStatement<'_>) -> ParseResult<()> {
        let first = statement.tokens[0];
        match first.text {
            "group" if !first.is_quoted => {
                self.group = Some(read_group_name(statement)?);
                Ok(())
            }
            "define" if !first.is_quoted => self.definitions.read_definition(statement),
            _ => {
                let test = test_parser::parse_test(
                    text,
                    statement,
                    &self.definitions,
                    self.group.clone(),
                )?;
                if first.is_quoted {
                    let key = (test.group.clone(), test.name.clone());
                    if let Some(earlier) = self.named_tests.insert(key, first.span()) {
                        return Diagnostic::new("a second test of this name", first.span())
                            .with_related_span(earlier, "the first one")
                            .with_help("give each test of a group its own name")
                            .into_err();
                    }
                }
                self.policy.tests.push(test);
                Ok(())
            }
        }
    }
}

fn read_group_name(statement: &PolicyStatement<'_>) -> ParseResult<String> {
    let help = "write group \"NAME\" on a line of its own; an indented line continues the line \
                above, so begin each test at the start of a line";
    match statement.tokens[1..] {
        [name] if name.is_quoted => Ok(name.text.to_owned()),
        [] => Diagnostic::new("the group has no name", statement.tokens[0].span())
            .with_help(help)
            .into_err(),
        [name] => Diagnostic::new("the name of a group is in quotes", name.span())
            .with_help(help)
            .into_err(),
        [_, more, ..] => {
            Diagnostic::new("more than a name after group", more.span()).with_help(help).into_err()
        }
    }
}
