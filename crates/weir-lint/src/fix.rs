//! Applies the fixes of findings.
//!
//! One fix may enable another: without a rule its chain is empty, and without the chain the jump to
//! it has no effect. So [`fix`](fn@fix) finds, edits, and repeats, until nothing is left that it
//! may fix. It proves nothing: its caller compares the firewall before and after.

use std::collections::BTreeSet;

use weir_model::effect::named::{Objects, shares_objects};
use weir_model::effect::{Conntrack, conntrack_of, conntrack_of_all};
use weir_model::programs::owner_of;
use weir_model::{Family, Firewall, Name, Rule};

use crate::check::check_each;
use crate::edit::apply;
use crate::finding::{Edit, Finding};
use crate::levels::Level;
use crate::options::LintOptions;
use crate::registry::lints;

/// Rounds of finding and editing at most.
const ROUNDS: usize = 16;

/// What may be done.
#[derive(Clone, Debug, Default)]
pub struct FixOptions {
    /// Findings of these lints are fixed.
    pub ids: BTreeSet<&'static str>,
    /// Counters of rules may be lost, or count otherwise.
    pub counters: bool,
    /// Chains that may be changed although another program seems to own them.
    pub chains: Vec<String>,
    /// Levels and what counters mean: what is allowed is not fixed.
    pub check: LintOptions,
    /// One finding is fixed before the next is looked for. Two findings may each be right because
    /// of the other's rule, so that only one of them can be fixed; this takes as many checks as
    /// there are findings.
    pub one_by_one: bool,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// The firewall afterwards.
    pub firewall: Firewall,
    /// Findings that were fixed, with their places in the firewall of their round.
    pub done: Vec<Finding>,
    /// Findings of these lints that stay, and why.
    pub left: Vec<(Finding, Left)>,
}

/// Why a finding was not fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Left {
    /// It is for a person to decide.
    Person,
    /// Counters of rules would be lost, or count otherwise.
    Counters,
    /// Another program seems to own the chain.
    Foreign,
    /// Nothing else would use conntrack: fragments would no longer be reassembled, and the nat
    /// table would not be traversed.
    Conntrack,
    /// A rule of it makes or configures an object that other rules use by name.
    Object,
    /// Nothing else would have fragments reassembled (`-m socket`, `TPROXY`).
    Fragments,
}

impl Left {
    /// The reason, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Left::Person => "needs a decision by a person",
            Left::Counters => "would change counters: --allow counters",
            Left::Foreign => "in a chain of another program: --chains NAME",
            Left::Conntrack => "the last rules that use conntrack",
            Left::Object => "creates or configures what other rules use by name",
            Left::Fragments => "the last rules that cause reassembly of fragments",
        }
    }
}

/// Does what the options let it do.
pub fn fix(firewall: &Firewall, options: &FixOptions) -> Fixed {
    let mut check_options = options.check.clone();
    // A lint that is off by default is looked for where it is named.
    for lint in lints().filter(|l| options.ids.contains(l.id) && !l.on) {
        if check_options.levels.asked(lint) == Some(Level::Allow) {
            check_options.levels.set_lint(lint, Level::Report(lint.severity));
        }
    }
    let mut fixed = Fixed { firewall: firewall.clone(), ..Fixed::default() };
    let rounds = match options.one_by_one {
        true => ROUNDS + firewall.rulesets().map(|r| r.rules().count()).sum::<usize>(),
        false => ROUNDS,
    };
    for _ in 0..rounds {
        let found = check_each(&fixed.firewall, &check_options).findings;
        let found = found.into_iter().filter(|f| options.ids.contains(f.id()));
        let (mut now, mut left) = (Vec::new(), Vec::new());
        for f in found {
            match hindrance(&f, options) {
                None => now.push(f),
                Some(why) => left.push((f, why)),
            }
        }
        if options.one_by_one {
            now.truncate(1);
        }
        let mut after = apply(&fixed.firewall, &edits(&now));
        let lost = lost(&fixed.firewall, &after);
        for (family, what) in lost.into_iter().flatten() {
            let why = match what {
                Conntrack::Tracks => Left::Conntrack,
                _ => Left::Fragments,
            };
            let switches = |rule: &Rule, of| of == family && conntrack_of(rule) == what;
            after = leave(&fixed.firewall, why, switches, &mut now, &mut left);
        }
        if changes_objects(&fixed.firewall, &after) {
            after = leave(&fixed.firewall, Left::Object, shares_objects, &mut now, &mut left);
        }
        fixed.left = left;
        if now.is_empty() || after == fixed.firewall {
            break;
        }
        fixed.firewall = after;
        fixed.done.append(&mut now);
    }
    fixed
}

fn edits(findings: &[Finding]) -> Vec<Edit> {
    findings.iter().filter_map(|f| f.fix.as_ref()).flat_map(|x| x.edits.clone()).collect()
}

fn hindrance(f: &Finding, options: &FixOptions) -> Option<Left> {
    let fix = match &f.fix {
        Some(fix) => fix,
        None => return Some(Left::Person),
    };
    let named = |chain: &Name| options.chains.iter().any(|c| c.as_str() == &**chain);
    if f.place.as_ref().is_some_and(|p| owner_of(&p.chain).is_some() && !named(&p.chain)) {
        return Some(Left::Foreign);
    }
    (fix.changes_counters && !options.counters).then_some(Left::Counters)
}

/// By family, what the rules switch on before and not after.
fn lost(before: &Firewall, after: &Firewall) -> [Option<(Family, Conntrack)>; 2] {
    [Family::V4, Family::V6].map(|family| {
        let on = |firewall: &Firewall| {
            let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules());
            conntrack_of_all(rules.map(|(_, _, rule)| rule))
        };
        (on(after) != on(before)).then(|| (family, on(before)))
    })
}

/// Whether other rules configure some object that rules share by name afterwards, or none makes it.
fn changes_objects(before: &Firewall, after: &Firewall) -> bool {
    let [before, after] = [before, after].map(|f| Objects::of(f.rulesets()));
    before.first_change(&after).is_some()
}

/// Leaves the findings whose fixes touch rules of a kind, which matter by being there; the firewall
/// after all other fixes.
fn leave(
    firewall: &Firewall,
    why: Left,
    kind: impl Fn(&Rule, Family) -> bool + Copy,
    now: &mut Vec<Finding>,
    left: &mut Vec<(Finding, Left)>,
) -> Firewall {
    let (stay, rest): (Vec<_>, Vec<_>) =
        std::mem::take(now).into_iter().partition(|f| touches(firewall, f, kind));
    left.extend(stay.into_iter().map(|f| (f, why)));
    *now = rest;
    apply(firewall, &edits(now))
}

/// Whether a fix touches a rule of that kind.
fn touches(firewall: &Firewall, f: &Finding, kind: impl Fn(&Rule, Family) -> bool) -> bool {
    f.fix.iter().flat_map(|x| &x.edits).any(|edit| match edit {
        Edit::RemoveRule { rule } | Edit::ReplaceRule { rule, .. } => {
            firewall.rule(rule).is_some_and(|r| kind(r, rule.family))
        }
        Edit::RemoveChain { family, table, chain } => {
            let chain = firewall.ruleset(*family).and_then(|r| r.table(table)?.chain(chain));
            chain.is_some_and(|c| c.rules.iter().any(|r| kind(r, *family)))
        }
        Edit::RemoveSet { .. } => false,
    })
}
