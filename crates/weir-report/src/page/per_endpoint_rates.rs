//! Shares of each client and each server.

use maud::{Markup, html};
use weir_stats::endpoint_totals::PerEndpointTotals;
use weir_stats::{EndpointCounts, RunSubject, Scenario, Trial};

use crate::number_format::format_rate_without_unit;
use crate::report_model::{ReportModel, subject_label};

/// A table for each point at which clients and servers were distinguished; nothing without one.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let counting_trials: Vec<&Trial> =
        model.accepted_trials().filter(|trial| is_first_copy_counting_endpoints(trial)).collect();
    let mut points: Vec<&Scenario> = counting_trials.iter().map(|trial| &trial.scenario).collect();
    points.sort_unstable();
    points.dedup();
    html! {
        @if !points.is_empty() {
            section #members {
                h2 { "Each client and each server" }
                p.about {
                    "Means over all trials that count. Packets and bits are those that arrived, "
                    "Ethernet headers included."
                }
                @for point in points { (render_endpoint_table(model, &counting_trials, point)) }
            }
        }
    }
}

fn is_first_copy_counting_endpoints(trial: &Trial) -> bool {
    trial.copy_index == 0 && trial.connection_counts().is_some_and(|all| !all.clients.is_empty())
}

/// The totals of a subject at a point.
fn endpoint_totals_at(
    counting_trials: &[&Trial],
    subject: &RunSubject,
    point: &Scenario,
) -> PerEndpointTotals {
    let is_one = |trial: &&Trial| trial.subject == subject.name && trial.scenario == *point;
    PerEndpointTotals::from_trials(counting_trials.iter().copied().filter(is_one))
}

/// Every row with its title, both totals after their members.
fn list_endpoint_rows_with_totals(totals: &PerEndpointTotals) -> Vec<(String, EndpointCounts)> {
    let sides = [("client", &totals.clients), ("server", &totals.servers)];
    let rows = sides.into_iter().flat_map(|(name, members)| {
        let numbered = (1..).zip(members).map(move |(n, one)| (format!("{name} {n}"), *one));
        let all = (format!("all {name}s"), PerEndpointTotals::sum_endpoints(members));
        numbered.chain((members.len() > 1).then_some(all))
    });
    rows.collect()
}

fn render_endpoint_table(
    model: &ReportModel<'_>,
    counting_trials: &[&Trial],
    point: &Scenario,
) -> Markup {
    let subjects = model.record.run.subjects.iter();
    let sums: Vec<(&RunSubject, PerEndpointTotals)> = subjects
        .map(|subject| (subject, endpoint_totals_at(counting_trials, subject, point)))
        .filter(|(_, sums)| sums.seconds > 0.0)
        .collect();
    html! {
        div.scroll {
            table {
                caption { (point.to_string()) }
                thead {
                    tr {
                        th { "subject" }
                        th { "who" }
                        th.right { "connections/s" }
                        th.right { "packets/s from it" }
                        th.right { "to it" }
                        th.right { "bits/s from it" }
                        th.right { "to it" }
                    }
                }
                tbody {
                    @for (subject, sums) in &sums {
                        @for (who, member) in list_endpoint_rows_with_totals(sums) {
                            @let a_second = |count: u64| format_rate_without_unit(sums.convert_count_to_rate(count));
                            tr {
                                td { (subject_label(subject)) }
                                th scope="row" { (who) }
                                td.right { (a_second(member.connections)) }
                                td.right { (a_second(member.arrived_from_endpoint.packets)) }
                                td.right { (a_second(member.arrived_at_endpoint.packets)) }
                                td.right { (a_second(8 * member.arrived_from_endpoint.frame_bytes)) }
                                td.right { (a_second(8 * member.arrived_at_endpoint.frame_bytes)) }
                            }
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
    use weir_stats::{ArrivedTraffic, ConnectionClose, ConnectionCounts, TrialKind, TrialResults};

    #[test]
    fn endpoint_rates_are_listed_with_a_total_per_side() {
        let member = |connections, bytes| EndpointCounts {
            connections,
            arrived_from_endpoint: ArrivedTraffic { packets: 4 * connections, frame_bytes: bytes },
            arrived_at_endpoint: ArrivedTraffic::default(),
        };
        let connections = ConnectionCounts {
            clients: vec![member(3, 100), member(5, 200)],
            servers: vec![member(8, 0)],
            ..ConnectionCounts::empty(ConnectionClose::Fin)
        };
        let trial = Trial {
            seconds: 1.0,
            results: TrialResults::Connections(Box::new(connections)),
            ..Trial::new(TrialKind::Connections, Scenario::default(), "a")
        };
        let totals = PerEndpointTotals::from_trials([&trial, &trial].into_iter());
        assert_eq!(totals.convert_count_to_rate(10), 5.0);
        let rows = list_endpoint_rows_with_totals(&totals);
        let names: Vec<&str> = rows.iter().map(|(who, _)| who.as_str()).collect();
        assert_eq!(names, ["client 1", "client 2", "all clients", "server 1"]);
        assert_eq!((rows[2].1.connections, rows[2].1.arrived_from_endpoint.frame_bytes), (16, 600));
        assert_eq!(rows[3].1.connections, 16);
    }
}
