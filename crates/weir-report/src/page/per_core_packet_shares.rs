//! Packets per core, if more than one core took part.

use maud::{Markup, html};
use weir_stats::core_packet_shares::CorePacketTotals;
use weir_stats::{RunSubject, Trial, TrialKind};

use crate::number_format::format_percent;
use crate::report_model::{ReportModel, subject_label};

/// A table of shares; nothing where one core did it all.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let of_connections =
        |trial: &&Trial| trial.kind == TrialKind::Connections && trial.copy_index == 0;
    let trials: Vec<&Trial> = model.accepted_trials().filter(of_connections).collect();
    let all = CorePacketTotals::from_trials(trials.iter().copied());
    let rows: Vec<(&RunSubject, CorePacketTotals)> = model
        .record
        .run
        .subjects
        .iter()
        .map(|subject| {
            let own = trials.iter().copied().filter(|trial| trial.subject == subject.name);
            (subject, CorePacketTotals::from_trials(own))
        })
        .filter(|(_, work)| !work.is_empty())
        .collect();
    let is_shared = rows.iter().any(|(_, work)| work.busy_core_count() > 1);
    html! {
        @if is_shared {
            section #cores {
                h2 { "Packets per core" }
                p.about { "Share of the packets that each core handled, over all trials that \
                     count." }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th { "subject" }
                                @for core in all.core_numbers() { th.right { "core " (core) } }
                            }
                        }
                        tbody {
                            @for (subject, work) in &rows {
                                tr {
                                    td { (subject_label(subject)) }
                                    @for core in all.core_numbers() {
                                        td.right { (format_percent(work.packet_share(core))) }
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
