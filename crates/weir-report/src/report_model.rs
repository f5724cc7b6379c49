//! What a page shows, derived once from the records: the axis, the facets, the comparisons.
//!
//! A study's grid has any number of axes. The first one with numeric values becomes the horizontal
//! axis of the plots; the points of the others are the *facets*, one plot each. A grid without
//! numbers is shown as rows. The *reference* is the first subject that is neither a form of weir
//! nor the line without rules: studies list the original ruleset first.

use weir_stats::series::{self, Selection};
use weir_stats::{
    Coordinate, Estimate, Quantity, Record, RunSubject, Scenario, ScenarioAxis, State, Trial,
    TrialKind,
};

use crate::chart::{ChartPoint, Series};
use crate::number;
use crate::series_style::{self, SeriesStyle};

/// Records, prepared for readers.
pub(crate) struct ReportModel<'a> {
    pub(crate) record: &'a Record,
    /// The quantity by which subjects are compared: packets per second, or connections if no frames
    /// were sent.
    pub(crate) quantity: Quantity,
    /// The axis of numbers, if the grid has one with two values or more.
    pub(crate) axis: Option<&'a ScenarioAxis>,
    /// Points of the other axes at which packets were measured; one at least.
    pub(crate) facets: Vec<Facet>,
    /// The original ruleset.
    pub(crate) reference: Option<&'a RunSubject>,
    /// No rules.
    pub(crate) baseline: Option<&'a RunSubject>,
    /// A colour for each subject, in the order of the run.
    pub(crate) styles: Vec<SeriesStyle>,
    /// The gain that the page begins with.
    pub(crate) headline: Option<Headline<'a>>,
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
pub(crate) struct Gain<'a> {
    pub(crate) subject: &'a RunSubject,
    /// Packets a second against the reference.
    pub(crate) ratio: Estimate,
}

/// All gains at one point, the best first.
pub(crate) struct Headline<'a> {
    pub(crate) facet: usize,
    pub(crate) reference: &'a RunSubject,
    /// Where on the axis.
    pub(crate) at: Option<u64>,
    /// The point.
    pub(crate) scenario: Scenario,
    pub(crate) gains: Vec<Gain<'a>>,
}

impl<'a> ReportModel<'a> {
    /// Looks through the records.
    pub(crate) fn new(record: &'a Record) -> ReportModel<'a> {
        let run = &record.run;
        let numeric = |axis: &&ScenarioAxis| {
            axis.values.len() > 1 && axis.values.iter().all(|value| value.number().is_some())
        };
        let axis = run.axes.iter().find(numeric);
        let reference = run.subjects.iter().find(|subject| !subject.baseline && !subject.weir);
        let baseline = run.subjects.iter().find(|subject| subject.baseline);
        let quantity = main_quantity(record);
        let mut model = ReportModel {
            record,
            quantity,
            axis,
            facets: facets(record, axis, quantity.kind()),
            reference,
            baseline,
            styles: series_style::styles(&run.subjects),
            headline: None,
        };
        model.headline = model.find_headline();
        model
    }

    /// Trials that count.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = &'a Trial> + use<'a> {
        self.record.trials.iter().filter(|trial| trial.state == State::Accepted)
    }

    /// A quantity of a subject at a point.
    pub(crate) fn estimate(
        &self,
        quantity: Quantity,
        subject: &RunSubject,
        scenario: &Scenario,
    ) -> Option<Estimate> {
        Selection::new(quantity, &subject.name, scenario)
            .estimate(&self.record.trials, self.record.run.seed)
            .filter(is_finite)
    }

