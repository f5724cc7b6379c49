//! Rules of a chain that need not be merged in the order of the text.
//!
//! Long lists mostly test one address and nothing else. Rules of such a list with the same result
//! are one union of intervals, built from the sorted intervals at once. Rules whose addresses do
//! not overlap commute, whatever they lead to, as long as no non-terminating rule has changed the
//! address. If they are merged in the order of their addresses, most merges touch a single path; in
//! the order of the text, every merge traverses both diagrams.

use weir_model::mask::interval_of_value_under_mask;
use weir_model::{Family, Field, FieldSet, Predicate, Rule, Target, Test, lower_to_tests};

/// What is merged as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeStep {
    /// The rule of that number.
    SingleRule(usize),
    /// Rules that end alike where an address is in one of the spans; the number of the first.
    AddressUnion { rule: usize, field: Field, spans: Vec<(u128, u128)> },
}

/// An address and nothing else.
#[derive(Clone)]
struct AddressOnlyRule {
    rule_index: usize,
    field: Field,
    span: (u128, u128),
}

/// The steps of a chain, in an order that means the same as its rules.
///
/// `written_fields`: what a rule writes for later rules, with the chain that it leads to.
pub(crate) fn plan_merge_steps(
    rules: &[Rule],
    family: Family,
    written_fields: &dyn Fn(&Rule) -> FieldSet,
) -> Vec<MergeStep> {
    let (mut out, mut run) = (Vec::with_capacity(rules.len()), Vec::<AddressOnlyRule>::new());
    for (number, rule) in rules.iter().enumerate() {
        let alone = recognize_address_only_rule(number, rule, family, written_fields);
        let goes_on = alone.as_ref().is_some_and(|a| run.last().is_none_or(|r| r.field == a.field));
        if !goes_on {
            flush_address_only_rules(&mut run, rules, &mut out);
        }
        match alone {
            Some(alone) => run.push(alone),
            None => out.push(MergeStep::SingleRule(number)),
        }
    }
    flush_address_only_rules(&mut run, rules, &mut out);
    out
}

fn recognize_address_only_rule(
    number: usize,
    rule: &Rule,
    family: Family,
    written_fields: &dyn Fn(&Rule) -> FieldSet,
) -> Option<AddressOnlyRule> {
    if rule.base.saddr.is_some() == rule.base.daddr.is_some() {
        return None;
    }
    let tests = lower_to_tests(rule, family);
    let [Test::Field { field, predicate: Predicate::Masked { value, mask }, negated: false }] =
        &tests[..]
    else {
        return None;
    };
    // Behind a rule that writes the address, later rules see another one.
    if written_fields(rule).contains(*field) {
        return None;
    }
    let span = interval_of_value_under_mask(*value, *mask, family.max_addr())?;
    Some(AddressOnlyRule { rule_index: number, field: *field, span })
}

/// The steps of a run, which is emptied.
fn flush_address_only_rules(
    run: &mut Vec<AddressOnlyRule>,
    rules: &[Rule],
    out: &mut Vec<MergeStep>,
) {
    let mut by_address = run.clone();
    by_address.sort_by_key(|alone| alone.span);
    if by_address.windows(2).all(|w| w[0].span.1 < w[1].span.0) {
        *run = by_address;
    }
    let target = |alone: &AddressOnlyRule| &rules[alone.rule_index].target;
    let alike = |a: &AddressOnlyRule, b: &AddressOnlyRule| {
        ends_chain_for_every_packet(target(a)) && target(a) == target(b)
    };
    for part in run.chunk_by(alike) {
        out.push(match part {
            [one] => MergeStep::SingleRule(one.rule_index),
            more => MergeStep::AddressUnion {
                rule: more[0].rule_index,
                field: more[0].field,
                spans: more.iter().map(|a| a.span).collect(),
            },
        });
    }
    run.clear();
}

/// Whether the target ends the chain for every packet, the same for each.
fn ends_chain_for_every_packet(target: &Target) -> bool {
    matches!(target, Target::Accept | Target::Drop | Target::Return | Target::Reject(_))
}
