//! Applies the fixes of findings.
//!
//! One fix may enable another: without a rule its chain is empty, and without the chain the jump to
//! it has no effect. So [`apply_fixes`] finds, edits, and repeats, until nothing is left
//! that it may fix. It proves nothing: its caller compares the firewall before and after.

use std::collections::BTreeSet;

use weir_model::effect::shared_objects::{SharedObjectsAtLoad, uses_shared_objects};
use weir_model::effect::{ConntrackDemand, rule_conntrack_demand, total_conntrack_demand};
use weir_model::managing_programs::program_of_chain_or_set;
use weir_model::{Family, Firewall, Rule, SharedName};

use crate::apply_edits::apply_edits;
use crate::check::lint_without_grouping;
use crate::finding::{Finding, RulesetEdit};
use crate::lint_levels::LintLevel;
use crate::lint_options::LintOptions;
use crate::registry::all_lints;

/// Rounds of finding and editing at most.
const MAX_FIX_ROUNDS: usize = 16;

/// What may be done.
#[derive(Clone, Debug, Default)]
pub struct FixOptions {
    /// Findings of these lints are fixed.
    pub lint_ids_to_fix: BTreeSet<&'static str>,
    /// Counters of rules may be lost, or count otherwise.
    pub allow_counter_changes: bool,
    /// Chains that may be changed although another program seems to own them.
    pub changeable_foreign_chains: Vec<String>,
    /// Levels and what counters mean: what is allowed is not fixed.
    pub lint_options: LintOptions,
    /// One finding is fixed before the next is looked for. Two findings may each be right because
    /// of the other's rule, so that only one of them can be fixed; this takes as many checks as
    /// there are findings.
    pub one_by_one: bool,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct FixResult {
    /// The firewall afterwards.
    pub firewall: Firewall,
    /// Findings that were fixed, with their places in the firewall of their round.
    pub fixed_findings: Vec<Finding>,
    /// Findings of these lints that stay, and why.
    pub unfixed_findings: Vec<(Finding, UnfixedReason)>,
}

/// Why a finding was not fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnfixedReason {
    /// It is for a person to decide.
    NeedsHumanDecision,
    /// Counters of rules would be lost, or count otherwise.
    ChangesCounters,
    /// Another program seems to own the chain.
    ForeignChain,
    /// Nothing else would use conntrack: fragments would no longer be reassembled, and the nat
    /// table would not be traversed.
    LastConntrackUse,
    /// A rule of it makes or configures an object that other rules use by name.
    ChangesNamedObject,
    /// Nothing else would have fragments reassembled (`-m socket`, `TPROXY`).
    LastReassemblyUse,
}

impl UnfixedReason {
    /// The reason, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            UnfixedReason::NeedsHumanDecision => "needs a decision by a person",
            UnfixedReason::ChangesCounters => "would change counters: --allow counters",
            UnfixedReason::ForeignChain => "in a chain of another program: --chains NAME",
            UnfixedReason::LastConntrackUse => "the last rules that use conntrack",
            UnfixedReason::ChangesNamedObject => {
                "creates or configures what other rules use by name"
            }
            UnfixedReason::LastReassemblyUse => "the last rules that cause reassembly of fragments",
        }
    }
}

/// Does what the options let it do.
pub fn apply_fixes(firewall: &Firewall, options: &FixOptions) -> FixResult {
    let mut check_options = options.lint_options.clone();
    // A lint that is off by default is looked for where it is named.
    for lint in
        all_lints().filter(|l| options.lint_ids_to_fix.contains(l.id) && !l.enabled_by_default)
    {
        if check_options.levels.level_overriding_default_severity(lint) == Some(LintLevel::Allow) {
            check_options.levels.set_level_of_lint(lint, LintLevel::ReportAs(lint.severity));
        }
    }
    let mut fixed = FixResult { firewall: firewall.clone(), ..FixResult::default() };
    let rounds = match options.one_by_one {
        true => {
            MAX_FIX_ROUNDS
                + firewall.rulesets().map(|r| r.rules_with_table_and_chain().count()).sum::<usize>()
        }
        false => MAX_FIX_ROUNDS,
    };
    for _ in 0..rounds {
        let found = lint_without_grouping(&fixed.firewall, &check_options).findings;
        let found = found.into_iter().filter(|f| options.lint_ids_to_fix.contains(f.lint_id()));
        let (mut now, mut left) = (Vec::new(), Vec::new());
        for f in found {
            match reason_not_to_fix(&f, options) {
                None => now.push(f),
                Some(why) => left.push((f, why)),
            }
        }
        if options.one_by_one {
            now.truncate(1);
        }
        let mut after = apply_edits(&fixed.firewall, &concatenate_edits_of_findings(&now));
        let lost = find_lost_conntrack_demands(&fixed.firewall, &after);
        for (family, what) in lost.into_iter().flatten() {
            let why = match what {
                ConntrackDemand::Tracking => UnfixedReason::LastConntrackUse,
                _ => UnfixedReason::LastReassemblyUse,
            };
            let switches = |rule: &Rule, of| of == family && rule_conntrack_demand(rule) == what;
            after =
                withhold_fixes_touching_rules(&fixed.firewall, why, switches, &mut now, &mut left);
        }
        if has_different_named_objects(&fixed.firewall, &after) {
            after = withhold_fixes_touching_rules(
                &fixed.firewall,
                UnfixedReason::ChangesNamedObject,
                uses_shared_objects,
                &mut now,
                &mut left,
            );
        }
        fixed.unfixed_findings = left;
        if now.is_empty() || after == fixed.firewall {
            break;
        }
        fixed.firewall = after;
        fixed.fixed_findings.append(&mut now);
    }
    fixed
}

