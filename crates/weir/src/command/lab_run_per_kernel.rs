//! `weir lab run` if the hosts' file names kernels: a run per kernel, and one page about all.

use std::path::Path;

use anyhow::Result;
use weir_lab::schedule::per_kernel_runs::PerKernelStudy;
use weir_stats::RunRecord;

use super::{YesNoExitStatus, lab_run_reports};
use crate::run_progress::RunProgressDisplay;
use crate::terminal;

/// Runs the study on each kernel and writes the pages: of each run, and of all of them.
pub fn run_study_per_kernel(output: &Path, kernels: &PerKernelStudy) -> Result<YesNoExitStatus> {
    let mut runs: Vec<(String, RunRecord)> = Vec::new();
    for one in kernels.kernel_runs() {
        let mut live = RunProgressDisplay::new();
        let record = kernels.boot_and_run_unless_complete(one, &mut |progress| {
            live.update_bar_and_subject_lines(&progress)
        })?;
        drop(live);
        let kernel = &record.run.firewall_environment().kernel;
        for (other, _) in
            runs.iter().filter(|(_, run)| run.run.firewall_environment().kernel == *kernel)
        {
            terminal::print_escaped_to_stderr(&format!(
                "weir: {other} and {} ran the same kernel release, {kernel}\n",
                one.name
            ));
        }
        runs.push((one.name.clone(), record));
        let last = lab_run_reports::to_named_runs(&runs).split_off(runs.len() - 1);
        lab_run_reports::write_report_page(
            &one.folder.join(lab_run_reports::REPORT_FILE),
            &last,
            &[],
        )?;
    }
    lab_run_reports::write_report_page(
        &output.join(lab_run_reports::REPORT_FILE),
        &lab_run_reports::to_named_runs(&runs),
        &[],
    )?;
    terminal::print_escaped_if_terminal(&lab_run_reports::render_run_summaries(&runs))
}
