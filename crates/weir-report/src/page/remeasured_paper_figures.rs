//! Figures of the paper, redrawn with its axes: linear, and with its range.

use maud::{Markup, html};
use weir_stats::{RemeasuredPaperFigure, Scenario};

use super::rate_and_load_time_plots::{self, SMALL_LAYOUT};
use crate::chart::ChartTitlesAndUnit;
use crate::chart::linear_curve_chart::{self, Curve};
use crate::number_format::ValueUnit;
use crate::report_model::{ReportModel, axis_title_or_name, capitalize_first};

/// The figures that the study names; nothing where it names none, or has no axis of numbers.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let named = model.record.run.paper.iter().flat_map(|paper| &paper.figures);
    let drawn: Vec<(&RemeasuredPaperFigure, Vec<Curve>)> = named
        .map(|figure| (figure, build_measured_figure_curves(model, figure)))
        .filter(|(_, curves)| !curves.is_empty())
        .collect();
    let (Some(axis), Some((_, first))) = (model.numeric_axis, drawn.first()) else {
        return html! {};
    };
    html! {
        section #redone {
            h2 { "The paper’s figures, with the values of this run" }
            p.about {
                "On the paper’s axes, which are linear from 0. Its own curves are not in its \
                 text, and so "
                "not here."
            }
            (rate_and_load_time_plots::render_legend(model, first.iter().map(|curve| curve.subject_index)))
            div.pair {
                @for (at, (figure, curves)) in drawn.iter().enumerate() {
                    @let id = format!("redone-{at}");
                    @let caption = ChartTitlesAndUnit {
                        id: &id,
                        title: &figure.title,
                        description: "Medians by subject; the drawings above have intervals and trials.",
                        x_title: axis_title_or_name(axis),
                        y_title: "",
                        unit: ValueUnit::Rate,
                    };
                    div {
                        h3 { (capitalize_first(&figure.number)) ": " (figure.title) }
                        figure { (linear_curve_chart::draw_linear_curve_chart(&caption, SMALL_LAYOUT.size, ValueUnit::Rate, curves)) }
                    }
                }
            }
        }
    }
}

/// A curve per subject, at the first facet.
fn build_measured_figure_curves(
    model: &ReportModel<'_>,
    figure: &RemeasuredPaperFigure,
) -> Vec<Curve> {
    let anywhere = Scenario::default();
    let facet = model.facets.first().map_or(&anywhere, |facet| &facet.scenario);
    let shown = |x: f64| figure.last_axis_value.is_none_or(|last| x <= last as f64);
    let curve = |series: crate::chart::ChartSeries| Curve {
        subject_index: series.subject_index,
        style: series.style,
        has_markers: true,
        points: series.points.iter().filter(|p| shown(p.x)).map(|p| (p.x, p.value)).collect(),
    };
    let all = model.chart_series(figure.quantity, facet).into_iter().map(curve);
    all.filter(|curve| !curve.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn a_figure_ends_at_the_last_axis_value_of_the_paper() {
        let mut record = sample_records::sample_record();
        let count = |record: &_| {
            let text = render_section(&ReportModel::new(record)).into_string();
            text.matches("class=\"mark").count()
        };
        // Three of four sizes; four subjects; their keys in the legend, but for the dashed one.
        assert_eq!(count(&record), 4 * 3 + 3);
        let figures = |record: &mut weir_stats::RunRecord, to| {
            record.run.paper.as_mut().unwrap().figures[0].last_axis_value = to;
        };
        figures(&mut record, None);
        assert_eq!(count(&record), 4 * 4 + 3);
        record.run.paper = None;
        assert_eq!(count(&record), 0);
    }
}
