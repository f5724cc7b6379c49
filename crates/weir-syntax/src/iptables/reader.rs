//! The lines of a text: tables, chains, rules, comments.

use weir_model::{Counters, Family, OriginalRuleIndex, Ruleset, Span, TableName};

use super::family_guess;
use super::parser_settings::ParserSettings;
use super::scan::{ScanContext, scan_rule_line};
use super::table_draft::{RuleLineContext, TableDraft};
use super::word_splitting::{self, Word};
use crate::diagnostic::{Diagnostic, DiagnosticSeverity, ParseResult, refuse_byte_order_mark};
use crate::intern::Interner;

/// The most words of a line that `iptables-restore` 1.8.9 takes: it keeps 255 (`MAX_ARGC` of
/// xshared.h), four of which are not from the line.
const LINE_WORDS_MAX: usize = 251;
/// Counters before a rule become three words.
const COUNTER_WORDS: usize = 3;

/// Reads a whole text; with the ruleset come notes on lines that have no effect.
pub(super) fn read_iptables_save(
    text: &str,
    settings: &ParserSettings,
) -> Result<(Ruleset, Vec<Diagnostic>), Vec<Diagnostic>> {
    let family = settings.family.unwrap_or_else(|| family_guess::guess_family_or_v4(text));
    if u32::try_from(text.len()).is_err() {
        return Err(vec![Diagnostic::new("text of 4 GiB or more", Span { start: 0, end: 0 })]);
    }
    let mut reader = IptablesSaveReader {
        settings,
        family,
        interner: Interner::default(),
        ruleset: Ruleset::new(family),
        draft: None,
        skipping_table: false,
        pending_comments: Vec::new(),
        errors: Vec::new(),
        notes: Vec::new(),
        saw_any_table: false,
        nft_or_ipset_text_reported: false,
    };
    let mut words = Vec::new();
    let mut start = refuse_byte_order_mark(text, &mut reader.errors);
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        if let Err(d) = reader.read_line(&text[start..end], start, &mut words) {
            reader.errors.push(*d);
        }
        start = end + 1;
    }
    reader.finish_and_number_rules(text)
}

/// State between lines.
struct IptablesSaveReader<'a, 'o> {
    settings: &'o ParserSettings<'o>,
    family: Family,
    interner: Interner<'a>,
    ruleset: Ruleset,
    /// The table that is being read.
    draft: Option<TableDraft>,
    /// Inside a table that is not wanted.
    skipping_table: bool,
    /// Comment lines, and others without effect, that wait for what they are before.
    pending_comments: Vec<String>,
    errors: Vec<Diagnostic>,
    notes: Vec<Diagnostic>,
    saw_any_table: bool,
    /// The text is in another language, and an error says so.
    nft_or_ipset_text_reported: bool,
}

