//! Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which code review
//! tools read.
//!
//! There is one run; a rule for every lint, with its page; a result for every finding, with the
//! other places as related locations. Columns count characters.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::{Value, json};
use weir_lint::{Finding, Lint, all_lints};
use weir_model::Span;

use super::checked_ruleset::{CheckedRuleset, severity_word};
use crate::operand::SourceText;
use crate::source_locations::SourceLineIndex;

/// Where the pages can be read.
const LINT_PAGES_URL: &str = "https://github.com/weir-fw/weir/blob/main/docs/lints";

/// Prints it.
pub(super) fn render_sarif(all: &[CheckedRuleset]) -> Result<String> {
    let index: HashMap<&str, usize> = all_lints().enumerate().map(|(i, l)| (l.id, i)).collect();
    let mut results = Vec::new();
    for checked in all {
        let places = SourceLineIndex::new(&checked.sources);
        let of = |f: &Finding| sarif_result(f, index[f.lint_id()], checked, &places);
        results.extend(checked.findings.iter().map(of));
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "weir",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": all_lints().map(sarif_rule).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&log)?))
}

fn sarif_rule(lint: &'static Lint) -> Value {
    json!({
        "id": lint.id,
        "shortDescription": { "text": lint.summary_line() },
        "fullDescription": { "text": lint.why_it_matters() },
        "help": { "text": lint.cure(), "markdown": lint.page_markdown },
        "helpUri": format!("{LINT_PAGES_URL}/{}.md", lint.id),
        "defaultConfiguration": { "enabled": lint.enabled_by_default, "level": severity_word(lint.severity) },
        "properties": { "fix": lint.is_fixable },
    })
}

fn sarif_result(
    f: &Finding,
    index: usize,
    checked: &CheckedRuleset,
    places: &SourceLineIndex<'_>,
) -> Value {
    let source = places.source_of_finding(f);
    let name = f.place.as_ref().map(ToString::to_string);
    let text = match f.help.is_empty() {
        true => f.message.clone(),
        false => format!("{}; {}", f.message, f.help),
    };
    let also: Vec<Value> = f
        .related_places
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let name = a.place.to_string();
            let mut location = sarif_location(source, a.span, Some(&name), places);
            location["id"] = json!(i);
            location["message"] = json!({ "text": a.label });
            location
        })
        .collect();
    let mut result = json!({
        "ruleId": f.lint_id(),
        "ruleIndex": index,
        "level": severity_word(f.severity),
        "message": { "text": text },
        "locations": [sarif_location(source, f.span, name.as_deref(), places)],
        "properties": { "fix": f.fix.is_some() },
    });
    if !also.is_empty() {
        result["relatedLocations"] = json!(also);
    }
    if f.wasted_comparisons > 0 {
        result["properties"]["rulesTried"] = json!(f.wasted_comparisons);
        result["properties"]["costNs"] =
            json!(checked.cost_model.full_list_scan_ns(f.wasted_comparisons as usize));
    }
    result
}

fn sarif_location(
    source: Option<&SourceText>,
    span: Span,
    name: Option<&str>,
    places: &SourceLineIndex<'_>,
) -> Value {
    let mut location = json!({});
    if let Some(source) = source {
        let mut physical =
            json!({ "artifactLocation": { "uri": percent_encode_uri(&source.name) } });
        if let Some(r) = places.line_column_range(source, span) {
            physical["region"] = json!({
                "startLine": r.line,
                "startColumn": r.column,
                "endLine": r.end_line,
                "endColumn": r.end_column_exclusive,
            });
        }
        location["physicalLocation"] = physical;
    }
    if let Some(name) = name {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": name }]);
    }
    location
}

/// A file name as a relative reference (RFC 3986): what may not be in one is escaped.
fn percent_encode_uri(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::percent_encode_uri;

    #[test]
    fn file_names_are_percent_encoded_in_uris() {
        assert_eq!(percent_encode_uri("a/b.rules"), "a/b.rules");
        assert_eq!(percent_encode_uri("<stdin>"), "%3Cstdin%3E");
        assert_eq!(percent_encode_uri("c:d e"), "c%3Ad%20e");
    }
}
