//! What looks wrong in a ruleset, and what it holds.
//!
//! [`findings`] looks for the mistakes and the costs that can be seen without a packet; [`counts`]
//! says what is there. Both are a few passes over the rules: 23,000 of them take well under a
//! second.

mod cost;
mod counts;
mod rules;
mod shadow;
mod unused;

use serde::Serialize;
use weir_model::{Family, Firewall, RulePlace, Ruleset, Span, Table};

pub use self::counts::{ChainCount, Counts, NameCount, TableCount, counts};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Costs something, or is odd.
    Note,
    /// Does not do what it seems to say.
    Warning,
    /// The kernel would not load it.
    Error,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind, in kebab case; one of [`KINDS`].
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in a line.
    pub message: String,
    /// Where: a rule or a chain's policy; `None` for a set.
    pub place: Option<RulePlace>,
    /// In which family's ruleset; `None` for a set.
    pub family: Option<Family>,
    /// Where in that ruleset's (or the sets') text.
    pub span: Span,
    /// What to do about it.
    pub help: String,
}

/// Every kind of finding, with what it means.
pub const KINDS: [(&str, &str); 14] = [
    ("unreachable-chain", "no rule that a packet can reach jumps to the chain"),
    ("duplicate-rule", "an earlier rule of the chain has the same tests and decides"),
    ("shadowed-rule", "an earlier rule of the chain takes all packets that the rule would match"),
    ("rule-after-catch-all", "an earlier rule of the chain takes every packet"),
    ("jump-to-empty-chain", "the chain that the rule jumps to holds no rules"),
    ("jump-loop", "the chain leads back to itself"),
    ("never-matches", "two tests of the rule exclude each other"),
    ("no-final-drop", "what no rule decided is accepted, although other rules drop"),
    ("linear-addresses", "many rules that test one address each are tried one after another"),
    (
        "conntrack-not-first",
        "packets of known connections meet many rules before they are accepted",
    ),
    ("unused-set", "no rule names the set"),
    ("unknown-set", "a rule names a set that is not among the sets given"),
    ("empty-set", "a rule tests membership in a set without elements"),
    ("opaque-module", "weir does not know the module and leaves the rule as it is"),
];

/// What looks wrong, in the order of the text: IPv4, IPv6, sets.
///
/// Sets are judged only where the firewall holds some.
pub fn findings(firewall: &Firewall) -> Vec<Finding> {
    let mut out = Vec::new();
    for ruleset in firewall.rulesets() {
        for table in &ruleset.tables {
            let mut found = Report { ruleset, table, out: &mut out };
            rules::look(&mut found);
            unused::chains(&mut found);
            cost::look(&mut found);
        }
    }
    unused::sets(firewall, &mut out);
    out.sort_by_key(|f| (f.family.is_none(), f.family, f.span.start));
    out
}

/// Collects the findings of one table.
struct Report<'a> {
    ruleset: &'a Ruleset,
    table: &'a Table,
    out: &'a mut Vec<Finding>,
}

/// A finding before its place is known.
struct Said {
    id: &'static str,
    severity: Severity,
    message: String,
    help: String,
}

impl Report<'_> {
    fn rule(&mut self, chain: usize, rule: usize, said: Said) {
        let chain = &self.table.chains[chain];
        let span = chain.rules[rule].span;
        self.push(said, chain.name.clone(), Some(rule as u32 + 1), span);
    }

    fn chain(&mut self, chain: usize, said: Said) {
        let chain = &self.table.chains[chain];
        self.push(said, chain.name.clone(), None, chain.span);
    }

    fn push(&mut self, said: Said, chain: weir_model::Name, number: Option<u32>, span: Span) {
        let place = RulePlace { table: self.table.name, chain, number };
        let Said { id, severity, message, help } = said;
        debug_assert!(KINDS.iter().any(|(kind, _)| *kind == id), "{id} is not among KINDS");
        let family = Some(self.ruleset.family);
        self.out.push(Finding { id, severity, message, place: Some(place), family, span, help });
    }
}