    /// What a subject does with it: packets are forwarded, connections carried.
    pub(crate) fn verb(&self) -> &'static str {
        if self.quantity == Quantity::Pps { "forwards" } else { "carries" }
    }

    /// Its unit.
    pub(crate) fn unit(&self) -> &'static str {
        match self.quantity {
            Quantity::Pps => "packets/s",
            Quantity::HandshakesPerSecond => "handshakes/s",
            _ => "connections/s",
        }
    }

    /// Ratio of two subjects at a point.
    pub(crate) fn ratio(
        &self,
        first: &RunSubject,
        second: &RunSubject,
        scenario: &Scenario,
    ) -> Option<Estimate> {
        let of = |subject: &'a str| Selection::new(self.quantity, subject, scenario);
        let (first, second) = (self.name(first), self.name(second));
        series::ratio(of(first), of(second), &self.record.trials, self.record.run.seed)
            .filter(is_finite)
    }

    /// Ratio of a subject at two points.
    pub(crate) fn kept(
        &self,
        subject: &RunSubject,
        at: &Scenario,
        from: &Scenario,
    ) -> Option<Estimate> {
        let first = Selection::new(self.quantity, &subject.name, at);
        let second = Selection::new(self.quantity, &subject.name, from);
        series::ratio(first, second, &self.record.trials, self.record.run.seed).filter(is_finite)
    }

    /// What a reader sees of a subject that a record names.
    pub(crate) fn label_of(&self, name: &str) -> String {
        let mut subjects = self.record.run.subjects.iter();
        subjects.find(|one| one.name == name).map_or_else(|| name.to_owned(), label)
    }

    /// How a subject is drawn.
    pub(crate) fn style(&self, subject: &RunSubject) -> Option<SeriesStyle> {
        let at = self.record.run.subjects.iter().position(|one| one.name == subject.name)?;
        self.styles.get(at).copied()
    }

    /// Values of the axis, rising; one `None` if the grid has no axis.
    pub(crate) fn values(&self) -> Vec<Option<u64>> {
        let Some(axis) = self.axis else { return vec![None] };
        let mut values: Vec<u64> = axis.values.iter().filter_map(Coordinate::number).collect();
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(Some).collect()
    }

    /// A facet's point at a value of the axis.
    pub(crate) fn point(&self, facet: &Scenario, value: Option<u64>) -> Scenario {
        match (self.axis, value) {
            (Some(axis), Some(value)) => facet.with(&axis.name, value),
            _ => facet.clone(),
        }
    }

    /// The series of a quantity at a facet, one a subject that has values.
    pub(crate) fn series(&self, quantity: Quantity, facet: &Scenario) -> Vec<Series> {
        let subjects = self.record.run.subjects.iter().zip(&self.styles).enumerate();
        subjects
            .map(|(at, (subject, style))| Series {
                subject: at,
                label: label(subject),
                style: *style,
                points: self.points(quantity, subject, facet),
            })
            .filter(|series| !series.points.is_empty())
            .collect()
    }

    /// The points of a series: a subject's, by its name.
    pub(crate) fn points(
        &self,
        quantity: Quantity,
        subject: &RunSubject,
        facet: &Scenario,
    ) -> Vec<ChartPoint> {
        let mut points = Vec::new();
        for value in self.values() {
            let scenario = self.point(facet, value);
            let Some(estimate) = self.estimate(quantity, subject, &scenario) else { continue };
            let selection = Selection::new(quantity, &subject.name, &scenario);
            let trials = selection
                .trials(&self.record.trials)
                .filter_map(|trial| quantity.of(trial))
                .filter(|value| value.is_finite());
            points.push(ChartPoint {
                x: value.unwrap_or(0) as f64,
                value: estimate.value,
                lo: estimate.lo,
                hi: estimate.hi,
                trials: trials.collect(),
            });
        }
        points
    }

    /// The name as the records own it, which lives as long as they do.
    fn name(&self, subject: &RunSubject) -> &'a str {
        let mut subjects = self.record.run.subjects.iter();
        subjects.find(|one| one.name == subject.name).map_or("", |one| one.name.as_str())
    }

    /// The facet in which weir's best form gains least: what is true there is true elsewhere.
    fn find_headline(&self) -> Option<Headline<'a>> {
        let least = |headline: &Headline<'_>| {
            headline.gains.first().map_or(f64::INFINITY, |gain| gain.ratio.value)
        };
        (0..self.facets.len())
            .filter_map(|facet| self.headline_at(facet))
            .min_by(|a, b| least(a).total_cmp(&least(b)))
    }

    fn headline_at(&self, facet: usize) -> Option<Headline<'a>> {
        let reference = self.reference?;
        for value in self.values().into_iter().rev() {
            let scenario = self.point(&self.facets[facet].scenario, value);
            let mut gains: Vec<Gain<'a>> = self
                .record
                .run
                .subjects
                .iter()
                .filter(|subject| subject.weir)
                .filter_map(|subject| {
                    Some(Gain { subject, ratio: self.ratio(subject, reference, &scenario)? })
                })
                .collect();
            if !gains.is_empty() {
                gains.sort_by(|a, b| b.ratio.value.total_cmp(&a.ratio.value));
                return Some(Headline { facet, reference, at: value, scenario, gains });
            }
        }
        None
    }
}

/// What the accepted trials measured, packets before anything else.
fn main_quantity(record: &Record) -> Quantity {
    const SOUGHT: [Quantity; 4] = [
        Quantity::Pps,
        Quantity::ConnectionsPerSecond,
        Quantity::ConnectionsResetPerSecond,
        Quantity::HandshakesPerSecond,
    ];
    let measured = |quantity: &Quantity| {
        let of_kind = |trial: &Trial| trial.kind == quantity.kind();
        record.trials.iter().any(|trial| trial.state == State::Accepted && of_kind(trial))
    };
    SOUGHT.into_iter().find(measured).unwrap_or(Quantity::Pps)
}

