//! Several runs of one study on one set of axes: other machines, other kernels.
//!
//! A colour is a subject, as everywhere on the page; dashes and shapes are runs. Only points that
//! every run has are drawn, because a longer line would belong to its run only. Rates of two
//! machines are drawn together but not compared; only ratios within a run are compared, whose
//! values were measured close to each other on one machine.

use std::collections::BTreeSet;

use maud::{Markup, html};
use weir_stats::{Quantity, Record, RunSubject, Scenario, ScenarioAxis, State, Trial};

use super::{figures, tables};
use crate::chart::{Caption, Series};
use crate::number::{Unit, coordinate, count, date, plain, times};
use crate::report_model::{self, Facet, ReportModel, axis_title, capital, label};
use crate::series_style::{self, SeriesStyle};
use crate::verdict::trust;

/// The quantity by which runs are drawn: the first of these that the first run measured.
const SHOWN: [(Quantity, &str, Unit); 7] = [
    (Quantity::Pps, figures::FORWARDED, Unit::Rate),
    (Quantity::ConnectionsPerSecond, "connections/s", Unit::Rate),
    (Quantity::ConnectionsResetPerSecond, "connections/s, ended by RST", Unit::Rate),
    (Quantity::HandshakesPerSecond, "handshakes/s", Unit::Rate),
    (Quantity::SocketsPerSecond, "replies/s", Unit::Rate),
    (Quantity::BytesPerConnection, "bytes a connection", Unit::Rate),
    (Quantity::LoadSeconds, "seconds to load", Unit::Seconds),
];

/// A run with its name among others.
#[derive(Clone, Copy, Debug)]
pub struct NamedRun<'a> {
    /// Its name for readers, e.g. the name of its folder.
    pub name: &'a str,
    /// Its records.
    pub record: &'a Record,
}

