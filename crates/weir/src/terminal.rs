//! Terminal output: colours, control characters, a closed standard output, progress on standard
//! error. Nothing else in this crate writes to the two streams.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_model::Family;
use weir_syntax::escape_control_chars;

use crate::cli::ColorOption;
use crate::command::YesNoExitStatus;

/// Whether text is coloured: one value for each stream that it is printed to.
#[derive(Clone, Copy, Debug)]
pub struct ColoredStreams {
    /// On standard output.
    pub stdout: bool,
    /// On standard error.
    pub stderr: bool,
}

impl ColoredStreams {
    /// <https://no-color.org>: NO_COLOR wins over a terminal, a flag wins over both.
    pub fn from_color_option(when: ColorOption) -> ColoredStreams {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let on = |is_terminal: bool| match when {
            ColorOption::Always => true,
            ColorOption::Never => false,
            ColorOption::Auto => !plain && is_terminal,
        };
        ColoredStreams {
            stdout: on(io::stdout().is_terminal()),
            stderr: on(io::stderr().is_terminal()),
        }
    }
}

/// Writes words for people to standard output. Control characters are written out: names and
/// comments of a ruleset may hold any.
pub fn print_escaped_to_stdout(text: &str) -> Result<YesNoExitStatus> {
    print_bytes_to_stdout(escape_control_chars(text).as_bytes())
}

/// Writes text for programs to standard output in one piece: as it is to a file or a pipe, with
/// control characters written out to a terminal.
pub fn print_escaped_if_terminal(text: &str) -> Result<YesNoExitStatus> {
    print_bytes_to_stdout(escape_if_terminal(text, io::stdout().is_terminal()).as_bytes())
}

/// Writes coloured text to standard output. Other control characters must have been written out.
pub fn print_colored_to_stdout(text: &str) -> Result<YesNoExitStatus> {
    print_bytes_to_stdout(text.as_bytes())
}

/// Writes words for people to standard error, as [`print_escaped_to_stdout`].
pub fn print_escaped_to_stderr(text: &str) {
    print_colored_to_stderr(&escape_control_chars(text));
}

/// Writes words for people to standard error while a progress bar may be drawn there.
pub fn print_below_progress(text: &str) {
    let line_end = if io::stderr().is_terminal() { "\n" } else { "" };
    print_colored_to_stderr(&format!("{line_end}{}", escape_control_chars(text)));
}

/// Writes coloured text to standard error, as [`print_colored_to_stdout`]: diagnostics, for
/// example, whose renderer writes control characters out.
///
/// A reader that went away is no reason to end the command: what it does goes on, and its exit
/// status says how it ended.
pub fn print_colored_to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn escape_if_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { escape_control_chars(text) } else { Cow::Borrowed(text) }
}

/// Writes bytes to standard output in one piece.
pub fn print_bytes_to_stdout(bytes: &[u8]) -> Result<YesNoExitStatus> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(YesNoExitStatus::Yes)
}

/// Whether the reader of our output went away (`weir … | head`), which is not an error.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The family, for progress.
pub const fn ip_version_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// A bar with time left on standard error; hidden where that is not a terminal.
pub struct TerminalProgress {
    bar: ProgressBar,
}

impl TerminalProgress {
    /// An empty bar.
    pub fn new() -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(8);
        let progress = TerminalProgress::with_progress_style(ProgressBar::with_draw_target(
            Some(1000),
            target,
        ));
        // A proof may report nothing for a long time.
        progress.bar.enable_steady_tick(Duration::from_secs(1));
        progress
    }

    /// An empty bar below the lines of others.
    pub fn new_below_lines(lines: &MultiProgress) -> Self {
        TerminalProgress::with_progress_style(lines.add(ProgressBar::new(1000)))
    }

    fn with_progress_style(bar: ProgressBar) -> Self {
        let style = "{elapsed_precise} [{bar:30}] {percent:>3} % {msg}";
        bar.set_style(
            ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        TerminalProgress { bar }
    }

    /// What is being done, and how much of the whole is done (0.0 to 1.0).
    pub fn show_done_fraction(&self, what: &str, done: f64) {
        self.bar.set_message(what.to_owned());
        self.bar.set_position((done.clamp(0.0, 1.0) * 1000.0) as u64);
    }
}

impl TerminalProgress {
    /// As [`show_done_fraction`](TerminalProgress::show_done_fraction), with the remaining time as
    /// the caller estimates it.
    pub fn show_with_time_left(&self, what: &str, done: u64, total: u64, left: Option<Duration>) {
        let what = match left {
            Some(left) => format!("{what} ({} s left)", left.as_secs()),
            None => what.to_owned(),
        };
        self.show_done_fraction(&what, done as f64 / total.max(1) as f64);
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
