//! House rules that a program can check. `cargo xtask tidy` prints violations.
//!
//! A check is a function from the files to findings, with a test for each kind of violation.
//! Refused findings fail the run; warnings are for a person to judge. A justified exception is
//! marked on its line or on the line above: `tidy: allow(RULE): reason`.

mod allowed_dependencies;
mod banned_calls;
mod comment_names;
mod committed_files;
mod document_checks;
mod duplicate_types;
mod head_comments;
mod import_cycles;
mod machine_paths;
mod size_limits;
mod testdata_folders;
mod tidy_finding;
mod unused_dependencies;

use crate::repository_files::WorkingTreeFiles;

use self::tidy_finding::TidyFinding;

/// All findings, without those that a line allows, in the order of the files.
pub fn check_all_rules(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let checks: [fn(&WorkingTreeFiles) -> Vec<TidyFinding>; 12] = [
        allowed_dependencies::check_allowed_dependencies,
        banned_calls::find_banned_calls,
        comment_names::find_stale_comment_names,
        head_comments::find_sources_without_head_comment,
        import_cycles::find_import_cycles,
        unused_dependencies::find_unused_dependencies,
        document_checks::check_documents,
        committed_files::check_committed_files,
        duplicate_types::find_duplicate_type_names,
        machine_paths::find_machine_paths,
        size_limits::find_oversized_code,
        testdata_folders::find_undescribed_or_unread_testdata,
    ];
    let mut found: Vec<_> = checks.iter().flat_map(|check| check(tree)).collect();
    found.retain(|f| !has_allow_comment(tree, f));
    found.sort_by(|a, b| {
        (&a.path, a.line_or_zero_for_file, a.rule).cmp(&(&b.path, b.line_or_zero_for_file, b.rule))
    });
    found
}

/// Prints findings; whether none is refused.
pub fn print_findings(found: &[TidyFinding]) -> bool {
    for f in found {
        println!("{f}");
    }
    let refused = found.iter().filter(|f| f.is_error).count();
    println!("tidy: {refused} refused, {} warnings", found.len() - refused);
    refused == 0
}

/// Whether the line, or the one above it, allows the rule and gives a reason.
fn has_allow_comment(tree: &WorkingTreeFiles, finding: &TidyFinding) -> bool {
    let Some(text) = tree.file_text(&finding.path) else { return false };
    let mark = format!("tidy: allow({}): ", finding.rule);
    let first = finding.line_or_zero_for_file.saturating_sub(2);
    let lines = text.lines().skip(first).take(finding.line_or_zero_for_file - first);
    let has_reason = |line: &str| line.split_once(&mark).is_some_and(|(_, why)| why.len() > 8);
    finding.line_or_zero_for_file > 0 && lines.into_iter().any(has_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let tree = WorkingTreeFiles::from_texts(&[("crates/a/tests/t.rs", text)]);
        check_all_rules(&tree).iter().filter(|f| f.rule == "sleep").count()
    }

    #[test]
    fn a_finding_is_allowed_by_a_reason_on_its_line_or_the_one_above() {
        let call = "fn f() { std::thread::sleep(d) }";
        assert_eq!(found(&format!("//! x\n{call}\n")), 1);
        assert_eq!(
            found(&format!("//! x\n{call} // tidy: allow(sleep): the clock is tested\n")),
            0
        );
        assert_eq!(
            found(&format!("//! x\n// tidy: allow(sleep): the clock is tested\n{call}\n")),
            0
        );
        assert_eq!(found(&format!("//! x\n// tidy: allow(sleep): the clock\n\n{call}\n")), 1);
        assert_eq!(found(&format!("//! x\n{call} // tidy: allow(sleep): \n")), 1);
        assert_eq!(found(&format!("//! x\n{call} // tidy: allow(path): the clock is tested\n")), 1);
    }

    #[test]
    fn only_errors_fail_and_warnings_do_not() {
        let warning = TidyFinding::new_warning("size", "a", 1, "long");
        assert!(print_findings(std::slice::from_ref(&warning)));
        assert!(!print_findings(&[warning, TidyFinding::new_error("path", "a", 0, "bad")]));
    }
}
