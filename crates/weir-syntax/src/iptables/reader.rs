//! The lines of a text: tables, chains, rules, comments.

use weir_model::{Counters, Family, RuleIndex, Ruleset, Span, TableName};

use super::draft::{Beside, TableDraft};
use super::guess;
use super::parse_options::ParseOptions;
use super::scan::{Surroundings, scan};
use super::word::{self, Word};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::intern::Interner;

/// Reads a whole text.
pub(super) fn read(text: &str, options: &ParseOptions) -> Result<Ruleset, Vec<Diagnostic>> {
    let family = options.family.unwrap_or_else(|| guess::family(text));
    if u32::try_from(text.len()).is_err() {
        return Err(vec![Diagnostic::new("text of 4 GiB or more", Span { start: 0, end: 0 })]);
    }
    let mut reader = SaveReader {
        options,
        family,
        names: Interner::default(),
        ruleset: Ruleset::new(family),
        draft: None,
        skipping: false,
        comments: Vec::new(),
        errors: Vec::new(),
        seen_table: false,
        foreign: false,
    };
    let mut words = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        if let Err(d) = reader.line(&text[start..end], start, &mut words) {
            reader.errors.push(*d);
        }
        start = end + 1;
    }
    reader.finish(text)
}

/// State between lines.
struct SaveReader<'a, 'o> {
    options: &'o ParseOptions<'o>,
    family: Family,
    names: Interner<'a>,
    ruleset: Ruleset,
    /// The table that is being read.
    draft: Option<TableDraft>,
    /// Inside a table that is not wanted.
    skipping: bool,
    /// Comment lines that wait for what they are before.
    comments: Vec<String>,
    errors: Vec<Diagnostic>,
    seen_table: bool,
    /// The text is in another language, and an error says so.
    foreign: bool,
}

