//! Types of the same name: a reader cannot tell which one is meant.
//!
//! All types of the workspace outside tests are compared, whatever their visibility. A name that
//! several crates share for a reason is listed in `xtask/shared-names.toml` with that reason.

use std::collections::BTreeMap;

use super::tidy_finding::TidyFinding;
use crate::module_graph::{CrateModules, DefinedType, list_workspace_crate_roots};
use crate::repository_files::WorkingTreeFiles;

const RULE_ID: &str = "name";
const SHARED_TYPE_NAMES_PATH: &str = "xtask/shared-names.toml";

pub fn find_duplicate_type_names(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut reasons: toml::Table =
        match tree.file_text(SHARED_TYPE_NAMES_PATH).unwrap_or_default().parse() {
            Ok(table) => table,
            Err(e) => {
                return vec![TidyFinding::new_error(
                    RULE_ID,
                    SHARED_TYPE_NAMES_PATH,
                    0,
                    format!("not TOML: {e}"),
                )];
            }
        };
    let mut types: BTreeMap<String, Vec<DefinedType>> = BTreeMap::new();
    for root in list_workspace_crate_roots(tree) {
        // What cannot be read is a finding of the cycles.
        let Ok(modules) = CrateModules::read_crate(tree, &root) else { continue };
        for found in modules.defined_types() {
            types.entry(found.name.clone()).or_default().push(found);
        }
    }
    let mut found = Vec::new();
    for (name, types) in types.iter().filter(|(_, types)| types.len() > 1) {
        let reason = reasons.remove(name);
        if reason.is_some_and(|r| r.as_str().is_some_and(|r| r.len() > 8)) {
            continue;
        }
        let at = |t: &DefinedType| format!("{}:{}", t.path, t.line);
        let others: Vec<_> = types[1..].iter().map(at).collect();
        let message = format!("{name} is also a type at {}: rename one", others.join(", "));
        found.push(TidyFinding::new_error(RULE_ID, &types[0].path, types[0].line, message));
    }
    for name in reasons.keys() {
        let message = format!("{name} is no longer the name of several types: remove the line");
        found.push(TidyFinding::new_error(RULE_ID, SHARED_TYPE_NAMES_PATH, 0, message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: &str) -> Vec<String> {
        let tree = WorkingTreeFiles::from_texts(&[
            (SHARED_TYPE_NAMES_PATH, list),
            ("crates/a/src/lib.rs", "struct Way;"),
            ("crates/b/src/lib.rs", "pub struct B; enum Way {}"),
        ]);
        find_duplicate_type_names(&tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn two_types_with_the_same_name_are_refused() {
        assert_eq!(messages(""), ["Way is also a type at crates/b/src/lib.rs:1: rename one"]);
    }

    #[test]
    fn a_nonempty_reason_allows_a_duplicate_type_name() {
        assert!(messages("Way = \"both are what the kernel calls so\"\n").is_empty());
        assert_eq!(messages("Way = \"\"\n").len(), 1);
        assert!(messages("B = \"only once in the workspace\"\n")[1].starts_with("B is no longer"));
    }
}
