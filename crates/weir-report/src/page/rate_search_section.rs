//! Searched rates: the course of each search, and its final bounds.

use maud::{Markup, html};
use weir_stats::Scenario;
use weir_stats::rate_search::{RateSearchRecord, SearchGoal};

use super::rate_and_load_time_plots::{self, SMALL_LAYOUT};
use crate::chart::ChartTitlesAndUnit;
use crate::chart::rate_search_chart::{self, SearchTrace};
use crate::number_format::{ValueUnit, format_percent, format_rate_without_unit};
use crate::report_model::{ReportModel, subject_label};

/// All searches, those of a point in one drawing; nothing where nothing was searched.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let searches = &model.record.searches;
    let mut points: Vec<&Scenario> = searches.iter().map(|search| &search.scenario).collect();
    points.sort_unstable();
    points.dedup();
    let Some(first) = searches.first() else { return html! {} };
    html! {
        section #searches {
            h2 { "The highest rate with " (describe_loss_goal(&first.goal)) }
            p.about {
                "Each mark is a trial at a rate: filled if the loss was within the limit, hollow "
                "if it was not. A search ends when both bounds are within "
                (format_percent(first.goal.width)) "."
            }
            @let shown = searches.iter().filter_map(|search| subject_index_of_search(model, search));
            @let mut shown: Vec<usize> = shown.collect();
            @let () = { shown.sort_unstable(); shown.dedup(); };
            (rate_and_load_time_plots::render_legend(model, shown.into_iter()))
            div.pair {
                @for (at, point) in points.iter().enumerate() {
                    div {
                        @let said = point.to_string();
                        @if !said.is_empty() { h3 { (said) } }
                        (render_search_chart(model, at, point))
                    }
                }
            }
            (render_bounds_table(model))
        }
    }
}

/// The loss of a goal, in words.
fn describe_loss_goal(goal: &SearchGoal) -> String {
    if goal.loss_ratio == 0.0 {
        return "no loss".to_owned();
    }
    format!("at most {} lost", format_percent(goal.loss_ratio))
}

fn subject_index_of_search(model: &ReportModel<'_>, search: &RateSearchRecord) -> Option<usize> {
    let mut subjects = model.record.run.subjects.iter();
    subjects.position(|subject| subject.name == search.subject)
}

fn render_search_chart(model: &ReportModel<'_>, chart_number: usize, point: &Scenario) -> Markup {
    let trace = |search: &RateSearchRecord| {
        let subject = subject_index_of_search(model, search)?;
        let is_good = |step: &weir_stats::rate_search::SearchTrial| {
            step.lost_or_unoffered_ratio <= search.goal.loss_ratio
        };
        Some(SearchTrace {
            subject_index: subject,
            style: model.styles[subject],
            steps: search.steps.iter().map(|step| (step.rate_pps, is_good(step))).collect(),
            bounds: [search.found.lower, search.found.upper],
        })
    };
    let of_point = model.record.searches.iter().filter(|search| search.scenario == *point);
    let traces: Vec<SearchTrace> = of_point.filter_map(trace).collect();
    let id = format!("search-{chart_number}");
    let caption = ChartTitlesAndUnit {
        id: &id,
        title: "Trials of the search",
        description: "Offered rate by trial, in order; the table below has the bounds.",
        x_title: "trial of the search",
        y_title: "packets/s, offered",
        unit: ValueUnit::Rate,
    };
    html! { figure { (rate_search_chart::draw_search_traces(&caption, SMALL_LAYOUT.size, &traces)) } }
}

fn render_bounds_table(model: &ReportModel<'_>) -> Markup {
    let shown = |bound: Option<f64>| bound.map_or("–".to_owned(), format_rate_without_unit);
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "subject" } th { "at" } th.right { "carried" }
                        th.right { "not carried" } th.right { "conditional throughput" }
                        th.right { "trials" }
                    }
                }
                tbody {
                    @for search in &model.record.searches {
                        tr {
                            @let subject = subject_index_of_search(model, search);
                            @let subject = subject.map(|at| &model.record.run.subjects[at]);
                            th scope="row" {
                                (subject.map_or_else(|| search.subject.clone(), subject_label))
                            }
                            td { (search.scenario.to_string()) }
                            td.right { (shown(search.found.lower)) }
                            td.right { (shown(search.found.upper)) }
                            td.right { (shown(search.found.conditional_throughput)) }
                            td.right { (search.found.trials) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_stats::rate_search;

    use super::*;
    use crate::sample_records;

    #[test]
    fn a_rate_search_is_drawn_with_all_trials_and_bounds() {
        let mut record = sample_records::sample_record();
        assert!(render_section(&ReportModel::new(&record)).into_string().is_empty());
        let mut steps = Vec::new();
        let found = rate_search::search_highest_rate(
            &SearchGoal::ZERO_LOSS,
            1e3,
            1e6,
            &mut |rate_pps: f64| {
                let loss_ratio = (1.0 - 3e5 / rate_pps).max(0.0);
                steps.push(rate_search::SearchTrial {
                    rate_pps,
                    lost_or_unoffered_ratio: loss_ratio,
                });
                Ok::<f64, ()>(loss_ratio)
            },
        );
        let found = found.unwrap();
        let trials = steps.len();
        let (subject, scenario) =
            ("linear".to_owned(), Scenario::default().with_coordinate("rules", 16));
        record.searches.push(RateSearchRecord {
            subject,
            scenario,
            goal: SearchGoal::ZERO_LOSS,
            found,
            steps,
        });
        let text = render_section(&ReportModel::new(&record)).into_string();
        assert!(text.contains("The highest rate with no loss"), "{text}");
        assert_eq!(text.matches("r=\"3.5\"").count(), trials);
        assert_eq!(text.matches("class=\"whisker\"").count(), 1);
        assert!(text.contains("rules=16") && text.contains(&format!("{trials}</td>")));
    }
}
