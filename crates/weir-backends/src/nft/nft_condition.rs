//! A condition of a rule, as nft expresses it.
//!
//! Most are one test of a loaded value. Two cases need a different construction to be equal: a
//! negation that must match if the value is absent, and an alternative of two tests.

use weir_model::nft::{self, Comparand, LoadExpression, Statement, ct_state, ct_status};
use weir_model::rule_match;

/// One test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NftCondition {
    /// A test of one loaded value.
    Test(nft::Test),
    /// A test as nft text.
    Opaque(nft::OpaqueNftTest),
    /// Holds unless the statement continues; also where the value is absent.
    UnlessStatement(Box<Statement>),
    /// Holds if one of the tests does.
    AnyTest(Vec<nft::Test>),
}

impl NftCondition {
    /// True if it is stateful: it must be evaluated only once.
    pub fn is_stateful(&self) -> bool {
        match self {
            NftCondition::Opaque(o) => o.stateful,
            NftCondition::UnlessStatement(s) => {
                matches!(&**s, Statement::OpaqueTest(o) if o.stateful)
            }
            NftCondition::Test(_) | NftCondition::AnyTest(_) => false,
        }
    }
}

/// `--ctstate`: the states are one value of nft's, SNAT and DNAT bits of another, which a packet
/// without an entry does not have.
pub(super) fn lower_ct_state(out: &mut Vec<NftCondition>, bits: u16, negated: bool) {
    use rule_match::ct_state as old;
    let pick = |pairs: &[(u16, u32)]| -> u128 {
        pairs.iter().filter(|(o, _)| bits & o != 0).map(|(_, n)| u128::from(*n)).sum()
    };
    let states = pick(&[
        (old::INVALID, ct_state::INVALID),
        (old::NEW, ct_state::NEW),
        (old::RELATED, ct_state::RELATED),
        (old::ESTABLISHED, ct_state::ESTABLISHED),
        (old::UNTRACKED, ct_state::UNTRACKED),
    ]);
    let status = pick(&[(old::SNAT, ct_status::SNAT), (old::DNAT, ct_status::DNAT)]);
    let state = nft::Test {
        expression: LoadExpression::CtState,
        comparand: Comparand::AnyBit(states),
        negated,
    };
    let translated = nft::Test {
        expression: LoadExpression::CtStatus,
        comparand: Comparand::AnyBit(status),
        negated: false,
    };
    match (states != 0, status != 0, negated) {
        (true, true, false) => out.push(NftCondition::AnyTest(vec![state, translated])),
        (true, false, _) => out.push(NftCondition::Test(state)),
        (_, true, false) => out.push(NftCondition::Test(translated)),
        (has_state, true, true) => {
            if has_state {
                out.push(NftCondition::Test(state));
            }
            out.push(NftCondition::UnlessStatement(Box::new(Statement::Test(translated))));
        }
        (false, false, _) => out.push(NftCondition::Test(state)),
    }
}
