//! Each file begins with a comment that says what it is.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

const RULE_ID: &str = "head";

pub fn find_sources_without_head_comment(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    tree.text_files()
        .filter_map(|(path, text)| {
            let wanted = suggest_missing_head_comment(path, text)?;
            Some(TidyFinding::new_error(
                RULE_ID,
                path,
                1,
                format!("begin with what this file is: `{wanted}`"),
            ))
        })
        .collect()
}

/// The comment that should be on top and is not.
fn suggest_missing_head_comment(path: &str, text: &str) -> Option<&'static str> {
    // Golden files and test inputs have their own rules, in `testdata/README.md`.
    if path.starts_with("testdata/") || text.trim().is_empty() {
        return None;
    }
    let (_, end) = path.rsplit_once('.').unwrap_or(("", ""));
    let lines = || text.lines().map(str::trim).filter(|l| !l.is_empty());
    match end {
        "rs" => (!lines().next()?.starts_with("//!")).then_some("//! …"),
        "c" | "h" => {
            let first = lines().find(|l| !l.contains("SPDX-License-Identifier"))?;
            let is_comment = first.starts_with("/*") || first.starts_with("//");
            (!is_comment).then_some("/* … */")
        }
        "sh" => {
            // A part of a script has no `#!` line.
            let first = lines().find(|l| !l.starts_with("#!"))?;
            (!first.starts_with('#')).then_some("# …")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_content(path: &str, text: &str) -> bool {
        find_sources_without_head_comment(&WorkingTreeFiles::from_texts(&[(path, text)])).is_empty()
    }

    #[test]
    fn rust_begins_with_a_module_comment() {
        assert!(is_content("a.rs", "//! What it is.\nuse x;\n"));
        for text in
            ["use x;\n", "// not a module comment\nuse x;\n", "#![forbid(unsafe_code)]\n//! x\n"]
        {
            assert!(!is_content("a.rs", text), "{text}");
        }
    }

    #[test]
    fn a_c_file_may_begin_with_its_licence() {
        assert!(is_content("a.bpf.c", "// SPDX-License-Identifier: MIT\n/* Counts. */\n"));
        assert!(!is_content("a.bpf.c", "// SPDX-License-Identifier: MIT\n#include <a.h>\n"));
    }

    #[test]
    fn a_script_must_have_a_comment_after_its_first_line() {
        assert!(is_content("a.sh", "#!/bin/sh\n# Does it.\nset -eu\n"));
        assert!(is_content("a.sh", "# A part of it.\nset -eu\n"));
        assert!(!is_content("a.sh", "#!/bin/sh\nset -eu\n"));
        assert!(!is_content("a.sh", "set -eu\n"));
    }

    #[test]
    fn test_inputs_are_left_alone() {
        assert!(is_content("testdata/x/a.sh", "echo\n"));
    }
}
