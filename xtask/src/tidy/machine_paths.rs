//! Paths of a person's machine, which mean nothing to others.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

/// Folders that are somebody's. Spelled in pieces, so that this file is content.
const MACHINE_FOLDERS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/", "target"),
];

pub fn find_machine_paths(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for (path, text) in tree.text_files().filter(|(p, _)| *p != "Cargo.lock") {
        for (i, line) in text.lines().enumerate() {
            for place in MACHINE_FOLDERS.iter().filter(|place| mentions_folder(line, place)) {
                let message = format!("a path of one machine ({place}…)");
                found.push(TidyFinding::new_error("path", path, i + 1, message));
            }
        }
    }
    found
}

/// Whether the line has the place at the start of a path: `a/home/b` does not.
fn mentions_folder(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_content(line: &str) -> bool {
        find_machine_paths(&WorkingTreeFiles::from_texts(&[("a.md", line)])).is_empty()
    }

    #[test]
    fn machine_specific_paths_are_refused() {
        for place in MACHINE_FOLDERS {
            assert!(!is_content(&format!("see {place}somebody/file")), "{place}");
            assert!(!is_content(&format!("\"{place}x\"")), "{place}");
        }
    }

    #[test]
    fn parts_of_other_paths_and_words_are_accepted() {
        let inner = concat!("x/ho", "me/y");
        assert!(is_content(inner) && is_content("teamwork/play") && is_content("/run/weir"));
    }
}
