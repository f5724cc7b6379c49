//! `weir lab run` if the hosts' file names kernels: a run per kernel, and one page about all.

use std::path::Path;

use anyhow::Result;
use weir_lab::schedule::kernels::PerKernel;
use weir_stats::Record;

use super::{Answer, lab_runs};
use crate::live::Live;
use crate::terminal;

/// Runs the study on each kernel and writes the pages: of each run, and of all of them.
pub fn run(output: &Path, kernels: &PerKernel) -> Result<Answer> {
    let mut runs: Vec<(String, Record)> = Vec::new();
    for one in kernels.runs() {
        let mut live = Live::new();
        let record = kernels.run(one, &mut |progress| live.show(&progress))?;
        drop(live);
        let kernel = &record.run.firewall().kernel;
        for (other, _) in runs.iter().filter(|(_, run)| run.run.firewall().kernel == *kernel) {
            eprintln!("weir: {other} and {} ran the same kernel release, {kernel}", one.name);
        }
        runs.push((one.name.clone(), record));
        let last = lab_runs::named(&runs).split_off(runs.len() - 1);
        lab_runs::write_page(&one.folder.join(lab_runs::PAGE), &last, &[])?;
    }
    lab_runs::write_page(&output.join(lab_runs::PAGE), &lab_runs::named(&runs), &[])?;
    terminal::print(&lab_runs::summary(&runs))
}
