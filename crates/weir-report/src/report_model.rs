//! What a page shows, derived once from the records: the axis, the facets, the comparisons.
//!
//! A study's grid has any number of axes. The first one with numeric values becomes the horizontal
//! axis of the plots; the points of the others are the *facets*, one plot each. A grid without
//! numbers is shown as rows. The *reference* is the first subject that is neither a form of weir
//! nor the line without rules: studies list the original ruleset first.

use weir_stats::trial_selection::{self, TrialSelection};
use weir_stats::{
    Coordinate, Estimate, Quantity, RunRecord, RunSubject, Scenario, ScenarioAxis, Trial,
    TrialKind, TrialState,
};

use crate::chart::{ChartPoint, ChartSeries};
use crate::number_format;
use crate::series_style::{self, SeriesStyle};

/// Records, prepared for readers.
pub(crate) struct ReportModel<'a> {
    pub(crate) record: &'a RunRecord,
    /// The quantity by which subjects are compared: packets per second, or connections if no frames
    /// were sent, or look-ups if nothing was.
    pub(crate) quantity: Quantity,
    /// The axis of numbers, if the grid has one with two values or more.
    pub(crate) numeric_axis: Option<&'a ScenarioAxis>,
    /// Points of the other axes at which packets were measured; one at least.
    pub(crate) facets: Vec<Facet>,
    /// The original ruleset.
    pub(crate) reference: Option<&'a RunSubject>,
    /// No rules.
    pub(crate) baseline: Option<&'a RunSubject>,
    /// A colour for each subject, in the order of the run.
    pub(crate) styles: Vec<SeriesStyle>,
    /// The gain that the page begins with.
    pub(crate) headline: Option<HeadlineGains<'a>>,
}

/// A point of the axes that are not the horizontal one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facet {
    pub(crate) scenario: Scenario,
    /// What a reader sees; empty where the grid has no such axis.
    pub(crate) title: String,
    /// The same with the titles of the axes, as a sentence; empty likewise.
    pub(crate) sentence: String,
}

/// A subject compared with the reference, at the hardest point that both were measured at.
pub(crate) struct SubjectGain<'a> {
    pub(crate) subject: &'a RunSubject,
    /// Packets a second against the reference.
    pub(crate) ratio: Estimate,
}

/// All gains at one point, the best first.
pub(crate) struct HeadlineGains<'a> {
    pub(crate) facet_index: usize,
    pub(crate) reference: &'a RunSubject,
    /// Where on the axis.
    pub(crate) axis_value: Option<u64>,
    /// The point.
    pub(crate) scenario: Scenario,
    pub(crate) gains: Vec<SubjectGain<'a>>,
}

impl<'a> ReportModel<'a> {
    /// Looks through the records.
    pub(crate) fn new(record: &'a RunRecord) -> ReportModel<'a> {
        let run = &record.run;
        let numeric = |axis: &&ScenarioAxis| {
            axis.measured_values.len() > 1
                && axis.measured_values.iter().all(|value| value.as_number().is_some())
        };
        let axis = run.axes.iter().find(numeric);
        let reference =
            run.subjects.iter().find(|subject| !subject.loads_no_rules && !subject.weir);
        let baseline = run.subjects.iter().find(|subject| subject.loads_no_rules);
        let quantity = main_quantity(record);
        let mut model = ReportModel {
            record,
            quantity,
            numeric_axis: axis,
            facets: find_facets_of_trial_kind(record, axis, quantity.trial_kind()),
            reference,
            baseline,
            styles: series_style::assign_styles(&run.subjects),
            headline: None,
        };
        model.headline = model.find_least_gain_headline();
        model
    }

    /// Trials that count.
    pub(crate) fn accepted_trials(&self) -> impl Iterator<Item = &'a Trial> + use<'a> {
        self.record.trials.iter().filter(|trial| trial.state == TrialState::Accepted)
    }

    /// A quantity of a subject at a point.
    pub(crate) fn estimate_at(
        &self,
        quantity: Quantity,
        subject: &RunSubject,
        scenario: &Scenario,
    ) -> Option<Estimate> {
        TrialSelection::of_first_copy(quantity, &subject.name, scenario)
            .estimate_median_of_block_means(&self.record.trials)
            .filter(is_finite_estimate)
    }

    /// What a subject does with it: packets are forwarded or looked up, connections carried.
    pub(crate) fn main_quantity_verb(&self) -> &'static str {
        match self.quantity {
            Quantity::Pps => "forwards",
            Quantity::LookupsPerSecond => "looks up",
            _ => "carries",
        }
    }

