//! The lines of `ipset save`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_model::index_hash_table::{IndexHashTable, hash_for_index_table};
use weir_model::ipset::SetStorage;
use weir_model::{
    Counters, CreditedOriginals, Element, ElementPart, IpSet, SetOption, SharedName, Span,
};

use super::{create_line, element_expansion};
use crate::diagnostic::{Diagnostic, ParseResult, refuse_byte_order_mark};
use crate::iptables::word_splitting::{self, Word};
use crate::strtoul;

/// Reads a whole text.
pub(super) fn read_ipset_save(text: &str) -> Result<Vec<IpSet>, Vec<Diagnostic>> {
    if u32::try_from(text.len()).is_err() {
        return Err(vec![Diagnostic::new("text of 4 GiB or more", Span { start: 0, end: 0 })]);
    }
    let mut reader = IpsetSaveReader::default();
    let mut words = Vec::new();
    let mut start = refuse_byte_order_mark(text, &mut reader.errors);
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        if let Err(d) = reader.read_line(&text[start..end], start, &mut words) {
            reader.errors.push(*d);
        }
        start = end + 1;
    }
    reader.remove_replaced_elements();
    if reader.errors.is_empty() { Ok(reader.sets) } else { Err(reader.errors) }
}

/// The elements of a set by what makes them the same.
#[derive(Default)]
struct SeenElements {
    element_index_by_content: IndexHashTable,
    /// Added again with -exist: to be removed in the end.
    replaced: HashSet<u32>,
}

#[derive(Default)]
struct IpsetSaveReader {
    sets: Vec<IpSet>,
    set_index_by_name: HashMap<SharedName, usize>,
    /// Elements of each set, to detect duplicates.
    seen_elements: Vec<SeenElements>,
    /// Sets whose `create` line was refused: their elements are no further errors.
    refused_sets: HashSet<String>,
    pending_comments: Vec<String>,
    errors: Vec<Diagnostic>,
}

impl IpsetSaveReader {
    fn read_line<'a>(
        &mut self,
        line: &'a str,
        start: usize,
        words: &mut Vec<Word<'a>>,
    ) -> ParseResult<()> {
        let span = Span { start: start as u32, end: (start + line.len()) as u32 };
        if line.ends_with('\r') {
            let message = "line ends with a carriage return (CRLF)";
            if self.errors.iter().any(|d| d.message == message) {
                return Ok(());
            }
            return Diagnostic::new(message, Span { start: span.end - 1, end: span.end })
                .with_help("convert the file to Unix line ends, e.g. with sed -i 's/\\r$//'")
                .into_err();
        }
        if line.starts_with('#') {
            self.pending_comments.push(line.to_owned());
            return Ok(());
        }
        split_ipset_words(line, start, words)?;
        let exist = words.iter().any(is_exist_flag);
        words.retain(|w| !is_exist_flag(w));
        let Some(command) = words.first() else { return Ok(()) };
        match &*command.text {
            "create" | "-N" | "--create" => self.read_create_line(words, span, exist),
            "add" | "-A" | "--add" => self.read_add_line(words, span, exist),
            "COMMIT" | "quit" if words.len() == 1 => Ok(()),
            other => Diagnostic::new(format!("no line {other} in the text of a set"), command.span)
                .with_help("weir reads what ipset save prints: create and add")
                .into_err(),
        }
    }

    fn read_create_line(&mut self, words: &[Word], span: Span, exist: bool) -> ParseResult<()> {
        let Some(name) = words.get(1) else {
            return Diagnostic::new("create without a name", span).into_err();
        };
        let made = self.build_set(name, &words[2..], span);
        if made.is_err() {
            self.refused_sets.insert(name.text.clone().into_owned());
        }
        let set = made?;
        if let Some(old) = self.set_index_by_name.get(&set.name) {
            let old = &self.sets[*old];
            if exist && old.kind == set.kind && old.family == set.family {
                return Ok(());
            }
            return Diagnostic::new(format!("set {} a second time", set.name), name.span)
                .with_help("create it once")
                .into_err();
        }
        self.set_index_by_name.insert(set.name.clone(), self.sets.len());
        self.sets.push(set);
        self.seen_elements.push(SeenElements::default());
        Ok(())
    }

    fn build_set(&mut self, name: &Word, rest: &[Word], span: Span) -> ParseResult<IpSet> {
        if name.text.is_empty() || name.text.len() > 31 {
            return Diagnostic::new(
                format!("set name {} is not 1 to 31 bytes", name.text),
                name.span,
            )
            .into_err();
        }
        if name.text.contains([' ', '\t', '"']) {
            return Diagnostic::new("blank or quote in a set's name", name.span)
                .with_help("ipset save would print it in a form that cannot be read back")
                .into_err();
        }
        let created = create_line::parse_set_kind_and_options(rest, span)?;
        Ok(IpSet {
            name: SharedName::from(&*name.text),
            kind: created.kind,
            family: created.family,
            options: created.options,
            elements: Arc::default(),
            span,
            leading_comments: std::mem::take(&mut self.pending_comments),
        })
    }

    fn read_add_line(&mut self, words: &[Word], span: Span, exist: bool) -> ParseResult<()> {
        let (Some(name), Some(value)) = (words.get(1), words.get(2)) else {
            return Diagnostic::new("add without a set and an element", span).into_err();
        };
        let Some(&at) = self.set_index_by_name.get(&*name.text) else {
            if self.refused_sets.contains(&*name.text) {
                return Ok(());
            }
            return Diagnostic::new(format!("no set {}", name.text), name.span)
                .with_help("its create line must come before it")
                .into_err();
        };
        let set = &self.sets[at];
        let plain = parse_options_after_element(set, &words[3..], span)?;
        let expanded = element_expansion::parse_and_expand_element(value, set)?;
        if set.kind.storage == SetStorage::List
            && let [parts] = &expanded[..]
            && let [ElementPart::MemberSet(member)] = &parts[..]
        {
            self.check_list_member(member, value)?;
        }
        let max = self.sets[at].maxelem_or_default();
        let seen = &mut self.seen_elements[at];
        let elements = Arc::make_mut(&mut self.sets[at].elements);
        for parts in expanded {
            let index = elements.len() as u32;
            elements.push(Element { parts, ..plain.clone() });
            let key = |i: u32| element_key_without_bitmap_mac(&elements[i as usize].parts);
            let replaced = seen.element_index_by_content.insert_or_replace(
                index,
                |i| hash_for_index_table(key(i)),
                |i| key(i) == key(index),
            );
            seen.replaced.extend(replaced);
            if replaced.is_some() && !exist {
                return Diagnostic::new(
                    format!("{} is in the set already", value.text),
                    value.span,
                )
                .with_help("remove the line")
                .into_err();
            }
        }
        if elements.len() - seen.replaced.len() > max {
            return Diagnostic::new(format!("more than {max} elements"), span)
                .with_help("raise maxelem in the create line")
                .into_err();
        }
        Ok(())
    }

    /// The last of equal elements remains, at its place.
    fn remove_replaced_elements(&mut self) {
        for (set, seen) in self.sets.iter_mut().zip(&self.seen_elements) {
            if !seen.replaced.is_empty() {
                let mut index = 0..;
                let elements = Arc::make_mut(&mut set.elements);
                elements.retain(|_| index.next().is_some_and(|i| !seen.replaced.contains(&i)));
            }
        }
    }

    fn check_list_member(&self, member: &SharedName, value: &Word) -> ParseResult<()> {
        match self.set_index_by_name.get(member) {
            None => Diagnostic::new(format!("no set {member}"), value.span)
                .with_help("its create line must come before it")
                .into_err(),
            Some(i) if self.sets[*i].kind.storage == SetStorage::List => {
                Diagnostic::new(format!("{member} is itself a list"), value.span)
                    .with_help("a list cannot contain lists")
                    .into_err()
            }
            Some(_) => Ok(()),
        }
    }
}

