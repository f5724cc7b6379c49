//! A line for each finding, as compilers print them: `FILE:LINE:COLUMN: SEVERITY: MESSAGE [ID]`.

use weir_syntax::escape_control_chars;

use super::checked_ruleset::{CheckedRuleset, severity_word};
use crate::source_locations::SourceLineIndex;

/// Prints them, in the order of the texts.
pub(super) fn render_finding_lines(all: &[CheckedRuleset]) -> String {
    let mut out = String::new();
    for checked in all {
        let places = SourceLineIndex::new(&checked.sources);
        for f in &checked.findings {
            let source = places.source_of_finding(f);
            let name = source.map_or("<ruleset>", |s| &*s.name);
            let at = match source.and_then(|s| places.line_column_range(s, f.span)) {
                Some(region) => format!("{name}:{}:{}", region.line, region.column),
                None => name.to_owned(),
            };
            let line =
                format!("{at}: {}: {} [{}]", severity_word(f.severity), f.message, f.lint_id());
            out.push_str(&escape_control_chars(&line));
            out.push('\n');
        }
    }
    out
}
