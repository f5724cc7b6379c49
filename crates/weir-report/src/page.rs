//! The page: its order, its header, and its first screen.

mod claims;
mod connections;
mod cores;
mod figures;
mod origin;
mod overlay;
mod paper_figures;
mod per_endpoint;
mod probes;
mod searches;
mod tables;
mod time_series;
mod trust;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::Record;

use crate::extra::Extra;
use crate::number::{count, date, interval, percent, plain, rate, times};
use crate::report_model::{Headline, ReportModel, label};
use crate::verdict::verdict;

pub use overlay::NamedRun;

const STYLE: &str = include_str!("page.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
const SCRIPT: &str = include_str!("page.js");

/// One self-contained HTML page of a run: it opens offline, prints, and needs no script.
///
/// `extras` are sections that the records do not hold; they come after the drawings. The same
/// records give the same bytes.
pub fn page(record: &Record, extras: &[Extra]) -> String {
    page_of_runs(&[NamedRun { name: "", record }], extras)
}

/// The page of the first run, with a section that draws all of them on one set of axes. All are of
/// one study.
///
/// # Panics
/// Where there is no run, or one of another study.
pub fn page_of_runs(runs: &[NamedRun<'_>], extras: &[Extra]) -> String {
    let record = runs.first().expect("one run at least").record;
    let model = ReportModel::new(record);
    let overlay = (runs.len() > 1).then(|| overlay::Runs::new(runs));
    let records = overlay.as_ref().map_or_else(|| vec![("", record)], |runs| runs.records());
    let verdict_text = verdict(&model).sentence();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (meta(&record.run.title))
                meta name="generator" content={ "weir " (record.run.weir) };
                meta name="description" content=(verdict_text);
            }
            body {
                (top(record))
                main {
                    (opening(&model))
                    (figures::rates(&model))
                    (figures::facets(&model))
                    @if let Some(runs) = &overlay { (overlay::section(runs)) }
                    (connections::section(&model))
                    (per_endpoint::section(&model))
                    (cores::section(&model))
                    (time_series::section(&model))
                    (paper_figures::section(&model))
                    (searches::section(&model))
                    (figures::loads(&model))
                    (probes::section(&model))
                    @for extra in extras { (self::extra(extra)) }
                    (tables::rates(&model))
                    (claims::section(&model))
                    (trust::section(&model))
                    (origin::section(&model))
                    (origin::downloads(&records))
                }
                footer {
                    "Written by weir " (record.run.weir) " from the records of "
                    (how_many(runs.len())) ". "
                    "Intervals hold 95 % of a bootstrap over blocks on one boot of one machine; "
                    "they do not apply to other machines."
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

/// What the head of every page begins with.
pub(crate) fn meta(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        // Nothing is fetched, whatever a record may hold.
        meta http-equiv="Content-Security-Policy" content=(POLICY);
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " – weir" }
        link rel="icon" href="data:,";
        style { (PreEscaped(STYLE)) }
    }
}

fn top(record: &Record) -> Markup {
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
            span.when { (run.preset.name) " preset · " (date(&run.date)) }
        }
    }
}

fn how_many(runs: usize) -> String {
    if runs == 1 { "one run".to_owned() } else { format!("{} runs", count(runs as u64)) }
}

fn opening(model: &ReportModel<'_>) -> Markup {
    let verdict = verdict(model);
    let run = &model.record.run;
    html! {
        h1 {
            (verdict.before)
            @if !verdict.number.is_empty() {
                " "
                span.measure {
                    span.number { (verdict.number) } " " span.range { (verdict.interval) }
                }
                @if !verdict.after.is_empty() { " " (verdict.after) }
            }
            "."
        }
        p.lead {
            (run.question)
            @if let Some(headline) = &model.headline {
                @let sentence = &model.facets[headline.facet].sentence;
                @if !sentence.is_empty() { " " (sentence) }
            }
        }
        (trust::badge(model))
        @if let Some(headline) = &model.headline { (gains(model, headline)) }
    }
}

/// What each of weir's forms gains, best first.
fn gains(model: &ReportModel<'_>, headline: &Headline<'_>) -> Markup {
    html! {
        ul.gains {
            @for gain in &headline.gains {
                @let point = &headline.scenario;
                @let forwarded = model.estimate(model.quantity, gain.subject, point);
                @let none = model.baseline;
                @let share = none.and_then(|none| model.ratio(gain.subject, none, point));
                li {
                    div.who {
                        @if let Some(style) = model.style(gain.subject) { (style.key()) }
                        (label(gain.subject))
                    }
                    div.big {
                        (times(gain.ratio.value)) " "
                        small { (interval(&gain.ratio, plain)) }
                    }
                    div.note {
                        "what " (label(headline.reference)) " " (model.verb())
                        @if let Some(forwarded) = forwarded {
                            br;
                            (rate(forwarded.value)) " " (model.unit())
                            @if let Some(share) = share {
                                ", " (percent(share.value)) " of no rules"
                            }
                        }
                    }
                }
            }
        }
    }
}

fn extra(extra: &Extra) -> Markup {
    html! {
        section {
            h2 { (extra.title) }
            @for paragraph in &extra.paragraphs { p { (paragraph) } }
            @for table in &extra.tables { (tables::extra(table)) }
        }
    }
}

#[cfg(test)]
mod tests;
