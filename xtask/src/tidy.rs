//! House rules that a program can check. `cargo xtask tidy` prints violations.
//!
//! A check is a function from the files to findings, with a test for each kind of violation.
//! Refused findings fail the run; warnings are for a person to judge. A justified exception is
//! marked on its line or on the line above: `tidy: allow(RULE): reason`.

mod arrows;
mod banned;
mod comments;
mod cycles;
mod dependencies;
mod documents;
mod finding;
mod kept;
mod names;
mod paths;
mod sizes;
mod testdata;

use crate::tree::Tree;

use self::finding::TidyFinding;

/// All findings, without those that a line allows, in the order of the files.
pub fn check(tree: &Tree) -> Vec<TidyFinding> {
    let checks: [fn(&Tree) -> Vec<TidyFinding>; 11] = [
        arrows::check,
        banned::check,
        comments::check,
        cycles::check,
        dependencies::check,
        documents::check,
        kept::check,
        names::check,
        paths::check,
        sizes::check,
        testdata::check,
    ];
    let mut found: Vec<_> = checks.iter().flat_map(|check| check(tree)).collect();
    found.retain(|f| !is_allowed(tree, f));
    found.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    found
}

/// Prints findings; whether none is refused.
pub fn print(found: &[TidyFinding]) -> bool {
    for f in found {
        println!("{f}");
    }
    let refused = found.iter().filter(|f| f.refused).count();
    println!("tidy: {refused} refused, {} warnings", found.len() - refused);
    refused == 0
}

/// Whether the line, or the one above it, allows the rule and gives a reason.
fn is_allowed(tree: &Tree, finding: &TidyFinding) -> bool {
    let Some(text) = tree.text(&finding.path) else { return false };
    let mark = format!("tidy: allow({}): ", finding.rule);
    let first = finding.line.saturating_sub(2);
    let lines = text.lines().skip(first).take(finding.line - first);
    let has_reason = |line: &str| line.split_once(&mark).is_some_and(|(_, why)| why.len() > 8);
    finding.line > 0 && lines.into_iter().any(has_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let tree = Tree::of(&[("crates/a/tests/t.rs", text)]);
        check(&tree).iter().filter(|f| f.rule == "sleep").count()
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
    fn only_what_is_refused_fails() {
        let warning = TidyFinding::warn("size", "a", 1, "long");
        assert!(print(std::slice::from_ref(&warning)));
        assert!(!print(&[warning, TidyFinding::refuse("path", "a", 0, "bad")]));
    }
}
