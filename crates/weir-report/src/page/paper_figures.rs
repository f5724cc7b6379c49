//! Figures of the paper, redrawn with its axes: linear, and with its range.

use maud::{Markup, html};
use weir_stats::{PaperFigure, Scenario};

use super::figures::{self, SMALL};
use crate::chart::Caption;
use crate::chart::curves::{self, Curve};
use crate::number::Unit;
use crate::report_model::{ReportModel, axis_title, capital};

/// The figures that the study names; nothing where it names none, or has no axis of numbers.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
    let named = model.record.run.paper.iter().flat_map(|paper| &paper.figures);
    let drawn: Vec<(&PaperFigure, Vec<Curve>)> = named
        .map(|figure| (figure, curves(model, figure)))
        .filter(|(_, curves)| !curves.is_empty())
        .collect();
    let (Some(axis), Some((_, first))) = (model.axis, drawn.first()) else { return html! {} };
    html! {
        section #redone {
            h2 { "The paper’s figures, with the values of this run" }
            p.about {
                "On the paper’s axes, which are linear from 0. Its own curves are not in its \
                 text, and so "
                "not here."
            }
            (figures::legend(model, first.iter().map(|curve| curve.subject)))
            div.pair {
                @for (at, (figure, curves)) in drawn.iter().enumerate() {
                    @let id = format!("redone-{at}");
                    @let caption = Caption {
                        id: &id,
                        title: &figure.title,
                        about: "Medians by subject; the drawings above have intervals and trials.",
                        x_title: axis_title(axis),
                        y_title: "",
                        unit: Unit::Rate,
                    };
                    div {
                        h3 { (capital(&figure.number)) ": " (figure.title) }
                        figure { (curves::draw(&caption, SMALL.size, Unit::Rate, curves)) }
                    }
                }
            }
        }
    }
}

/// A curve per subject, at the first facet.
fn curves(model: &ReportModel<'_>, figure: &PaperFigure) -> Vec<Curve> {
    let anywhere = Scenario::default();
    let facet = model.facets.first().map_or(&anywhere, |facet| &facet.scenario);
    let shown = |x: f64| figure.to.is_none_or(|last| x <= last as f64);
    let curve = |series: crate::chart::Series| Curve {
        subject: series.subject,
        style: series.style,
        marked: true,
        points: series.points.iter().filter(|p| shown(p.x)).map(|p| (p.x, p.value)).collect(),
    };
    let all = model.series(figure.quantity, facet).into_iter().map(curve);
    all.filter(|curve| !curve.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_figure_goes_no_further_than_the_paper() {
        let mut record = sample::record();
        let count = |record: &_| {
            let text = section(&ReportModel::new(record)).into_string();
            text.matches("class=\"mark").count()
        };
        // Three of four sizes; four subjects; their keys in the legend, but for the dashed one.
        assert_eq!(count(&record), 4 * 3 + 3);
        let figures = |record: &mut weir_stats::Record, to| {
            record.run.paper.as_mut().unwrap().figures[0].to = to;
        };
        figures(&mut record, None);
        assert_eq!(count(&record), 4 * 4 + 3);
        record.run.paper = None;
        assert_eq!(count(&record), 0);
    }
}
