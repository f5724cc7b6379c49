//! `weir lab`: studies to records, records to reports.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use weir_backends::artefact;
use weir_lab::RunOptions;
use weir_report::{Extra, ExtraTable};
use weir_stats::folder;
use weir_verify::VerifyReport;

use super::Answer;
use crate::cli::{LabReport, LabRun};
use crate::terminal::{self, Progress};

/// Runs a study and writes its report beside the records.
pub fn run(args: &LabRun) -> Result<Answer> {
    let words: Vec<String> = std::env::args().collect();
    let options = RunOptions {
        preset: args.preset.clone(),
        seed: args.seed,
        weir: std::env::current_exe().context("find this program")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: words.join(" "),
        core: None,
        realtime: true,
    };
    let bar = Progress::new();
    let record = weir_lab::run(&args.study, &args.output, &options, &mut |progress| {
        bar.show_left(progress.message, progress.done, progress.total, progress.left);
    })?;
    drop(bar);
    write_page(&args.output, None, &record, &[])?;
    terminal::print(&weir_report::summary(&record))
}

/// Writes the page of a run.
pub fn report(args: &LabReport) -> Result<Answer> {
    let record = folder::load(&args.run)?;
    let mut extras = Vec::new();
    if !args.artefact.is_empty() {
        extras.push(artefacts(&args.artefact)?);
    }
    for path in &args.verified {
        extras.push(verified(path)?);
    }
    write_page(&args.run, args.output.as_deref(), &record, &extras)?;
    terminal::print(&weir_report::summary(&record))
}

fn write_page(
    run: &Path,
    output: Option<&Path>,
    record: &folder::Record,
    extras: &[Extra],
) -> Result<()> {
    let path = output.map_or_else(|| run.join("report.html"), Path::to_owned);
    fs::write(&path, weir_report::page(record, extras))
        .with_context(|| format!("write {}", path.display()))
}

/// What manifests say of compiled forms, as a section.
fn artefacts(dirs: &[std::path::PathBuf]) -> Result<Extra> {
    let mut rows = Vec::new();
    for dir in dirs {
        let manifest = artefact::read_manifest(dir)?;
        let rules: u32 = manifest.compiled.iter().map(|run| run.rules).sum();
        rows.push(vec![
            manifest.form,
            rules.to_string(),
            manifest.compiled.len().to_string(),
            manifest.barriers.len().to_string(),
            format!("{:.1}", manifest.memory_bytes as f64 / (1024.0 * 1024.0)),
            manifest.checked.packets.to_string(),
        ]);
    }
    let columns = [
        "form",
        "rules compiled",
        "runs",
        "rules left in place",
        "kernel memory, MiB (estimated)",
        "packets checked before writing",
    ];
    let caption = "Each form was compared with the original before it was written.".to_owned();
    let table = ExtraTable { caption, columns: columns.map(str::to_owned).to_vec(), rows };
    Ok(Extra { title: "The forms".to_owned(), paragraphs: Vec::new(), tables: vec![table] })
}

/// What `weir verify --json` found, as a section.
fn verified(path: &Path) -> Result<Extra> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    let report: VerifyReport =
        serde_json::from_str(&text).with_context(|| format!("read {name}"))?;
    let ways = report.ways.iter().map(|way| {
        vec![
            way.name.clone(),
            way.compared.to_string(),
            way.verdict_differences.to_string(),
            way.counter_differences.to_string(),
            way.named.values().sum::<u64>().to_string(),
        ]
    });
    let columns =
        ["ruleset", "packets", "verdicts that differ", "counters that differ", "named deviations"];
    let compared = ExtraTable {
        caption: "Each packet went through the kernel and through the interpreter.".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: ways.collect(),
    };
    let excluded = ExtraTable {
        caption: "Packets that were made and not compared".to_owned(),
        columns: vec!["cause".to_owned(), "packets".to_owned()],
        rows: report.excluded.iter().map(|(k, v)| vec![k.clone(), v.to_string()]).collect(),
    };
    Ok(Extra {
        title: "Compared in the kernel".to_owned(),
        paragraphs: report.not_compared.clone(),
        tables: vec![compared, excluded],
    })
}
