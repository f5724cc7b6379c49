//! One rule without its chain, for programs that change a table.

use weir_model::{Family, Rule, Span, TableName};

use super::scan::{ScanContext, scan_rule_line};
use super::word_splitting::{self, Word};
use crate::diagnostic::Diagnostic;
use crate::intern::Interner;

/// What the scanner expects before the words of a rule.
const PLACEHOLDER_COMMAND_WORDS: [&str; 2] = ["-A", "chain"];
/// Words of a rule with a few matches, to reserve room.
const TYPICAL_WORD_COUNT: usize = 32;

/// Reads the words after `-A CHAIN` of one rule: `-s 192.0.2.1 -p tcp --dport 22 -j ACCEPT`.
///
/// `is_chain` says which words after `-j` are chains. What depends on the chain of the rule and on
/// the other rules is not checked: hooks, devices, loops, sets.
///
/// # Errors
/// The first error of the words, with its place in them.
///
/// ```
/// use weir_model::{Family, TableName};
/// use weir_syntax::iptables::{parse_rule, print_rule};
/// let table = TableName::Filter;
/// let rule = parse_rule("-p tcp --dport ssh -j own", Family::V4, table, &|name| name == "own");
/// let text = print_rule(&rule.unwrap(), Family::V4);
/// assert_eq!(text, "-p tcp -m tcp --dport 22 -j own");
/// ```
pub fn parse_rule(
    words: &str,
    family: Family,
    table: TableName,
    is_chain: &dyn Fn(&str) -> bool,
) -> Result<Rule, Diagnostic> {
    let span = Span { start: 0, end: words.len() as u32 };
    if words.contains('\n') {
        return Err(Diagnostic::new("line end in a rule", span).with_help("give one rule"));
    }
    let mut line = Vec::with_capacity(TYPICAL_WORD_COUNT);
    if !word_splitting::split_words(words, 0, &mut line) {
        let d = Diagnostic::new("quote is not closed", span).with_help("add a \" at its end");
        return Err(d);
    }
    let command = PLACEHOLDER_COMMAND_WORDS.map(|text| Word {
        text: text.into(),
        span: Span::NONE,
        quoted: false,
    });
    line.splice(0..0, command);
    let mut interner = Interner::default();
    let mut context =
        ScanContext { family, table, resolve_host_names: false, interner: &mut interner, is_chain };
    let parsed = scan_rule_line(&mut context, &line).map_err(|d| *d)?;
    let Some(parsed) = parsed else {
        return Err(Diagnostic::new("the rule is of the other family", span)
            .with_help("remove -4 or -6, or use the table of its family"));
    };
    if parsed.command.letter != b'A' || parsed.command.operand_after_chain.is_some() {
        return Err(
            Diagnostic::new("a command in a rule", span).with_help("give the words after -A CHAIN")
        );
    }
    if !parsed.extra_sources.is_empty() || !parsed.extra_destinations.is_empty() {
        return Err(Diagnostic::new("several addresses in a rule", span)
            .with_help("give one rule for each"));
    }
    let mut rule = Rule::unconditional(parsed.target);
    (rule.base, rule.matches, rule.counters) = (parsed.base, parsed.matches, parsed.counters);
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(words: &str) -> (String, Span) {
        let is_chain = |_: &str| false;
        let error = parse_rule(words, Family::V4, TableName::Filter, &is_chain).expect_err(words);
        (error.message, error.span)
    }

    #[test]
    fn text_that_is_not_a_single_rule_is_refused() {
        for words in
            ["-A INPUT -j DROP", "-D INPUT 1", "-j DROP\n-j ACCEPT", "-s 192.0.2.1,192.0.2.2"]
        {
            error_of(words);
        }
        assert_eq!(error_of("-m comment --comment \"open").0, "quote is not closed");
        assert_eq!(error_of("-6 -j DROP").0, "the rule is of the other family");
    }

    #[test]
    fn an_error_has_its_span_in_the_rule_text() {
        let words = "-p tcp --dport none -j DROP";
        let (_, Span { start, end }) = error_of(words);
        assert_eq!(&words[start as usize..end as usize], "none");
    }
}
