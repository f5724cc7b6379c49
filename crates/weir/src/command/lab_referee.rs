//! `weir lab referee`: objections to the statements of studies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use weir_study::claims_registry::{
    self, Objection, StatementStatus, StatementWithStatus, StudyStatements,
};

use super::YesNoExitStatus;
use crate::cli::LabRefereeArgs;
use crate::{json_output, terminal};

/// Prints the objections to one study or to all studies. No if there are any.
pub fn print_objections(args: &LabRefereeArgs) -> Result<YesNoExitStatus> {
    let entries = match &args.study {
        Some(study) => vec![claims_registry::evaluate_statements_of_study(study)?],
        None => claims_registry::evaluate_statements_of_all_studies(&args.studies)?,
    };
    ensure!(
        entries.iter().any(|entry| entry.run.is_some() || !entry.items.is_empty()),
        "no study with statements or a kept run: give the folder of a study, or --all in the folder \
         that contains `studies`"
    );
    let text = if args.json {
        json_output::render_single_member_json("lab referee", "studies", &entries)?
    } else {
        entries.iter().map(render_objections_to_study).collect::<String>()
            + &render_status_summary(&entries)
    };
    terminal::print_escaped_if_terminal(&text)?;
    let objections: usize = entries.iter().map(StudyStatements::objection_count).sum();
    Ok(if objections == 0 { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

fn render_objections_to_study(entry: &StudyStatements) -> String {
    if entry.objection_count() == 0 {
        return String::new();
    }
    let mut text = format!("{}: {}\n", entry.study, entry.title);
    for kept in &entry.runs {
        let _ = writeln!(text, "  {}", claims_registry::describe_kept_run(kept));
    }
    for objection in &entry.objections {
        let _ = writeln!(text, "  - {}", objection.text);
    }
    for item in entry.items.iter().chain(&entry.own).filter(|item| !item.objections.is_empty()) {
        let _ = writeln!(text, "  {}, {}: {}", item.number, item.status, item.text);
        for (claim, texts) in group_by_claim(&item.objections) {
            for objection in texts {
                let claim = claim.map_or_else(String::new, |claim| format!("{claim}: "));
                let _ = writeln!(text, "    - {claim}{objection}");
            }
        }
    }
    text.push('\n');
    text
}

/// The objections of each claim, those to the whole statement first.
fn group_by_claim(objections: &[Objection]) -> BTreeMap<Option<&str>, Vec<&str>> {
    let mut groups: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    for objection in objections {
        groups.entry(objection.claim.as_deref()).or_default().push(&objection.text);
    }
    groups
}

/// Number of statements per status, and number of decided ones whose evidence is outside the
/// limits.
fn render_status_summary(entries: &[StudyStatements]) -> String {
    let papers: Vec<(&StudyStatements, &StatementWithStatus)> = entries
        .iter()
        .flat_map(|entry| entry.items.iter().map(move |item| (entry, item)))
        .collect();
    let own: Vec<(&StudyStatements, &StatementWithStatus)> =
        entries.iter().flat_map(|entry| entry.own.iter().map(move |item| (entry, item))).collect();
    let objections: usize = entries.iter().map(StudyStatements::objection_count).sum();
    let unfounded = papers
        .iter()
        .chain(&own)
        .filter(|(entry, item)| {
            item.status.is_decided_by_measurement() && !entry.rests_on_sufficient_evidence(item)
        })
        .count();
    format!(
        "{} statements of papers: {}\n{} claims of weir: {}\n{objections} objections; {unfounded} \
         decided statuses rest on evidence outside the limits\n",
        papers.len(),
        format_status_counts(&papers),
        own.len(),
        format_status_counts(&own),
    )
}

fn format_status_counts(items: &[(&StudyStatements, &StatementWithStatus)]) -> String {
    let mut counts: BTreeMap<StatementStatus, usize> = BTreeMap::new();
    for (_, item) in items {
        *counts.entry(item.status).or_default() += 1;
    }
    let counts = counts.iter().map(|(status, count)| format!("{count} {status}"));
    counts.collect::<Vec<_>>().join(", ")
}
