//! Several runs of one study on one set of axes: other machines, other kernels.
//!
//! A colour is a subject, as everywhere on the page; dashes and shapes are runs. Only points that
//! every run has are drawn, because a longer line would belong to its run only. Rates of two
//! machines are drawn together but not compared; only ratios within a run are compared, whose
//! values were measured close to each other on one machine.

use std::collections::BTreeSet;

use maud::{Markup, html};
use weir_stats::{
    Quantity, RunOverlayYAxis, RunRecord, RunSubject, Scenario, ScenarioAxis, Trial, TrialState,
};

use super::{estimate_tables, rate_and_load_time_plots};
use crate::chart::{ChartSeries, ChartTitlesAndUnit};
use crate::headline_and_trust::assess_trust;
use crate::number_format::{
    ValueUnit, format_coordinate, format_count, format_ratio, format_ratio_without_times_sign,
    format_rfc3339_to_minute,
};
use crate::report_model::{
    self, Facet, ReportModel, axis_title_or_name, capitalize_first, subject_label,
};
use crate::series_style::{self, SeriesStyle};

/// A run with its name among others.
#[derive(Clone, Copy, Debug)]
pub struct NamedRun<'a> {
    /// Its name for readers, e.g. the name of its folder.
    pub name: &'a str,
    /// Its records.
    pub record: &'a RunRecord,
}

/// Runs of one study, all seen as the first one is.
pub(super) struct RunOverlay<'a> {
    named_models: Vec<(String, ReportModel<'a>)>,
    /// The first quantity with an [`RunOverlayYAxis`] that the first run measured.
    drawn_quantity: (Quantity, RunOverlayYAxis),
    axis: Option<&'a ScenarioAxis>,
    /// Facets of the first run at which all were measured.
    facets_measured_in_all_runs: Vec<Facet>,
    /// Points at which all were measured.
    common_points: BTreeSet<Scenario>,
    /// Subjects of all runs, those of the first in front, so that their numbers are the same in
    /// every drawing of the page.
    subjects: Vec<RunSubject>,
    styles: Vec<SeriesStyle>,
}

