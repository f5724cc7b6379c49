//! A line for each finding, as compilers print them: `FILE:LINE:COLUMN: SEVERITY: MESSAGE [ID]`.

use weir_syntax::escaped;

use super::checked::{CheckedRuleset, severity};
use super::places::Places;

/// Prints them, in the order of the texts.
pub(super) fn print(all: &[CheckedRuleset]) -> String {
    let mut out = String::new();
    for checked in all {
        let places = Places::new(&checked.sources);
        for f in &checked.findings {
            let source = places.source(f);
            let name = source.map_or("<ruleset>", |s| &*s.name);
            let at = match source.and_then(|s| places.region(s, f.span)) {
                Some(region) => format!("{name}:{}:{}", region.line, region.column),
                None => name.to_owned(),
            };
            let line = format!("{at}: {}: {} [{}]", severity(f.severity), f.message, f.id());
            out.push_str(&escaped(&line));
            out.push('\n');
        }
    }
    out
}
