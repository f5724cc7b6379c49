//! What makes a packet's way long.

use weir_model::matching::ct_state;
use weir_model::{Field, Match, Predicate, Rule, TableName, Target, Test, tests_of};

use super::{Report, Said, Severity};

/// Rules that test one address each, in a row, from which a tree or a set pays.
pub const LINEAR_RULES: usize = 16;

/// Looks through every chain.
pub(super) fn look(found: &mut Report<'_>) {
    for at in 0..found.table.chains.len() {
        linear(found, at);
    }
    if found.table.name == TableName::Filter {
        conntrack(found);
    }
}

/// The longest stretch of rules in a chain that each test an address.
fn linear(found: &mut Report<'_>, at: usize) {
    let family = found.ruleset.family;
    let chain = &found.table.chains[at];
    let (mut longest, mut run) = ((0, 0), (0, 0));
    for (i, rule) in chain.rules.iter().enumerate() {
        if tests_address(rule, family) {
            run = (if run.1 == 0 { i } else { run.0 }, run.1 + 1);
            if run.1 > longest.1 {
                longest = run;
            }
        } else {
            run = (0, 0);
        }
    }
    let (first, rules) = longest;
    if rules <= LINEAR_RULES {
        return;
    }
    let message = format!(
        "{rules} rules of {} from here test one address each, one after another",
        chain.name
    );
    let help = "a tree of chains, a set or a verdict map makes that one lookup: weir compile \
                --to tree, ipset or nft"
        .to_owned();
    let said = Said { id: "linear-addresses", severity: Severity::Note, message, help };
    found.rule(at, first, said);
}

fn tests_address(rule: &Rule, family: weir_model::Family) -> bool {
    tests_of(rule, family).iter().any(|t| {
        matches!(t, Test::Field { field: Field::Saddr | Field::Daddr, predicate, negated: false }
            if !matches!(predicate, Predicate::Masked { mask: 0, .. }))
    })
}

/// Where the rule that accepts known connections stands far down.
fn conntrack(found: &mut Report<'_>) {
    for at in 0..found.table.chains.len() {
        let chain = &found.table.chains[at];
        if chain.policy.is_none() {
            continue;
        }
        let Some(i) = chain.rules.iter().position(accepts_established) else { continue };
        if i <= LINEAR_RULES {
            continue;
        }
        let message =
            format!("{i} rules of {} are tried on every packet of a known connection", chain.name);
        let help = "if they are not meant for such packets, move this rule up".to_owned();
        let said = Said { id: "conntrack-not-first", severity: Severity::Note, message, help };
        found.rule(at, i, said);
    }
}

fn accepts_established(rule: &Rule) -> bool {
    let established = |m: &Match| match m {
        Match::State(s) => !s.negated && s.value & ct_state::ESTABLISHED != 0,
        Match::Conntrack(c) => {
            c.only_state().is_some_and(|s| !s.negated && s.value & ct_state::ESTABLISHED != 0)
        }
        _ => false,
    };
    rule.target == Target::Accept && rule.matches.iter().any(established)
}
