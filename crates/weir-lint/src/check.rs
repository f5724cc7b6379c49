//! Running the lints over a firewall.

use weir_model::Firewall;

use crate::context::LintContext;
use crate::finding::Finding;
use crate::group::group;
use crate::levels::Level;
use crate::lint::Severity;
use crate::lints::follow;
use crate::options::LintOptions;
use crate::registry::FAMILIES;
use crate::suppress::sift;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// In the order of the text: IPv4, IPv6, sets.
    pub findings: Vec<Finding>,
    /// How many more a comment in the text allows (`# weir: allow(ID): reason`).
    pub suppressed: usize,
}

/// Runs the lints over a firewall.
///
/// Sets are checked only if the firewall has some.
pub fn check(firewall: &Firewall, options: &LintOptions) -> CheckReport {
    check_but(firewall, options, |_| false)
}

/// Runs the lints; known findings are omitted. The filter is applied rule by rule, before findings
/// of one cause are merged.
pub fn check_but(
    firewall: &Firewall,
    options: &LintOptions,
    mut is_known: impl FnMut(&Finding) -> bool,
) -> CheckReport {
    let mut checked = check_each(firewall, options);
    checked.findings.retain(|f| !is_known(f));
    checked.findings = group(checked.findings);
    for finding in &mut checked.findings {
        if let Some(program) = finding.program {
            finding.help.push_str(&format!(" (written by {program})"));
        }
    }
    sort(&mut checked.findings);
    checked
}

/// Runs the lints; each finding is about one rule, chain or set.
pub fn check_each(firewall: &Firewall, options: &LintOptions) -> CheckReport {
    let mut all = Vec::new();
    let context = LintContext::new(firewall, options);
    for family in FAMILIES {
        (family.look)(&context, &mut all);
    }
    all.extend(follow(&context, &all));
    for finding in &mut all {
        level(finding, options);
    }
    all.retain(|f| options.levels.of(f.lint) != Level::Allow);
    let (mut findings, suppressed) = sift(firewall, all, &options.levels);
    sort(&mut findings);
    CheckReport { findings, suppressed }
}

/// How bad a finding is. What a program wrote is a note at most, unless the caller names the lint.
fn level(finding: &mut Finding, options: &LintOptions) {
    if let Some(Level::Report(severity)) = options.levels.asked(finding.lint) {
        finding.severity = severity;
    }
    if finding.program.is_some() && options.levels.named(finding.lint).is_none() {
        finding.severity = Severity::Note;
    }
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (f.family.is_none(), f.family, f.span.start));
}

/// What [`check`](fn@check) finds by default.
pub fn findings(firewall: &Firewall) -> Vec<Finding> {
    check(firewall, &LintOptions::default()).findings
}
