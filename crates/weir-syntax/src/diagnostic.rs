//! Diagnostics: errors in a text, and how they are rendered.

use std::borrow::Cow;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use weir_model::Span;

use crate::terminal_escape::{control_char_escape, escape_control_chars};

/// One error in a text: what, where, and the cure.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong, in lower case, without a full stop.
    pub message: String,
    /// The bytes it is about.
    pub span: Span,
    /// What is at the marker; may be empty.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
    /// How it is headed.
    pub severity: DiagnosticSeverity,
    /// Other places that have to do with it, with what is at their markers.
    pub related_spans: Vec<(Span, String)>,
}

/// How a diagnostic is headed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DiagnosticSeverity {
    /// The text cannot be used.
    #[default]
    Error,
    /// It does not do what it seems to say.
    Warning,
    /// It is odd, or costs something.
    Note,
}

/// A parser's result: errors are rare and large, so they are boxed.
pub(crate) type ParseResult<T> = Result<T, Box<Diagnostic>>;

/// Where a text begins: after a byte order mark, as some editors write it, which is an error.
pub(crate) fn refuse_byte_order_mark(text: &str, errors: &mut Vec<Diagnostic>) -> usize {
    const BYTE_ORDER_MARK: char = '\u{feff}';
    if !text.starts_with(BYTE_ORDER_MARK) {
        return 0;
    }
    let length = BYTE_ORDER_MARK.len_utf8();
    errors.push(
        Diagnostic::new(
            "the text begins with a byte order mark",
            Span { start: 0, end: length as u32 },
        )
        .with_help("remove it, e.g. with sed -i '1s/^\\xEF\\xBB\\xBF//'"),
    );
    length
}

impl Diagnostic {
    /// An error about the bytes of `span`.
    pub fn new(message: impl Into<String>, span: Span) -> Self {
        Diagnostic {
            message: shorten_long_words(message.into()),
            span,
            label: String::new(),
            help: None,
            severity: DiagnosticSeverity::Error,
            related_spans: Vec::new(),
        }
    }

    /// With another heading than `error`.
    pub fn with_severity(mut self, heading: DiagnosticSeverity) -> Self {
        self.severity = heading;
        self
    }

    /// With words at the marker.
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = shorten_long_words(label.into());
        self
    }

    /// With a cure.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(shorten_long_words(help.into()));
        self
    }

    /// With another place, and words at its marker.
    pub fn with_related_span(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related_spans.push((span, shorten_long_words(label.into())));
        self
    }

    /// The line it is on, from 1.
    pub fn line_number(&self, text: &str) -> usize {
        let start = self.span.byte_range().map_or(0, |r| r.start.min(text.len()));
        1 + text.as_bytes()[..start].iter().filter(|b| **b == b'\n').count()
    }

    pub(crate) fn into_err<T>(self) -> ParseResult<T> {
        Err(Box::new(self))
    }
}

/// Longest word of a message that is shown whole, in bytes: longer than any name that the tools
/// take.
const SHOWN_WORD_MAX_BYTES: usize = 300;

/// Replaces the middle of words that are too long to be shown. A message may quote the text, and a
/// word of that may be of any length.
fn shorten_long_words(text: String) -> String {
    if text.split(' ').all(|word| word.len() <= SHOWN_WORD_MAX_BYTES) {
        return text;
    }
    let shorten = |word: &str| {
        if word.len() <= SHOWN_WORD_MAX_BYTES {
            return word.to_owned();
        }
        let is_boundary = |at: &usize| word.is_char_boundary(*at);
        let head = (0..=SHOWN_WORD_MAX_BYTES / 3).rev().find(is_boundary).unwrap_or(0);
        let tail = (word.len() - SHOWN_WORD_MAX_BYTES / 10..word.len()).find(is_boundary);
        let tail = tail.unwrap_or(word.len());
        format!("{}…({} bytes)…{}", &word[..head], tail - head, &word[tail..])
    };
    text.split(' ').map(shorten).collect::<Vec<_>>().join(" ")
}

/// Longest part of a line that is shown, in bytes; longer lines are truncated around the marker.
const EXCERPT_AFTER_SPAN_START_MAX_BYTES: usize = 400;

/// Renders errors with file, line, marker and cure, in the given order.
///
/// Only the line of each error is read, so that many errors in a large file stay cheap.
/// Control characters of text, file name and words are written out.
pub fn render_diagnostics(
    diagnostics: &[Diagnostic],
    file: &str,
    text: &str,
    color: bool,
) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    let mut lines = LineNumberCounter { bytes: text.as_bytes(), offset: 0, line: 1 };
    for d in diagnostics {
        out.push_str(&render_one_diagnostic(d, file, text, &mut lines, &renderer));
        out.push('\n');
    }
    out
}

fn render_one_diagnostic(
    d: &Diagnostic,
    file: &str,
    text: &str,
    lines: &mut LineNumberCounter,
    renderer: &Renderer,
) -> String {
    let file = escape_control_chars(file);
    let places = [(d.span, &d.label, AnnotationKind::Primary)].into_iter();
    let also = d.related_spans.iter().map(|(span, label)| (*span, label, AnnotationKind::Context));
    let windows: Vec<SourceExcerpt<'_>> = places
        .chain(also)
        .map(|(span, label, kind)| excerpt_around_span(text, span, label, kind))
        .collect();
    let level = match d.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
        DiagnosticSeverity::Note => Level::NOTE,
    };
    let snippets: Vec<_> = windows
        .iter()
        .map(|w| {
            let mark = w.annotation_kind.span(w.marker_range.clone());
            let mark = if w.label.is_empty() { mark } else { mark.label(&*w.label) };
            let snippet = Snippet::source(w.excerpt_text.as_str())
                .line_start(lines.line_number_at(w.span_start));
            snippet.path(&*file).annotation(mark)
        })
        .collect();
    let message = escape_control_chars(&d.message);
    let mut group: Group = level.primary_title(&*message).elements(snippets);
    let help = d.help.as_deref().map(escape_control_chars);
    if let Some(help) = &help {
        group = group.element(Level::HELP.message(&**help));
    }
    renderer.render(&[group])
}

