//! `weir lab`: studies to records, records to reports.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use weir_lab::schedule::per_kernel_runs::PerKernelStudy;
use weir_lab::{AA_TEST_REPETITIONS, StudyRunOptions};
use weir_report::{ExtraSection, ExtraTable, NamedRun};
use weir_stats::aa_test::{self, AaTestRecord};
use weir_stats::run_comparison::{self, ChangeClass};
use weir_stats::run_folder;
use weir_study::AA_PRESET_NAME;
use weir_study::claims_registry;
use weir_verify::VerifyReport;

use super::{YesNoExitStatus, lab_run_per_kernel, lab_run_reports};
use crate::cli::{LabCompareArgs, LabReportArgs, LabRunArgs};
use crate::run_progress::RunProgressDisplay;
use crate::{json_output, terminal};

/// Runs a study and writes its report next to the records.
pub fn run_study_and_write_report(args: &LabRunArgs) -> Result<YesNoExitStatus> {
    let words: Vec<String> = std::env::args().collect();
    let usual = if args.against_itself.is_some() { AA_PRESET_NAME } else { "quick" };
    let options = StudyRunOptions {
        preset: args.preset.clone().unwrap_or_else(|| usual.to_owned()),
        seed: args.seed,
        weir_program: std::env::current_exe().context("find this program")?,
        command: words.join(" "),
        resume: args.resume,
        against_itself: args.against_itself.clone(),
        allow_global: args.allow_global,
        search: args.search_allowed_loss.map(crate::cli::SearchLossArg::to_search_goal),
        hosts: args.hosts.clone(),
        ..StudyRunOptions::default()
    };
    if let Some(kernels) = PerKernelStudy::new(&args.study, &args.output, &options)? {
        return lab_run_per_kernel::run_study_per_kernel(&args.output, &kernels);
    }
    let mut live = RunProgressDisplay::new();
    let record = weir_lab::execute_study(&args.study, &args.output, &options, &mut |progress| {
        live.update_bar_and_subject_lines(&progress);
    })?;
    drop(live);
    let page = args.output.join(lab_run_reports::REPORT_FILE);
    lab_run_reports::write_report_page(&page, &[NamedRun { name: "", record: &record }], &[])?;
    if let Some(subject) = &args.against_itself {
        return evaluate_and_write_aa_test(args, &record, subject);
    }
    terminal::print_escaped_if_terminal(&weir_report::render_summary(&record))
}

/// Answers the machine that measures, on standard input and output.
pub fn run_firewall_host_agent() -> Result<YesNoExitStatus> {
    let weir_version = StudyRunOptions::default().weir_version;
    weir_lab::host::agent::run_agent(
        &weir_version,
        std::io::stdin().lock(),
        std::io::stdout().lock(),
    )?;
    Ok(YesNoExitStatus::Yes)
}

