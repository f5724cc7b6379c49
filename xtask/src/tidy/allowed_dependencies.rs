//! Arrows between crates: each `Cargo.toml` against the table in `ARCHITECTURE.md`.
//!
//! The document is the source of truth: its table has the columns *crate*, *may use* and *unsafe*.
//! Names are given without `weir-`. Tests may use any library crate (`[dev-dependencies]`), since
//! cargo builds those separately; nothing else may use `weir-testkit`.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

const RULE_ID: &str = "arrow";
const ARCHITECTURE_PATH: &str = "ARCHITECTURE.md";

/// What the document says of a crate.
#[derive(Debug, PartialEq)]
struct CrateRow {
    line: usize,
    may_use: BTreeSet<String>,
    unsafe_is_forbidden: bool,
}

pub fn check_allowed_dependencies(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let manifests: Vec<_> = tree
        .files_with_suffix("Cargo.toml")
        .filter(|(p, _)| p.starts_with("crates/") || p.starts_with("xtask/"))
        .collect();
    if manifests.is_empty() {
        return Vec::new();
    }
    let rows = match parse_crate_table(tree.file_text(ARCHITECTURE_PATH).unwrap_or_default()) {
        Ok(rows) => rows,
        Err(message) => {
            return vec![TidyFinding::new_error(RULE_ID, ARCHITECTURE_PATH, 0, message)];
        }
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, text) in manifests {
        match parse_weir_crate_manifest(text) {
            Ok(manifest) => {
                seen.insert(manifest.name.clone());
                found.extend(check_dependencies_and_lints(path, &manifest, &rows));
                found.extend(check_forbid_unsafe_where_required(tree, path, &manifest, &rows));
            }
            Err(message) => found.push(TidyFinding::new_error(RULE_ID, path, 0, message)),
        }
    }
    for (name, row) in rows.iter().filter(|(name, _)| !seen.contains(*name)) {
        let message = format!("the table names {name}, which is no crate of the workspace");
        found.push(TidyFinding::new_error(RULE_ID, ARCHITECTURE_PATH, row.line, message));
    }
    if let Some(name) = find_crate_on_cycle(&rows) {
        let message = format!("the arrows of the table lead from {name} back to {name}");
        found.push(TidyFinding::new_error(RULE_ID, ARCHITECTURE_PATH, rows[&name].line, message));
    }
    found
}

fn check_dependencies_and_lints(
    path: &str,
    manifest: &WeirCrateManifest,
    rows: &BTreeMap<String, CrateRow>,
) -> Vec<TidyFinding> {
    let name = &manifest.name;
    let Some(row) = rows.get(name) else {
        let message = format!("{name} has no row in the table of {ARCHITECTURE_PATH}");
        return vec![TidyFinding::new_error(RULE_ID, path, 0, message)];
    };
    let mut found = Vec::new();
    for used in manifest.dependencies.iter().filter(|u| !row.may_use.contains(*u)) {
        let message = format!(
            "{name} uses {used}, an arrow that {ARCHITECTURE_PATH} does not have: remove it, or change the \
             table and write a decision"
        );
        found.push(TidyFinding::new_error(RULE_ID, path, 0, message));
    }
    for used in manifest.dev_dependencies.iter().filter(|u| ["weir", "xtask"].contains(&u.as_str()))
    {
        let message = format!("tests of {name} use {used}, which is a program");
        found.push(TidyFinding::new_error(RULE_ID, path, 0, message));
    }
    if !manifest.has_workspace_lints {
        let message = "lacks `[lints] workspace = true`";
        found.push(TidyFinding::new_error(RULE_ID, path, 0, message));
    }
    found
}

