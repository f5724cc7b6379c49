//! Values over the time of a trial: entries in the connection table, and connections per second.

use std::collections::BTreeMap;

use maud::{Markup, html};
use weir_stats::{Scenario, Trial};

use super::figures::{self, SMALL};
use crate::chart::Caption;
use crate::chart::curves::{self, Curve};
use crate::number::Unit;
use crate::report_model::ReportModel;

/// Points of the grid that are drawn, those with the most connections.
const MOST_POINTS: usize = 4;
/// Parts of a trial over which a rate is taken, and samples of the table that are drawn, about.
const PARTS: u32 = 40;
const SAMPLES: usize = 120;

/// A value over the seconds of a trial.
type Course = Vec<(f64, f64)>;

/// What is drawn of a trial.
struct Drawn {
    id: &'static str,
    title: &'static str,
    y_title: &'static str,
    of: fn(&Trial) -> Course,
}

const DRAWN: [Drawn; 2] = [
    Drawn {
        id: "table",
        title: "Entries in the connection table",
        y_title: "entries",
        of: entries,
    },
    Drawn { id: "done", title: "Complete connections", y_title: "connections/s", of: rates },
];

/// All trials that were followed while they lasted; nothing where none was.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
    let mut points: BTreeMap<&Scenario, Vec<&Trial>> = BTreeMap::new();
    for trial in model.accepted().filter(|trial| !rates(trial).is_empty()) {
        points.entry(&trial.scenario).or_default().push(trial);
    }
    let all = points.len();
    keep_largest(&mut points);
    let subjects = |trials: &[&Trial]| -> Vec<usize> {
        let of = |name: &str| trials.iter().any(|trial| trial.subject == name);
        let named = model.record.run.subjects.iter().enumerate();
        named.filter(|(_, subject)| of(&subject.name)).map(|(at, _)| at).collect()
    };
    html! {
        @if !points.is_empty() {
            section #courses {
                h2 { "During a trial" }
                p.about {
                    "One curve per trial, for every trial that counts."
                    @if all > points.len() {
                        " The " (points.len()) " points with the most connections of " (all) "."
                    }
                }
                @let followed: Vec<&Trial> = points.values().flatten().copied().collect();
                (figures::legend(model, subjects(&followed).into_iter()))
                @for (at, (point, trials)) in points.iter().enumerate() {
                    @let said = point.to_string();
                    @if !said.is_empty() { h3 { (said) } }
                    div.pair { @for drawn in &DRAWN { (figure(model, drawn, at, trials)) } }
                }
            }
        }
    }
}

/// Leaves the points at which the most connections were there at once, or completed.
fn keep_largest(points: &mut BTreeMap<&Scenario, Vec<&Trial>>) {
    let size = |trials: &[&Trial]| {
        let of = |trial: &&Trial| trial.connections().map_or(0, |all| all.completed);
        trials.iter().map(of).max().unwrap_or(0)
    };
    let mut sizes: Vec<u64> = points.values().map(|trials| size(trials)).collect();
    sizes.sort_unstable();
    let least = sizes.iter().rev().nth(MOST_POINTS - 1).copied().unwrap_or(0);
    points.retain(|_, trials| size(trials) >= least);
}

fn figure(model: &ReportModel<'_>, drawn: &Drawn, at: usize, trials: &[&Trial]) -> Markup {
    let curve = |trial: &&Trial| {
        let mut subjects = model.record.run.subjects.iter();
        let subject = subjects.position(|subject| subject.name == trial.subject)?;
        let points = (drawn.of)(trial);
        let style = model.styles[subject];
        (!points.is_empty()).then_some(Curve { subject, style, marked: false, points })
    };
    let drawn_curves: Vec<Curve> = trials.iter().filter_map(curve).collect();
    let id = format!("course-{}-{at}", drawn.id);
    let caption = Caption {
        id: &id,
        title: drawn.title,
        about: "One curve per trial over time; the records have every sample.",
        x_title: "since the first connection",
        y_title: drawn.y_title,
        unit: Unit::Rate,
    };
    html! {
        @if !drawn_curves.is_empty() {
            div {
                h3 { (drawn.title) }
                figure { (curves::draw(&caption, SMALL.size, Unit::Seconds, &drawn_curves)) }
            }
        }
    }
}

/// Entries in the connection table.
fn entries(trial: &Trial) -> Course {
    let Some(table) = &trial.collected.table else { return Course::new() };
    let step = table.samples.len().div_ceil(SAMPLES).max(1);
    let thin = table.samples.iter().step_by(step);
    thin.map(|(seconds, entries)| (*seconds, *entries as f64)).collect()
}

/// Complete connections per second.
fn rates(trial: &Trial) -> Course {
    trial.connections().map_or_else(Course::new, |all| all.course(PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn trials_that_were_followed_are_drawn_and_others_are_not() {
        let plain = sample::record();
        assert!(section(&ReportModel::new(&plain)).into_string().is_empty());
        let followed = sample::followed();
        let text = section(&ReportModel::new(&followed)).into_string();
        assert_eq!(text.matches("<svg class=\"chart small\"").count(), 2);
        let trials = followed.trials.iter().filter(|trial| trial.connections().is_some()).count();
        assert_eq!(text.matches("class=\"line thin\"").count(), 2 * trials);
    }

    #[test]
    fn a_rate_that_halves_is_seen_to() {
        let trial = &sample::followed().trials[0];
        let course = rates(trial);
        let (first, last) = (course[0].1, course[course.len() - 1].1);
        assert!((first / last - 2.0).abs() < 0.05, "{course:?}");
        assert!((35..=45).contains(&course.len()), "{}", course.len());
        assert!(rates(&Trial { measured: weir_stats::Measured::Sums, ..trial.clone() }).is_empty());
    }
}
