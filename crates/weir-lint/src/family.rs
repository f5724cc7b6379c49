//! Lints that look at a firewall together.

use crate::context::Context;
use crate::finding::Finding;
use crate::lint::Lint;

/// Lints that are looked for together.
pub(crate) struct LintFamily {
    pub lints: &'static [&'static Lint],
    pub look: fn(&Context<'_>, &mut Vec<Finding>),
}
