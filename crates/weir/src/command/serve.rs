//! `weir serve`: metrics for Prometheus, over HTTP or as a file.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use weir_apply::counter_listing::OriginalCounterReader;
use weir_apply::firewall_metrics::read_firewall_metrics;

use super::YesNoExitStatus;
use super::generations::call_in_selected_namespace;
use crate::atomic_file_replacement::replace_without_following_link;
use crate::cli::ServeArgs;
use crate::http_server::{HttpReply, HttpRequest, serve_requests};
use crate::metrics_text::{METRICS_MEDIA_TYPE, UNREADABLE_METRICS, render_metrics};
use crate::terminal;

/// The path of the metrics.
const METRICS_PATH: &str = "/metrics";

/// Reads the metrics of a network namespace whenever they are requested.
struct MetricsSource<'a> {
    args: &'a ServeArgs,
    /// Readings take turns: each uses the files that the one before parsed.
    reader: Mutex<OriginalCounterReader>,
}

impl MetricsSource<'_> {
    fn render(&self) -> Result<String> {
        call_in_selected_namespace(&self.args.place, |state| {
            // A reading that panicked left no file half parsed.
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            render_metrics(&read_firewall_metrics(state, &mut reader)?, self.args.key)
        })
    }

    fn answer(&self, request: &HttpRequest<'_>, is_loopback: bool) -> HttpReply {
        // A page of another site must not read this host's metrics by DNS rebinding.
        if is_loopback && !request.is_loopback_host() {
            return HttpReply::plain_text(
                "403 Forbidden",
                "use the host name 127.0.0.1, [::1] or localhost",
            );
        }
        if request.path != METRICS_PATH {
            return HttpReply::plain_text("404 Not Found", "the metrics are at /metrics");
        }
        match self.render() {
            Ok(text) => HttpReply {
                status: "200 OK",
                media_type: METRICS_MEDIA_TYPE,
                body: text.into_bytes().into(),
                refresh_seconds: None,
            },
            Err(error) => HttpReply::plain_text("500 Internal Server Error", &format!("{error:#}")),
        }
    }
}

/// Serves metrics until the process is killed.
///
/// # Errors
/// Where they cannot be read or written at the start: later errors are printed, and the next
/// reading tries again.
pub fn serve_metrics_until_killed(args: &ServeArgs) -> Result<YesNoExitStatus> {
    let reader = Mutex::new(OriginalCounterReader::new(&args.place.state));
    let source = MetricsSource { args, reader };
    // An error of the command line is reported before anything is served.
    let first = source.render()?;
    let listener = match args.metrics {
        Some(address) => Some(TcpListener::bind(address).with_context(|| {
            format!("listen on {address}; --metrics takes another address or port")
        })?),
        None => None,
    };
    if let Some(file) = &args.textfile {
        let written = replace_without_following_link(file, first.as_bytes());
        written.with_context(|| format!("write {}", file.display()))?;
    }
    let mut is_loopback = false;
    if let Some(listener) = &listener {
        let address = listener.local_addr().context("read the address of the socket")?;
        is_loopback = address.ip().is_loopback();
        let url = format!("http://{address}{METRICS_PATH} (Ctrl-C ends it)\n");
        terminal::print_escaped_if_terminal(&url)?;
    }
    thread::scope(|scope| {
        if args.textfile.is_some() {
            scope.spawn(|| write_textfile_again_and_again(&source));
        }
        if let Some(listener) = &listener {
            serve_requests(listener, |request| source.answer(request, is_loopback));
        }
    });
    Ok(YesNoExitStatus::Yes)
}

fn write_textfile_again_and_again(source: &MetricsSource<'_>) {
    let Some(file) = &source.args.textfile else { return };
    loop {
        thread::sleep(source.args.interval);
        let report = |error: anyhow::Error| {
            terminal::print_escaped_to_stderr(&format!("weir: {error:#}\n"));
        };
        // After an error, old counts must not look like new ones.
        let text = source.render().unwrap_or_else(|error| {
            report(error);
            UNREADABLE_METRICS.to_owned()
        });
        if let Err(error) = replace_without_following_link(file, text.as_bytes()) {
            report(anyhow::Error::new(error).context(format!("write {}", file.display())));
        }
    }
}
