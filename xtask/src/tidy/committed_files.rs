//! What is kept stays small: runs have their records compressed and no page, which `weir lab
//! report` makes of them, and all files together are not large.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

/// The most that all files of a fresh clone may hold, bytes.
const REPOSITORY_LIMIT_BYTES: u64 = 20_000_000;

pub fn check_committed_files(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found: Vec<_> =
        tree.file_sizes().filter_map(|(path, _)| refuse_regenerable_run_file(path)).collect();
    let bytes: u64 = tree.file_sizes().map(|(_, bytes)| bytes).sum();
    if bytes > REPOSITORY_LIMIT_BYTES {
        let message =
            format!("all files together hold {bytes} bytes, of {REPOSITORY_LIMIT_BYTES} allowed");
        found.push(TidyFinding::new_error("kept", "", 0, message));
    }
    found
}

/// Refuses a file of a study that can be made from others.
fn refuse_regenerable_run_file(path: &str) -> Option<TidyFinding> {
    let name = path.strip_prefix("studies/")?.rsplit('/').next()?;
    let message = match name {
        "trials.jsonl" | "search.jsonl" => "a kept record is compressed: `gzip -n9 FILE`",
        _ if name.ends_with(".html") => "a page is not kept: `weir lab report RUN` makes it",
        _ => return None,
    };
    Some(TidyFinding::new_error("kept", path, 0, message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> bool {
        !check_committed_files(&WorkingTreeFiles::from_texts(&[(path, "")])).is_empty()
    }

    #[test]
    fn a_committed_run_has_no_page_and_no_uncompressed_records() {
        let run = |name: &str| format!("studies/a/runs/2026-01-01-vm/{name}");
        for name in ["report.html", "trials.jsonl", "search.jsonl"] {
            assert!(refused(&run(name)), "{name}");
        }
        for name in ["run.json", "trials.jsonl.gz", "study.toml", "rulesets/a.rules"] {
            assert!(!refused(&run(name)), "{name}");
        }
        assert!(!refused("docs/trials.jsonl") && !refused("testdata/page.html"));
    }

    #[test]
    fn a_repository_over_the_size_limit_is_refused() {
        let large = "a".repeat(REPOSITORY_LIMIT_BYTES as usize / 2);
        let tree = |more: &str| {
            check_committed_files(&WorkingTreeFiles::from_texts(&[
                ("a", &large),
                ("b", &large),
                ("c", more),
            ]))
        };
        assert!(tree("").is_empty());
        assert_eq!(tree("x").len(), 1);
    }
}
