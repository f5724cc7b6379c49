//! What each client and each server had of the connections.

use maud::{Markup, html};
use weir_stats::{Member, Scenario, Subject, Trial};

use crate::number::rate;
use crate::report_model::{ReportModel, label};

/// A table for each point at which clients and servers were told apart; nothing without one.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
    let told: Vec<&Trial> = model.accepted().filter(|trial| is_told(trial)).collect();
    let mut points: Vec<&Scenario> = told.iter().map(|trial| &trial.scenario).collect();
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
                @for point in points { (table(model, &told, point)) }
            }
        }
    }
}

fn is_told(trial: &Trial) -> bool {
    trial.copy == 0 && trial.connections().is_some_and(|all| !all.clients.is_empty())
}

/// Clients or servers of some trials, each with the sums of what it had.
#[derive(Default)]
struct Sums {
    seconds: f64,
    clients: Vec<Member>,
    servers: Vec<Member>,
}

impl Sums {
    fn of(told: &[&Trial], subject: &Subject, point: &Scenario) -> Sums {
        let mut sums = Sums::default();
        let is_one = |trial: &&&Trial| trial.subject == subject.name && trial.scenario == *point;
        for trial in told.iter().filter(is_one) {
            let Some(connections) = trial.connections() else { continue };
            sums.seconds += trial.seconds;
            add_all(&mut sums.clients, &connections.clients);
            add_all(&mut sums.servers, &connections.servers);
        }
        sums
    }

    /// Every row with what it is called, both sides behind their members.
    fn rows(&self) -> Vec<(String, Member)> {
        let sides = [("client", &self.clients), ("server", &self.servers)];
        let rows = sides.into_iter().flat_map(|(name, members)| {
            let mut all = Member::default();
            members.iter().for_each(|member| add(&mut all, member));
            let numbered = (1..).zip(members).map(move |(n, one)| (format!("{name} {n}"), *one));
            let together = (members.len() > 1).then(|| (format!("all {name}s"), all));
            numbered.chain(together)
        });
        rows.collect()
    }
}

fn add(sum: &mut Member, other: &Member) {
    sum.connections += other.connections;
    sum.from.add(other.from);
    sum.to.add(other.to);
}

fn add_all(sums: &mut Vec<Member>, others: &[Member]) {
    sums.resize(others.len(), Member::default());
    sums.iter_mut().zip(others).for_each(|(sum, other)| add(sum, other));
}

fn table(model: &ReportModel<'_>, told: &[&Trial], point: &Scenario) -> Markup {
    let subjects = model.record.run.subjects.iter();
    let sums: Vec<(&Subject, Sums)> = subjects
        .map(|subject| (subject, Sums::of(told, subject, point)))
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
                        @for (who, member) in sums.rows() {
                            @let a_second = |count: u64| rate(count as f64 / sums.seconds);
                            tr {
                                td { (label(subject)) }
                                th scope="row" { (who) }
                                td.right { (a_second(member.connections)) }
                                td.right { (a_second(member.from.packets)) }
                                td.right { (a_second(member.to.packets)) }
                                td.right { (a_second(8 * member.from.bytes)) }
                                td.right { (a_second(8 * member.to.bytes)) }
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
    use weir_stats::Volume;

    #[test]
    fn members_are_summed_and_both_sides_have_a_total() {
        let member = |connections, bytes| Member {
            connections,
            from: Volume { packets: 4 * connections, bytes },
            to: Volume::default(),
        };
        let mut sums = Sums { seconds: 2.0, ..Sums::default() };
        for _ in 0..2 {
            add_all(&mut sums.clients, &[member(3, 100), member(5, 200)]);
            add_all(&mut sums.servers, &[member(8, 0)]);
        }
        let rows = sums.rows();
        let names: Vec<&str> = rows.iter().map(|(who, _)| who.as_str()).collect();
        assert_eq!(names, ["client 1", "client 2", "all clients", "server 1"]);
        assert_eq!((rows[2].1.connections, rows[2].1.from.bytes), (16, 600));
        assert_eq!(rows[3].1.connections, 16);
    }
}
