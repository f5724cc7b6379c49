//! The verdict for a terminal: a sentence and an aligned table.

use std::fmt::Write;

use weir_stats::{Record, RunSubject, State};

use crate::number::{interval, plain, rate, times};
use crate::report_model::{ReportModel, label};
use crate::verdict::{trust, verdict};

/// The gains of a run in a few aligned lines, ending with a newline.
///
/// Every subject that was measured at the point of the verdict has a line: packets per second, and
/// its rate relative to the original ruleset, with the interval.
pub fn summary(record: &Record) -> String {
    let model = ReportModel::new(record);
    let mut text = clean(&verdict(&model).sentence());
    text.push('\n');
    if let Some(headline) = &model.headline {
        let facet = &model.facets[headline.facet].sentence;
        if !facet.is_empty() {
            let _ = writeln!(text, "{}", clean(facet));
        }
        let mut rows = vec![["subject".to_owned(), model.unit().to_owned(), against(&model)]];
        for subject in &record.run.subjects {
            let Some(estimate) = model.estimate(model.quantity, subject, &headline.scenario) else {
                continue;
            };
            let gain = match model.ratio(subject, headline.reference, &headline.scenario) {
                Some(ratio) if subject.name != headline.reference.name => {
                    format!("{:>6} {}", times(ratio.value), interval(&ratio, plain))
                }
                _ => String::new(),
            };
            rows.push([label(subject), rate(estimate.value), gain]);
        }
        text.push('\n');
        text.push_str(&aligned(&rows));
    }
    for subject in &record.run.subjects {
        if let Some(why) = left_out(record, subject) {
            let line = format!("left out: {}: {why}", label(subject));
            let _ = writeln!(text, "{}", clean(&line));
        }
    }
    let (trust, reasons) = trust(&model);
    let _ = writeln!(text, "\n{}{}", trust.word(), if reasons.is_empty() { "" } else { ":" });
    for reason in reasons {
        let _ = writeln!(text, "  {}", clean(&reason));
    }
    text
}

/// Why a subject was not measured, or not everywhere.
fn left_out(record: &Record, subject: &RunSubject) -> Option<String> {
    if let Some(why) = subject.lacking.as_ref().or(subject.limit.as_ref()) {
        return Some(why.clone());
    }
    let mut trials = record.trials.iter().filter(|t| t.subject == subject.name).peekable();
    trials.peek()?;
    let last = trials.clone().filter_map(|trial| trial.why.as_ref()).next_back();
    let is_measured = trials.any(|trial| trial.state == State::Accepted);
    let why = last.map_or(String::new(), |why| format!(": {why}"));
    (!is_measured).then(|| format!("none of its trials was accepted{why}"))
}

fn against(model: &ReportModel<'_>) -> String {
    match &model.headline {
        Some(headline) => format!("against {}", label(headline.reference)),
        None => String::new(),
    }
}

/// The first column set to the left, the second to the right.
fn aligned(rows: &[[String; 3]]) -> String {
    let rows: Vec<[String; 3]> =
        rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();
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
fn clean(text: &str) -> String {
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
    use crate::sample;

    #[test]
    fn a_summary_has_a_line_a_subject() {
        let text = summary(&sample::record());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_is_left_out_is_named_with_its_reason() {
        let mut record = sample::record();
        record.run.subjects.iter_mut().for_each(|s| (s.lacking, s.limit) = (None, None));
        assert!(!summary(&record).contains("left out"), "{}", summary(&record));
        let name = record.run.subjects[3].name.clone();
        record.run.subjects[2].limit = Some("nothing to measure at rules=8".to_owned());
        record.run.subjects[1].lacking = Some("bpftool is not installed".to_owned());
        for trial in record.trials.iter_mut().filter(|trial| trial.subject == name) {
            trial.state = State::Failed;
            trial.why = Some("7 packets leaked".to_owned());
        }
        let text = summary(&record);
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
    fn names_cannot_command_the_terminal() {
        let mut record = sample::record();
        record.run.subjects[3].name = "\u{1b}[2Jnft".to_owned();
        for trial in record.trials.iter_mut().filter(|trial| trial.subject == "nft") {
            trial.subject = "\u{1b}[2Jnft".to_owned();
        }
        let text = summary(&record);
        assert!(text.contains("[2Jnft") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn an_empty_run_is_a_sentence() {
        let record = Record { trials: Vec::new(), ..sample::record() };
        assert!(summary(&record).starts_with("This run has no pair"));
    }
}