/// What is next to a subject's line: its title where that is short, else its name; and whether weir
/// made it.
pub(crate) fn label(subject: &RunSubject) -> String {
    const LONGEST: usize = 22;
    let length = subject.title.chars().count();
    if (1..=LONGEST).contains(&length) {
        return subject.title.clone();
    }
    let name = match subject.weir && !subject.name.starts_with("weir") {
        true => format!("weir {}", subject.name),
        false => subject.name.clone(),
    };
    if name.chars().count() <= LONGEST {
        return name;
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// An axis as a heading: its title, or its name.
pub(crate) fn axis_title(axis: &ScenarioAxis) -> &str {
    if axis.title.is_empty() { &axis.name } else { &axis.title }
}

fn is_finite(estimate: &Estimate) -> bool {
    [estimate.value, estimate.lo, estimate.hi].iter().all(|value| value.is_finite())
}

/// The points of all axes but `axis` at which a kind was measured, in the order of the axes.
pub(crate) fn facets(record: &Record, axis: Option<&ScenarioAxis>, kind: TrialKind) -> Vec<Facet> {
    let others: Vec<&ScenarioAxis> = record
        .run
        .axes
        .iter()
        .filter(|one| axis.is_none_or(|axis| axis.name != one.name))
        .collect();
    let names: Vec<&str> = others.iter().map(|axis| axis.name.as_str()).collect();
    let mut found: Vec<Scenario> = Vec::new();
    for trial in &record.trials {
        if trial.kind == kind && trial.state == State::Accepted {
            let scenario = trial.scenario.on(&names);
            if !found.contains(&scenario) {
                found.push(scenario);
            }
        }
    }
    let rank = |scenario: &Scenario| -> Vec<usize> {
        let place = |axis: &&ScenarioAxis| {
            let value = scenario.coordinate(&axis.name);
            axis.values.iter().position(|one| Some(one) == value).unwrap_or(usize::MAX)
        };
        others.iter().map(place).collect()
    };
    found.sort_by_key(rank);
    if found.is_empty() {
        found.push(Scenario::default());
    }
    found.into_iter().map(|scenario| facet(&others, scenario)).collect()
}

fn facet(axes: &[&ScenarioAxis], scenario: Scenario) -> Facet {
    let (mut titles, mut sentences) = (Vec::new(), Vec::new());
    for axis in axes {
        if let Some(value) = scenario.coordinate(&axis.name) {
            let title = value_title(axis, value);
            sentences.push(format!("{}: {title}.", capital(axis_title(axis))));
            titles.push(title);
        }
    }
    Facet { title: titles.join(", "), sentence: sentences.join(" "), scenario }
}

/// Text with its first letter a capital.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A value of an axis in words: the study's title for it, or the axis and the value.
fn value_title(axis: &ScenarioAxis, value: &Coordinate) -> String {
    match (axis.titles.get(&value.to_string()), value) {
        (Some(title), _) => title.clone(),
        (None, Coordinate::Text(text)) => text.clone(),
        (None, Coordinate::Number(_)) => {
            format!("{} {}", number::coordinate(value), axis_title(axis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_axis_of_numbers_is_horizontal_and_the_others_are_facets() {
        let record = sample::record();
        let model = ReportModel::new(&record);
        assert_eq!(model.axis.map(|axis| axis.name.as_str()), Some("rules"));
        let titles: Vec<&str> = model.facets.iter().map(|facet| facet.title.as_str()).collect();
        assert_eq!(titles, ["sources far from the rules", "sources near the rules"]);
    }

    #[test]
    fn the_headline_is_the_facet_where_the_best_form_gains_least() {
        let record = sample::record();
        let model = ReportModel::new(&record);
        let headline = model.headline.expect("the sample has gains");
        assert_eq!(headline.at, Some(16_384));
        assert_eq!(model.facets[headline.facet].title, "sources near the rules");
        assert!(headline.gains.is_sorted_by(|a, b| a.ratio.value >= b.ratio.value));
    }

    #[test]
    fn the_headline_moves_to_a_point_that_both_have() {
        let mut record = sample::record();
        record.trials.retain(|trial| {
            trial.subject != "linear" || trial.scenario.coordinate("rules") != Some(&16_384.into())
        });
        let headline = ReportModel::new(&record).headline.expect("the sample has other points");
        assert_eq!(headline.at, Some(1024));
    }

    #[test]
    fn connections_are_compared_where_no_frames_were_played() {
        let followed = sample::followed();
        let model = ReportModel::new(&followed);
        assert_eq!((model.unit(), model.verb()), ("connections/s", "carries"));
        assert!(model.facets[0].title.ends_with("sources near the rules"));
        assert_eq!(ReportModel::new(&sample::record()).unit(), "packets/s");
    }

    #[test]
    fn without_trials_there_is_no_headline() {
        let record = Record { trials: Vec::new(), ..sample::record() };
        let model = ReportModel::new(&record);
        assert!(model.headline.is_none());
        assert_eq!(model.facets.len(), 1);
    }
}
