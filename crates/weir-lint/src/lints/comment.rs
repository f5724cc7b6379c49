//! Comments for weir that are malformed or have no effect.

use crate::context::LintContext;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(ALLOWS_NOTHING, "allows-nothing", Note);
define!(BAD_COMMENT, "bad-comment", Warning);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&ALLOWS_NOTHING, &BAD_COMMENT], look };

/// Comments are read where findings are sifted.
fn look(_: &LintContext<'_>, _: &mut Vec<Finding>) {}
