//! The verdict for a terminal: a sentence and an aligned table.

use std::fmt::Write;

use weir_stats::{RunRecord, RunSubject, TrialState};

use crate::headline_and_trust::{TrustLevel, assess_trust, build_headline};
use crate::number_format::{
    format_interval, format_rate_without_unit, format_ratio, format_ratio_without_times_sign,
};
use crate::report_model::{ReportModel, subject_label};

/// The gains of a run in a few aligned lines, ending with a newline.
///
/// Every subject that was measured at the point of the verdict has a line: packets per second, and
/// its rate relative to the original ruleset, with the interval.
pub fn render_summary(record: &RunRecord) -> String {
    let model = ReportModel::new(record);
    let mut text = sanitize_for_terminal(&build_headline(&model).sentence());
    text.push('\n');
    if let Some(headline) = &model.headline {
        let facet = &model.facets[headline.facet_index].sentence;
        if !facet.is_empty() {
            let _ = writeln!(text, "{}", sanitize_for_terminal(facet));
        }
        let mut rows = vec![[
            "subject".to_owned(),
            model.main_quantity_unit().to_owned(),
            reference_heading(&model),
        ]];
        for subject in &record.run.subjects {
            let Some(estimate) = model.estimate_at(model.quantity, subject, &headline.scenario)
            else {
                continue;
            };
            let gain = match model.estimate_two_subject_ratio(
                subject,
                headline.reference,
                &headline.scenario,
            ) {
                Some(ratio) if subject.name != headline.reference.name => {
                    format!(
                        "{:>6} {}",
                        format_ratio(ratio.value),
                        format_interval(&ratio, format_ratio_without_times_sign)
                    )
                }
                _ => String::new(),
            };
            rows.push([subject_label(subject), format_rate_without_unit(estimate.value), gain]);
        }
        text.push('\n');
        text.push_str(&align_columns(&rows));
    }
    for subject in &record.run.subjects {
        if let Some(why) = explain_unmeasured_subject(record, subject) {
            let line = format!("left out: {}: {why}", subject_label(subject));
            let _ = writeln!(text, "{}", sanitize_for_terminal(&line));
        }
    }
    let (trust, reasons) = assess_trust(&model);
    let badge = trust.badge_text();
    let _ = match (trust, reasons.is_empty()) {
        (_, true) => writeln!(text, "\n{badge}"),
        // What follows lowers nothing.
        (TrustLevel::Ok, false) => writeln!(text, "\n{badge}; notes:"),
        (_, false) => writeln!(text, "\n{badge}, because:"),
    };
    for reason in reasons {
        let _ = writeln!(text, "  {}", sanitize_for_terminal(&reason));
    }
    text
}

/// Why a subject was not measured, or not everywhere.
fn explain_unmeasured_subject(record: &RunRecord, subject: &RunSubject) -> Option<String> {
    if let Some(why) = subject.lacking.as_ref().or(subject.excluded_points_and_reason.as_ref()) {
        return Some(why.clone());
    }
    let mut trials = record.trials.iter().filter(|t| t.subject == subject.name).peekable();
    trials.peek()?;
    let last = trials.clone().filter_map(|trial| trial.rejection_reason.as_ref()).next_back();
    let is_measured = trials.any(|trial| trial.state == TrialState::Accepted);
    let why = last.map_or(String::new(), |why| format!(": {why}"));
    (!is_measured).then(|| format!("none of its trials was accepted{why}"))
}

fn reference_heading(model: &ReportModel<'_>) -> String {
    match &model.headline {
        Some(headline) => format!("against {}", subject_label(headline.reference)),
        None => String::new(),
    }
}

/// The first column set to the left, the second to the right.
fn align_columns(rows: &[[String; 3]]) -> String {
    let rows: Vec<[String; 3]> =
        rows.iter().map(|row| row.each_ref().map(|cell| sanitize_for_terminal(cell))).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [name, value, gain] in &rows {
        let line = format!("  {name:<first$}  {value:>second$}  {gain}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Text without what a terminal would obey: control characters are shown as `?`.
fn sanitize_for_terminal(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{202f}' | '\u{a0}' => ' ',
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn a_summary_has_one_line_per_subject() {
        let text = render_summary(&sample_records::sample_record());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn omitted_subjects_are_named_with_their_reason() {
        let mut record = sample_records::sample_record();
        record
            .run
            .subjects
            .iter_mut()
            .for_each(|s| (s.lacking, s.excluded_points_and_reason) = (None, None));
        assert!(!render_summary(&record).contains("left out"), "{}", render_summary(&record));
        let name = record.run.subjects[3].name.clone();
        record.run.subjects[2].excluded_points_and_reason =
            Some("nothing to measure at rules=8".to_owned());
        record.run.subjects[1].lacking = Some("bpftool is not installed".to_owned());
        for trial in record.trials.iter_mut().filter(|trial| trial.subject == name) {
            trial.state = TrialState::Failed;
            trial.rejection_reason = Some("7 packets leaked".to_owned());
        }
        let text = render_summary(&record);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("left out")).collect();
        let ends = [
            "bpftool is not installed",
            "nothing to measure at rules=8",
            "none of its trials was accepted: 7 packets leaked",
        ];
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{lines:?}");
    }

    #[test]
    fn control_characters_in_names_do_not_reach_the_terminal() {
        let mut record = sample_records::sample_record();
        record.run.subjects[3].name = "\u{1b}[2Jnft".to_owned();
        for trial in record.trials.iter_mut().filter(|trial| trial.subject == "nft") {
            trial.subject = "\u{1b}[2Jnft".to_owned();
        }
        let text = render_summary(&record);
        assert!(text.contains("[2Jnft") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn the_trust_level_is_followed_by_notes_or_by_its_reasons() {
        let mut busy = sample_records::sample_record();
        assert!(render_summary(&busy).ends_with("\ntrustworthy\n"), "{}", render_summary(&busy));
        busy.trials.iter_mut().for_each(|trial| trial.noise.psi = 0.9);
        let text = render_summary(&busy);
        assert!(text.contains("\ntrustworthy; notes:\n  Other tasks waited"), "{text}");
        busy.run.complete = false;
        let text = render_summary(&busy);
        assert!(text.contains("\ninvalid, because:\n  The run was interrupted"), "{text}");
    }

    #[test]
    fn the_summary_of_an_empty_run_starts_with_no_pair() {
        let record = RunRecord { trials: Vec::new(), ..sample_records::sample_record() };
        assert!(render_summary(&record).starts_with("This run has no pair"));
    }
}
