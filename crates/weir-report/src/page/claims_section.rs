//! Claims with their status, and values that the paper's text states.

use maud::{Markup, html};
use weir_stats::claim::ClaimSource;
use weir_stats::{ClaimOutcome, ClaimRecord, ClaimTest, PaperStatedValue, SubjectPoint};

use crate::number_format::{format_interval, format_ratio_without_times_sign};
use crate::report_model::{ReportModel, capitalize_first};

/// The claims of the study, the paper's first.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let run = &model.record.run;
    if run.claims.is_empty() && run.paper_values.is_empty() {
        return html! {};
    }
    html! {
        section #claims {
            h2 { "Claims" }
            @if let Some(paper) = &run.paper {
                p {
                    (paper.authors) ", " cite { (paper.title) }
                    @if paper.year > 0 { " (" (paper.year) ")" } ", "
                    (paper.part) ". "
                    span.about { (capitalize_first(&paper.setting)) "." }
                }
            }
            p.about {
                "Each claim was written with its test before anything was measured. It is "
                "undecided where its interval reaches over a bound of the test, or the run is not "
                "good enough. Intervals hold for this machine, a "
                (run.firewall_environment().cpu_model) "."
            }
            (render_claims_table(model, ClaimSource::Paper, "The paper’s"))
            (render_claims_table(model, ClaimSource::Weir, "weir’s own"))
            (render_paper_values_table(model))
        }
    }
}

fn render_claims_table(model: &ReportModel<'_>, by: ClaimSource, caption: &str) -> Markup {
    let all = &model.record.run.claims;
    let claims: Vec<&ClaimRecord> = all.iter().filter(|one| one.claim.by == by).collect();
    html! {
        @if !claims.is_empty() {
            div.scroll {
                table.claims {
                    caption { (caption) }
                    thead { tr { th { "claim" } th { "outcome" } th { "evidence" } } }
                    tbody { @for claim in &claims { (render_claim_row(model, claim)) } }
                }
            }
        }
    }
}

fn render_claim_row(model: &ReportModel<'_>, record: &ClaimRecord) -> Markup {
    html! {
        tr {
            td {
                (record.claim.text)
                @if let Some(place) = &record.claim.place { " " span.range { "(" (place) ")" } }
            }
            td.tight { span.badge.(outcome_css_class(record.outcome)) { (outcome_text(record)) } }
            td {
                @if let Some(estimate) = &record.estimate {
                    (format_ratio_without_times_sign(estimate.value)) " " span.range { (format_interval(estimate, format_ratio_without_times_sign)) }
                    br;
                }
                @for shortcoming in &record.shortcomings { (shortcoming) br; }
                @if let Some(test) = &record.claim.test {
                    span.range { (describe_claim_test(model, test)) }
                } @else if let Some(needs) = needs_of_claim(record) { span.range { "needs " (needs) } }
            }
        }
    }
}

fn needs_of_claim(record: &ClaimRecord) -> Option<&String> {
    record.claim.needs.as_ref().or(record.claim.needs_old_software.as_ref())
}

fn outcome_css_class(outcome: ClaimOutcome) -> &'static str {
    match outcome {
        ClaimOutcome::Reproduced => "ok",
        ClaimOutcome::InDirectionOnly => "noisy",
        ClaimOutcome::Refuted => "invalid",
        ClaimOutcome::Undecided
        | ClaimOutcome::NeedsHardware
        | ClaimOutcome::NeedsOldSoftware
        | ClaimOutcome::NotMeasured => "plain",
    }
}

/// The outcome in a word: a paper's claim is reproduced, our own is kept.
fn outcome_text(record: &ClaimRecord) -> String {
    match (record.claim.by, record.outcome) {
        (ClaimSource::Weir, ClaimOutcome::Reproduced) => "kept".to_owned(),
        (ClaimSource::Weir, ClaimOutcome::InDirectionOnly) => "nearly kept".to_owned(),
        (ClaimSource::Weir, ClaimOutcome::Refuted) => "not kept".to_owned(),
        (_, outcome) => outcome.to_string(),
    }
}

/// The test of a claim as a sentence.
fn describe_claim_test(model: &ReportModel<'_>, test: &ClaimTest) -> String {
    match test {
        ClaimTest::Ratio { quantity, of, to, within, shape } => format!(
            "{} of {} against {}: {within} (in direction: {shape})",
            quantity.title(),
            describe_subject_point(model, of),
            describe_subject_point(model, to)
        ),
        ClaimTest::Value { quantity, of, within, shape } => {
            format!(
                "{} of {}: {within} (in direction: {shape})",
                quantity.title(),
                describe_subject_point(model, of)
            )
        }
        ClaimTest::Growth { quantity, subject, axis, from, to, above, within, shape, .. } => {
            let above = match above {
                Some(base) => format!(", above that of {}", describe_subject_point(model, base)),
                None => String::new(),
            };
            format!(
                "exponent of {} of {} over {axis} {from} to {to}{above}: {within} \
                 (in direction: {shape})",
                quantity.title(),
                model.subject_label_by_name(subject)
            )
        }
    }
}

fn describe_subject_point(model: &ReportModel<'_>, place: &SubjectPoint) -> String {
    let (subject, at) = (model.subject_label_by_name(&place.subject), place.at.to_string());
    if at.is_empty() { subject } else { format!("{subject} ({at})") }
}

/// The number of the claim for a value of the paper.
fn render_measured_value(model: &ReportModel<'_>, value: &PaperStatedValue) -> Markup {
    let mut claims = model.record.run.claims.iter();
    let claim = claims.find(|one| Some(&one.claim.id) == value.claim.as_ref());
    html! {
        @if let Some(estimate) = claim.and_then(|claim| claim.estimate.as_ref()) {
            (format_ratio_without_times_sign(estimate.value)) " " span.range { (format_interval(estimate, format_ratio_without_times_sign)) }
        } @else { span.range { "–" } }
    }
}

fn render_paper_values_table(model: &ReportModel<'_>) -> Markup {
    let values = &model.record.run.paper_values;
    html! {
        @if !values.is_empty() {
            div.scroll {
                table {
                    caption { "Values that the paper states in its text; nothing was read off a \
                         curve" }
                    thead { tr { th { "what" } th { "the paper" } th { "here" } th { "where" } } }
                    tbody {
                        @for value in values {
                            tr {
                                td { (value.what) }
                                td.tight { (value.value) }
                                td.tight { (render_measured_value(model, value)) }
                                td.range { (value.place) }
                            }
                        }
                    }
                }
            }
        }
    }
}