    /// Its unit.
    pub(crate) fn main_quantity_unit(&self) -> &'static str {
        match self.quantity {
            Quantity::Pps => "packets/s",
            Quantity::HandshakesPerSecond => "handshakes/s",
            Quantity::LookupsPerSecond => "look-ups/s",
            _ => "connections/s",
        }
    }

    /// Ratio of two subjects at a point.
    pub(crate) fn estimate_two_subject_ratio(
        &self,
        first: &RunSubject,
        second: &RunSubject,
        scenario: &Scenario,
    ) -> Option<Estimate> {
        let of = |subject: &'a str| TrialSelection::of_first_copy(self.quantity, subject, scenario);
        let (first, second) =
            (self.subject_name_in_record(first), self.subject_name_in_record(second));
        trial_selection::estimate_block_paired_ratio(of(first), of(second), &self.record.trials)
            .filter(is_finite_estimate)
    }

    /// Ratio of a subject at two points.
    pub(crate) fn estimate_one_subject_scenario_ratio(
        &self,
        subject: &RunSubject,
        at: &Scenario,
        from: &Scenario,
    ) -> Option<Estimate> {
        let first = TrialSelection::of_first_copy(self.quantity, &subject.name, at);
        let second = TrialSelection::of_first_copy(self.quantity, &subject.name, from);
        trial_selection::estimate_block_paired_ratio(first, second, &self.record.trials)
            .filter(is_finite_estimate)
    }

    /// What a reader sees of a subject that a record names.
    pub(crate) fn subject_label_by_name(&self, name: &str) -> String {
        let mut subjects = self.record.run.subjects.iter();
        subjects.find(|one| one.name == name).map_or_else(|| name.to_owned(), subject_label)
    }

    /// How a subject is drawn.
    pub(crate) fn subject_style(&self, subject: &RunSubject) -> Option<SeriesStyle> {
        let at = self.record.run.subjects.iter().position(|one| one.name == subject.name)?;
        self.styles.get(at).copied()
    }

    /// Values of the axis, rising; one `None` if the grid has no axis.
    pub(crate) fn numeric_axis_values(&self) -> Vec<Option<u64>> {
        let Some(axis) = self.numeric_axis else { return vec![None] };
        let mut values: Vec<u64> =
            axis.measured_values.iter().filter_map(Coordinate::as_number).collect();
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(Some).collect()
    }

    /// A facet's point at a value of the axis.
    pub(crate) fn scenario_at(&self, facet: &Scenario, value: Option<u64>) -> Scenario {
        match (self.numeric_axis, value) {
            (Some(axis), Some(value)) => facet.with_coordinate(&axis.name, value),
            _ => facet.clone(),
        }
    }

    /// The series of a quantity at a facet, one a subject that has values.
    pub(crate) fn chart_series(&self, quantity: Quantity, facet: &Scenario) -> Vec<ChartSeries> {
        let subjects = self.record.run.subjects.iter().zip(&self.styles).enumerate();
        subjects
            .map(|(at, (subject, style))| ChartSeries {
                subject_index: at,
                label: subject_label(subject),
                style: *style,
                points: self.chart_points(quantity, subject, facet),
            })
            .filter(|series| !series.points.is_empty())
            .collect()
    }

    /// The points of a series: a subject's, by its name.
    pub(crate) fn chart_points(
        &self,
        quantity: Quantity,
        subject: &RunSubject,
        facet: &Scenario,
    ) -> Vec<ChartPoint> {
        let mut points = Vec::new();
        for value in self.numeric_axis_values() {
            let scenario = self.scenario_at(facet, value);
            let Some(estimate) = self.estimate_at(quantity, subject, &scenario) else { continue };
            let selection = TrialSelection::of_first_copy(quantity, &subject.name, &scenario);
            let trials = selection
                .matching_accepted_trials(&self.record.trials)
                .filter_map(|trial| quantity.value_in_trial(trial))
                .filter(|value| value.is_finite());
            points.push(ChartPoint {
                x: value.unwrap_or(0) as f64,
                value: estimate.value,
                lo: estimate.lo,
                hi: estimate.hi,
                trial_values: trials.collect(),
            });
        }
        points
    }

    /// The name as the records own it, which lives as long as they do.
    fn subject_name_in_record(&self, subject: &RunSubject) -> &'a str {
        let mut subjects = self.record.run.subjects.iter();
        subjects.find(|one| one.name == subject.name).map_or("", |one| one.name.as_str())
    }

    /// The facet in which weir's best form gains least: what is true there is true elsewhere.
    fn find_least_gain_headline(&self) -> Option<HeadlineGains<'a>> {
        let least = |headline: &HeadlineGains<'_>| {
            headline.gains.first().map_or(f64::INFINITY, |gain| gain.ratio.value)
        };
        (0..self.facets.len())
            .filter_map(|facet| self.facet_gains_at_largest_value(facet))
            .min_by(|a, b| least(a).total_cmp(&least(b)))
    }

    fn facet_gains_at_largest_value(&self, facet: usize) -> Option<HeadlineGains<'a>> {
        let reference = self.reference?;
        for value in self.numeric_axis_values().into_iter().rev() {
            let scenario = self.scenario_at(&self.facets[facet].scenario, value);
            let mut gains: Vec<SubjectGain<'a>> = self
                .record
                .run
                .subjects
                .iter()
                .filter(|subject| subject.weir)
                .filter_map(|subject| {
                    Some(SubjectGain {
                        subject,
                        ratio: self.estimate_two_subject_ratio(subject, reference, &scenario)?,
                    })
                })
                .collect();
            if !gains.is_empty() {
                gains.sort_by(|a, b| b.ratio.value.total_cmp(&a.ratio.value));
                return Some(HeadlineGains {
                    facet_index: facet,
                    reference,
                    axis_value: value,
                    scenario,
                    gains,
                });
            }
        }
        None
    }
}