impl<'a> IptablesSaveReader<'a, '_> {
    fn read_line(
        &mut self,
        line: &'a str,
        start: usize,
        words: &mut Vec<Word<'a>>,
    ) -> ParseResult<()> {
        let span = Span { start: start as u32, end: (start + line.len()) as u32 };
        if line.ends_with('\r') {
            return self.refuse_first_carriage_return(line, span);
        }
        match line.as_bytes() {
            [] => Ok(()),
            [b'#', ..] => {
                self.pending_comments.push(line.to_owned());
                Ok(())
            }
            [b'*', ..] if self.draft.is_none() && !self.skipping_table => {
                self.start_or_skip_table(&line[1..], span)
            }
            _ if self.skipping_table => {
                self.skipping_table = line != "COMMIT";
                Ok(())
            }
            _ if self.draft.is_none() => self.refuse_line_outside_table(line, span),
            b"COMMIT" => {
                self.commit_table();
                Ok(())
            }
            [b':', ..] => self.read_chain_line(&line[1..], span),
            [b'*', ..] => Diagnostic::new("table begins inside another table", span)
                .with_help("end the previous table with a line COMMIT")
                .into_err(),
            _ if line.bytes().all(|b| b == b' ' || b == b'\t') => Ok(()),
            _ => self.read_rule_line(line, start, words),
        }
    }

    /// Says it once: every line of such a file has one.
    fn refuse_first_carriage_return(&mut self, line: &str, span: Span) -> ParseResult<()> {
        self.skipping_table |= line.starts_with('*');
        let message = "line ends with a carriage return (CRLF)";
        if self.errors.iter().any(|d| d.message == message) {
            return Ok(());
        }
        let at = Span { start: span.end - 1, end: span.end };
        Diagnostic::new(message, at)
            .with_help("convert the file to Unix line ends, e.g. with sed -i 's/\\r$//'")
            .into_err()
    }

    /// A line outside of any table; of a text in another language the first one says it all.
    fn refuse_line_outside_table(&mut self, line: &str, span: Span) -> ParseResult<()> {
        if self.nft_or_ipset_text_reported {
            return Ok(());
        }
        let Some((language, help)) = detect_nft_or_ipset_text(line).filter(|_| !self.saw_any_table)
        else {
            return line_outside_table_error(line, span).into_err();
        };
        self.nft_or_ipset_text_reported = true;
        Diagnostic::new(format!("this is {language}, not a dump of iptables"), span)
            .with_help(help)
            .into_err()
    }

    fn start_or_skip_table(&mut self, rest: &'a str, span: Span) -> ParseResult<()> {
        self.saw_any_table = true;
        let name = rest.split([' ', '\t']).find(|w| !w.is_empty()).unwrap_or("");
        let Some(table) = TableName::parse(name) else {
            self.skipping_table = true;
            return Diagnostic::new(format!("no table {name:?}"), span)
                .with_help("the tables are raw, mangle, nat, filter and security")
                .into_err();
        };
        if self.settings.only_table.is_some_and(|t| t != table) {
            self.skipping_table = true;
            self.pending_comments.clear();
            return Ok(());
        }
        let comments = std::mem::take(&mut self.pending_comments);
        let earlier = self.ruleset.table(&table);
        self.draft = Some(TableDraft::new(table, self.family, span, comments, earlier));
        Ok(())
    }

    fn read_chain_line(&mut self, rest: &'a str, span: Span) -> ParseResult<()> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let mut words = rest.split([' ', '\t']).filter(|w| !w.is_empty());
        let Some(name) = words.next() else {
            return Diagnostic::new("chain without a name", span).into_err();
        };
        let policy = words.next();
        let comments = std::mem::take(&mut self.pending_comments);
        let counters = words.next().map(|w| parse_counters(w, span)).transpose()?;
        draft.declare_chain_or_set_policy(
            self.interner.intern_word(name),
            policy,
            counters,
            span,
            comments,
        )
    }

    fn read_rule_line(
        &mut self,
        line: &'a str,
        start: usize,
        words: &mut Vec<Word<'a>>,
    ) -> ParseResult<()> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let span = Span { start: start as u32, end: (start + line.len()) as u32 };
        let (prefix, rest, from) = match line.strip_prefix('[') {
            None => (None, line, start),
            Some(inner) => {
                let Some((c, rest)) = inner.split_once(']') else {
                    return Diagnostic::new("[ without ]", span)
                        .with_help("write [packets:bytes]")
                        .into_err();
                };
                (Some(parse_counters(&line[..c.len() + 2], span)?), rest, start + c.len() + 2)
            }
        };
        if !word_splitting::split_words(rest, from, words) {
            let open = words.last().map_or(span, |w| w.span);
            return Diagnostic::new("quote is not closed", open)
                .with_help("add a \" at its end")
                .into_err();
        }
        if words.is_empty() {
            return Diagnostic::new("counters without a rule", span).into_err();
        }
        let words_max = LINE_WORDS_MAX - if prefix.is_some() { COUNTER_WORDS } else { 0 };
        if let Some(first_beyond) = words.get(words_max) {
            return Diagnostic::new(format!("line of {} words", words.len()), first_beyond.span)
                .with_help(format!("iptables-restore takes at most {words_max} in such a line"))
                .into_err();
        }
        let parsed = {
            let is_chain = |name: &str| draft.has_chain(name);
            let mut around = ScanContext {
                family: self.family,
                table: draft.table,
                resolve_host_names: self.settings.resolve_host_names,
                interner: &mut self.interner,
                is_chain: &is_chain,
            };
            scan_rule_line(&mut around, words)?
        };
        let Some(parsed) = parsed else {
            self.notes.push(note_on_line_of_other_family(self.family, span));
            self.pending_comments.push(line.to_owned());
            return Ok(());
        };
        let comments = std::mem::take(&mut self.pending_comments);
        let sets = self.settings.known_sets;
        draft.apply_command(
            parsed,
            RuleLineContext {
                span,
                counters: prefix,
                leading_comments: comments,
                known_sets: sets,
            },
        )
    }

    fn commit_table(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let comments = std::mem::take(&mut self.pending_comments);
        let (table, errors) = draft.finish_table(comments);
        self.errors.extend(errors);
        // A table that comes again replaces the rules and chains that it had.
        match self.ruleset.tables.iter_mut().find(|t| t.name == table.name) {
            Some(old) => *old = table,
            None => self.ruleset.tables.push(table),
        }
    }

    fn finish_and_number_rules(
        mut self,
        text: &str,
    ) -> Result<(Ruleset, Vec<Diagnostic>), Vec<Diagnostic>> {
        let end = text.len() as u32;
        let end = Span { start: end.saturating_sub(1), end };
        if let Some(draft) = &self.draft {
            let d = Diagnostic::new(format!("table {} has no COMMIT", draft.table), draft.span);
            self.errors.push(d.with_help("a table ends with a line COMMIT"));
            self.commit_table();
        } else if !self.saw_any_table
            && self.errors.is_empty()
            && self.settings.only_table.is_none()
        {
            let (what, help) = match text.trim() {
                "" => (
                    "the text is empty",
                    "iptables-save printed no table: rules may be in the other variant \
                     (iptables-legacy-save, iptables-nft-save)",
                ),
                _ => (
                    "no table in the text",
                    "weir reads what iptables-save prints: *filter … COMMIT",
                ),
            };
            self.errors.push(Diagnostic::new(what, end).with_help(help));
        }
        if !self.errors.is_empty() {
            self.errors.sort_by_key(|d| d.span.start);
            return Err(self.errors);
        }
        self.ruleset.trailing_comments = self.pending_comments;
        let mut id = 0;
        for t in &mut self.ruleset.tables {
            for rule in t.chains.iter_mut().flat_map(|c| &mut c.rules) {
                rule.credited_originals.push(OriginalRuleIndex(id));
                id += 1;
            }
        }
        Ok((self.ruleset, self.notes))
    }
}