/// Crates whose row says so begin with `#![forbid(unsafe_code)]`.
fn check_forbid_unsafe_where_required(
    tree: &WorkingTreeFiles,
    path: &str,
    manifest: &WeirCrateManifest,
    rows: &BTreeMap<String, CrateRow>,
) -> Option<TidyFinding> {
    let row = rows.get(&manifest.name)?;
    let folder = path.strip_suffix("Cargo.toml")?;
    let source = ["src/lib.rs", "src/main.rs"].map(|end| format!("{folder}{end}"));
    let source = source.iter().find(|p| tree.contains_path(p))?;
    let forbids = tree.file_text(source)?.contains("#![forbid(unsafe_code)]");
    (row.unsafe_is_forbidden && !forbids).then(|| {
        let message =
            format!("{ARCHITECTURE_PATH} says no unsafe here: lacks `#![forbid(unsafe_code)]`");
        TidyFinding::new_error(RULE_ID, source, 0, message)
    })
}

/// The first table whose header has the three columns.
fn parse_crate_table(document: &str) -> Result<BTreeMap<String, CrateRow>, String> {
    let mut lines = document.lines().enumerate();
    let column = |header: &[String], name: &str| header.iter().position(|c| c == name);
    let columns = lines.find_map(|(_, line)| {
        let header = split_table_cells(line)?;
        Some((column(&header, "crate")?, column(&header, "may use")?, column(&header, "unsafe")?))
    });
    let (name_at, use_at, unsafe_at) =
        columns.ok_or("no table with the columns `crate`, `may use` and `unsafe`")?;
    let mut rows = BTreeMap::new();
    for (i, line) in lines.skip(1) {
        let Some(cells) = split_table_cells(line) else { break };
        let cell = |at: usize| cells.get(at).map_or("", String::as_str);
        let all = rows.keys().cloned().collect();
        let row = CrateRow {
            line: i + 1,
            may_use: parse_crate_names(cell(use_at), all),
            unsafe_is_forbidden: cell(unsafe_at) == "forbidden",
        };
        rows.insert(full_crate_name(cell(name_at).trim_matches('`')), row);
    }
    Ok(rows)
}

fn split_table_cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|c| c.trim().to_owned()).collect())
}

/// `packet, model` → names of crates; `all` → those of the rows above; `–` → none.
fn parse_crate_names(cell: &str, all: BTreeSet<String>) -> BTreeSet<String> {
    match cell {
        "all" => all,
        "–" | "-" | "" => BTreeSet::new(),
        list => list.split(',').map(|n| full_crate_name(n.trim().trim_matches('`'))).collect(),
    }
}

fn full_crate_name(short: &str) -> String {
    match short {
        "weir" | "xtask" => short.into(),
        _ if short.starts_with("weir-") => short.into(),
        _ => format!("weir-{short}"),
    }
}

fn find_crate_on_cycle(rows: &BTreeMap<String, CrateRow>) -> Option<String> {
    let reaches_itself = |name: &&String| {
        let mut seen = BTreeSet::new();
        let mut next = vec![*name];
        while let Some(at) = next.pop() {
            for used in rows.get(at).into_iter().flat_map(|r| &r.may_use) {
                if used == *name {
                    return true;
                }
                if seen.insert(used) {
                    next.push(used);
                }
            }
        }
        false
    };
    rows.keys().find(reaches_itself).cloned()
}

/// What a `Cargo.toml` says that the rules are about.
struct WeirCrateManifest {
    name: String,
    dependencies: BTreeSet<String>,
    dev_dependencies: BTreeSet<String>,
    has_workspace_lints: bool,
}

