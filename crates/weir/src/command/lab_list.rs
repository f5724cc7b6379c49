//! `weir lab list`: the statements of the papers, and their status.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_stats::folder;
use weir_study::registry::{self, ClaimItem, LIST_BEGINS, LIST_ENDS, RegistryEntry};

use super::Answer;
use crate::cli::{LabIndex, LabList};
use crate::{json, terminal};

/// Prints the list, or writes it into the READMEs.
pub fn run(args: &LabList) -> Result<Answer> {
    let entries = registry::read(&args.studies)?;
    if args.json {
        return terminal::print(&json::member("lab list", "studies", &entries)?);
    }
    if args.write {
        return write(args, &entries);
    }
    let mut text = String::new();
    let mut shown = 0;
    for entry in &entries {
        let wanted = |item: &&ClaimItem| {
            args.status.as_ref().is_none_or(|status| item.status.to_string() == *status)
        };
        let items: Vec<&ClaimItem> = entry.items.iter().chain(&entry.own).filter(wanted).collect();
        if items.is_empty() {
            continue;
        }
        shown += items.len();
        let _ = writeln!(text, "{}: {}", entry.study, entry.title);
        let command = entry.command.as_deref().unwrap_or("no command yet");
        let _ = writeln!(text, "  {command}");
        if let Some(kept) = &entry.self_test {
            let _ = writeln!(text, "  {}", registry::self_test_said(kept));
        }
        for item in items {
            let _ = writeln!(text, "  {:<5} {:<25} {}", short(item), item.status, item.text);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{shown} in {} studies", entries.len());
    terminal::print(&text)
}

/// The number; weir's own claims have names, and are marked only.
fn short(item: &ClaimItem) -> &str {
    if item.kind == registry::ItemKind::Own { "weir" } else { &item.number }
}

fn write(args: &LabList, entries: &[RegistryEntry]) -> Result<Answer> {
    for entry in entries {
        let path = args.studies.join(&entry.study).join("README.md");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let Some((before, rest)) = text.split_once(LIST_BEGINS) else { continue };
        let Some((_, after)) = rest.split_once(LIST_ENDS) else {
            bail!("{}: `{LIST_BEGINS}` without `{LIST_ENDS}`", path.display());
        };
        let list = registry::markdown(entry);
        let new = format!("{before}{LIST_BEGINS}\n{list}{LIST_ENDS}{after}");
        if new != text {
            fs::write(&path, new).with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(Answer::Yes)
}

/// Writes the index, and next to it the report and the trials of each study's newest run.
pub fn index(args: &LabIndex) -> Result<Answer> {
    let out = &args.output;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    for (name, bytes) in pages(&args.studies)? {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    terminal::print(&format!("{}\n", out.join(INDEX).display()))
}

/// The file that the pages begin with.
pub(super) const INDEX: &str = "index.html";

/// The index and what it links to, by the names of files.
pub(super) fn pages(studies: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let entries = registry::read(studies)?;
    for entry in &entries {
        let Some(run) = &entry.run else { continue };
        let folder = studies.join(&entry.study).join(run);
        let report = weir_report::page(&folder::load(&folder)?, &[]);
        let trials = folder::trials_text(&folder)?;
        files.extend(weir_report::report_file(entry).map(|name| (name, report.into_bytes())));
        files.extend(weir_report::trials_file(entry).map(|name| (name, trials.into_bytes())));
    }
    let index = weir_report::index(&entries, env!("CARGO_PKG_VERSION"));
    files.insert(INDEX.to_owned(), index.into_bytes());
    Ok(files)
}