/// What makes an element the same: of bitmap:ip,mac the address alone.
fn element_key_without_bitmap_mac(parts: &[ElementPart]) -> &[ElementPart] {
    match parts {
        [ElementPart::AddrOrPrefix { .. }, ElementPart::Mac(_)] => &parts[..1],
        _ => parts,
    }
}

fn is_exist_flag(w: &Word) -> bool {
    !w.quoted && matches!(&*w.text, "-exist" | "-!" | "--exist")
}

/// Cuts a line into words. Quotes hold blanks; there is no escape in them.
fn split_ipset_words<'a>(
    line: &'a str,
    start: usize,
    words: &mut Vec<Word<'a>>,
) -> ParseResult<()> {
    if !line.contains('"') {
        word_splitting::split_words(line, start, words);
        return Ok(());
    }
    words.clear();
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if blank > 0 {
            at += blank;
            continue;
        }
        let (text, len, quoted) = match rest.strip_prefix('"') {
            Some(inner) => match inner.find('"') {
                Some(i) => (&inner[..i], i + 2, true),
                None => {
                    let span =
                        Span { start: (start + at) as u32, end: (start + line.len()) as u32 };
                    return Diagnostic::new("quote is not closed", span).into_err();
                }
            },
            None => {
                let len = rest.find([' ', '\t']).unwrap_or(rest.len());
                (&rest[..len], len, false)
            }
        };
        let span = Span { start: (start + at) as u32, end: (start + at + len) as u32 };
        if !quoted && text.contains('"') {
            return Diagnostic::new("quote inside a word", span)
                .with_help("quotes enclose a whole word; a comment cannot contain quotes")
                .into_err();
        }
        words.push(Word { text: text.into(), span, quoted });
        at += len;
    }
    Ok(())
}

