//! Which core did what, where more than one did.

use std::collections::BTreeMap;

use maud::{Markup, html};
use weir_stats::{Kind, Subject, Trial};

use crate::number::percent;
use crate::report_model::{ReportModel, label};

/// A core that took less is no part of the work: what else runs has packets, too.
const A_PART: f64 = 0.05;

/// Packets by core.
type Work = BTreeMap<u32, u64>;

/// A table of shares; nothing where one core did it all.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
    let of_connections = |trial: &&Trial| trial.kind == Kind::Connections && trial.copy == 0;
    let trials: Vec<&Trial> = model.accepted().filter(of_connections).collect();
    let all = work(trials.iter().copied());
    let rows: Vec<(&Subject, Work)> = model
        .record
        .run
        .subjects
        .iter()
        .map(|subject| {
            let own = trials.iter().copied().filter(|trial| trial.subject == subject.name);
            (subject, work(own))
        })
        .filter(|(_, work)| !work.is_empty())
        .collect();
    let is_shared = rows.iter().any(|(_, work)| parts(work) > 1);
    html! {
        @if is_shared {
            section #cores {
                h2 { "Which core did what" }
                p.about { "Shares of the packets that the stack took, over all trials that count." }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th { "subject" }
                                @for core in all.keys() { th.right { "core " (core) } }
                            }
                        }
                        tbody {
                            @for (subject, work) in &rows {
                                tr {
                                    td { (label(subject)) }
                                    @for core in all.keys() {
                                        td.right { (percent(share(work, *core))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn work<'a>(trials: impl Iterator<Item = &'a Trial>) -> Work {
    let mut work = Work::new();
    for core in trials.flat_map(|trial| &trial.collected.cores) {
        *work.entry(core.core).or_default() += core.packets;
    }
    work
}

fn share(work: &Work, core: u32) -> f64 {
    let all: u64 = work.values().sum();
    work.get(&core).copied().unwrap_or(0) as f64 / all.max(1) as f64
}

/// Cores that took a part.
fn parts(work: &Work) -> usize {
    work.keys().filter(|core| share(work, **core) >= A_PART).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shared_where_a_second_core_has_a_part() {
        assert_eq!(parts(&Work::from([(0, 3), (1, 997)])), 1);
        assert_eq!(parts(&Work::from([(0, 300), (1, 700)])), 2);
        assert_eq!(share(&Work::from([(0, 300), (1, 700)]), 1), 0.7);
        assert_eq!(parts(&Work::new()), 0);
    }
}
