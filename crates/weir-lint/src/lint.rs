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

/// A lint with its page: ID, severity, and whether it is `off` and has a `fix`.
macro_rules! define {
    ($name:ident, $id:literal, $severity:ident $(, $flag:ident)*) => {
        pub(crate) static $name: $crate::lint::Lint = $crate::lint::Lint {
            id: $id,
            severity: $crate::lint::Severity::$severity,
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

/// Whether two strings are equal, in const context.
pub(crate) const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
