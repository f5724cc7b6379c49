//! Lints that analyse a firewall together.

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::Lint;

/// Lints that are looked for together.
pub(crate) struct LintFamily {
    pub lints: &'static [&'static Lint],
    pub run_lints: fn(&AnalyzedFirewall<'_>, &mut Vec<Finding>),
}
