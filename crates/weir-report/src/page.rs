//! The page: its order, its header, and its first screen.

mod claims_section;
mod connection_plots;
mod estimate_tables;
mod latency_probe_tables;
mod lookup_plots;
mod per_core_packet_shares;
mod per_endpoint_rates;
mod provenance_section;
mod rate_and_load_time_plots;
mod rate_search_section;
mod remeasured_paper_figures;
mod run_overlay;
mod trial_time_series;
mod trust_section;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::RunRecord;

use crate::extra_section::ExtraSection;
use crate::headline_and_trust::build_headline;
use crate::number_format::{
    format_count, format_interval, format_percent, format_rate_without_unit, format_ratio,
    format_ratio_without_times_sign, format_rfc3339_to_minute,
};
use crate::report_model::{HeadlineGains, ReportModel, subject_label};

pub use run_overlay::NamedRun;

const PAGE_CSS: &str = include_str!("page.css");
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
const PAGE_SCRIPT: &str = include_str!("page.js");

/// One self-contained HTML page of a run: it opens offline, prints, and needs no script.
///
/// `extras` are sections that the records do not hold; they come after the drawings. The same
/// records give the same bytes.
pub fn render_page(record: &RunRecord, extras: &[ExtraSection]) -> String {
    render_page_with_run_overlay(&[NamedRun { name: "", record }], extras)
}

/// The page of the first run, with a section that draws all of them on one set of axes. All are of
/// one study.
///
/// # Panics
/// Where there is no run, or one of another study.
pub fn render_page_with_run_overlay(runs: &[NamedRun<'_>], extras: &[ExtraSection]) -> String {
    let record = runs.first().expect("one run at least").record;
    let model = ReportModel::new(record);
    let overlay = (runs.len() > 1).then(|| run_overlay::RunOverlay::from_runs(runs));
    let records = overlay.as_ref().map_or_else(|| vec![("", record)], |runs| runs.named_records());
    let verdict_text = build_headline(&model).sentence();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (render_head_elements(&record.run.title))
                meta name="generator" content={ "weir " (record.run.weir) };
                meta name="description" content=(verdict_text);
            }
            body {
                (render_page_header(record))
                main {
                    (render_headline_and_gains(&model))
                    (rate_and_load_time_plots::render_headline_facet_plot(&model))
                    (rate_and_load_time_plots::render_packet_rate_facet_plots(&model))
                    @if let Some(runs) = &overlay { (run_overlay::render_section(runs)) }
                    (lookup_plots::render_section(&model))
                    (connection_plots::render_section(&model))
                    (per_endpoint_rates::render_section(&model))
                    (per_core_packet_shares::render_section(&model))
                    (trial_time_series::render_section(&model))
                    (remeasured_paper_figures::render_section(&model))
                    (rate_search_section::render_section(&model))
                    (rate_and_load_time_plots::render_load_time_plots(&model))
                    (latency_probe_tables::render_section(&model))
                    @for extra in extras { (self::render_extra_section(extra)) }
                    (estimate_tables::render_estimates_section(&model))
                    (claims_section::render_section(&model))
                    (trust_section::render_section(&model))
                    (provenance_section::render_section(&model))
                    (provenance_section::render_downloads(&records))
                }
                footer {
                    "Written by weir " (record.run.weir) " from the records of "
                    (format_run_count(runs.len())) ". "
                    "Intervals hold 95 % of a bootstrap over blocks on one boot of one machine; "
                    "they do not apply to other machines."
                }
                script { (PreEscaped(PAGE_SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

/// What the head of every page begins with.
pub(crate) fn render_head_elements(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        // Nothing is fetched, whatever a record may hold.
        meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " – weir" }
        link rel="icon" href="data:,";
        style { (PreEscaped(PAGE_CSS)) }
    }
}

fn render_page_header(record: &RunRecord) -> Markup {
    let run = &record.run;
    html! {
        header.top {
            span.mark-weir {
                svg viewBox="0 0 24 16" aria-hidden="true" {
                    path d="M1 3h9v7c0 3 2 4 5 4h8" fill="none" stroke="currentColor"
                        stroke-width="3" stroke-linecap="round" stroke-linejoin="round" {}
                }
                "weir"
            }
            span { (run.title) }
            span.when { (run.preset.name) " preset · " (format_rfc3339_to_minute(&run.date)) }
        }
    }
}

fn format_run_count(runs: usize) -> String {
    if runs == 1 { "one run".to_owned() } else { format!("{} runs", format_count(runs as u64)) }
}

fn render_headline_and_gains(model: &ReportModel<'_>) -> Markup {
    let verdict = build_headline(model);
    let run = &model.record.run;
    html! {
        h1 {
            (verdict.lead_text)
            @if !verdict.number.is_empty() {
                " "
                span.measure {
                    span.number { (verdict.number) } " " span.range { (verdict.interval) }
                }
                @if !verdict.closing_text.is_empty() { " " (verdict.closing_text) }
            }
            "."
        }
        p.lead {
            (run.question)
            @if let Some(headline) = &model.headline {
                @let sentence = &model.facets[headline.facet_index].sentence;
                @if !sentence.is_empty() { " " (sentence) }
            }
        }
        (trust_section::render_trust_badge(model))
        @if let Some(headline) = &model.headline { (render_gains(model, headline)) }
    }
}

/// What each of weir's forms gains, best first.
fn render_gains(model: &ReportModel<'_>, headline: &HeadlineGains<'_>) -> Markup {
    html! {
        ul.gains {
            @for gain in &headline.gains {
                @let point = &headline.scenario;
                @let forwarded = model.estimate_at(model.quantity, gain.subject, point);
                @let none = model.baseline;
                @let share = none.and_then(|none| model.estimate_two_subject_ratio(gain.subject, none, point));
                li {
                    div.who {
                        @if let Some(style) = model.subject_style(gain.subject) { (style.render_legend_key()) }
                        (subject_label(gain.subject))
                    }
                    div.big {
                        (format_ratio(gain.ratio.value)) " "
                        small { (format_interval(&gain.ratio, format_ratio_without_times_sign)) }
                    }
                    div.note {
                        "what " (subject_label(headline.reference)) " " (model.main_quantity_verb())
                        @if let Some(forwarded) = forwarded {
                            br;
                            (format_rate_without_unit(forwarded.value)) " " (model.main_quantity_unit())
                            @if let Some(share) = share {
                                ", " (format_percent(share.value)) " of no rules"
                            }
                        }
                    }
                }
            }
        }
    }
}

fn render_extra_section(extra: &ExtraSection) -> Markup {
    html! {
        section {
            h2 { (extra.title) }
            @for paragraph in &extra.paragraphs { p { (paragraph) } }
            @for table in &extra.tables { (estimate_tables::render_extra_table(table)) }
        }
    }
}

#[cfg(test)]
mod tests;
