//! The linter: what looks wrong or dear in a ruleset, and what it holds.
//!
//! [`check`](fn@check) runs every [`Lint`] of the registry ([`lints`](fn@lints)) over a firewall. A
//! lint has a page in `docs/lints`, which says what is found, why it matters and what to do, and
//! shows a ruleset before and after; a test holds each page to its word. A [`Finding`] says where
//! (a [`RulePlace`](weir_model::RulePlace) and a span), which other places have to do with it, what
//! a packet pays for it, and, where weir can do it, the [`Fix`]. [`counts`] says what a ruleset
//! holds.
//!
//! What is said to be shadowed or redundant is certain: packets are reasoned about as sets
//! ([`space`]), rules as what they do to such sets ([`reach`]), chains as what is left of them
//! ([`flow`]). Where that is too much work nothing is said. All of it is a few passes over the
//! rules: 23,000 of them take about a second.

mod counts;
mod edit;
mod finding;
mod fix;
mod flow;
mod levels;
mod lint;
mod lints;
mod reach;
mod report;
mod space;
mod suppress;

use weir_model::Firewall;

pub use self::counts::{ChainCount, Counts, NameCount, TableCount, counts};
pub use self::edit::{apply, is_foreign};
pub use self::finding::{Also, Edit, Finding, Fix, Severity};
pub use self::fix::{FixOptions, Fixed, Left, fix};
pub use self::levels::{Level, Levels, UnknownLint};
pub use self::lint::{Lint, lint, lints};
pub use self::lints::LINEAR_RULES;

/// How a firewall is checked.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Counters of the text are those of real traffic: rules that never counted are found.
    pub counters: bool,
    /// Which lints speak, and how loudly.
    pub levels: Levels,
}

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
    let context = report::Context::new(firewall, options);
    for family in lint::FAMILIES {
        (family.look)(&context, &mut all);
    }
    all.extend(lints::follow(&context, &all));
    for finding in &mut all {
        if let Some(Level::Report(severity)) = options.levels.asked(finding.lint) {
            finding.severity = severity;
        }
    }
    all.retain(|f| options.levels.of(f.lint) != Level::Allow);
    let (mut findings, suppressed) = suppress::sift(firewall, all, &options.levels);
    findings.sort_by_key(|f| (f.family.is_none(), f.family, f.span.start));
    Checked { findings, suppressed }
}

/// What [`check`](fn@check) finds by default.
pub fn findings(firewall: &Firewall) -> Vec<Finding> {
    check(firewall, &CheckOptions::default()).findings
}