impl<'a> RunOverlay<'a> {
    /// Finds what the runs have in common.
    ///
    /// # Panics
    /// Where there is no run, or one of another study: they have no axes in common.
    pub(super) fn from_runs(named: &[NamedRun<'a>]) -> RunOverlay<'a> {
        let first = named.first().expect("one run at least").record;
        let is_same = |run: &NamedRun<'_>| run.record.run.study == first.run.study;
        assert!(named.iter().all(is_same), "runs of one study");
        let all = Quantity::list_traffic_first();
        let drawable: Vec<(Quantity, RunOverlayYAxis)> =
            all.into_iter().filter_map(|one| Some((one, one.overlay_axis()?))).collect();
        let is_measured = |(quantity, _): &&(Quantity, RunOverlayYAxis)| {
            !measured_scenarios(first, *quantity).is_empty()
        };
        let shown = *drawable.iter().find(is_measured).unwrap_or(&drawable[0]);
        let quantity = shown.0;
        let axis = ReportModel::new(first).numeric_axis;
        let names = make_names_unique(named.iter().map(|run| run.name));
        let seen = |run: &NamedRun<'a>| {
            let mut axes = run.record.run.axes.iter();
            let axis = axis.and_then(|axis| axes.find(|one| one.name == axis.name));
            ReportModel { numeric_axis: axis, quantity, ..ReportModel::new(run.record) }
        };
        let runs: Vec<_> = names.into_iter().zip(named.iter().map(seen)).collect();
        let measured = named.iter().map(|run| measured_scenarios(run.record, quantity));
        let common = measured.reduce(|all, more| &all & &more).unwrap_or_default();
        let mut facets =
            report_model::find_facets_of_trial_kind(first, axis, quantity.trial_kind());
        facets.retain(|facet| common.iter().any(|point| point.has_coordinates_of(&facet.scenario)));
        let mut subjects: Vec<RunSubject> = Vec::new();
        for subject in named.iter().flat_map(|run| &run.record.run.subjects) {
            if subjects.iter().all(|known| known.name != subject.name) {
                subjects.push(subject.clone());
            }
        }
        let styles = series_style::assign_styles(&subjects);
        RunOverlay {
            named_models: runs,
            drawn_quantity: shown,
            axis,
            facets_measured_in_all_runs: facets,
            common_points: common,
            subjects,
            styles,
        }
    }

    /// The name of each run, with its records.
    pub(super) fn named_records(&self) -> Vec<(&str, &'a RunRecord)> {
        self.named_models.iter().map(|(name, model)| (name.as_str(), model.record)).collect()
    }

    /// The common points of a facet, in the order of the axis.
    fn common_points_of_facet(&self, facet: &Facet) -> Vec<Scenario> {
        let (_, first) = &self.named_models[0];
        let points = first
            .numeric_axis_values()
            .into_iter()
            .map(|value| first.scenario_at(&facet.scenario, value));
        points.filter(|point| self.common_points.contains(point)).collect()
    }

    /// A line per run and subject.
    fn chart_series(&self, facet: &Facet) -> Vec<ChartSeries> {
        let mut all = Vec::new();
        for (number, (subject, style)) in self.subjects.iter().zip(&self.styles).enumerate() {
            for (run, (name, model)) in self.named_models.iter().enumerate() {
                let mut points =
                    model.chart_points(self.drawn_quantity.0, subject, &facet.scenario);
                points.retain(|point| {
                    let value = self.axis.map(|_| point.x as u64);
                    self.common_points.contains(&model.scenario_at(&facet.scenario, value))
                });
                let label = format!("{}, {name}", subject_label(subject));
                all.push(ChartSeries {
                    subject_index: number,
                    label,
                    style: style.for_run(run),
                    points,
                });
            }
        }
        all.retain(|series| !series.points.is_empty());
        all
    }

    /// The subject for comparison: no rules, or otherwise the original rules. Loading no rules is
    /// not a measure of loading some.
    fn ratio_denominator_subject(&self) -> Option<&RunSubject> {
        let (_, first) = &self.named_models[0];
        let loads = self.drawn_quantity.0 == Quantity::LoadSeconds;
        let baseline = first.baseline.filter(|_| !loads);
        baseline.or(first.reference)
    }
}

/// Points at which a quantity was measured.
fn measured_scenarios(record: &RunRecord, quantity: Quantity) -> BTreeSet<Scenario> {
    let kind = quantity.trial_kind();
    let counts = |trial: &&Trial| trial.kind == kind && trial.state == TrialState::Accepted;
    record.trials.iter().filter(counts).map(|trial| trial.scenario.clone()).collect()
}

/// Names of which none is there twice.
fn make_names_unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
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
pub(super) fn render_section(runs: &RunOverlay<'_>) -> Markup {
    let drawn: Vec<(&Facet, Vec<ChartSeries>)> = runs
        .facets_measured_in_all_runs
        .iter()
        .map(|facet| (facet, runs.chart_series(facet)))
        .collect();
    html! {
        section #beside {
            h2 { (format_count(runs.named_models.len() as u64)) " runs in one plot" }
            @if drawn.is_empty() {
                p.about { "There is no point that all of them measured, so nothing is drawn." }
            } @else {
                p.about {
                    "Every subject of every run, at the points that all runs have. Rates of two "
                    "machines are drawn on the same axes but are not comparable: compare only "
                    "the ratios below, each computed within one run."
                }
                (render_legends(runs, &drawn))
                @for (at, (facet, series)) in drawn.iter().enumerate() {
                    @if !facet.title.is_empty() { h3 { (capitalize_first(&facet.title)) } }
                    (render_facet_plot(runs, at, facet, series))
                }
                p.small-print {
                    "Colours and filled or hollow markers show the subject, dashes and shapes the "
                    "run. Small dots are single trials, markers are medians over blocks, shaded \
                     areas the "
                    "95 % intervals."
                }
                @if let Some(measure) = runs.ratio_denominator_subject() {
                    @for facet in &runs.facets_measured_in_all_runs { (render_ratios_within_runs(runs, facet, measure)) }
                }
            }
            (render_runs_table(runs))
        }
    }
}

