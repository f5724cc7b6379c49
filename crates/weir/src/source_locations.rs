//! Locations of rules and findings in the texts of a ruleset: file, line and column.

use weir_lint::Finding;
use weir_model::Span;

use crate::operand::{RulesetTextKind, SourceText};

/// The texts of a ruleset, with where their lines begin.
pub struct SourceLineIndex<'a> {
    sources: Vec<(&'a SourceText, Vec<usize>)>,
}

/// A stretch of one line; lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumnRange {
    /// Line.
    pub line: usize,
    /// First column.
    pub column: usize,
    /// Line of the end.
    pub end_line: usize,
    /// One past the last column.
    pub end_column_exclusive: usize,
}

impl<'a> SourceLineIndex<'a> {
    /// Looks for line ends once.
    pub fn new(sources: &'a [SourceText]) -> Self {
        let starts = |s: &SourceText| {
            let ends = s.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0).chain(ends.map(|(i, _)| i + 1)).collect()
        };
        SourceLineIndex { sources: sources.iter().map(|s| (s, starts(s))).collect() }
    }

    /// The text that a finding is about.
    pub fn source_of_finding(&self, finding: &Finding) -> Option<&'a SourceText> {
        self.source_of_kind(finding.family.map_or(RulesetTextKind::Sets, RulesetTextKind::Rules))
    }

    /// The text of this kind, if there is one.
    pub fn source_of_kind(&self, kind: RulesetTextKind) -> Option<&'a SourceText> {
        self.sources.iter().map(|(s, _)| *s).find(|s| s.kind == kind)
    }

    /// Where a span of that text lies.
    pub fn line_column_range(&self, source: &SourceText, span: Span) -> Option<LineColumnRange> {
        let (source, starts) = self.sources.iter().find(|(s, _)| s.kind == source.kind)?;
        let range = span.byte_range()?;
        let of = |at: usize| {
            let line = starts.partition_point(|start| *start <= at);
            let before = source.text.get(starts[line - 1]..at)?;
            Some((line, before.chars().count() + 1))
        };
        let ((line, column), (end_line, end_column)) = (of(range.start)?, of(range.end)?);
        Some(LineColumnRange { line, column, end_line, end_column_exclusive: end_column })
    }
}
