//! The drawings of connections: rate, packets, concurrent connections.

use std::collections::BTreeSet;

use maud::{Markup, html};
use weir_stats::{Quantity, Scenario};

use super::rate_and_load_time_plots::{self, SMALL_LAYOUT};
use crate::chart::{ChartTitlesAndUnit, log_line_chart, subject_row_chart};
use crate::number_format::ValueUnit;
use crate::report_model::{ReportModel, axis_title_or_name};

/// What is drawn, where it was measured.
const DRAWN_QUANTITIES: [(Quantity, &str, &str, &str); 9] = [
    (
        Quantity::ConnectionsPerSecond,
        "connections",
        "Complete connections per second",
        "connections/s",
    ),
    (
        Quantity::ConnectionsResetPerSecond,
        "connections-reset",
        "Connections per second, closed by RST",
        "connections/s",
    ),
    (Quantity::HandshakesPerSecond, "handshakes", "Handshakes per second", "handshakes/s"),
    (
        Quantity::ConnectionPackets,
        "connection-packets",
        "Packets per second of these connections",
        "packets/s",
    ),
    (Quantity::SocketsPerSecond, "sockets", "Replies per second between sockets", "replies/s"),
    (Quantity::PacketsPerReply, "packets", "Packets a reply", "packets"),
    (Quantity::ClientReplyNsMean, "reply", "Mean response time, as measured by the client", "ns"),
    (Quantity::ConnectionsHeld, "held", "Connections held at once", "connections"),
    (Quantity::BytesPerConnection, "bytes", "Memory a connection", "bytes"),
];

/// Names of the programs that replaced weir's own clients.
fn external_client_names<'a>(model: &ReportModel<'a>) -> Vec<&'a str> {
    let connections = model.record.trials.iter().filter_map(|trial| trial.connection_counts());
    let clients = connections.filter_map(|connections| connections.client.as_ref());
    let of_program = clients.filter(|client| !client.response_times.is_empty());
    let names: BTreeSet<&str> = of_program.map(|client| client.name.as_str()).collect();
    names.into_iter().collect()
}

/// All of them; nothing where the study opened none.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let anywhere = Scenario::default();
    let drawn: Vec<_> = DRAWN_QUANTITIES
        .into_iter()
        .map(|(quantity, id, title, y_title)| {
            (id, title, y_title, model.chart_series(quantity, &anywhere))
        })
        .filter(|(.., series)| !series.is_empty())
        .collect();
    let Some((.., first)) = drawn.first() else { return html! {} };
    let outside = external_client_names(model);
    html! {
        section #connections {
            h2 { "Connections" }
            p.about {
                "Each was opened, used and closed as the method draws it; request and reply were "
                "compared byte by byte at both ends."
                @if !outside.is_empty() {
                    " What " (outside.join(", ")) " say is their own: replies of the right length "
                    "and status, and times from when a request was sent."
                }
            }
            (rate_and_load_time_plots::render_legend(model, first.iter().map(|one| one.subject_index)))
            div.pair {
                @for (id, title, y_title, series) in &drawn {
                    @let caption = ChartTitlesAndUnit {
                        id,
                        title,
                        description: "Values by subject; the records have each trial.",
                        x_title: model.numeric_axis.map_or("", |axis| axis_title_or_name(axis)),
                        y_title,
                        unit: ValueUnit::Rate,
                    };
                    div {
                        h3 { (title) }
                        @if let Some(axis) = model.numeric_axis {
                            figure data-plot=(axis.name) {
                                (log_line_chart::draw_log_line_chart(&caption, SMALL_LAYOUT, series, series))
                            }
                        } @else {
                            figure { (subject_row_chart::draw_subject_row_chart(&caption, "small", SMALL_LAYOUT.size.width, series)) }
                        }
                    }
                }
            }
        }
    }
}