/// Which line is which: runs by dashes and shapes, subjects by colours.
fn render_legends(runs: &RunOverlay<'_>, drawn: &[(&Facet, Vec<ChartSeries>)]) -> Markup {
    let is_drawn = |number: usize| {
        drawn.iter().flat_map(|(_, series)| series).any(|series| series.subject_index == number)
    };
    let numbered = runs.subjects.iter().zip(&runs.styles).enumerate();
    let shown = numbered.filter(|(number, _)| is_drawn(*number));
    html! {
        ul.legend {
            @for (at, (name, model)) in runs.named_models.iter().enumerate() {
                @let machine = model.record.run.firewall_environment();
                li data-run=(at) {
                    (SeriesStyle::for_run_without_subject(at).render_legend_key())
                    span { (name) ": " (machine.kernel) ", " (machine.cpu_model) }
                }
            }
        }
        (rate_and_load_time_plots::render_subject_legend_with_styles(shown.map(|(number, (subject, style))| (number, subject, *style))))
    }
}

fn render_facet_plot(
    runs: &RunOverlay<'_>,
    chart_number: usize,
    facet: &Facet,
    series: &[ChartSeries],
) -> Markup {
    let (_, RunOverlayYAxis { title: y_title, unit }) = runs.drawn_quantity;
    let names: Vec<&str> = runs.named_models.iter().map(|(name, _)| name.as_str()).collect();
    let gap = if facet.title.is_empty() { "" } else { ", " };
    let title = format!("{}{gap}{}", names.join(" and "), facet.title);
    let caption = ChartTitlesAndUnit {
        id: &format!("beside-{chart_number}"),
        title: &title,
        description: "Medians by subject and run; the ratios within each run are in the table below.",
        x_title: runs.axis.map_or("", axis_title_or_name),
        y_title,
        unit: ValueUnit::from(unit),
    };
    rate_and_load_time_plots::render_wide_and_narrow_plot(runs.axis, &caption, series)
}

/// Each subject against `denominator` of the same run: at the last common point, the others folded.
fn render_ratios_within_runs(
    runs: &RunOverlay<'_>,
    facet: &Facet,
    denominator: &RunSubject,
) -> Markup {
    let points = runs.common_points_of_facet(facet);
    let Some((last, before)) = points.split_last() else { return html! {} };
    html! {
        (render_within_run_ratio_table(runs, facet, denominator, std::slice::from_ref(last)))
        @if !before.is_empty() {
            details {
                summary { "All points" }
                (render_within_run_ratio_table(runs, facet, denominator, &points))
            }
        }
    }
}

