//! A rule as nft expresses it: tests of loaded values, and its action.
//!
//! Where nft differs, the translation is chosen so that the result is equal: a negation that must
//! match if the value is absent becomes [`Cond::Unless`], a test of either port [`Cond::Any`]; the
//! emitter gives them their own chains. What nft cannot express is refused by name.

use weir_model::mask::masked_interval;
use weir_model::nft::{self, Credit, Load, Statement, With};
use weir_model::{
    Effect, Family, Field, Match, Name, NatTarget, Predicate, Rule, RuleIndex, Target, Test,
    located_tests_of,
};
use weir_partition::interval::joined;
use weir_syntax::nft::{print_effect, print_nat, print_reject};

use super::cond::{Cond, ct_state_test};
use super::host;

/// One rule, ready to be emitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// The originals that its counter is part of.
    pub credit: Vec<Credit>,
    /// Its tests, in the kernel's order.
    pub conds: Vec<Cond>,
    /// What it does once they hold.
    pub act: Act,
    /// Its comment.
    pub comment: Option<String>,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// It only counts.
    Count,
    Accept,
    Drop,
    Return,
    Jump(Name),
    Goto(Name),
    Reject(&'static str),
    Nat(NatTarget),
    Effect(Effect),
}

impl Act {
    /// True where nothing after the rule in its chain sees the packet.
    pub fn ends(&self) -> bool {
        !matches!(self, Act::Count | Act::Effect(_) | Act::Jump(_))
    }

    /// True if it leaves its chain for the caller's: it must not be in a chain that was called from
    /// its own chain.
    pub fn leaves(&self) -> bool {
        matches!(self, Act::Return | Act::Goto(_))
    }
}

impl Item {
    /// True if it is stateful: it must occur only once.
    pub fn is_stateful(&self) -> bool {
        self.conds.iter().any(|c| match c {
            Cond::Opaque(o) => o.stateful,
            Cond::Unless(s) => matches!(&**s, Statement::Opaque(o) if o.stateful),
            Cond::Test(_) | Cond::Any(_) => false,
        })
    }
}

/// The outcome of a rule.
pub(super) enum LoweredMatch {
    /// nft says it.
    Item(Item),
    /// It never matches.
    Never,
    /// nft cannot say it: why.
    Refused(String),
}

/// Says a rule in nft terms.
pub(super) fn lower(rule: &Rule, family: Family) -> LoweredMatch {
    match try_lower(rule, family) {
        Ok(Some(item)) => LoweredMatch::Item(item),
        Ok(None) => LoweredMatch::Never,
        Err(why) => LoweredMatch::Refused(why),
    }
}

fn try_lower(rule: &Rule, family: Family) -> Result<Option<Item>, String> {
    let id = rule.credit.first().copied().unwrap_or(RuleIndex(u32::MAX));
    let act = act(&rule.target, family)?;
    let mut conds = Vec::new();
    let mut never = false;
    for (index, test) in located_tests_of(rule, family) {
        never |= !lower_test(&mut conds, rule, id, family, index, test)?;
    }
    if never {
        return Ok(None);
    }
    let comment = rule.matches.iter().find_map(|m| match m {
        Match::Comment(text) => Some(text.clone()),
        _ => None,
    });
    let credit = rule.credit.iter().map(|id| Credit::Rule(*id)).collect();
    Ok(Some(Item { credit, conds, act, comment }))
}

fn act(target: &Target, family: Family) -> Result<Act, String> {
    Ok(match target {
        Target::None => Act::Count,
        Target::Accept => Act::Accept,
        Target::Drop => Act::Drop,
        Target::Return => Act::Return,
        Target::Jump(c) => Act::Jump(c.clone()),
        Target::Goto(c) => Act::Goto(c.clone()),
        Target::Reject(word) => {
            print_reject(word, family).ok_or_else(|| format!("-j REJECT --reject-with {word}"))?;
            Act::Reject(word)
        }
        Target::Divert(ext) => return Err(format!("-j {}, which hands packets on", ext.module)),
        Target::Nat(nat) => {
            print_nat(nat, family)?;
            Act::Nat((**nat).clone())
        }
        Target::Effect(e) => {
            print_effect(e, family)?;
            Act::Effect((**e).clone())
        }
        Target::Opaque(o) => return Err(format!("the unknown target {}", o.name)),
    })
}

/// Adds a test; false if it never matches.
fn lower_test(
    out: &mut Vec<Cond>,
    rule: &Rule,
    id: RuleIndex,
    family: Family,
    index: Option<usize>,
    test: Test,
) -> Result<bool, String> {
    match test {
        Test::Field { field: Field::CtState, predicate: Predicate::AnyBit(bits), negated } => {
            ct_state_test(out, bits as u16, negated);
        }
        Test::Field { field: field @ (Field::Iif | Field::Oif), predicate, negated } => {
            return device_test(out, field, predicate, negated);
        }
        Test::Field { field, predicate, negated } => {
            out.push(Cond::Test(field_test(field, predicate, negated, family)?));
        }
        Test::EitherPort { spans, negated } => {
            let with = With::Spans(joined(spans));
            let tests = [Load::Sport, Load::Dport].map(|load| nft::Test {
                load,
                with: with.clone(),
                negated,
            });
            if negated {
                out.extend(tests.map(Cond::Test));
            } else {
                out.push(Cond::Any(tests.into()));
            }
        }
        Test::Set { index } => {
            let Match::Set(m) = &rule.matches[index] else { unreachable!("located by index") };
            return Err(format!("-m set: {} may change at any time", m.name));
        }
        Test::Opaque { index: at, stateful, .. } => {
            debug_assert_eq!(index, Some(at));
            let opaque = host::MatchPlace { rule: id, index: at, stateful, family };
            out.extend(host::lower(&rule.matches[at], opaque)?);
        }
        Test::Never => return Ok(false),
    }
    Ok(true)
}

