//! Folders of `testdata`: each is described in its README and read by a test.

use std::collections::BTreeSet;

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

const RULE_ID: &str = "testdata";
const TESTDATA_README_PATH: &str = "testdata/README.md";

pub fn find_undescribed_or_unread_testdata(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let folders: BTreeSet<&str> = tree
        .text_files()
        .filter_map(|(path, _)| path.strip_prefix("testdata/")?.split_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    let readme = tree.file_text(TESTDATA_README_PATH).unwrap_or_default();
    let mut found = Vec::new();
    for folder in folders {
        let path = format!("testdata/{folder}");
        if !["`", "/"].iter().any(|end| readme.contains(&format!("`{folder}{end}"))) {
            let message = format!("{TESTDATA_README_PATH} does not say what `{folder}` holds");
            found.push(TidyFinding::new_error(RULE_ID, &path, 0, message));
        }
        if !is_folder_mentioned_in_rust(tree, folder) {
            let message = format!("no test reads testdata/{folder}: remove it or use it");
            found.push(TidyFinding::new_error(RULE_ID, &path, 0, message));
        }
    }
    found
}

/// Whether some Rust file speaks of `testdata` and of the folder.
fn is_folder_mentioned_in_rust(tree: &WorkingTreeFiles, folder: &str) -> bool {
    let path = format!("testdata/{folder}");
    let own = format!("\"{folder}");
    tree.files_with_suffix(".rs")
        .any(|(_, text)| text.contains(&path) || (text.contains("testdata") && text.contains(&own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: (&str, &str) = ("testdata/verdicts/a.toml", "x");
    const WORDS: (&str, &str) =
        (TESTDATA_README_PATH, "- `verdicts/`: packets and what becomes of them\n");
    const READER: (&str, &str) = ("crates/a/tests/v.rs", "open(\"testdata/verdicts\")");

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        find_undescribed_or_unread_testdata(&WorkingTreeFiles::from_texts(files))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_documented_folder_that_a_test_reads_is_accepted() {
        assert!(messages(&[CASE, WORDS, READER]).is_empty());
        let joined = ("crates/a/tests/v.rs", "folder(\"testdata\").join(\"verdicts\")");
        assert!(messages(&[CASE, WORDS, joined]).is_empty());
    }

    #[test]
    fn a_folder_that_no_test_reads_is_refused() {
        assert!(messages(&[CASE, WORDS])[0].starts_with("no test reads testdata/verdicts"));
    }

    #[test]
    fn an_undocumented_folder_is_refused() {
        assert!(messages(&[CASE, READER])[0].contains("does not say what `verdicts` holds"));
    }
}