/// What the accepted trials measured, packets before anything else.
fn main_quantity(record: &RunRecord) -> Quantity {
    const MAIN_QUANTITY_CANDIDATES: [Quantity; 5] = [
        Quantity::Pps,
        Quantity::ConnectionsPerSecond,
        Quantity::ConnectionsResetPerSecond,
        Quantity::HandshakesPerSecond,
        Quantity::LookupsPerSecond,
    ];
    let measured = |quantity: &Quantity| {
        let of_kind = |trial: &Trial| trial.kind == quantity.trial_kind();
        record.trials.iter().any(|trial| trial.state == TrialState::Accepted && of_kind(trial))
    };
    MAIN_QUANTITY_CANDIDATES.into_iter().find(measured).unwrap_or(Quantity::Pps)
}

/// What is next to a subject's line: its title where that is short, else its name; and whether weir
/// made it.
pub(crate) fn subject_label(subject: &RunSubject) -> String {
    const MAX_LABEL_CHARS: usize = 22;
    let length = subject.title.chars().count();
    if (1..=MAX_LABEL_CHARS).contains(&length) {
        return subject.title.clone();
    }
    let name = match subject.weir && !subject.name.starts_with("weir") {
        true => format!("weir {}", subject.name),
        false => subject.name.clone(),
    };
    if name.chars().count() <= MAX_LABEL_CHARS {
        return name;
    }
    name.chars().take(MAX_LABEL_CHARS - 1).chain(['…']).collect()
}

/// An axis as a heading: its title, or its name.
pub(crate) fn axis_title_or_name(axis: &ScenarioAxis) -> &str {
    if axis.title.is_empty() { &axis.name } else { &axis.title }
}

fn is_finite_estimate(estimate: &Estimate) -> bool {
    [estimate.value, estimate.lo, estimate.hi].iter().all(|value| value.is_finite())
}