fn device_test(
    out: &mut Vec<Cond>,
    field: Field,
    predicate: Predicate,
    negated: bool,
) -> Result<bool, String> {
    let load = if field == Field::Iif { Load::Iifname } else { Load::Oifname };
    let Predicate::Device { name, prefix } = predicate else {
        return Err(format!("{} without a name", field.row().iptables));
    };
    if prefix && name.is_empty() {
        return Ok(!negated);
    }
    if name.contains(['"', '*', '\\']) || name.chars().any(char::is_control) {
        return Err(format!("the device name {name:?}"));
    }
    out.push(Cond::Test(nft::Test { load, with: With::Device { name, prefix }, negated }));
    Ok(true)
}

fn field_test(
    field: Field,
    predicate: Predicate,
    negated: bool,
    family: Family,
) -> Result<nft::Test, String> {
    let load = match field {
        Field::Saddr => Load::Saddr,
        Field::Daddr => Load::Daddr,
        Field::Proto => Load::L4proto,
        Field::Fragment => return fragment_test(predicate, negated, family),
        Field::Sport => Load::Sport,
        Field::Dport => Load::Dport,
        Field::TcpFlags => Load::TcpFlags,
        Field::Icmp => Load::IcmpTypeCode,
        Field::SourceMac => Load::EtherSaddr,
        Field::Mark => Load::Mark,
        Field::CtMark => Load::CtMark,
        Field::Length => Load::Length,
        Field::Ttl => Load::Ttl,
        Field::Tos => Load::Tos,
        Field::PktType => Load::PktType,
        _ => return Err(format!("a test of {}", field.row().name)),
    };
    let max = field.max(family);
    let with = match predicate {
        Predicate::Present => With::Spans(vec![(0, max)]),
        Predicate::In(spans) => With::Spans(joined(spans)),
        Predicate::Masked { value, mask } if value & !mask != 0 => {
            // Can never be equal: the span of no value.
            let _ = value;
            With::Masked { mask, wanted: value }
        }
        Predicate::Masked { value, mask } => masked(field, value, mask, max),
        Predicate::AnyBit(mask) => With::AnyBit(mask),
        Predicate::Device { .. } => return Err(format!("{} with a name", field.row().name)),
    };
    Ok(whole_types(nft::Test { load, with, negated }))
}

/// `-f` distinguishes later fragments by the offset.
fn fragment_test(p: Predicate, negated: bool, family: Family) -> Result<nft::Test, String> {
    if family == Family::V6 || p != Predicate::In(vec![(1, 1)]) {
        return Err("a test for fragments".into());
    }
    let with = With::Spans(vec![(0, 0)]);
    Ok(nft::Test { load: Load::FragmentOffset, with, negated: !negated })
}

/// A mask that is a prefix is a span, as sets and maps hold it; bit tests stay bit tests.
fn masked(field: Field, value: u128, mask: u128, max: u128) -> With {
    let combines = match field {
        Field::Saddr | Field::Daddr => true,
        Field::Mark | Field::CtMark => mask == max,
        _ => false,
    };
    match masked_interval(value, mask, max).filter(|_| combines) {
        Some(interval) => With::Spans(vec![interval]),
        None => With::Masked { mask, wanted: value },
    }
}

/// ICMP types with all of their codes are a test of one byte, which reads better.
fn whole_types(mut test: nft::Test) -> nft::Test {
    let With::Spans(spans) = &test.with else { return test };
    if test.load == Load::IcmpTypeCode
        && spans.iter().all(|(lo, hi)| lo & 0xff == 0 && hi & 0xff == 0xff)
    {
        let types = spans.iter().map(|(lo, hi)| (lo >> 8, hi >> 8)).collect();
        test = nft::Test { load: Load::IcmpType, with: With::Spans(types), negated: test.negated };
    }
    test
}

#[cfg(test)]
mod tests {
    use weir_model::matching;

    use super::*;

    #[test]
    fn a_mask_with_holes_stays_a_mask() {
        let holes = masked(Field::Saddr, 0x0a00_0100, 0xff00_ff00, 0xffff_ffff);
        assert_eq!(holes, With::Masked { mask: 0xff00_ff00, wanted: 0x0a00_0100 });
        let plain = masked(Field::Saddr, 0x0a00_0000, 0xff00_0000, 0xffff_ffff);
        assert_eq!(plain, With::Spans(vec![(0x0a00_0000, 0x0aff_ffff)]));
    }

    #[test]
    fn flags_never_become_a_span() {
        let flags = masked(Field::TcpFlags, 2, 0xff, 0xff);
        assert_eq!(flags, With::Masked { mask: 0xff, wanted: 2 });
    }

    #[test]
    fn not_dnat_holds_without_an_entry() {
        let mut out = Vec::new();
        ct_state_test(&mut out, matching::ct_state::DNAT, true);
        assert!(matches!(&out[..], [Cond::Unless(_)]));
        out.clear();
        ct_state_test(&mut out, matching::ct_state::NEW | matching::ct_state::DNAT, false);
        assert!(matches!(&out[..], [Cond::Any(tests)] if tests.len() == 2));
    }
}