/// Runs of one study, all seen as the first one is.
pub(super) struct Runs<'a> {
    runs: Vec<(String, ReportModel<'a>)>,
    /// One of [`SHOWN`].
    shown: (Quantity, &'static str, Unit),
    axis: Option<&'a ScenarioAxis>,
    /// Facets of the first run at which all were measured.
    facets: Vec<Facet>,
    /// Points at which all were measured.
    common: BTreeSet<Scenario>,
    /// Subjects of all runs, those of the first in front, so that their numbers are the same in
    /// every drawing of the page.
    subjects: Vec<RunSubject>,
    styles: Vec<SeriesStyle>,
}

impl<'a> Runs<'a> {
    /// Finds what the runs have in common.
    ///
    /// # Panics
    /// Where there is no run, or one of another study: they have no axes in common.
    pub(super) fn new(named: &[NamedRun<'a>]) -> Runs<'a> {
        let first = named.first().expect("one run at least").record;
        let is_same = |run: &NamedRun<'_>| run.record.run.study == first.run.study;
        assert!(named.iter().all(is_same), "runs of one study");
        let is_measured = |(quantity, ..): &(Quantity, _, _)| !points(first, *quantity).is_empty();
        let shown = SHOWN.into_iter().find(is_measured).unwrap_or(SHOWN[0]);
        let quantity = shown.0;
        let axis = ReportModel::new(first).axis;
        let names = distinct(named.iter().map(|run| run.name));
        let seen = |run: &NamedRun<'a>| {
            let mut axes = run.record.run.axes.iter();
            let axis = axis.and_then(|axis| axes.find(|one| one.name == axis.name));
            ReportModel { axis, quantity, ..ReportModel::new(run.record) }
        };
        let runs: Vec<_> = names.into_iter().zip(named.iter().map(seen)).collect();
        let measured = named.iter().map(|run| points(run.record, quantity));
        let common = measured.reduce(|all, more| &all & &more).unwrap_or_default();
        let mut facets = report_model::facets(first, axis, quantity.kind());
        facets.retain(|facet| common.iter().any(|point| point.contains(&facet.scenario)));
        let mut subjects: Vec<RunSubject> = Vec::new();
        for subject in named.iter().flat_map(|run| &run.record.run.subjects) {
            if subjects.iter().all(|known| known.name != subject.name) {
                subjects.push(subject.clone());
            }
        }
        let styles = series_style::styles(&subjects);
        Runs { runs, shown, axis, facets, common, subjects, styles }
    }

    /// The name of each run, with its records.
    pub(super) fn records(&self) -> Vec<(&str, &'a Record)> {
        self.runs.iter().map(|(name, model)| (name.as_str(), model.record)).collect()
    }

    /// The common points of a facet, in the order of the axis.
    fn points_of(&self, facet: &Facet) -> Vec<Scenario> {
        let (_, first) = &self.runs[0];
        let points = first.values().into_iter().map(|value| first.point(&facet.scenario, value));
        points.filter(|point| self.common.contains(point)).collect()
    }

    /// A line per run and subject.
    fn series(&self, facet: &Facet) -> Vec<Series> {
        let mut all = Vec::new();
        for (number, (subject, style)) in self.subjects.iter().zip(&self.styles).enumerate() {
            for (run, (name, model)) in self.runs.iter().enumerate() {
                let mut points = model.points(self.shown.0, subject, &facet.scenario);
                points.retain(|point| {
                    let value = self.axis.map(|_| point.x as u64);
                    self.common.contains(&model.point(&facet.scenario, value))
                });
                let label = format!("{}, {name}", label(subject));
                all.push(Series { subject: number, label, style: style.of_run(run), points });
            }
        }
        all.retain(|series| !series.points.is_empty());
        all
    }

    /// The subject for comparison: no rules, or otherwise the original rules. Loading no rules is
    /// not a measure of loading some.
    fn measure(&self) -> Option<&RunSubject> {
        let (_, first) = &self.runs[0];
        let loads = self.shown.0 == Quantity::LoadSeconds;
        let baseline = first.baseline.filter(|_| !loads);
        baseline.or(first.reference)
    }
}

/// Points at which a quantity was measured.
fn points(record: &Record, quantity: Quantity) -> BTreeSet<Scenario> {
    let kind = quantity.kind();
    let counts = |trial: &&Trial| trial.kind == kind && trial.state == State::Accepted;
    record.trials.iter().filter(counts).map(|trial| trial.scenario.clone()).collect()
}

/// Names of which none is there twice.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for name in names {
        let name = if name.is_empty() { "run" } else { name };
        let numbered = (2..).map(|n| format!("{name} ({n})"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        told.extend(candidates.find(|candidate| !told.contains(candidate)));
    }
    told
}

/// The drawings, the ratios within each run, and what the runs were made on.
pub(super) fn section(runs: &Runs<'_>) -> Markup {
    let drawn: Vec<(&Facet, Vec<Series>)> =
        runs.facets.iter().map(|facet| (facet, runs.series(facet))).collect();
    html! {
        section #beside {
            h2 { (count(runs.runs.len() as u64)) " runs in one plot" }
            @if drawn.is_empty() {
                p.about { "There is no point that all of them measured, so nothing is drawn." }
            } @else {
                p.about {
                    "Every subject of every run, at the points that all runs have. Rates of two "
                    "machines are drawn on the same axes but are not comparable: compare only "
                    "the ratios below, each computed within one run."
                }
                (legends(runs, &drawn))
                @for (at, (facet, series)) in drawn.iter().enumerate() {
                    @if !facet.title.is_empty() { h3 { (capital(&facet.title)) } }
                    (plot(runs, at, facet, series))
                }
                p.small-print {
                    "Colours and filled or hollow markers show the subject, dashes and shapes the "
                    "run. Small dots are single trials, markers are medians over blocks, shaded \
                     areas the "
                    "95 % intervals."
                }
                @if let Some(measure) = runs.measure() {
                    @for facet in &runs.facets { (ratios(runs, facet, measure)) }
                }
            }
            (machines(runs))
        }
    }
}

/// Which line is which: runs by dashes and shapes, subjects by colours.
fn legends(runs: &Runs<'_>, drawn: &[(&Facet, Vec<Series>)]) -> Markup {
    let is_drawn = |number: usize| {
        drawn.iter().flat_map(|(_, series)| series).any(|series| series.subject == number)
    };
    let numbered = runs.subjects.iter().zip(&runs.styles).enumerate();
    let shown = numbered.filter(|(number, _)| is_drawn(*number));
    html! {
        ul.legend {
            @for (at, (name, model)) in runs.runs.iter().enumerate() {
                @let machine = model.record.run.firewall();
                li data-run=(at) {
                    (SeriesStyle::run(at).key())
                    span { (name) ": " (machine.kernel) ", " (machine.cpu_model) }
                }
            }
        }
        (figures::legend_of(shown.map(|(number, (subject, style))| (number, subject, *style))))
    }
}

fn plot(runs: &Runs<'_>, at: usize, facet: &Facet, series: &[Series]) -> Markup {
    let (_, y_title, unit) = runs.shown;
    let names: Vec<&str> = runs.runs.iter().map(|(name, _)| name.as_str()).collect();
    let gap = if facet.title.is_empty() { "" } else { ", " };
    let title = format!("{}{gap}{}", names.join(" and "), facet.title);
    let caption = Caption {
        id: &format!("beside-{at}"),
        title: &title,
        about: "Medians by subject and run; the ratios within each run are in the table below.",
        x_title: runs.axis.map_or("", axis_title),
        y_title,
        unit,
    };
    figures::plot(runs.axis, &caption, series)
}

/// Each subject against `measure` of the same run: at the last common point, the others folded.
fn ratios(runs: &Runs<'_>, facet: &Facet, measure: &RunSubject) -> Markup {
    let points = runs.points_of(facet);
    let Some((last, before)) = points.split_last() else { return html! {} };
    html! {
        (ratio_table(runs, facet, measure, std::slice::from_ref(last)))
        @if !before.is_empty() {
            details {
                summary { "All points" }
                (ratio_table(runs, facet, measure, &points))
            }
        }
    }
}

fn ratio_table(
    runs: &Runs<'_>,
    facet: &Facet,
    measure: &RunSubject,
    points: &[Scenario],
) -> Markup {
    let gap = if facet.title.is_empty() { "" } else { ", " };
    let caption = format!("Against {} of the same run{gap}{}", label(measure), facet.title);
    let inked = runs.subjects.iter().zip(&runs.styles);
    let others: Vec<_> = inked.filter(|(one, _)| one.name != measure.name).collect();
    html! {
        div.scroll {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @if let Some(axis) = runs.axis { th.right { (axis.name) } }
                        th { "subject" }
                        @for (name, _) in &runs.runs { th.right { (name) } }
                    }
                }
                tbody {
                    @for point in points {
                        @for (subject, style) in &others {
                            tr.weir[subject.weir] {
                                @if let Some(axis) = runs.axis {
                                    @let value = point.coordinate(&axis.name);
                                    th.right { (value.map_or_else(String::new, coordinate)) }
                                }
                                th scope="row" { span.who { (style.key()) (label(subject)) } }
                                @for (_, model) in &runs.runs {
                                    @let ratio = model.ratio(subject, measure, point);
                                    (tables::cell(ratio.as_ref(), times, plain))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What each run was made on, and how far it can be trusted.
fn machines(runs: &Runs<'_>) -> Markup {
    let heads = ["run", "kernel", "machine", "memory", "preset", "began", "weir", "trust"];
    html! {
        div.scroll {
            table {
                caption { "The runs" }
                thead { tr { @for head in heads { th { (head) } } } }
                tbody {
                    @for (at, (name, model)) in runs.runs.iter().enumerate() {
                        @let (run, (trust, _)) = (&model.record.run, trust(model));
                        @let machine = run.firewall();
                        tr {
                            th scope="row" { span.who { (SeriesStyle::run(at).key()) (name) } }
                            td.tight { (machine.kernel) }
                            td {
                                (machine.cpu_model) ", " (machine.cores) " cores"
                                @if machine.hypervisor { ", virtual" }
                            }
                            td.tight { (count(machine.memory_mib)) " MiB" }
                            td.tight { (run.preset.name) }
                            td.tight { (date(&run.date)) }
                            td.tight { (run.weir) }
                            td.tight { span.badge.(trust.class()) { (trust.word()) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use weir_stats::TrialKind;

    const SIZES: [u64; 3] = [16, 1024, 16_384];

    fn run(sizes: &[u64], kernel: &str) -> Record {
        let subjects = [
            sample::subject("none", true, false),
            sample::subject("linear", false, false),
            sample::subject("nft", false, true),
        ];
        let mut record = sample::build(sizes, &subjects, 3);
        record.run.environment.kernel = kernel.to_owned();
        record
    }

    fn named<'a>(runs: &'a [(&'a str, Record)]) -> Vec<NamedRun<'a>> {
        runs.iter().map(|(name, record)| NamedRun { name, record }).collect()
    }

    fn drawn(runs: &[(&str, Record)]) -> String {
        section(&Runs::new(&named(runs))).into_string()
    }

    /// What is in the cells of the tables of ratios, in order.
    fn cells(text: &str) -> Vec<&str> {
        let cells = text.split("<td class=\"right\">").skip(1);
        cells.filter_map(|cell| cell.split("</td>").next()).collect()
    }

    #[test]
    fn every_subject_of_every_run_is_a_line_told_by_dash_and_shape() {
        let text = drawn(&[("old", run(&SIZES, "5.10")), ("new", run(&SIZES, "6.12"))]);
        // Two facets, drawn wide and narrow, three subjects.
        let lines = |class: &str| text.matches(&format!("<path class=\"{class}\" d=\"M")).count();
        let keys = 1;
        assert_eq!(lines("line dash-1"), 2 * 2 * 3 + 2 * keys, "the second run's");
        assert!(lines("line") >= 2 * 2 * 3 + 2 * keys, "the first run's");
        for words in ["old: 5.10, ", "new: 6.12, ", "data-name=\"linear, new\"", "data-run=\"1\""] {
            assert!(text.contains(words), "{words}");
        }
    }

    #[test]
    fn only_points_that_all_runs_have_are_drawn() {
        let sizes = |text: &str| -> BTreeSet<String> {
            let values = text.split("data-x=\"").skip(1);
            values.filter_map(|rest| Some(rest.split('"').next()?.to_owned())).collect()
        };
        let all = drawn(&[("a", run(&SIZES, "1")), ("b", run(&SIZES, "2"))]);
        assert_eq!(sizes(&all).len(), 3, "what all have is drawn");
        let some = drawn(&[("a", run(&SIZES, "1")), ("b", run(&[8, 1024], "2"))]);
        assert_eq!(sizes(&some), BTreeSet::from(["1,024".to_owned()]));
        let none = drawn(&[("a", run(&SIZES, "1")), ("b", run(&[8], "2"))]);
        assert!(none.contains("no point that all of them measured") && !none.contains("<figure"));
        assert!(none.contains("<td class=\"tight\">2</td>"), "what the runs are is still told");
    }

    #[test]
    fn ratios_are_made_within_a_run() {
        let (slow, mut fast) = (run(&SIZES, "1"), run(&SIZES, "1"));
        fast.trials.iter_mut().for_each(|trial| trial.pps *= 3.0);
        let text = drawn(&[("slow", slow.clone()), ("fast", fast.clone())]);
        let cells_of = cells(&text);
        assert!(cells_of.len() >= 8, "{cells_of:?}");
        for pair in cells_of.chunks(2) {
            assert!(pair[0].contains('×') && pair[0] == pair[1], "{pair:?}");
        }
        // A subject that differs from its own run's baseline is reported.
        let changed = fast.trials.iter_mut().filter(|trial| trial.subject == "linear");
        changed.for_each(|trial| trial.pps /= 2.0);
        let text = drawn(&[("slow", slow), ("fast", fast)]);
        assert!(cells(&text).chunks(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_subject_that_one_run_lacks_is_drawn_from_the_others() {
        let (whole, mut partial) = (run(&SIZES, "1"), run(&SIZES, "2"));
        partial.run.subjects.retain(|subject| subject.name != "nft");
        partial.trials.retain(|trial| trial.subject != "nft");
        let (first, second) = (("p", partial), ("w", whole));
        for runs in [[first.clone(), second.clone()], [second, first]] {
            let text = drawn(&runs);
            assert!(text.contains("data-name=\"weir nft, w\""));
            assert!(!text.contains("data-name=\"weir nft, p\""));
            assert!(cells(&text).iter().any(|cell| cell.contains('–')));
        }
    }

    #[test]
    fn loads_are_drawn_where_nothing_was_played() {
        let loads = |kernel| {
            let mut record = run(&SIZES, kernel);
            record.trials.retain(|trial| trial.kind == TrialKind::Load);
            record
        };
        let text = drawn(&[("a", loads("1")), ("b", loads("2"))]);
        assert!(text.contains("seconds to load") && text.contains("Against linear"));
        assert!(!text.contains("Against none"), "loading nothing is no measure");
    }

    #[test]
    fn runs_of_one_name_are_numbered() {
        assert_eq!(distinct(["a", "b"].into_iter()), ["a", "b"]);
        let names = distinct(["a", "a", "a (2)", ""].into_iter());
        assert_eq!(names, ["a", "a (2)", "a (2) (2)", "run"]);
    }

    #[test]
    #[should_panic(expected = "runs of one study")]
    fn runs_of_two_studies_have_no_axes_in_common() {
        let mut other = run(&SIZES, "2");
        other.run.study = "another".to_owned();
        drawn(&[("a", run(&SIZES, "1")), ("b", other)]);
    }
}
