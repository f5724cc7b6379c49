//! Claims with their outcome, and what the paper's text states.

use maud::{Markup, html};
use weir_stats::claim::By;
use weir_stats::{ClaimRecord, ClaimTest, Outcome, Place, Quantity};

use crate::digest::Digest;
use crate::number::{interval, plain};

/// The claims of the study, the paper's first.
pub(super) fn section(digest: &Digest<'_>) -> Markup {
    let run = &digest.record.run;
    if run.claims.is_empty() && run.paper_values.is_empty() {
        return html! {};
    }
    html! {
        section #claims {
            h2 { "Claims" }
            @if let Some(paper) = &run.paper {
                p {
                    (paper.authors) ", " cite { (paper.title) } " (" (paper.year) "), "
                    (paper.part) ". "
                    span.about { (paper.setting) }
                }
            }
            p.about {
                "Each claim was written down with its test before anything was measured, and is "
                "decided by the near end of the interval."
            }
            (table(run.claims.iter().filter(|one| one.claim.by == By::Paper), "The paper’s"))
            (table(run.claims.iter().filter(|one| one.claim.by == By::Weir), "weir’s own"))
            (paper_values(digest))
        }
    }
}

fn table<'a>(claims: impl Iterator<Item = &'a ClaimRecord>, caption: &str) -> Markup {
    let claims: Vec<&ClaimRecord> = claims.collect();
    html! {
        @if !claims.is_empty() {
            div.scroll {
                table.claims {
                    caption { (caption) }
                    thead { tr { th { "claim" } th { "outcome" } th { "evidence" } } }
                    tbody { @for claim in &claims { (row(claim)) } }
                }
            }
        }
    }
}

fn row(record: &ClaimRecord) -> Markup {
    html! {
        tr {
            td {
                (record.claim.text)
                @if let Some(place) = &record.claim.place { " " span.range { "(" (place) ")" } }
            }
            td.tight { span.badge.(class(record.outcome)) { (record.outcome.to_string()) } }
            td {
                @if let Some(estimate) = &record.estimate {
                    (plain(estimate.value)) " " span.range { (interval(estimate, plain)) }
                    br;
                }
                @if let Some(test) = &record.claim.test { span.range { (test_in_words(test)) } }
                @else if let Some(needs) = &record.claim.needs { span.range { "needs " (needs) } }
            }
        }
    }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Reproduced => "ok",
        Outcome::ReproducedInShape => "noisy",
        Outcome::NotReproduced => "invalid",
        Outcome::NeedsHardware | Outcome::NotMeasured => "plain",
    }
}

/// The test of a claim as a sentence.
fn test_in_words(test: &ClaimTest) -> String {
    match test {
        ClaimTest::Ratio { quantity, of, to, within, shape } => format!(
            "{} of {} against {}: {within} (in shape: {shape})",
            quantity_in_words(*quantity),
            place(of),
            place(to)
        ),
        ClaimTest::Growth { quantity, subject, axis, from, to, above, within, shape, .. } => {
            let above = match above {
                Some(base) => format!(", above that of {}", place(base)),
                None => String::new(),
            };
            format!(
                "exponent of {} of {subject} over {axis} {from} to {to}{above}: {within} \
                 (in shape: {shape})",
                quantity_in_words(*quantity)
            )
        }
    }
}

fn place(place: &Place) -> String {
    let at = place.at.to_string();
    if at.is_empty() { place.subject.clone() } else { format!("{} ({at})", place.subject) }
}

fn quantity_in_words(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Pps => "packets/s",
        Quantity::NsPerPacket => "time a packet",
        Quantity::LossRatio => "loss",
        Quantity::LoadSeconds => "load time",
        Quantity::AddSeconds => "time to add a rule",
    }
}

fn paper_values(digest: &Digest<'_>) -> Markup {
    let values = &digest.record.run.paper_values;
    html! {
        @if !values.is_empty() {
            div.scroll {
                table {
                    caption { "What the paper states in its text; nothing was read off a curve" }
                    thead { tr { th { "what" } th { "the paper" } th { "where" } } }
                    tbody {
                        @for value in values {
                            tr {
                                td { (value.what) }
                                td.tight { (value.value) }
                                td.range { (value.place) }
                            }
                        }
                    }
                }
            }
        }
    }
}