/// The note on a line with `-4` or `-6` of the family that the text is not of.
fn note_on_line_of_other_family(family: Family, span: Span) -> Diagnostic {
    let (option, tool) = match family {
        Family::V4 => ("-6", "iptables-restore"),
        Family::V6 => ("-4", "ip6tables-restore"),
    };
    Diagnostic::new(format!("line with {option}: {tool} skips it, and so does weir"), span)
        .with_help("the line is preserved verbatim; move it to the text of its family")
        .with_severity(DiagnosticSeverity::Note)
}

/// `[packets:bytes]`.
fn parse_counters(text: &str, span: Span) -> ParseResult<Counters> {
    let read = |text: &str| -> Option<Counters> {
        let (p, b) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
        Some(Counters { packets: p.parse().ok()?, bytes: b.parse().ok()? })
    };
    match read(text) {
        Some(c) => Ok(c),
        None => Diagnostic::new(format!("{text:?} is not a pair of counters"), span)
            .with_help("write [packets:bytes]")
            .into_err(),
    }
}

/// The language that a line begins a text of, other than ours, and what to do with it.
fn detect_nft_or_ipset_text(line: &str) -> Option<(&'static str, &'static str)> {
    let first = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if first(&["table ", "add table ", "create table ", "flush ruleset", "define ", "include \""]) {
        let help = "if iptables-nft created the rules, give weir the output of iptables-save; \
                    rules written for nft are not supported";
        return Some(("a ruleset of nft", help));
    }
    if first(&["create ", "add "]) {
        return Some((
            "a dump of ipset",
            "give it together with the rules that use its sets: --ipset FILE",
        ));
    }
    None
}

/// The error for a line outside of any table.
fn line_outside_table_error(line: &str, span: Span) -> Diagnostic {
    let prompt = line.contains(['$', '#', '%', '>']) && line.contains(['@', '~', '$', '#']);
    let d = Diagnostic::new("line outside of a table", span);
    if prompt && !line.starts_with('-') {
        d.with_help("it looks like a shell prompt: remove it; a dump begins with *TABLE")
    } else if line.starts_with("iptables ") || line.starts_with("ip6tables ") {
        d.with_help("weir reads dumps: run the commands and give it the output of iptables-save")
    } else if line.starts_with('-') || line.starts_with(':') || line.starts_with('[') {
        d.with_help("a line *TABLE is missing before it")
    } else {
        d.with_help("remove it: a dump has *TABLE, chains, rules, COMMIT and # comments")
    }
}