/// Exceptions belong to sets of prefixes.
fn check_nomatch_allowed(set: &IpSet, word: &Word) -> ParseResult<()> {
    if word.text != "nomatch" || set.kind.data_types.contains(&weir_model::ipset::SetDataType::Net)
    {
        return Ok(());
    }
    Diagnostic::new("nomatch in a set without prefixes", word.span)
        .with_help("exceptions are for sets of prefixes (hash:net, …)")
        .into_err()
}

/// An element without parts, with what its set gives each that says nothing else.
fn build_element_with_set_defaults(set: &IpSet, span: Span) -> Element {
    let timeout = set.options.iter().find_map(|o| match o {
        SetOption::DefaultElementTimeout(t) => Some(*t),
        _ => None,
    });
    let counters = set.options.contains(&SetOption::Counters);
    Element {
        parts: Vec::new(),
        nomatch: false,
        timeout,
        counters: counters.then(Counters::default),
        comment: None,
        other_words: Vec::new(),
        span,
        credited_originals: CreditedOriginals::new(),
    }
}

/// `0x5` or `0x5/0xff` of `skbmark`, `1:10` of `skbprio`: the tool takes hexadecimal numbers only.
fn check_skbinfo_value(name: &str, value: &Word) -> ParseResult<()> {
    let is_hex = |text: &str, bits: u32| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).is_ok_and(|n| n >> bits == 0) && !digits.starts_with('+')
    };
    let is_mark = |text: &str| text.starts_with("0x") && is_hex(text, 32);
    let (fits, help) = match name {
        "skbmark" => (
            value.text.split('/').count() <= 2 && value.text.split('/').all(is_mark),
            "write a hexadecimal mark, with a mask or without: 0x5 or 0x5/0xff",
        ),
        _ => (
            value.text.split_once(':').is_some_and(|(a, b)| is_hex(a, 16) && is_hex(b, 16)),
            "write MAJOR:MINOR, both hexadecimal: 1:10",
        ),
    };
    if fits {
        return Ok(());
    }
    Diagnostic::new(format!("{name} {} is not what ipset restore takes", value.text), value.span)
        .with_help(help)
        .into_err()
}

/// What follows the parts of an element.
fn parse_options_after_element(set: &IpSet, words: &[Word], span: Span) -> ParseResult<Element> {
    let has = |o: &SetOption| set.options.contains(o);
    let mut out = build_element_with_set_defaults(set, span);
    let (has_timeout, has_counters) = (out.timeout.is_some(), out.counters.is_some());
    let mut at = 0;
    while at < words.len() {
        let word = &words[at];
        let device = set.kind.data_types.contains(&weir_model::ipset::SetDataType::Iface);
        if word.text == "nomatch" || (word.text == "wildcard" && device) {
            check_nomatch_allowed(set, word)?;
            out.nomatch |= word.text == "nomatch";
            if word.text == "wildcard" {
                out.other_words.push("wildcard".to_owned());
            }
            at += 1;
            continue;
        }
        let Some(value) = words.get(at + 1) else {
            return Diagnostic::new(
                format!("{} without its value, or unknown", word.text),
                word.span,
            )
            .into_err();
        };
        at += 2;
        let n = |max: u64| match strtoul::parse_number_in_range(&value.text, 0, max) {
            Some(n) => Ok(n),
            None => Diagnostic::new(
                format!("{} {} is not from 0 to {max}", word.text, value.text),
                value.span,
            )
            .with_help("ipset restore refuses it: write a number of this range")
            .into_err(),
        };
        let lacks = |what: &str| {
            Diagnostic::new(format!("{} in a set without {what}", word.text), word.span)
                .with_help(format!("add {what} to the create line of {}", set.name))
                .into_err()
        };
        match &*word.text {
            "timeout" if !has_timeout => return lacks("timeout"),
            "timeout" => out.timeout = Some(n(create_line::ELEMENT_TIMEOUT_MAX_SECONDS)? as u32),
            "packets" | "bytes" if !has_counters => return lacks("counters"),
            "packets" => out.counters.get_or_insert_default().packets = n(u64::MAX)?,
            "bytes" => out.counters.get_or_insert_default().bytes = n(u64::MAX)?,
            "comment" if !has(&SetOption::Comment) => return lacks("comment"),
            "comment" if value.text.is_empty() => {
                return Diagnostic::new("empty comment", value.span)
                    .with_help("ipset restore refuses it: remove the word and its quotes")
                    .into_err();
            }
            "comment" => out.comment = Some(value.text.clone().into_owned()),
            "skbmark" | "skbprio" | "skbqueue" if !has(&SetOption::SkbInfo) => {
                return lacks("skbinfo");
            }
            "skbqueue" => {
                let queue = n(u64::from(u16::MAX))?;
                out.other_words.extend(["skbqueue".to_owned(), queue.to_string()]);
            }
            "skbmark" | "skbprio" => {
                check_skbinfo_value(&word.text, value)?;
                out.other_words
                    .extend([word.text.clone().into_owned(), value.text.clone().into_owned()]);
            }
            other => {
                return Diagnostic::new(format!("no option {other} of an element"), word.span)
                    .into_err();
            }
        }
    }
    Ok(out)
}
