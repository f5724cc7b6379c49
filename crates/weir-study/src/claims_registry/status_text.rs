//! Statuses, runs and estimates as text: the tables of READMEs, and sentences about A/A tests.

use weir_stats::aa_test::{AaStatistic, AaTestRecord};

use super::estimate_text::format_estimate;
use super::kept_runs::{KeptRun, format_cpu_for_reader};
use super::statement_status::{ClaimEvidence, StatementStatus, StatementWithStatus};
use super::study_statements::StudyStatements;

/// Where the list of a README begins.
pub const README_LIST_START_MARKER: &str = "<!-- weir lab list -->";
/// Where it ends.
pub const README_LIST_END_MARKER: &str = "<!-- /weir lab list -->";

/// The kept runs of a study, and its items as the tables of its README: what the paper says, and
/// weir's own claims.
pub fn render_study_markdown_tables(entry: &StudyStatements) -> String {
    let mut text = String::new();
    for kept in &entry.runs {
        text.push_str(&format!("- {}\n", describe_kept_run(kept)));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    if !entry.items.is_empty() {
        text.push_str("| | where | what the paper says | its value | here |\n");
        text.push_str("|---|---|---|---|---|\n");
        for item in &entry.items {
            let stated = item.stated.as_deref().unwrap_or("");
            let (number, place, says) = (&item.number, &item.place, &item.text);
            let line = format!(
                "| **{number}** | {place} | {says} | {stated} | {} |\n",
                format_statement_status(item)
            );
            text.push_str(&line);
        }
    }
    if !entry.own.is_empty() {
        text.push_str(if entry.items.is_empty() { "" } else { "\n" });
        text.push_str("| weir's own claims | here |\n|---|---|\n");
        for item in &entry.own {
            text.push_str(&format!("| {} | {} |\n", item.text, format_statement_status(item)));
        }
    }
    text
}

/// The status with what it rests on.
pub fn format_statement_status(item: &StatementWithStatus) -> String {
    match format_statement_evidence(item) {
        evidence if evidence.is_empty() => item.status.to_string(),
        evidence => format!("{}: {evidence}", item.status),
    }
}

/// What a status rests on: its reason, or its numbers, of which processor, and why they do not
/// decide.
pub fn format_statement_evidence(item: &StatementWithStatus) -> String {
    let numbers = item.evidence.iter().filter_map(format_claim_number);
    item.why.iter().cloned().chain(numbers).collect::<Vec<_>>().join("; ")
}

/// The number of a claim with its processor, the reasons if it is undecided, and what other runs
/// measured.
fn format_claim_number(evidence: &ClaimEvidence) -> Option<String> {
    let mut text = format_estimate(evidence.estimate.as_ref()?);
    if let Some(cpu) = &evidence.cpu {
        text.push_str(&format!(" on {cpu}"));
    }
    if evidence.status == StatementStatus::Undecided {
        let reasons: Vec<String> = evidence.shortcomings.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" ({})", reasons.join("; ")));
    }
    for other in &evidence.other_runs {
        let (number, cpu) = (format_estimate(&other.estimate), &other.cpu);
        text.push_str(&format!(", and {number} on {cpu}"));
    }
    Some(text)
}

/// A run with its machine, its noise floor and its given-up trials, as a sentence without a full
/// stop.
pub fn describe_kept_run(kept: &KeptRun) -> String {
    let quality = &kept.quality;
    let floor = match &quality.noise_floor {
        Some(floor) => format!("noise floor {:.3} to {:.3}", floor.lo, floor.hi),
        None => "noise floor not measured".to_owned(),
    };
    format!(
        "`{}`: {}, Linux {}, preset {}, {floor}, {} of {} accepted trials given up",
        kept.folder,
        format_cpu_for_reader(&quality.cpu_model),
        kept.kernel,
        kept.preset,
        quality.given_up_trials,
        quality.accepted_trials
    )
}

/// The result of a subject against itself, as a sentence.
pub fn describe_aa_test(kept: &AaTestRecord) -> String {
    let AaTestRecord { date, subject, preset, result, .. } = kept;
    let of = result.repetitions;
    let found = match result.statistic {
        AaStatistic::MedianInterval => format!(
            "the interval excluded 1 at {} of {} points in {of} repetitions; about 5 % are \
             expected by chance",
            result.points_different, result.points
        ),
        AaStatistic::StudentT => format!(
            "a difference was reported in {} of {of} repetitions by Student's t, which decides no \
             claim",
            result.different
        ),
    };
    let doubt = if result.passes() { "" } else { ": the method is in doubt here" };
    let day = date.get(..10).unwrap_or(date);
    format!("{subject} against itself: {found} (preset {preset}, {day}){doubt}")
}
