//! Claims with their outcome, and what the paper's text states.

use maud::{Markup, html};
use weir_stats::claim::By;
use weir_stats::{ClaimRecord, ClaimTest, Outcome, PaperValue, Place, Quantity};

use crate::number::{interval, plain};
use crate::report_model::{ReportModel, capital};

/// The claims of the study, the paper's first.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
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
                    span.about { (capital(&paper.setting)) "." }
                }
            }
            p.about {
                "Each claim was written down with its test before anything was measured, and is "
                "decided by the near end of the interval."
            }
            (table(model, By::Paper, "The paper’s"))
            (table(model, By::Weir, "weir’s own"))
            (paper_values(model))
        }
    }
}

fn table(model: &ReportModel<'_>, by: By, caption: &str) -> Markup {
    let all = &model.record.run.claims;
    let claims: Vec<&ClaimRecord> = all.iter().filter(|one| one.claim.by == by).collect();
    html! {
        @if !claims.is_empty() {
            div.scroll {
                table.claims {
                    caption { (caption) }
                    thead { tr { th { "claim" } th { "outcome" } th { "evidence" } } }
                    tbody { @for claim in &claims { (row(model, claim)) } }
                }
            }
        }
    }
}

fn row(model: &ReportModel<'_>, record: &ClaimRecord) -> Markup {
    html! {
        tr {
            td {
                (record.claim.text)
                @if let Some(place) = &record.claim.place { " " span.range { "(" (place) ")" } }
            }
            td.tight { span.badge.(class(record.outcome)) { (word(record)) } }
            td {
                @if let Some(estimate) = &record.estimate {
                    (plain(estimate.value)) " " span.range { (interval(estimate, plain)) }
                    br;
                }
                @if let Some(test) = &record.claim.test {
                    span.range { (test_in_words(model, test)) }
                } @else if let Some(needs) = &record.claim.needs { span.range { "needs " (needs) } }
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

/// The outcome in a word: a paper's claim is reproduced, our own is kept.
fn word(record: &ClaimRecord) -> String {
    match (record.claim.by, record.outcome) {
        (By::Weir, Outcome::Reproduced) => "kept".to_owned(),
        (By::Weir, Outcome::ReproducedInShape) => "nearly kept".to_owned(),
        (By::Weir, Outcome::NotReproduced) => "not kept".to_owned(),
        (_, outcome) => outcome.to_string(),
    }
}

/// The test of a claim as a sentence.
fn test_in_words(model: &ReportModel<'_>, test: &ClaimTest) -> String {
    match test {
        ClaimTest::Ratio { quantity, of, to, within, shape } => format!(
            "{} of {} against {}: {within} (in shape: {shape})",
            quantity_in_words(*quantity),
            place(model, of),
            place(model, to)
        ),
        ClaimTest::Value { quantity, of, within, shape } => format!(
            "{} of {}: {within} (in shape: {shape})",
            quantity_in_words(*quantity),
            place(model, of)
        ),
        ClaimTest::Growth { quantity, subject, axis, from, to, above, within, shape, .. } => {
            let above = match above {
                Some(base) => format!(", above that of {}", place(model, base)),
                None => String::new(),
            };
            format!(
                "exponent of {} of {} over {axis} {from} to {to}{above}: {within} \
                 (in shape: {shape})",
                quantity_in_words(*quantity),
                model.label_of(subject)
            )
        }
    }
}

fn place(model: &ReportModel<'_>, place: &Place) -> String {
    let (subject, at) = (model.label_of(&place.subject), place.at.to_string());
    if at.is_empty() { subject } else { format!("{subject} ({at})") }
}

fn quantity_in_words(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Pps => "packets/s",
        Quantity::NsPerPacket => "time a packet",
        Quantity::LossRatio | Quantity::LostShare => "loss",
        Quantity::LeakedPps => "packets/s let through",
        Quantity::LegalPps => "legal packets/s",
        Quantity::LeakedShare => "share of what has to be dropped, let through",
        Quantity::IcmpAnswersRatio => "ICMP answers a packet",
        Quantity::LoadSeconds => "load time",
        Quantity::LoadMemoryBytes => "memory of the loaded ruleset",
        Quantity::AddSeconds => "time to add a rule",
        Quantity::ConnectionsPerSecond => "connections a second",
        Quantity::ConnectionsResetPerSecond => "connections a second (RST)",
        Quantity::HandshakesPerSecond => "handshakes a second",
        Quantity::ConnectionFailureRatio => "failed connections",
        Quantity::ConnectionPackets => "packets/s of connections",
        Quantity::FloodPps => "SYNs a second of a flood",
        Quantity::FloodArrivedShare => "share of the flood let through",
        Quantity::SocketsPerSecond => "replies a second",
        Quantity::SocketFailureRatio => "failed connections of sockets",
        Quantity::NoPortRatio => "share of connections without a port",
        Quantity::PacketsPerReply => "packets a reply",
        Quantity::ClientReplyNsMean => "mean time of a reply as its client counts it, ns",
        Quantity::ReplyNsP50 => "median time of a reply, ns",
        Quantity::ReplyNsP99 => "time of a reply, 99 of 100, ns",
        Quantity::PortsAllow => "connections a second that ports allow",
        Quantity::DescriptorsAllow => "connections a second that descriptors allow",
        Quantity::BuffersAllow => "connections a second that buffers allow",
        Quantity::EarlyConnections => "connections a second, first third",
        Quantity::LateOverEarly => "connections a second, last third over first",
        Quantity::TranslatedShare => "share of connections translated",
        Quantity::LeastClientShare => "share of connections of the slowest client",
        Quantity::LeastServerShare => "share of connections of the slowest server",
        Quantity::BitsFromClients => "bits/s from clients",
        Quantity::BitsFromServers => "bits/s from servers",
        Quantity::PacketsFromClients => "packets/s from clients",
        Quantity::PacketsFromServers => "packets/s from servers",
        Quantity::RedirectsSent => "ICMP redirects sent",
        Quantity::BusiestCoreShare => "share of packets on the busiest core",
        Quantity::TableEntries => "entries in the connection table",
        Quantity::TableEndShare => "entries at the end over the most",
        Quantity::TableFullShare => "share of the time until the table is fullest",
        Quantity::HeldShare => "share of connections held",
        Quantity::ConnectionsHeld => "connections held",
        Quantity::BytesPerConnection => "memory a connection",
        Quantity::RoundTripNsMin => "shortest round trip, ns",
        Quantity::RoundTripNsMean => "mean round trip, ns",
        Quantity::RoundTripNsP50 => "median round trip, ns",
        Quantity::RoundTripNsP99 => "round trip, 99th percentile, ns",
        Quantity::RoundTripNsMax => "longest round trip, ns",
        Quantity::RoundTripLossRatio => "lost echoes",
        Quantity::ResponseNsP50 => "median response of a process, ns",
        Quantity::ResponseNsP99 => "response of a process, 99th percentile, ns",
        Quantity::ResponseNsMax => "longest response of a process, ns",
        Quantity::LoadAverage => "load average",
        Quantity::StreamBytesPerSecond => "bytes/s of one TCP stream",
        Quantity::StreamRetransmits => "segments sent again",
    }
}

/// The number of the claim that stands for a value of the paper.
fn ours(model: &ReportModel<'_>, value: &PaperValue) -> Markup {
    let mut claims = model.record.run.claims.iter();
    let claim = claims.find(|one| Some(&one.claim.id) == value.claim.as_ref());
    html! {
        @if let Some(estimate) = claim.and_then(|claim| claim.estimate.as_ref()) {
            (plain(estimate.value)) " " span.range { (interval(estimate, plain)) }
        } @else { span.range { "–" } }
    }
}

fn paper_values(model: &ReportModel<'_>) -> Markup {
    let values = &model.record.run.paper_values;
    html! {
        @if !values.is_empty() {
            div.scroll {
                table {
                    caption { "What the paper states in its text; nothing was read off a curve" }
                    thead { tr { th { "what" } th { "the paper" } th { "here" } th { "where" } } }
                    tbody {
                        @for value in values {
                            tr {
                                td { (value.what) }
                                td.tight { (value.value) }
                                td.tight { (ours(model, value)) }
                                td.range { (value.place) }
                            }
                        }
                    }
                }
            }
        }
    }
}
