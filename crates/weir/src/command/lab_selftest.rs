//! `weir lab selftest`: the performance of the laboratory itself on this machine.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use weir_lab::selftest;

use super::YesNoExitStatus;
use crate::cli::LabSelftestArgs;
use crate::json_output;
use crate::terminal::{self, TerminalProgress};

/// Measures the laboratory itself. No where something was lost.
pub fn run_and_print_self_test(args: &LabSelftestArgs) -> Result<YesNoExitStatus> {
    ensure!(
        (0.01..=60.0).contains(&args.trial),
        "--trial {}: must be from 0.01 to 60 seconds",
        args.trial
    );
    ensure!(args.forward_reverse_blocks > 0, "--blocks 0: must be at least 1");
    let options = selftest::SelfTestOptions {
        trial_duration: Duration::from_secs_f64(args.trial),
        forward_reverse_blocks: args.forward_reverse_blocks,
    };
    let bar = TerminalProgress::new();
    let mut done = 0;
    let total =
        u64::from(args.forward_reverse_blocks + 1) * 2 * selftest::SELF_TEST_PART_COUNT as u64;
    let report = selftest::run_self_test(&options, &mut |message| {
        bar.show_with_time_left(message, done, total, None);
        done += 1;
    })?;
    drop(bar);
    let is_whole =
        report.parts.iter().all(selftest::SelfTestMeasurement::is_delivered_and_completed);
    if args.json {
        terminal::print_escaped_if_terminal(&json_output::render_json_object(
            "lab selftest",
            &report,
        )?)?;
    } else {
        terminal::print_escaped_if_terminal(&render_self_test_report(&report))?;
    }
    Ok(if is_whole { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

fn render_self_test_report(report: &selftest::SelfTestReport) -> String {
    let mut text = format!(
        "{:<32} {:>10} {:>13} {:>12} {:>12} {:>8} {:>7}\n",
        "", "packets/s", "connections/s", "offered", "delivered", "dropped", "missing"
    );
    for part in &report.parts {
        let _ = writeln!(
            text,
            "{:<32} {:>10.0} {:>13.0} {:>12} {:>12} {:>8} {:>7}",
            part.name,
            part.median_delivered_pps,
            part.connections_per_second,
            part.offered,
            part.delivered,
            part.dropped,
            part.unaccounted_packets()
        );
    }
    if let Some(ratio) = &report.untracked_to_tracked_rate_ratio {
        let _ = writeln!(
            text,
            "rate of connections without tracking relative to tracking: {:.2} (95 %: {:.2} to \
             {:.2})",
            ratio.value, ratio.lo, ratio.hi
        );
    }
    if let Some(ratio) = &report.frame_to_connection_pps_ratio {
        let _ = writeln!(
            text,
            "time per packet of a connection relative to a frame through the same kind of router: \
             {:.2} (95 %: {:.2} to {:.2})",
            ratio.value, ratio.lo, ratio.hi
        );
    }
    text + &format!("generator: {}\n", report.scheduling)
}
