//! One page about several studies: the statements of the papers, their status, and links to the
//! runs.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, html};
use weir_study::claims_registry::{
    self, StatementKind, StatementStatus, StatementWithStatus, StudyStatements,
};

use crate::page::render_head_elements;

/// File next to the index that holds the report of a study's best run; `None` without one.
pub fn report_file_name(entry: &StudyStatements) -> Option<String> {
    entry.run.as_ref().map(|_| format!("{}.html", entry.study))
}

/// File next to the index that holds the trials of that run.
pub fn trials_jsonl_file_name(entry: &StudyStatements) -> Option<String> {
    entry.run.as_ref().map(|_| format!("{}.jsonl", entry.study))
}

/// The index as one HTML page that opens offline.
///
/// All of it is text; nothing is read as HTML. The same entries give the same bytes.
pub fn render_index(entries: &[StudyStatements], version: &str) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (render_head_elements("Studies"))
            }
            body {
                main {
                    h1 { "The statements of five papers, and the results here" }
                    p.lead {
                        "Every figure, table, observation and conclusion, numbered. A status is "
                        "computed from the records of the best kept run that measured it, or says why "
                        "there is none. Intervals hold for the processor that is named."
                    }
                    (render_status_counts(entries))
                    (render_table_of_contents(entries))
                    @for entry in entries { (render_study_section(entry)) }
                }
                footer { "Written by weir " (version) "." }
            }
        }
    };
    markup.into_string()
}

/// All that is listed of a study: what the paper says, and weir's own claims.
fn list_statements_and_own_claims(
    entry: &StudyStatements,
) -> impl Iterator<Item = &StatementWithStatus> {
    entry.items.iter().chain(&entry.own)
}

/// How many items have which status, by the words of it.
fn render_status_counts(entries: &[StudyStatements]) -> Markup {
    let mut counts: BTreeMap<String, (StatementStatus, usize)> = BTreeMap::new();
    for item in entries.iter().flat_map(list_statements_and_own_claims) {
        counts.entry(item.status.to_string()).or_insert((item.status, 0)).1 += 1;
    }
    html! {
        p.trust {
            @for (status, count) in counts.values() { span { (render_status_badge(*status)) " " (count) } }
        }
    }
}

/// Every study with the way to it, and to its report.
fn render_table_of_contents(entries: &[StudyStatements]) -> Markup {
    html! {
        nav.contents aria-labelledby="contents" {
            h2 #contents { "Contents" }
            ul {
                @for entry in entries {
                    li {
                        a href={ "#" (entry.study) } { (entry.title) } " "
                        @if let Some(report) = report_file_name(entry) {
                            "(" a href=(report) { "report" } ")"
                        } @else { span.range { "(no complete run)" } }
                    }
                }
            }
        }
    }
}

fn render_study_section(entry: &StudyStatements) -> Markup {
    html! {
        section id=(entry.study) {
            h2 { (entry.title) }
            p.about {
                (entry.study)
                @if let Some(command) = &entry.command { " · " code { (command) } }
            }
            @if let (Some(report), Some(trials)) = (report_file_name(entry), trials_jsonl_file_name(entry)) {
                p {
                    a href=(report) { "report of the best run" } ", "
                    a href=(trials) download { "its trials" }
                }
            }
            @if !entry.runs.is_empty() {
                ul { @for kept in &entry.runs { li { (claims_registry::describe_kept_run(kept)) } } }
            }
            @if let Some(kept) = &entry.self_test {
                p.about { (claims_registry::describe_aa_test(kept)) "." }
            }
            @if list_statements_and_own_claims(entry).next().is_some() {
                div.scroll {
                    table.claims {
                        thead { tr { th { "claim" } th { "outcome" } th { "evidence" } } }
                        tbody { @for item in list_statements_and_own_claims(entry) { (render_claim_row(item)) } }
                    }
                }
            }
        }
    }
}

fn render_claim_row(item: &StatementWithStatus) -> Markup {
    html! {
        tr {
            td {
                @if item.kind != StatementKind::Own { b { (item.number) } " " }
                (item.text)
                @if !item.place.is_empty() { " " span.range { "(" (item.place) ")" } }
            }
            td.tight { (render_status_badge(item.status)) }
            td {
                (claims_registry::format_statement_evidence(item))
                @if let Some(stated) = &item.stated {
                    br; span.range { "the paper: " (stated) }
                }
            }
        }
    }
}

fn render_status_badge(status: StatementStatus) -> Markup {
    let class = match status {
        StatementStatus::Reproduced => "ok",
        StatementStatus::InDirectionOnly => "noisy",
        StatementStatus::Refuted => "invalid",
        StatementStatus::NotBuilt
        | StatementStatus::NotRun
        | StatementStatus::NotMeasured
        | StatementStatus::Undecided
        | StatementStatus::NeedsHardware
        | StatementStatus::NeedsOldSoftware
        | StatementStatus::NotPreserved => "plain",
    };
    html! { span.badge.(class) { (status) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::Estimate;
    use weir_study::claims_registry::ClaimEvidence;

    fn entry() -> StudyStatements {
        let estimate = Estimate { value: 0.97, lo: 0.95, hi: 0.99, samples: 9 };
        let evidence = ClaimEvidence {
            claim: "falls".to_owned(),
            status: StatementStatus::Reproduced,
            estimate: Some(estimate),
            run: Some("runs/2026-01-01-amd-epyc-2cpu".to_owned()),
            cpu: Some("AMD EPYC".to_owned()),
            shortcomings: Vec::new(),
            other_runs: Vec::new(),
        };
        let item = StatementWithStatus {
            number: "K1".to_owned(),
            kind: StatementKind::Figure,
            place: String::new(),
            text: "it <falls>".to_owned(),
            stated: Some("half".to_owned()),
            status: StatementStatus::Reproduced,
            why: None,
            evidence: vec![evidence],
            objections: Vec::new(),
        };
        StudyStatements {
            study: "today-x".to_owned(),
            title: "X & Y".to_owned(),
            paper: None,
            command: None,
            run: Some("runs/2026-01-01-amd-epyc-2cpu".to_owned()),
            runs: Vec::new(),
            objections: Vec::new(),
            self_test: None,
            items: vec![item],
            own: Vec::new(),
        }
    }

    #[test]
    fn every_statement_is_shown_escaped_with_its_status() {
        let page = render_index(&[entry()], "0");
        let shown = ["K1", "it &lt;falls&gt;", "X &amp; Y", "0.970 (0.950 to 0.990) on AMD EPYC"];
        for part in shown.into_iter().chain(["today-x.html", "the paper: half"]) {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<falls>"));
        assert!(page.contains("class=\"badge ok\""));
    }

    #[test]
    fn the_table_of_contents_links_every_study_and_report() {
        let other = StudyStatements { study: "today-z".to_owned(), run: None, ..entry() };
        let page = render_index(&[entry(), other], "0");
        let contents = page.split("<nav").nth(1).and_then(|rest| rest.split("</nav>").next());
        let contents = contents.expect("there are contents");
        let links: Vec<&str> =
            contents.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(links, ["#today-x", "today-x.html", "#today-z"]);
        for study in ["today-x", "today-z"] {
            assert!(page.contains(&format!("<section id=\"{study}\">")), "{study}");
        }
        assert!(contents.contains("no complete run"));
    }

    #[test]
    fn a_study_without_a_run_has_no_links() {
        let page = render_index(&[StudyStatements { run: None, ..entry() }], "0");
        assert!(!page.contains(".html") && !page.contains(".jsonl"));
    }
}
