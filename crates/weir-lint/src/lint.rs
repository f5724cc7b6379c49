//! What a lint is, and the registry of all.
//!
//! A lint's page in `docs/lints` is the one place that says in words what it finds; title, reason
//! and cure are read from there. To add one: its file in [`lints`](super::lints), its page, its
//! family in [`FAMILIES`].

use crate::finding::{Finding, Severity};
use crate::lints::*;
use crate::report::Context;

/// A kind of finding.
#[derive(Debug, PartialEq)]
pub struct Lint {
    /// Its name, in kebab case: what `--allow` and comments say.
    pub id: &'static str,
    /// How bad a finding of it is, unless the caller says otherwise.
    pub severity: Severity,
    /// Reported unless the caller says otherwise.
    pub on: bool,
    /// Whether weir can do something about some of its findings (`weir optimize --fix`).
    pub fix: bool,
    /// Its page, as Markdown.
    pub page: &'static str,
}

impl Lint {
    /// What it finds, in a line: the page's first paragraph.
    pub fn title(&self) -> &'static str {
        self.page.lines().skip(1).find(|l| !l.is_empty()).unwrap_or_default()
    }

    /// Why it matters: that section of the page.
    pub fn why(&self) -> &'static str {
        self.section("Why it matters")
    }

    /// What to do about it: that section of the page.
    pub fn cure(&self) -> &'static str {
        self.section("Cure")
    }

    /// The text under a heading of the page, up to the next.
    pub fn section(&self, heading: &str) -> &'static str {
        let Some((_, rest)) = self.page.split_once(&format!("\n## {heading}\n")) else { return "" };
        rest.split_once("\n## ").map_or(rest, |(text, _)| text).trim()
    }
}

/// Lints that are looked for together.
pub(crate) struct LintFamily {
    pub lints: &'static [&'static Lint],
    pub look: fn(&Context<'_>, &mut Vec<Finding>),
}

/// All families, in the order in which they look.
pub(crate) static FAMILIES: &[&LintFamily] = &[
    &catch_all::FAMILY,
    &impossible::FAMILY,
    &shadow::FAMILY,
    &chains::FAMILY,
    &sets::FAMILY,
    &opaque::FAMILY,
    &policy::FAMILY,
    &linear::FAMILY,
    &established::FAMILY,
    &tracking::FAMILY,
    &dear::FAMILY,
    &log::FAMILY,
    &budget::FAMILY,
    &fragments::FAMILY,
    &doors::FAMILY,
    &families::FAMILY,
    &overlap::FAMILY,
    &unused::FAMILY,
    &comment::FAMILY,
];

/// Every lint.
pub fn lints() -> impl Iterator<Item = &'static Lint> {
    FAMILIES.iter().flat_map(|f| f.lints.iter().copied())
}

/// The lint of that name.
pub fn lint(id: &str) -> Option<&'static Lint> {
    lints().find(|l| l.id == id)
}

/// A lint with its page: id, severity, and of `off` and `fix` what holds.
macro_rules! define {
    ($name:ident, $id:literal, $severity:ident $(, $flag:ident)*) => {
        pub(crate) static $name: $crate::lint::Lint = $crate::lint::Lint {
            id: $id,
            severity: $crate::finding::Severity::$severity,
            on: !$crate::lint::flagged!(off $(, $flag)*),
            fix: $crate::lint::flagged!(fix $(, $flag)*),
            page: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/../../docs/lints/", $id, ".md"
            )),
        };
    };
}

/// Whether a word is among the others.
macro_rules! flagged {
    ($word:ident $(, $flag:ident)*) => {
        false $(|| $crate::lint::equal(stringify!($word), stringify!($flag)))*
    };
}

pub(crate) use {define, flagged};

/// Whether two words are the same, where traits cannot be asked yet.
pub(crate) const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