/// The points of all axes but `axis` at which a kind was measured, in the order of the axes.
pub(crate) fn find_facets_of_trial_kind(
    record: &RunRecord,
    axis: Option<&ScenarioAxis>,
    kind: TrialKind,
) -> Vec<Facet> {
    let others: Vec<&ScenarioAxis> = record
        .run
        .axes
        .iter()
        .filter(|one| axis.is_none_or(|axis| axis.name != one.name))
        .collect();
    let names: Vec<&str> = others.iter().map(|axis| axis.name.as_str()).collect();
    let mut found: Vec<Scenario> = Vec::new();
    for trial in &record.trials {
        if trial.kind == kind && trial.state == TrialState::Accepted {
            let scenario = trial.scenario.project_to_axes(&names);
            if !found.contains(&scenario) {
                found.push(scenario);
            }
        }
    }
    let rank = |scenario: &Scenario| -> Vec<usize> {
        let place = |axis: &&ScenarioAxis| {
            let value = scenario.coordinate(&axis.name);
            axis.measured_values.iter().position(|one| Some(one) == value).unwrap_or(usize::MAX)
        };
        others.iter().map(place).collect()
    };
    found.sort_by_key(rank);
    if found.is_empty() {
        found.push(Scenario::default());
    }
    found.into_iter().map(|scenario| build_facet(&others, scenario)).collect()
}

fn build_facet(axes: &[&ScenarioAxis], scenario: Scenario) -> Facet {
    let (mut titles, mut sentences) = (Vec::new(), Vec::new());
    for axis in axes {
        if let Some(value) = scenario.coordinate(&axis.name) {
            let title = axis_value_title(axis, value);
            sentences.push(format!("{}: {title}.", capitalize_first(axis_title_or_name(axis))));
            titles.push(title);
        }
    }
    Facet { title: titles.join(", "), sentence: sentences.join(" "), scenario }
}

/// Text with its first letter a capital.
pub(crate) fn capitalize_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A value of an axis in words: the study's title for it, or the axis and the value.
fn axis_value_title(axis: &ScenarioAxis, value: &Coordinate) -> String {
    match (axis.titles.get(&value.to_string()), value) {
        (Some(title), _) => title.clone(),
        (None, Coordinate::Text(text)) => text.clone(),
        (None, Coordinate::Number(_)) => {
            format!("{} {}", number_format::format_coordinate(value), axis_title_or_name(axis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn the_numeric_axis_is_horizontal_and_others_become_facets() {
        let record = sample_records::sample_record();
        let model = ReportModel::new(&record);
        assert_eq!(model.numeric_axis.map(|axis| axis.name.as_str()), Some("rules"));
        let titles: Vec<&str> = model.facets.iter().map(|facet| facet.title.as_str()).collect();
        assert_eq!(titles, ["sources far from the rules", "sources near the rules"]);
    }

    #[test]
    fn the_headline_is_the_facet_where_the_best_form_gains_least() {
        let record = sample_records::sample_record();
        let model = ReportModel::new(&record);
        let headline = model.headline.expect("the sample has gains");
        assert_eq!(headline.axis_value, Some(16_384));
        assert_eq!(model.facets[headline.facet_index].title, "sources near the rules");
        assert!(headline.gains.is_sorted_by(|a, b| a.ratio.value >= b.ratio.value));
    }

    #[test]
    fn the_headline_uses_a_point_measured_for_both_subjects() {
        let mut record = sample_records::sample_record();
        record.trials.retain(|trial| {
            trial.subject != "linear" || trial.scenario.coordinate("rules") != Some(&16_384.into())
        });
        let headline = ReportModel::new(&record).headline.expect("the sample has other points");
        assert_eq!(headline.axis_value, Some(1024));
    }

    #[test]
    fn connection_rates_are_compared_if_there_are_no_frames() {
        let followed = sample_records::sample_connections_record();
        let model = ReportModel::new(&followed);
        assert_eq!(
            (model.main_quantity_unit(), model.main_quantity_verb()),
            ("connections/s", "carries")
        );
        assert!(model.facets[0].title.ends_with("sources near the rules"));
        assert_eq!(
            ReportModel::new(&sample_records::sample_record()).main_quantity_unit(),
            "packets/s"
        );
    }

    #[test]
    fn without_trials_there_is_no_headline() {
        let record = RunRecord { trials: Vec::new(), ..sample_records::sample_record() };
        let model = ReportModel::new(&record);
        assert!(model.headline.is_none());
        assert_eq!(model.facets.len(), 1);
    }
}
