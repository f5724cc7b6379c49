//! The page: its order, its head, and what a reader sees first.

mod beside;
mod claims;
mod connections;
mod cores;
mod courses;
mod figures;
mod members;
mod origin;
mod probes;
mod redone;
mod searches;
mod tables;
mod trust;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::Record;

use crate::digest::{Digest, Headline, label};
use crate::extra::Extra;
use crate::number::{count, interval, percent, plain, rate, times};
use crate::verdict::verdict;

pub use beside::NamedRun;

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

/// The page of the first run, with a section that draws all of them, which are of one study, on one
/// set of axes.
///
/// # Panics
/// Where there is no run, or one of another study.
pub fn page_of_runs(runs: &[NamedRun<'_>], extras: &[Extra]) -> String {
    let record = runs.first().expect("one run at least").record;
    let digest = Digest::new(record);
    let beside = (runs.len() > 1).then(|| beside::Runs::new(runs));
    let records = beside.as_ref().map_or_else(|| vec![("", record)], |runs| runs.records());
    let verdict_text = verdict(&digest).sentence();
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
                    (opening(&digest))
                    (figures::rates(&digest))
                    (figures::facets(&digest))
                    @if let Some(runs) = &beside { (beside::section(runs)) }
                    (connections::section(&digest))
                    (members::section(&digest))
                    (cores::section(&digest))
                    (courses::section(&digest))
                    (redone::section(&digest))
                    (searches::section(&digest))
                    (figures::loads(&digest))
                    (probes::section(&digest))
                    @for extra in extras { (self::extra(extra)) }
                    (tables::rates(&digest))
                    (claims::section(&digest))
                    (trust::section(&digest))
                    (origin::section(&digest))
                    (origin::downloads(&records))
                }
                footer {
                    "Written by weir " (record.run.weir) " from the records of "
                    (how_many(runs.len())) ". "
                    "Intervals hold 95 % of a bootstrap over blocks on one boot of one machine; "
                    "they say nothing of another machine."
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

/// The day of an RFC 3339 time, and its hour and minute.
fn date(text: &str) -> String {
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(time)) => format!("{day}, {time} UTC"),
        _ => text.to_owned(),
    }
}

fn opening(digest: &Digest<'_>) -> Markup {
    let verdict = verdict(digest);
    let run = &digest.record.run;
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
            @if let Some(headline) = &digest.headline {
                @let sentence = &digest.facets[headline.facet].sentence;
                @if !sentence.is_empty() { " " (sentence) }
            }
        }
        (trust::badge(digest))
        @if let Some(headline) = &digest.headline { (gains(digest, headline)) }
    }
}

/// What each of weir's forms gains, best first.
fn gains(digest: &Digest<'_>, headline: &Headline<'_>) -> Markup {
    html! {
        ul.gains {
            @for gain in &headline.gains {
                @let point = &headline.scenario;
                @let forwarded = digest.estimate(digest.quantity, gain.subject, point);
                @let none = digest.baseline;
                @let share = none.and_then(|none| digest.ratio(gain.subject, none, point));
                li {
                    div.who {
                        @if let Some(ink) = digest.ink(gain.subject) { (ink.key()) }
                        (label(gain.subject))
                    }
                    div.big {
                        (times(gain.ratio.value)) " "
                        small { (interval(&gain.ratio, plain)) }
                    }
                    div.note {
                        "what " (label(headline.reference)) " " (digest.verb())
                        @if let Some(forwarded) = forwarded {
                            br;
                            (rate(forwarded.value)) " " (digest.unit())
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
