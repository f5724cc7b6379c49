//! A rule as nft expresses it: tests of loaded values, and its action.
//!
//! Where nft differs, the translation is chosen so that the result is equal: a negation that must
//! match if the value is absent becomes [`NftCondition::UnlessStatement`], a test of either port
//! [`NftCondition::AnyTest`]; the emitter gives them their own chains. What nft cannot express is
//! refused by name.

use weir_model::mask::interval_of_value_under_mask;
use weir_model::nft::{self, Comparand, CreditedRuleOrPolicy, LoadExpression};
use weir_model::{
    Effect, Family, Field, Match, NatTarget, OriginalRuleIndex, Predicate, Rule, SharedName,
    Target, Test, lower_to_tests_with_match_index,
};
use weir_partition::interval::join_intervals;
use weir_syntax::nft::{print_effect, print_nat, print_reject};

use super::nft_condition::{NftCondition, lower_ct_state};
use super::opaque_match;

/// One rule, ready to be emitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoweredRule {
    /// The originals that its counter is part of.
    pub credited_originals: Vec<CreditedRuleOrPolicy>,
    /// Its tests, in the kernel's order.
    pub conditions: Vec<NftCondition>,
    /// What it does once they hold.
    pub action: NftRuleAction,
    /// Its comment.
    pub comment: Option<String>,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NftRuleAction {
    /// It only counts.
    CountOnly,
    Accept,
    Drop,
    Return,
    Jump(SharedName),
    Goto(SharedName),
    RejectWithIptablesType(&'static str),
    Nat(NatTarget),
    Effect(Effect),
}

impl NftRuleAction {
    /// True where nothing after the rule in its chain sees the packet.
    pub fn is_end_of_chain_traversal(&self) -> bool {
        !matches!(
            self,
            NftRuleAction::CountOnly | NftRuleAction::Effect(_) | NftRuleAction::Jump(_)
        )
    }

    /// True if it leaves its chain for the caller's: it must not be in a chain that was called from
    /// its own chain.
    pub fn is_return_or_goto(&self) -> bool {
        matches!(self, NftRuleAction::Return | NftRuleAction::Goto(_))
    }
}

impl LoweredRule {
    /// True if it is stateful: it must occur only once.
    pub fn is_stateful(&self) -> bool {
        self.conditions.iter().any(NftCondition::is_stateful)
    }
}

/// The outcome of a rule.
pub(super) enum RuleLowering {
    /// nft says it.
    Lowered(LoweredRule),
    /// It never matches.
    NeverMatches,
    /// nft cannot say it: why.
    Unsupported(String),
}

/// Says a rule in nft terms.
pub(super) fn lower_rule(rule: &Rule, family: Family) -> RuleLowering {
    match try_lower_rule(rule, family) {
        Ok(Some(item)) => RuleLowering::Lowered(item),
        Ok(None) => RuleLowering::NeverMatches,
        Err(why) => RuleLowering::Unsupported(why),
    }
}

fn try_lower_rule(rule: &Rule, family: Family) -> Result<Option<LoweredRule>, String> {
    let id = rule.credited_originals.first().copied().unwrap_or(OriginalRuleIndex(u32::MAX));
    let act = lower_target(&rule.target, family)?;
    let mut conds = Vec::new();
    let mut never = false;
    for (index, test) in lower_to_tests_with_match_index(rule, family) {
        never |= !lower_test_if_satisfiable(&mut conds, rule, id, family, index, test)?;
    }
    if never {
        return Ok(None);
    }
    let comment = rule.matches.iter().find_map(|m| match m {
        Match::Comment(text) => Some(text.clone()),
        _ => None,
    });
    let credited_originals =
        rule.credited_originals.iter().map(|id| CreditedRuleOrPolicy::Rule(*id)).collect();
    Ok(Some(LoweredRule { credited_originals, conditions: conds, action: act, comment }))
}

fn lower_target(target: &Target, family: Family) -> Result<NftRuleAction, String> {
    Ok(match target {
        Target::None => NftRuleAction::CountOnly,
        Target::Accept => NftRuleAction::Accept,
        Target::Drop => NftRuleAction::Drop,
        Target::Return => NftRuleAction::Return,
        Target::Jump(c) => NftRuleAction::Jump(c.clone()),
        Target::Goto(c) => NftRuleAction::Goto(c.clone()),
        Target::Reject(word) => {
            print_reject(word, family).ok_or_else(|| format!("-j REJECT --reject-with {word}"))?;
            NftRuleAction::RejectWithIptablesType(word)
        }
        Target::Divert(ext) => return Err(format!("-j {}, which hands packets on", ext.module)),
        Target::Nat(nat) => {
            print_nat(nat, family)?;
            NftRuleAction::Nat((**nat).clone())
        }
        Target::Effect(e) => {
            print_effect(e, family)?;
            NftRuleAction::Effect((**e).clone())
        }
        Target::Opaque(o) => return Err(format!("the unknown target {}", o.name)),
    })
}

/// Adds a test; false if it never matches.
fn lower_test_if_satisfiable(
    out: &mut Vec<NftCondition>,
    rule: &Rule,
    id: OriginalRuleIndex,
    family: Family,
    index: Option<usize>,
    test: Test,
) -> Result<bool, String> {
    match test {
        Test::Field { field: Field::CtState, predicate: Predicate::AnyBit(bits), negated } => {
            lower_ct_state(out, bits as u16, negated);
        }
        Test::Field { field: field @ (Field::Iif | Field::Oif), predicate, negated } => {
            return lower_device_test_if_satisfiable(out, field, predicate, negated);
        }
        Test::Field { field, predicate, negated } => {
            out.push(NftCondition::Test(lower_field_test(field, predicate, negated, family)?));
        }
        Test::EitherPort { spans, negated } => {
            let with = Comparand::InSpans(join_intervals(spans));
            let tests = [LoadExpression::Sport, LoadExpression::Dport].map(|load| nft::Test {
                expression: load,
                comparand: with.clone(),
                negated,
            });
            if negated {
                out.extend(tests.map(NftCondition::Test));
            } else {
                out.push(NftCondition::AnyTest(tests.into()));
            }
        }
        Test::Set { index } => {
            let Match::Set(m) = &rule.matches[index] else { unreachable!("located by index") };
            return Err(format!("-m set: {} may change at any time", m.name));
        }
        Test::Opaque { index: at, stateful, .. } => {
            debug_assert_eq!(index, Some(at));
            let opaque = opaque_match::OpaqueMatchContext { rule: id, index: at, stateful, family };
            out.extend(opaque_match::lower_opaque_match(&rule.matches[at], opaque)?);
        }
        Test::Never => return Ok(false),
    }
    Ok(true)
}

fn lower_device_test_if_satisfiable(
    out: &mut Vec<NftCondition>,
    field: Field,
    predicate: Predicate,
    negated: bool,
) -> Result<bool, String> {
    let load = if field == Field::Iif { LoadExpression::Iifname } else { LoadExpression::Oifname };
    let Predicate::Device { name, prefix } = predicate else {
        return Err(format!("{} without a name", field.row().iptables_option));
    };
    if prefix && name.is_empty() {
        return Ok(!negated);
    }
    if name.contains(['"', '*', '\\']) || name.chars().any(char::is_control) {
        return Err(format!("the device name {name:?}"));
    }
    out.push(NftCondition::Test(nft::Test {
        expression: load,
        comparand: Comparand::Device { name, prefix },
        negated,
    }));
    Ok(true)
}

fn lower_field_test(
    field: Field,
    predicate: Predicate,
    negated: bool,
    family: Family,
) -> Result<nft::Test, String> {
    let load = match field {
        Field::Saddr => LoadExpression::Saddr,
        Field::Daddr => LoadExpression::Daddr,
        Field::Proto => LoadExpression::L4proto,
        Field::IsLaterFragment => return lower_fragment_test(predicate, negated, family),
        Field::Sport => LoadExpression::Sport,
        Field::Dport => LoadExpression::Dport,
        Field::TcpFlags => LoadExpression::TcpFlags,
        Field::IcmpTypeAndCode => LoadExpression::IcmpTypeCode,
        Field::SourceMac => LoadExpression::EtherSaddr,
        Field::Mark => LoadExpression::Mark,
        Field::CtMark => LoadExpression::CtMark,
        Field::Length => LoadExpression::MetaLength,
        Field::Ttl => LoadExpression::Ttl,
        Field::Tos => LoadExpression::Tos,
        Field::PktType => LoadExpression::PktType,
        _ => return Err(format!("a test of {}", field.row().name)),
    };
    let max = field.max_value(family);
    let with = match predicate {
        Predicate::Present => Comparand::InSpans(vec![(0, max)]),
        Predicate::InSpans(spans) => Comparand::InSpans(join_intervals(spans)),
        Predicate::Masked { value, mask } if value & !mask != 0 => {
            // Can never be equal: the span of no value.
            let _ = value;
            Comparand::Masked { mask, wanted: value }
        }
        Predicate::Masked { value, mask } => lower_masked_value(field, value, mask, max),
        Predicate::AnyBit(mask) => Comparand::AnyBit(mask),
        Predicate::Device { .. } => return Err(format!("{} with a name", field.row().name)),
    };
    Ok(simplify_icmp_types(nft::Test { expression: load, comparand: with, negated }))
}

/// `-f` distinguishes later fragments by the offset.
fn lower_fragment_test(p: Predicate, negated: bool, family: Family) -> Result<nft::Test, String> {
    if family == Family::V6 || p != Predicate::InSpans(vec![(1, 1)]) {
        return Err("a test for fragments".into());
    }
    let with = Comparand::InSpans(vec![(0, 0)]);
    Ok(nft::Test {
        expression: LoadExpression::Ipv4FragmentOffset,
        comparand: with,
        negated: !negated,
    })
}

/// A mask that is a prefix is a span, as sets and maps hold it; bit tests stay bit tests.
fn lower_masked_value(field: Field, value: u128, mask: u128, max: u128) -> Comparand {
    let combines = match field {
        Field::Saddr | Field::Daddr => true,
        Field::Mark | Field::CtMark => mask == max,
        _ => false,
    };
    match interval_of_value_under_mask(value, mask, max).filter(|_| combines) {
        Some(interval) => Comparand::InSpans(vec![interval]),
        None => Comparand::Masked { mask, wanted: value },
    }
}

/// ICMP types with all of their codes are a test of one byte, which reads better.
fn simplify_icmp_types(mut test: nft::Test) -> nft::Test {
    let Comparand::InSpans(spans) = &test.comparand else { return test };
    if test.expression == LoadExpression::IcmpTypeCode
        && spans.iter().all(|(lo, hi)| lo & 0xff == 0 && hi & 0xff == 0xff)
    {
        let types = spans.iter().map(|(lo, hi)| (lo >> 8, hi >> 8)).collect();
        test = nft::Test {
            expression: LoadExpression::IcmpType,
            comparand: Comparand::InSpans(types),
            negated: test.negated,
        };
    }
    test
}

#[cfg(test)]
mod tests {
    use weir_model::rule_match;

    use super::*;

    #[test]
    fn a_mask_with_holes_stays_a_mask() {
        let holes = lower_masked_value(Field::Saddr, 0x0a00_0100, 0xff00_ff00, 0xffff_ffff);
        assert_eq!(holes, Comparand::Masked { mask: 0xff00_ff00, wanted: 0x0a00_0100 });
        let plain = lower_masked_value(Field::Saddr, 0x0a00_0000, 0xff00_0000, 0xffff_ffff);
        assert_eq!(plain, Comparand::InSpans(vec![(0x0a00_0000, 0x0aff_ffff)]));
    }

    #[test]
    fn tcp_flags_are_never_lowered_to_a_span() {
        let flags = lower_masked_value(Field::TcpFlags, 2, 0xff, 0xff);
        assert_eq!(flags, Comparand::Masked { mask: 0xff, wanted: 2 });
    }

    #[test]
    fn a_negated_dnat_state_holds_without_a_conntrack_entry() {
        let mut out = Vec::new();
        lower_ct_state(&mut out, rule_match::ct_state::DNAT, true);
        assert!(matches!(&out[..], [NftCondition::UnlessStatement(_)]));
        out.clear();
        lower_ct_state(&mut out, rule_match::ct_state::NEW | rule_match::ct_state::DNAT, false);
        assert!(matches!(&out[..], [NftCondition::AnyTest(tests)] if tests.len() == 2));
    }
}
