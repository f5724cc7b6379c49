//! Comments for weir that are malformed or have no effect.

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(ALLOWS_NOTHING, "allows-nothing", Note);
define_lint!(BAD_COMMENT, "bad-comment", Warning);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&ALLOWS_NOTHING, &BAD_COMMENT], run_lints: run_no_lints };

/// Comments are read where findings are sifted.
fn run_no_lints(_: &AnalyzedFirewall<'_>, _: &mut Vec<Finding>) {}