impl<'a> SaveReader<'a, '_> {
    fn line(&mut self, line: &'a str, start: usize, words: &mut Vec<Word<'a>>) -> Fallible<()> {
        let span = Span { start: start as u32, end: (start + line.len()) as u32 };
        if line.ends_with('\r') {
            return self.carriage_return(line, span);
        }
        match line.as_bytes() {
            [] => Ok(()),
            [b'#', ..] => {
                self.comments.push(line.to_owned());
                Ok(())
            }
            [b'*', ..] if self.draft.is_none() && !self.skipping => self.table(&line[1..], span),
            _ if self.skipping => {
                self.skipping = line != "COMMIT";
                Ok(())
            }
            _ if self.draft.is_none() => self.outside(line, span),
            b"COMMIT" => {
                self.commit();
                Ok(())
            }
            [b':', ..] => self.chain(&line[1..], span),
            [b'*', ..] => Diagnostic::new("table begins inside another table", span)
                .help("end the previous table with a line COMMIT")
                .fail(),
            _ if line.bytes().all(|b| b == b' ' || b == b'\t') => Ok(()),
            _ => self.rule(line, start, words),
        }
    }

    /// Says it once: every line of such a file has one.
    fn carriage_return(&mut self, line: &str, span: Span) -> Fallible<()> {
        self.skipping |= line.starts_with('*');
        let message = "line ends with a carriage return (CRLF)";
        if self.errors.iter().any(|d| d.message == message) {
            return Ok(());
        }
        let at = Span { start: span.end - 1, end: span.end };
        Diagnostic::new(message, at)
            .help("convert the file to Unix line ends, e.g. with sed -i 's/\\r$//'")
            .fail()
    }

    /// A line outside of any table; of a text in another language the first one says it all.
    fn outside(&mut self, line: &str, span: Span) -> Fallible<()> {
        if self.foreign {
            return Ok(());
        }
        let Some((language, help)) = foreign(line).filter(|_| !self.seen_table) else {
            return stray(line, span).fail();
        };
        self.foreign = true;
        Diagnostic::new(format!("this is {language}, not a dump of iptables"), span)
            .help(help)
            .fail()
    }

    fn table(&mut self, rest: &'a str, span: Span) -> Fallible<()> {
        self.seen_table = true;
        let name = rest.split([' ', '\t']).find(|w| !w.is_empty()).unwrap_or("");
        let Some(table) = TableName::parse(name) else {
            self.skipping = true;
            return Diagnostic::new(format!("no table {name:?}"), span)
                .help("the tables are raw, mangle, nat, filter and security")
                .fail();
        };
        if self.options.table.is_some_and(|t| t != table) {
            self.skipping = true;
            self.comments.clear();
            return Ok(());
        }
        let comments = std::mem::take(&mut self.comments);
        let earlier = self.ruleset.table(&table);
        self.draft = Some(TableDraft::new(table, span, comments, earlier));
        Ok(())
    }

    fn chain(&mut self, rest: &'a str, span: Span) -> Fallible<()> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let mut words = rest.split([' ', '\t']).filter(|w| !w.is_empty());
        let Some(name) = words.next() else {
            return Diagnostic::new("chain without a name", span).fail();
        };
        let policy = words.next();
        let comments = std::mem::take(&mut self.comments);
        let counters = words.next().map(|w| counters(w, span)).transpose()?;
        draft.declare(self.names.name(name), policy, counters, span, comments)
    }

    fn rule(&mut self, line: &'a str, start: usize, words: &mut Vec<Word<'a>>) -> Fallible<()> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let span = Span { start: start as u32, end: (start + line.len()) as u32 };
        let (prefix, rest, from) = match line.strip_prefix('[') {
            None => (None, line, start),
            Some(inner) => {
                let Some((c, rest)) = inner.split_once(']') else {
                    return Diagnostic::new("[ without ]", span)
                        .help("write [packets:bytes]")
                        .fail();
                };
                (Some(counters(&line[..c.len() + 2], span)?), rest, start + c.len() + 2)
            }
        };
        if !word::split(rest, from, words) {
            let open = words.last().map_or(span, |w| w.span);
            return Diagnostic::new("quote is not closed", open).help("add a \" at its end").fail();
        }
        if words.is_empty() {
            return Diagnostic::new("counters without a rule", span).fail();
        }
        let line = {
            let is_chain = |name: &str| draft.has(name);
            let mut around = Surroundings {
                family: self.family,
                table: draft.table,
                resolve: self.options.resolve,
                names: &mut self.names,
                is_chain: &is_chain,
            };
            scan(&mut around, words)?
        };
        let comments = std::mem::take(&mut self.comments);
        let sets = self.options.sets;
        draft.apply(line, Beside { span, counters: prefix, comments, sets })
    }

    fn commit(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let comments = std::mem::take(&mut self.comments);
        let (table, errors) = draft.finish(comments);
        self.errors.extend(errors);
        // A table that comes again replaces the rules and chains that it had.
        match self.ruleset.tables.iter_mut().find(|t| t.name == table.name) {
            Some(old) => *old = table,
            None => self.ruleset.tables.push(table),
        }
    }

    fn finish(mut self, text: &str) -> Result<Ruleset, Vec<Diagnostic>> {
        let end = text.len() as u32;
        let end = Span { start: end.saturating_sub(1), end };
        if let Some(draft) = &self.draft {
            let d = Diagnostic::new(format!("table {} has no COMMIT", draft.table), draft.span);
            self.errors.push(d.help("a table ends with a line COMMIT"));
            self.commit();
        } else if !self.seen_table && self.errors.is_empty() && self.options.table.is_none() {
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
            self.errors.push(Diagnostic::new(what, end).help(help));
        }
        if !self.errors.is_empty() {
            self.errors.sort_by_key(|d| d.span.start);
            return Err(self.errors);
        }
        self.ruleset.trailing_comments = self.comments;
        let mut id = 0;
        for t in &mut self.ruleset.tables {
            for rule in t.chains.iter_mut().flat_map(|c| &mut c.rules) {
                rule.credit.push(RuleIndex(id));
                id += 1;
            }
        }
        Ok(self.ruleset)
    }
}

/// `[packets:bytes]`.
fn counters(text: &str, span: Span) -> Fallible<Counters> {
    let read = |text: &str| -> Option<Counters> {
        let (p, b) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
        Some(Counters { packets: p.parse().ok()?, bytes: b.parse().ok()? })
    };
    match read(text) {
        Some(c) => Ok(c),
        None => Diagnostic::new(format!("{text:?} is not a pair of counters"), span)
            .help("write [packets:bytes]")
            .fail(),
    }
}

/// The language that a line begins a text of, other than ours, and what to do with it.
fn foreign(line: &str) -> Option<(&'static str, &'static str)> {
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
fn stray(line: &str, span: Span) -> Diagnostic {
    let prompt = line.contains(['$', '#', '%', '>']) && line.contains(['@', '~', '$', '#']);
    let d = Diagnostic::new("line outside of a table", span);
    if prompt && !line.starts_with('-') {
        d.help("it looks like a shell prompt: remove it; a dump begins with *TABLE")
    } else if line.starts_with("iptables ") || line.starts_with("ip6tables ") {
        d.help("weir reads dumps: run the commands and give it the output of iptables-save")
    } else if line.starts_with('-') || line.starts_with(':') || line.starts_with('[') {
        d.help("a line *TABLE is missing before it")
    } else {
        d.help("remove it: a dump has *TABLE, chains, rules, COMMIT and # comments")
    }
}
