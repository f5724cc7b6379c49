//! Running the lints over a firewall.

use weir_model::Firewall;

use crate::context::Context;
use crate::finding::Finding;
use crate::levels::Level;
use crate::lints::follow;
use crate::options::CheckOptions;
use crate::registry::FAMILIES;
use crate::suppress::sift;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// In the order of the text: IPv4, IPv6, sets.
    pub findings: Vec<Finding>,
    /// How many more a comment in the text allows (`# weir: allow(ID): reason`).
    pub suppressed: usize,
}

/// Runs the lints over a firewall.
///
/// Sets are judged only where the firewall holds some.
pub fn check(firewall: &Firewall, options: &CheckOptions) -> Checked {
    let mut all = Vec::new();
    let context = Context::new(firewall, options);
    for family in FAMILIES {
        (family.look)(&context, &mut all);
    }
    all.extend(follow(&context, &all));
    for finding in &mut all {
        if let Some(Level::Report(severity)) = options.levels.asked(finding.lint) {
            finding.severity = severity;
        }
    }
    all.retain(|f| options.levels.of(f.lint) != Level::Allow);
    let (mut findings, suppressed) = sift(firewall, all, &options.levels);
    findings.sort_by_key(|f| (f.family.is_none(), f.family, f.span.start));
    Checked { findings, suppressed }
}

/// What [`check`](fn@check) finds by default.
pub fn findings(firewall: &Firewall) -> Vec<Finding> {
    check(firewall, &CheckOptions::default()).findings
}