/// Says how often a subject came out different from itself, and writes it next to the records and,
/// where it is to be kept, into the study's folder.
fn evaluate_and_write_aa_test(
    args: &LabRunArgs,
    record: &run_folder::RunRecord,
    subject: &str,
) -> Result<YesNoExitStatus> {
    let run = &record.run;
    let kept = AaTestRecord {
        date: run.date.clone(),
        subject: subject.to_owned(),
        preset: run.preset.name.clone(),
        seed: run.seed,
        weir: run.weir.clone(),
        result: aa_test::evaluate_aa_test_of_block_groups(
            &record.trials,
            subject,
            AA_TEST_REPETITIONS as usize,
        ),
    };
    let text = format!("{}\n", serde_json::to_string_pretty(&kept)?);
    let mut folders = vec![args.output.as_path()];
    if args.save_aa_result_in_study {
        folders.push(study_folder(&args.study));
    }
    for path in folders.iter().map(|folder| folder.join(claims_registry::AA_TEST_FILE)) {
        fs::write(&path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    terminal::print_escaped_if_terminal(&format!(
        "{}\n",
        claims_registry::describe_aa_test(&kept)
    ))?;
    Ok(if kept.result.passes() { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

/// The folder of a study that is named by its folder or its file.
fn study_folder(study: &Path) -> &Path {
    let parent = study.parent().filter(|_| !study.is_dir());
    parent
        .map_or(study, |parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Compares two runs of a study, and says no where something became worse.
pub fn compare_runs_and_print(args: &LabCompareArgs) -> Result<YesNoExitStatus> {
    ensure!(
        args.margin_fraction > 0.0 && args.margin_fraction < 1.0,
        "--margin {}: must be above 0 and below 1",
        args.margin_fraction
    );
    let (first, second) = (
        run_folder::load_record_recomputing_claims(&args.first)?,
        run_folder::load_record_recomputing_claims(&args.second)?,
    );
    lab_run_reports::ensure_same_study((&args.first, &first), (&args.second, &second))?;
    let points = run_comparison::compare_runs(
        &first,
        &second,
        args.margin_fraction,
        args.compare_absolute_rates,
    );
    ensure!(
        !points.is_empty(),
        "the runs have no point in common that both measured in at least two blocks"
    );
    let worse = points.iter().filter(|point| point.verdict == ChangeClass::Regression).count();
    if args.json {
        terminal::print_escaped_if_terminal(&json_output::render_single_member_json(
            "lab compare",
            "points",
            &points,
        )?)?;
    } else {
        terminal::print_escaped_if_terminal(&render_changed_points_and_totals(&points))?;
    }
    Ok(if worse == 0 { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

/// A line for each point that is not the same, and a sum.
fn render_changed_points_and_totals(points: &[run_comparison::ComparedPoint]) -> String {
    let mut text = String::new();
    for point in points.iter().filter(|point| point.verdict != ChangeClass::Same) {
        let what = point
            .quantity
            .comparison_name_and_direction()
            .map_or(point.quantity.title(), |found| found.name);
        let word = match point.verdict {
            ChangeClass::Regression => "WORSE",
            ChangeClass::Improvement => "better",
            ChangeClass::Same | ChangeClass::Unclear => "unclear",
        };
        let (subject, at, ratio) =
            (&point.subject, &point.scenario, claims_registry::format_estimate(&point.ratio));
        let _ = writeln!(text, "{word:<8} {ratio:<34} {what} of {subject} at {at}");
    }
    let of = |verdict| points.iter().filter(|point| point.verdict == verdict).count();
    let alike = run_comparison::count_points_compatible_with_ratio_one(points);
    let _ = writeln!(
        text,
        "{} points: {} worse, {} better, {} the same, {} unclear\n\
         {alike} of {} ({:.0} %) do not differ: the interval of the difference of log ratios \
         contains 0",
        points.len(),
        of(ChangeClass::Regression),
        of(ChangeClass::Improvement),
        of(ChangeClass::Same),
        of(ChangeClass::Unclear),
        points.len(),
        100.0 * alike as f64 / points.len().max(1) as f64,
    );
    text
}

/// Writes the page of a run, with others next to it.
pub fn write_report(args: &LabReportArgs) -> Result<YesNoExitStatus> {
    let runs = lab_run_reports::load_runs_of_same_study(&args.run, &args.beside)?;
    let mut extras = Vec::new();
    if !args.artefact.is_empty() {
        extras.push(build_artefact_report_section(&args.artefact)?);
    }
    for path in &args.verified {
        extras.push(build_verify_report_section(path)?);
    }
    let path = args.output.clone().unwrap_or_else(|| args.run.join(lab_run_reports::REPORT_FILE));
    lab_run_reports::write_report_page(&path, &lab_run_reports::to_named_runs(&runs), &extras)?;
    terminal::print_escaped_if_terminal(&lab_run_reports::render_run_summaries(&runs))
}

/// What manifests say of compiled forms, as a section.
fn build_artefact_report_section(dirs: &[std::path::PathBuf]) -> Result<ExtraSection> {
    let mut rows = Vec::new();
    for dir in dirs {
        let manifest = weir_artefact::read_manifest(dir)?;
        let rules: u32 = manifest.compiled.iter().map(|run| run.rules).sum();
        rows.push(vec![
            manifest.form.to_string(),
            rules.to_string(),
            manifest.compiled.len().to_string(),
            manifest.share.left.to_string(),
            format!("{:.1}", manifest.memory_bytes as f64 / (1024.0 * 1024.0)),
            manifest.checked.packets.to_string(),
        ]);
    }
    let columns = [
        "form",
        "rules compiled",
        "runs",
        "rules not in the form",
        "kernel memory, MiB (estimated)",
        "packets checked before writing",
    ];
    let caption = "Each form was compared with the original before it was written.".to_owned();
    let table = ExtraTable { caption, columns: columns.map(str::to_owned).to_vec(), rows };
    Ok(ExtraSection { title: "The forms".to_owned(), paragraphs: Vec::new(), tables: vec![table] })
}

/// What `weir verify --json` found, as a section.
fn build_verify_report_section(path: &Path) -> Result<ExtraSection> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    let report: VerifyReport =
        serde_json::from_str(&text).with_context(|| format!("read {name}"))?;
    let ways = report.ways.iter().map(|way| {
        vec![
            way.name.clone(),
            way.compared.to_string(),
            way.verdict_differences.to_string(),
            way.packets_with_counter_difference.to_string(),
            way.named.values().sum::<u64>().to_string(),
        ]
    });
    let columns =
        ["ruleset", "packets", "verdicts that differ", "counters that differ", "named deviations"];
    let compared = ExtraTable {
        caption: "Each packet was sent through the kernel and evaluated by the interpreter."
            .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: ways.collect(),
    };
    let excluded = ExtraTable {
        caption: "Packets that were generated but not compared".to_owned(),
        columns: vec!["cause".to_owned(), "packets".to_owned()],
        rows: report.excluded.iter().map(|(k, v)| vec![k.clone(), v.to_string()]).collect(),
    };
    Ok(ExtraSection {
        title: "Compared in the kernel".to_owned(),
        paragraphs: report.not_compared.clone(),
        tables: vec![compared, excluded],
    })
}
