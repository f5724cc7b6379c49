//! Rules of a chain that need not be merged in the order of the text.
//!
//! Long lists mostly test one address and nothing else. Rules of such a list with the same result
//! are one union of intervals, built from the sorted intervals at once. Rules whose addresses do
//! not overlap commute, whatever they lead to, as long as no non-terminating rule has changed the
//! address. If they are merged in the order of their addresses, most merges touch a single path; in
//! the order of the text, every merge traverses both diagrams.

use weir_model::mask::masked_interval;
use weir_model::{Family, Field, Predicate, Rule, Target, Test, effects_of, tests_of};

/// What is merged as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeStep {
    /// The rule of that number.
    Rule(usize),
    /// Rules that end alike where an address is in one of the spans; the number of the first.
    Union { rule: usize, field: Field, spans: Vec<(u128, u128)> },
}

/// An address and nothing else.
#[derive(Clone)]
struct Alone {
    rule: usize,
    field: Field,
    span: (u128, u128),
}

/// The steps of a chain, in an order that means the same as its rules.
pub(crate) fn steps(rules: &[Rule], family: Family) -> Vec<MergeStep> {
    let (mut out, mut run) = (Vec::with_capacity(rules.len()), Vec::<Alone>::new());
    for (number, rule) in rules.iter().enumerate() {
        let alone = alone(number, rule, family);
        let goes_on = alone.as_ref().is_some_and(|a| run.last().is_none_or(|r| r.field == a.field));
        if !goes_on {
            flush(&mut run, rules, &mut out);
        }
        match alone {
            Some(alone) => run.push(alone),
            None => out.push(MergeStep::Rule(number)),
        }
    }
    flush(&mut run, rules, &mut out);
    out
}

fn alone(number: usize, rule: &Rule, family: Family) -> Option<Alone> {
    if rule.base.saddr.is_some() == rule.base.daddr.is_some() {
        return None;
    }
    let tests = tests_of(rule, family);
    let [Test::Field { field, predicate: Predicate::Masked { value, mask }, negated: false }] =
        &tests[..]
    else {
        return None;
    };
    // Behind a target that writes the address, later rules see another one.
    if effects_of(&rule.target).writes.contains(*field) && !ends(&rule.target) {
        return None;
    }
    let span = masked_interval(*value, *mask, family.max())?;
    Some(Alone { rule: number, field: *field, span })
}

/// The steps of a run, which is emptied.
fn flush(run: &mut Vec<Alone>, rules: &[Rule], out: &mut Vec<MergeStep>) {
    let mut by_address = run.clone();
    by_address.sort_by_key(|alone| alone.span);
    if by_address.windows(2).all(|w| w[0].span.1 < w[1].span.0) {
        *run = by_address;
    }
    let target = |alone: &Alone| &rules[alone.rule].target;
    let alike = |a: &Alone, b: &Alone| ends(target(a)) && target(a) == target(b);
    for part in run.chunk_by(alike) {
        out.push(match part {
            [one] => MergeStep::Rule(one.rule),
            more => MergeStep::Union {
                rule: more[0].rule,
                field: more[0].field,
                spans: more.iter().map(|a| a.span).collect(),
            },
        });
    }
    run.clear();
}

/// Whether the target ends the chain for every packet, the same for each.
fn ends(target: &Target) -> bool {
    matches!(target, Target::Accept | Target::Drop | Target::Return | Target::Reject(_))
}
