//! `weir lab list`: the statements of the papers, and their status.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_stats::run_folder;
use weir_study::claims_registry::{
    self, README_LIST_END_MARKER, README_LIST_START_MARKER, StatementWithStatus, StudyStatements,
};

use super::YesNoExitStatus;
use crate::cli::{LabIndexArgs, LabListArgs};
use crate::{json_output, terminal};

/// Prints the list, or writes it into the READMEs.
pub fn print_or_write_claim_lists(args: &LabListArgs) -> Result<YesNoExitStatus> {
    let entries = claims_registry::evaluate_statements_of_all_studies(&args.studies)?;
    if args.json {
        return terminal::print_escaped_if_terminal(&json_output::render_single_member_json(
            "lab list", "studies", &entries,
        )?);
    }
    if args.write {
        return write_claim_lists_to_readmes(args, &entries);
    }
    let mut text = String::new();
    let mut shown = 0;
    for entry in &entries {
        let wanted = |item: &&StatementWithStatus| {
            args.status.as_ref().is_none_or(|status| item.status.to_string() == *status)
        };
        let items: Vec<&StatementWithStatus> =
            entry.items.iter().chain(&entry.own).filter(wanted).collect();
        if items.is_empty() {
            continue;
        }
        shown += items.len();
        let _ = writeln!(text, "{}: {}", entry.study, entry.title);
        let command = entry.command.as_deref().unwrap_or("no command yet");
        let _ = writeln!(text, "  {command}");
        if let Some(kept) = &entry.self_test {
            let _ = writeln!(text, "  {}", claims_registry::describe_aa_test(kept));
        }
        for item in items {
            let _ = writeln!(
                text,
                "  {:<5} {:<25} {:>3}  {}",
                format_claim_number_or_own(item),
                item.status,
                item.objections.len(),
                item.text
            );
        }
        text.push('\n');
    }
    let plural = if shown == 1 { "" } else { "s" };
    let objections: usize = entries.iter().map(StudyStatements::objection_count).sum();
    let _ = writeln!(
        text,
        "{shown} statement{plural} in {} studies; the numbers after the status count what a referee \
         would object to, {objections} in all (`weir lab referee`)",
        entries.len()
    );
    terminal::print_escaped_if_terminal(&text)
}

/// The paper's number; weir's own claims have names, which are too long for the list.
fn format_claim_number_or_own(item: &StatementWithStatus) -> &str {
    if item.kind == claims_registry::StatementKind::Own { "own" } else { &item.number }
}

fn write_claim_lists_to_readmes(
    args: &LabListArgs,
    entries: &[StudyStatements],
) -> Result<YesNoExitStatus> {
    for entry in entries {
        let path = args.studies.join(&entry.study).join("README.md");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let Some((before, rest)) = text.split_once(README_LIST_START_MARKER) else { continue };
        let Some((_, after)) = rest.split_once(README_LIST_END_MARKER) else {
            bail!(
                "{}: `{README_LIST_START_MARKER}` without `{README_LIST_END_MARKER}`",
                path.display()
            );
        };
        let list = claims_registry::render_study_markdown_tables(entry);
        let new =
            format!("{before}{README_LIST_START_MARKER}\n{list}{README_LIST_END_MARKER}{after}");
        if new != text {
            fs::write(&path, new).with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(YesNoExitStatus::Yes)
}

/// Writes the index, and next to it the report and the trials of each study's best run.
pub fn write_index_and_linked_files(args: &LabIndexArgs) -> Result<YesNoExitStatus> {
    let out = &args.output_folder;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    for (name, bytes) in build_index_and_linked_files(&args.studies)? {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    terminal::print_escaped_if_terminal(&format!("{}\n", out.join(INDEX_FILE).display()))
}

/// The file that the pages begin with.
pub(super) const INDEX_FILE: &str = "index.html";

/// The index and what it links to, by the names of files.
pub(super) fn build_index_and_linked_files(studies: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let entries = claims_registry::evaluate_statements_of_all_studies(studies)?;
    for entry in &entries {
        let Some(run) = &entry.run else { continue };
        let folder = studies.join(&entry.study).join(run);
        let report =
            weir_report::render_page(&run_folder::load_record_recomputing_claims(&folder)?, &[]);
        let trials = run_folder::read_trials_text(&folder)?;
        files.extend(weir_report::report_file_name(entry).map(|name| (name, report.into_bytes())));
        files.extend(
            weir_report::trials_jsonl_file_name(entry).map(|name| (name, trials.into_bytes())),
        );
    }
    let index = weir_report::render_index(&entries, env!("CARGO_PKG_VERSION"));
    files.insert(INDEX_FILE.to_owned(), index.into_bytes());
    Ok(files)
}
