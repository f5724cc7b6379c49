//! Reasons to trust the numbers, and reasons to doubt them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use weir_stats::{DropCount, Trial, TrialKind, TrialState};

use crate::chart::noise_strips;
use crate::headline_and_trust::{TrustLevel, assess_trust};
use crate::number_format::{format_count, format_interval, format_ratio_near_one};
use crate::report_model::{ReportModel, subject_label};

/// The badge with its reasons.
pub(super) fn render_trust_badge(model: &ReportModel<'_>) -> Markup {
    let (trust, reasons) = assess_trust(model);
    let run = &model.record.run;
    html! {
        div.trust {
            a.badge.(trust.css_class()) href="#trust" { (trust.badge_text()) }
            ul {
                @if trust == TrustLevel::Ok { li { (describe_reasons_to_trust(model)) } }
                @for reason in &reasons { li { (reason) } }
                @if !run.preset.label.is_empty() { li { (run.preset.label) } }
            }
        }
    }
}

fn describe_reasons_to_trust(model: &ReportModel<'_>) -> String {
    let accepted = format_count(model.accepted_trials().count() as u64);
    match &model.record.run.noise_floor {
        Some(floor) => format!(
            "{accepted} trials add up; the same subject measured twice agrees within {}.",
            format_interval(&floor.ratio, format_ratio_near_one)
        ),
        None => format!("{accepted} trials add up."),
    }
}

/// Everything about how far the numbers can be trusted.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let run = &model.record.run;
    let (trust, reasons) = assess_trust(model);
    html! {
        section #trust {
            h2 { "How far to trust this " span.badge.(trust.css_class()) { (trust.badge_text()) } }
            @if !reasons.is_empty() { ul { @for reason in &reasons { li { (reason) } } } }
            dl {
                dt { "trials" }
                dd { (describe_trial_counts(model)) }
                @if let Some(floor) = &run.noise_floor {
                    dt { "noise floor" }
                    dd {
                        (model.subject_label_by_name(&floor.subject)) " measured twice, second against first: "
                        (format_ratio_near_one(floor.ratio.value)) " " (format_interval(&floor.ratio, format_ratio_near_one))
                        " over " (floor.ratio.samples) " pairs"
                    }
                }
                dt { "repetition" }
                dd {
                    (run.preset.blocks) " blocks of trials of " (run.preset.trial_seconds)
                    " s, subjects in forward and reverse order in each; one boot of one machine"
                }
            }
            @if !run.doubts.is_empty() {
                h3 { "Doubts" }
                ul { @for doubt in &run.doubts { li { (doubt) } } }
            }
            (render_noise_strips(model))
            (render_packet_sums(model))
        }
    }
}

fn describe_trial_counts(model: &ReportModel<'_>) -> String {
    let counts = &model.record.run.counts;
    let parts = [
        (counts.accepted, "accepted"),
        (counts.warmup, "warm-up"),
        (counts.disturbed, "disturbed"),
        (counts.unbalanced, "not adding up"),
        (counts.failed, "failed"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", format_count(*n)))
        .collect();
    format!("{}: {}", format_count(counts.all), parts.join(", "))
}

fn render_noise_strips(model: &ReportModel<'_>) -> Markup {
    let trials = &model.record.trials;
    html! {
        @if !trials.is_empty() {
            h3 { "Noise, trial by trial" }
            figure {
                (noise_strips::draw_noise_strips("noise", "wide", 1008.0, trials))
                (noise_strips::draw_noise_strips("noise-narrow", "narrow", 400.0, trials))
                figcaption {
                    "In the order in which they were run. Orange trials did not count: they were "
                    "disturbed and repeated, or failed."
                }
            }
        }
    }
}

/// What happened to the packets of a subject's trials.
#[derive(Default)]
struct PacketSums {
    offered: u64,
    delivered: u64,
    leaked: u64,
    missing: i64,
    dropped_by_counter: BTreeMap<String, u64>,
}

impl PacketSums {
    fn add_trial(&mut self, trial: &Trial) {
        self.offered += trial.offered;
        self.delivered += trial.delivered;
        self.leaked += trial.leaked;
        self.missing += trial.unaccounted_packets();
        for drop in &trial.drop_counts {
            *self.dropped_by_counter.entry(drop.counter.clone()).or_default() += drop.packets;
        }
    }
}

/// A counter's heading: what it dropped, or what it knows of packets that another one counted.
fn drop_counter_heading(counter: &str) -> String {
    let count = DropCount { counter: counter.to_owned(), packets: 0 };
    if count.is_counted_elsewhere() {
        format!("({counter})")
    } else {
        format!("dropped: {counter}")
    }
}

/// Offered, delivered and dropped come from different counters and must add up.
fn render_packet_sums(model: &ReportModel<'_>) -> Markup {
    let mut by_subject: BTreeMap<&str, PacketSums> = BTreeMap::new();
    let packets = |trial: &&Trial| matches!(trial.kind, TrialKind::Rate | TrialKind::Paced);
    let counted = |trial: &&Trial| matches!(trial.state, TrialState::Accepted | TrialState::Warmup);
    for trial in model.record.trials.iter().filter(packets).filter(counted) {
        by_subject.entry(&trial.subject).or_default().add_trial(trial);
    }
    let mut counters: Vec<&str> = by_subject
        .values()
        .flat_map(|sums| sums.dropped_by_counter.keys().map(String::as_str))
        .collect();
    counters.sort_unstable();
    counters.dedup();
    html! {
        @if !by_subject.is_empty() {
            h3 { "Packets, counted three ways" }
            div.scroll {
                table {
                    thead {
                        tr {
                            th { "subject" }
                            th.right { "offered" }
                            th.right { "delivered" }
                            @for counter in &counters { th.right { (drop_counter_heading(counter)) } }
                            th.right { "leaked" }
                            th.right { "missing" }
                        }
                    }
                    tbody {
                        @for subject in &model.record.run.subjects {
                            @if let Some(sums) = by_subject.get(subject.name.as_str()) {
                                tr {
                                    th scope="row" { (subject_label(subject)) }
                                    td.right { (format_count(sums.offered)) }
                                    td.right { (format_count(sums.delivered)) }
                                    @for counter in &counters {
                                        @let packets = sums.dropped_by_counter.get(*counter);
                                        td.right { (packets.map_or("–".to_owned(), |n| format_count(*n))) }
                                    }
                                    td.right { (format_count(sums.leaked)) }
                                    td.right { (sums.missing) }
                                }
                            }
                        }
                    }
                }
            }
            p.small-print {
                "Sums over accepted and warm-up trials. The generator counts what it offers, the "
                "sink what arrives, rules and devices what they drop; missing packets are in no "
                "counter. Counters in parentheses are parts of others, and are not added."
            }
        }
    }
}