/// The part of a line that is shown, and where the marker is in it.
struct SourceExcerpt<'a> {
    excerpt_text: String,
    marker_range: std::ops::Range<usize>,
    /// First byte of the place in the text.
    span_start: usize,
    label: Cow<'a, str>,
    annotation_kind: AnnotationKind,
}

fn excerpt_around_span<'a>(
    text: &str,
    span: Span,
    label: &'a str,
    kind: AnnotationKind,
) -> SourceExcerpt<'a> {
    let range = span.byte_range().unwrap_or(0..0);
    let start = floor_to_char_boundary(text, range.start);
    let end = floor_to_char_boundary(text, range.end.max(start));
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    let from = floor_to_char_boundary(
        text,
        line_start.max(start.saturating_sub(EXCERPT_AFTER_SPAN_START_MAX_BYTES / 2)),
    );
    let to = floor_to_char_boundary(text, line_end.min(start + EXCERPT_AFTER_SPAN_START_MAX_BYTES));
    let shown = escape_control_chars(&text[from..to]).into_owned();
    let width = |c: char| control_char_escape(c).map_or(c.len_utf8(), |words| words.len());
    let place = |at: usize| text[from..at.clamp(from, to)].chars().map(width).sum::<usize>();
    let (a, b) = (place(start), place(end));
    SourceExcerpt {
        excerpt_text: shown,
        marker_range: a..b.max(a),
        span_start: start,
        label: escape_control_chars(label),
        annotation_kind: kind,
    }
}

fn floor_to_char_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Counts lines forward from the last position requested.
struct LineNumberCounter<'a> {
    bytes: &'a [u8],
    offset: usize,
    line: usize,
}

impl LineNumberCounter<'_> {
    fn line_number_at(&mut self, place: usize) -> usize {
        if place < self.offset {
            (self.offset, self.line) = (0, 1);
        }
        self.line += self.bytes[self.offset..place].iter().filter(|b| **b == b'\n').count();
        self.offset = place;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_underlines_the_span() {
        let text = "one\ntwo three\n";
        let d =
            Diagnostic::new("no such number", Span { start: 8, end: 13 }).with_help("count again");
        let drawn = render_diagnostics(&[d], "n.txt", text, false);
        assert!(drawn.contains("n.txt:2:5"), "{drawn}");
        assert!(drawn.contains("    ^^^^^"), "{drawn}");
        assert!(drawn.contains("help: count again"), "{drawn}");
    }

    #[test]
    fn columns_and_markers_are_correct_after_tabs() {
        let text = "chain FORWARD {\n\t\ttcp dport 22 queue\n}\n";
        let start = text.find("queue").expect("the word");
        let end = start + "queue".len();
        let d = Diagnostic::new("no such statement", Span { start: start as u32, end: end as u32 });
        let drawn = render_diagnostics(&[d], "n.nft", text, false);
        assert!(drawn.contains("n.nft:2:16"), "{drawn}");
        let column = |word: &str| drawn.lines().find_map(|line| line.find(word)).expect(word);
        assert_eq!(column("queue"), column("^^^^^"), "{drawn}");
    }

    #[test]
    fn related_spans_are_printed_below_with_their_labels() {
        let text = "one\ntwo\nthree\n";
        let d = Diagnostic::new("twice", Span { start: 8, end: 13 })
            .with_related_span(Span { start: 0, end: 3 }, "first here");
        let drawn = render_diagnostics(&[d], "n.txt", text, false);
        assert!(drawn.contains("n.txt:3:1") && drawn.contains("n.txt:1:1"), "{drawn}");
        assert!(drawn.contains("--- first here"), "{drawn}");
    }

    #[test]
    fn control_characters_in_source_and_messages_are_escaped() {
        let text = "-A x\u{1b}[2Jy \u{9b}z\n";
        let d = Diagnostic::new("no chain \u{1b}x", Span { start: 10, end: 13 })
            .with_label("\u{1b}l")
            .with_help("\u{1b}h")
            .with_related_span(Span { start: 0, end: 2 }, "\u{7}a");
        let drawn = render_diagnostics(&[d], "f\u{1b}", text, false);
        assert!(drawn.chars().all(|c| !c.is_control() || c == '\n'), "{drawn:?}");
        for words in
            ["x\\x1b[2Jy \\x9bz", "no chain \\x1bx", "\\x1bl", "\\x1bh", "\\x07a", "f\\x1b"]
        {
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
        assert!(drawn.contains("             ^^^^"), "{drawn}");
    }

    #[test]
    fn spans_at_text_end_or_inside_a_character_are_rendered() {
        for (start, end) in [(4, 9), (1, 2), (9, 9)] {
            let d = Diagnostic::new("x", Span { start, end });
            assert!(render_diagnostics(&[d], "f", "\u{e4}b\r", true).contains('x'));
        }
    }
}