fn concatenate_edits_of_findings(findings: &[Finding]) -> Vec<RulesetEdit> {
    findings.iter().filter_map(|f| f.fix.as_ref()).flat_map(|x| x.edits.clone()).collect()
}

fn reason_not_to_fix(f: &Finding, options: &FixOptions) -> Option<UnfixedReason> {
    let fix = match &f.fix {
        Some(fix) => fix,
        None => return Some(UnfixedReason::NeedsHumanDecision),
    };
    let named = |chain: &SharedName| {
        options.changeable_foreign_chains.iter().any(|c| c.as_str() == &**chain)
    };
    if f.place
        .as_ref()
        .is_some_and(|p| program_of_chain_or_set(&p.chain).is_some() && !named(&p.chain))
    {
        return Some(UnfixedReason::ForeignChain);
    }
    (fix.changes_counters && !options.allow_counter_changes)
        .then_some(UnfixedReason::ChangesCounters)
}

/// By family, what the rules switch on before and not after.
fn find_lost_conntrack_demands(
    before: &Firewall,
    after: &Firewall,
) -> [Option<(Family, ConntrackDemand)>; 2] {
    [Family::V4, Family::V6].map(|family| {
        let on = |firewall: &Firewall| {
            let rules =
                firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
            total_conntrack_demand(rules.map(|(_, _, rule)| rule))
        };
        (on(after) != on(before)).then(|| (family, on(before)))
    })
}

/// Whether other rules configure some object that rules share by name afterwards, or none makes it.
fn has_different_named_objects(before: &Firewall, after: &Firewall) -> bool {
    let [before, after] = [before, after].map(|f| SharedObjectsAtLoad::from_rulesets(f.rulesets()));
    before.first_object_config_or_load_difference(&after).is_some()
}

/// Leaves the findings whose fixes touch rules of a kind, which matter by being there; the firewall
/// after all other fixes.
fn withhold_fixes_touching_rules(
    firewall: &Firewall,
    why: UnfixedReason,
    kind: impl Fn(&Rule, Family) -> bool + Copy,
    now: &mut Vec<Finding>,
    left: &mut Vec<(Finding, UnfixedReason)>,
) -> Firewall {
    let (stay, rest): (Vec<_>, Vec<_>) =
        std::mem::take(now).into_iter().partition(|f| fix_touches_rule_of_kind(firewall, f, kind));
    left.extend(stay.into_iter().map(|f| (f, why)));
    *now = rest;
    apply_edits(firewall, &concatenate_edits_of_findings(now))
}

/// Whether a fix touches a rule of that kind.
fn fix_touches_rule_of_kind(
    firewall: &Firewall,
    f: &Finding,
    kind: impl Fn(&Rule, Family) -> bool,
) -> bool {
    f.fix.iter().flat_map(|x| &x.edits).any(|edit| match edit {
        RulesetEdit::RemoveRule { rule } | RulesetEdit::ReplaceRule { rule, .. } => {
            firewall.find_rule(rule).is_some_and(|r| kind(r, rule.family))
        }
        RulesetEdit::RemoveChain { family, table, chain } => {
            let chain = firewall.ruleset(*family).and_then(|r| r.table(table)?.chain(chain));
            chain.is_some_and(|c| c.rules.iter().any(|r| kind(r, *family)))
        }
        RulesetEdit::RemoveSet { .. } => false,
    })
}
