//! One page over several studies: what the papers say, what became of it, and where the runs are.

use maud::{DOCTYPE, Markup, html};

use crate::page::meta;

/// One study of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of its folder.
    pub study: String,
    /// What a reader sees.
    pub title: String,
    /// The paper, by its key; empty for a study that repeats none.
    pub paper: String,
    /// The command that runs it; empty where there is none yet.
    pub command: String,
    /// File beside the index that holds the report of its newest run; empty without one.
    pub report: String,
    /// File beside the index that holds the trials of that run.
    pub data: String,
    /// What came of a subject against itself, a sentence; empty where nobody looked.
    pub self_test: String,
    /// What the paper says.
    pub items: Vec<IndexItem>,
}

/// One figure, table, observation, conclusion, or claim of weir's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexItem {
    /// Its number; empty for weir's own.
    pub number: String,
    /// Where the paper has it.
    pub place: String,
    /// What it says.
    pub text: String,
    /// The paper's own value.
    pub stated: String,
    /// What became of it.
    pub status: String,
    /// The numbers that decided, or the reason.
    pub evidence: String,
}

/// The index as one HTML page that opens offline.
///
/// All of it is text; nothing is read as HTML. The same entries give the same bytes.
pub fn index(entries: &[IndexEntry], version: &str) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (meta("Studies"))
            }
            body {
                main {
                    h1 { "What five papers say, and what was found here" }
                    p.lead {
                        "Every figure, table, observation and conclusion, numbered. A status is "
                        "computed from the records of the newest kept run, or says why there is none."
                    }
                    (sums(entries))
                    @for entry in entries { (study(entry)) }
                }
                footer { "Written by weir " (version) "." }
            }
        }
    };
    markup.into_string()
}

/// How many items have which status.
fn sums(entries: &[IndexEntry]) -> Markup {
    let mut counts: std::collections::BTreeMap<&str, usize> = Default::default();
    for item in entries.iter().flat_map(|entry| &entry.items) {
        *counts.entry(&item.status).or_default() += 1;
    }
    html! {
        p.trust {
            @for (status, count) in &counts {
                span { span.badge.(class(status)) { (status) } " " (count) }
            }
        }
    }
}

fn study(entry: &IndexEntry) -> Markup {
    html! {
        section id=(entry.study) {
            h2 { (entry.title) }
            p.about {
                (entry.study)
                @if !entry.command.is_empty() { " · " code { (entry.command) } }
            }
            @if !entry.report.is_empty() {
                p {
                    a href=(entry.report) { "report of the newest run" } ", "
                    a href=(entry.data) download { "its trials" }
                }
            }
            @if !entry.self_test.is_empty() { p.about { (entry.self_test) "." } }
            @if !entry.items.is_empty() {
                div.scroll {
                    table.claims {
                        thead { tr { th { "claim" } th { "outcome" } th { "evidence" } } }
                        tbody { @for item in &entry.items { (row(item)) } }
                    }
                }
            }
        }
    }
}

fn row(item: &IndexItem) -> Markup {
    html! {
        tr {
            td {
                @if !item.number.is_empty() { b { (item.number) } " " }
                (item.text)
                @if !item.place.is_empty() { " " span.range { "(" (item.place) ")" } }
            }
            td.tight { span.badge.(class(&item.status)) { (item.status) } }
            td {
                (item.evidence)
                @if !item.stated.is_empty() { br; span.range { "the paper: " (item.stated) } }
            }
        }
    }
}

fn class(status: &str) -> &'static str {
    match status {
        "reproduced" => "ok",
        "reproduced in shape" => "noisy",
        "not reproduced" => "invalid",
        _ => "plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> IndexEntry {
        let item = IndexItem {
            number: "K1".to_owned(),
            text: "it <falls>".to_owned(),
            status: "reproduced".to_owned(),
            evidence: "0.97".to_owned(),
            stated: "half".to_owned(),
            ..IndexItem::default()
        };
        IndexEntry {
            study: "today-x".to_owned(),
            title: "X & Y".to_owned(),
            report: "today-x.html".to_owned(),
            data: "today-x.jsonl".to_owned(),
            self_test: "a & a".to_owned(),
            items: vec![item],
            ..IndexEntry::default()
        }
    }

    #[test]
    fn every_item_is_shown_with_its_status_and_nothing_is_markup() {
        let page = index(&[entry()], "0");
        for part in
            ["K1", "it &lt;falls&gt;", "X &amp; Y", "today-x.html", "the paper: half", "a &amp; a."]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<falls>"));
        assert!(page.contains("class=\"badge ok\""));
    }

    #[test]
    fn a_study_without_a_run_has_no_link() {
        let page = index(&[IndexEntry { report: String::new(), ..entry() }], "0");
        assert!(!page.contains("<a href"));
    }
}