fn parse_weir_crate_manifest(text: &str) -> Result<WeirCrateManifest, String> {
    let value: toml::Table = text.parse().map_err(|e| format!("not TOML: {e}"))?;
    let ours = |section: &str| -> BTreeSet<String> {
        let keys = value.get(section).and_then(toml::Value::as_table).into_iter();
        keys.flat_map(|t| t.keys())
            .filter(|k| *k == "weir" || k.starts_with("weir-"))
            .cloned()
            .collect()
    };
    let name = value.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str);
    let lints = value.get("lints").and_then(|l| l.get("workspace"));
    let mut uses = ours("dependencies");
    uses.append(&mut ours("build-dependencies"));
    Ok(WeirCrateManifest {
        name: name.ok_or("has no package name")?.to_owned(),
        dependencies: uses,
        dev_dependencies: ours("dev-dependencies"),
        has_workspace_lints: lints == Some(&toml::Value::Boolean(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "text\n\n| crate | its one job | may use | unsafe |\n|---|---|---|---|\n\
        | `weir-packet` | x | – | forbidden |\n| `weir-model` | x | packet | – |\n\
        | `weir` | x | all | – |\n\nmore\n";

    fn cargo(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    fn messages(document: &str, packet: &str, model: &str) -> Vec<String> {
        let weir = cargo("weir", "[dependencies]\nweir-model.workspace = true\n");
        let tree = WorkingTreeFiles::from_texts(&[
            (ARCHITECTURE_PATH, document),
            ("crates/weir-packet/Cargo.toml", packet),
            ("crates/weir-packet/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("crates/weir-model/Cargo.toml", model),
            ("crates/weir/Cargo.toml", &weir),
        ]);
        check_allowed_dependencies(&tree).into_iter().map(|f| f.message).collect()
    }

    fn good() -> (String, String) {
        let model = "[dependencies]\nserde = \"1\"\nweir-packet.workspace = true\n";
        (cargo("weir-packet", ""), cargo("weir-model", model))
    }

    #[test]
    fn dependencies_in_the_table_are_accepted() {
        let (packet, model) = good();
        assert_eq!(messages(TABLE, &packet, &model), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_missing_from_the_table_is_refused() {
        let (_, model) = good();
        for section in ["dependencies", "build-dependencies"] {
            let packet = cargo("weir-packet", &format!("[{section}]\nweir-model = \"1\"\n"));
            let found = messages(TABLE, &packet, &model);
            assert!(found[0].starts_with("weir-packet uses weir-model"), "{found:?}");
        }
    }

    #[test]
    fn dev_dependencies_may_be_any_library_but_no_program() {
        let (_, model) = good();
        let library = cargo("weir-packet", "[dev-dependencies]\nweir-model = \"1\"\n");
        assert!(messages(TABLE, &library, &model).is_empty());
        let program = cargo("weir-packet", "[dev-dependencies]\nweir = \"1\"\n");
        assert!(messages(TABLE, &program, &model)[0].contains("which is a program"));
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_refused() {
        let (packet, _) = good();
        let found = messages(TABLE, &packet, &cargo("weir-other", ""));
        assert!(found.iter().any(|m| m.starts_with("weir-other has no row")), "{found:?}");
        assert!(found.iter().any(|m| m.starts_with("the table names weir-model")), "{found:?}");
    }

    #[test]
    fn a_document_without_the_table_is_refused() {
        let (packet, model) = good();
        assert!(messages("nothing here", &packet, &model)[0].starts_with("no table"));
    }

    #[test]
    fn dependency_cycles_are_refused() {
        let (packet, model) = good();
        let table = TABLE.replace("| x | – | forbidden |", "| x | model | forbidden |");
        let found = messages(&table, &packet, &model);
        assert!(found.iter().any(|m| m.contains("back to weir-model")), "{found:?}");
    }

    #[test]
    fn missing_lints_and_missing_forbid_are_refused() {
        let (packet, model) = good();
        let lints = packet.replace("workspace = true", "");
        assert!(messages(TABLE, &lints, &model)[0].contains("[lints]"));
        let tree = WorkingTreeFiles::from_texts(&[
            (
                ARCHITECTURE_PATH,
                "| crate | may use | unsafe |\n|---|---|---|\n| packet | – | forbidden |\n",
            ),
            ("crates/weir-packet/Cargo.toml", &packet),
            ("crates/weir-packet/src/lib.rs", "//! x"),
        ]);
        assert!(check_allowed_dependencies(&tree)[0].message.contains("#![forbid(unsafe_code)]"));
    }
}