fn render_within_run_ratio_table(
    runs: &RunOverlay<'_>,
    facet: &Facet,
    denominator: &RunSubject,
    points: &[Scenario],
) -> Markup {
    let gap = if facet.title.is_empty() { "" } else { ", " };
    let caption =
        format!("Against {} of the same run{gap}{}", subject_label(denominator), facet.title);
    let inked = runs.subjects.iter().zip(&runs.styles);
    let others: Vec<_> = inked.filter(|(one, _)| one.name != denominator.name).collect();
    html! {
        div.scroll {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @if let Some(axis) = runs.axis { th.right { (axis.name) } }
                        th { "subject" }
                        @for (name, _) in &runs.named_models { th.right { (name) } }
                    }
                }
                tbody {
                    @for point in points {
                        @for (subject, style) in &others {
                            tr.weir[subject.weir] {
                                @if let Some(axis) = runs.axis {
                                    @let value = point.coordinate(&axis.name);
                                    th.right { (value.map_or_else(String::new, format_coordinate)) }
                                }
                                th scope="row" { span.who { (style.render_legend_key()) (subject_label(subject)) } }
                                @for (_, model) in &runs.named_models {
                                    @let ratio = model.estimate_two_subject_ratio(subject, denominator, point);
                                    (estimate_tables::render_estimate_cell(ratio.as_ref(), format_ratio, format_ratio_without_times_sign))
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
fn render_runs_table(runs: &RunOverlay<'_>) -> Markup {
    let heads = ["run", "kernel", "machine", "memory", "preset", "began", "weir", "trust"];
    html! {
        div.scroll {
            table {
                caption { "The runs" }
                thead { tr { @for head in heads { th { (head) } } } }
                tbody {
                    @for (at, (name, model)) in runs.named_models.iter().enumerate() {
                        @let (run, (trust, _)) = (&model.record.run, assess_trust(model));
                        @let machine = run.firewall_environment();
                        tr {
                            th scope="row" { span.who { (SeriesStyle::for_run_without_subject(at).render_legend_key()) (name) } }
                            td.tight { (machine.kernel) }
                            td {
                                (machine.cpu_model) ", " (machine.cores) " cores"
                                @if machine.hypervisor { ", virtual" }
                            }
                            td.tight { (format_count(machine.memory_mib)) " MiB" }
                            td.tight { (run.preset.name) }
                            td.tight { (format_rfc3339_to_minute(&run.date)) }
                            td.tight { (run.weir) }
                            td.tight { span.badge.(trust.css_class()) { (trust.badge_text()) } }
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
    use crate::sample_records;
    use weir_stats::TrialKind;

    const SIZES: [u64; 3] = [16, 1024, 16_384];

    fn run(sizes: &[u64], kernel: &str) -> RunRecord {
        let subjects = [
            sample_records::sample_subject("none", true, false),
            sample_records::sample_subject("linear", false, false),
            sample_records::sample_subject("nft", false, true),
        ];
        let mut record = sample_records::build_record_with_sizes(sizes, &subjects, 3);
        record.run.environment.kernel = kernel.to_owned();
        record
    }

    fn named<'a>(runs: &'a [(&'a str, RunRecord)]) -> Vec<NamedRun<'a>> {
        runs.iter().map(|(name, record)| NamedRun { name, record }).collect()
    }

    fn drawn(runs: &[(&str, RunRecord)]) -> String {
        render_section(&RunOverlay::from_runs(&named(runs))).into_string()
    }

    /// What is in the cells of the tables of ratios, in order.
    fn cells(text: &str) -> Vec<&str> {
        let cells = text.split("<td class=\"right\">").skip(1);
        cells.filter_map(|cell| cell.split("</td>").next()).collect()
    }

    #[test]
    fn each_subject_of_each_run_has_its_own_line_style() {
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
        assert!(
            none.contains("<td class=\"tight\">2</td>"),
            "the properties of the runs are still shown"
        );
    }

    #[test]
    fn ratios_are_computed_within_each_run() {
        let (slow, mut fast) = (run(&SIZES, "1"), run(&SIZES, "1"));
        fast.trials.iter_mut().for_each(|trial| trial.correct_verdict_pps *= 3.0);
        let text = drawn(&[("slow", slow.clone()), ("fast", fast.clone())]);
        let cells_of = cells(&text);
        assert!(cells_of.len() >= 8, "{cells_of:?}");
        for pair in cells_of.chunks(2) {
            assert!(pair[0].contains('×') && pair[0] == pair[1], "{pair:?}");
        }
        // A subject that differs from its own run's baseline is reported.
        let changed = fast.trials.iter_mut().filter(|trial| trial.subject == "linear");
        changed.for_each(|trial| trial.correct_verdict_pps /= 2.0);
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
    fn load_times_are_drawn_if_there_is_no_traffic() {
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
    fn runs_with_the_same_name_are_numbered() {
        assert_eq!(make_names_unique(["a", "b"].into_iter()), ["a", "b"]);
        let names = make_names_unique(["a", "a", "a (2)", ""].into_iter());
        assert_eq!(names, ["a", "a (2)", "a (2) (2)", "run"]);
    }

    #[test]
    #[should_panic(expected = "runs of one study")]
    fn drawing_runs_of_two_studies_panics() {
        let mut other = run(&SIZES, "2");
        other.run.study = "another".to_owned();
        drawn(&[("a", run(&SIZES, "1")), ("b", other)]);
    }
}
