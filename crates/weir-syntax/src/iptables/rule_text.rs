//! One rule without its chain, for programs that change a table.

use weir_model::{Family, Rule, Span, TableName};

use super::scan::{ScanContext, scan_rule_line};
use super::word_splitting;
use crate::diagnostic::Diagnostic;
use crate::intern::Interner;

/// What the scanner expects before the words of a rule.
const COMMAND: &str = "-A chain ";

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
    let line = format!("{COMMAND}{words}");
    let span = Span { start: 0, end: words.len() as u32 };
    let in_words = |mut d: Diagnostic| {
        let before = COMMAND.len() as u32;
        d.span.start = d.span.start.saturating_sub(before).min(span.end);
        d.span.end = d.span.end.saturating_sub(before).min(span.end);
        d
    };
    if words.contains('\n') {
        return Err(Diagnostic::new("line end in a rule", span).with_help("give one rule"));
    }
    let mut split = Vec::new();
    if !word_splitting::split_words(&line, 0, &mut split) {
        let d = Diagnostic::new("quote is not closed", span).with_help("add a \" at its end");
        return Err(d);
    }
    let mut interner = Interner::default();
    let mut context =
        ScanContext { family, table, resolve_host_names: false, interner: &mut interner, is_chain };
    let parsed = scan_rule_line(&mut context, &split).map_err(|d| in_words(*d))?;
    let Some(parsed) = parsed else {
        return Err(Diagnostic::new("the rule is of the other family", span)
            .with_help("remove -4 or -6, or use the table of its family"));
    };
    if parsed.command.letter != b'A' || parsed.command.operand.is_some() {
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
