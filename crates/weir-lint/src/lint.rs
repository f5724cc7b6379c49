//! The definition of a lint.
//!
//! A lint's page in `docs/lints` is the only place that describes what it finds; title, reason and
//! cure are read from there.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Costs something, or is odd.
    Note,
    /// Does not do what it seems to say.
    Warning,
    /// Must not stay: the kernel would not load it, or the caller denies it.
    Error,
}

/// A kind of finding.
#[derive(Debug, PartialEq)]
pub struct Lint {
    /// Its name, in kebab case: what `--allow` and comments say.
    pub id: &'static str,
    /// How bad a finding of it is, unless the caller says otherwise.
    pub severity: Severity,
    /// Reported unless the caller says otherwise.
    pub enabled_by_default: bool,
    /// Whether weir can do something about some of its findings (`weir optimize --fix`).
    pub is_fixable: bool,
    /// Its page, as Markdown.
    pub page_markdown: &'static str,
}

impl Lint {
    /// What it finds, in a line: the page's first paragraph.
    pub fn summary_line(&self) -> &'static str {
        self.page_markdown.lines().skip(1).find(|l| !l.is_empty()).unwrap_or_default()
    }

    /// Why it matters: that section of the page.
    pub fn why_it_matters(&self) -> &'static str {
        self.page_section("Why it matters")
    }

    /// What to do about it: that section of the page.
    pub fn cure(&self) -> &'static str {
        self.page_section("Cure")
    }

    /// The text under a heading of the page, up to the next.
    pub fn page_section(&self, heading: &str) -> &'static str {
        let Some((_, rest)) = self.page_markdown.split_once(&format!("\n## {heading}\n")) else {
            return "";
        };
        rest.split_once("\n## ").map_or(rest, |(text, _)| text).trim()
    }
}

/// A lint with its page: ID, severity, and whether it is `off` and has a `fix`.
macro_rules! define_lint {
    ($name:ident, $id:literal, $severity:ident $(, $flag:ident)*) => {
        pub(crate) static $name: $crate::lint::Lint = $crate::lint::Lint {
            id: $id,
            severity: $crate::lint::Severity::$severity,
            enabled_by_default: !$crate::lint::has_flag!(off $(, $flag)*),
            is_fixable: $crate::lint::has_flag!(fix $(, $flag)*),
            page_markdown: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/../../docs/lints/", $id, ".md"
            )),
        };
    };
}

/// Whether a word is among the others.
macro_rules! has_flag {
    ($word:ident $(, $flag:ident)*) => {
        false $(|| $crate::lint::const_str_eq(stringify!($word), stringify!($flag)))*
    };
}

pub(crate) use {define_lint, has_flag};

/// Whether two strings are equal, in const context.
pub(crate) const fn const_str_eq(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
