//! A condition of a rule, as nft expresses it.
//!
//! Most are one test of a loaded value. Two cases need a different construction to be equal: a
//! negation that must match if the value is absent, and an alternative of two tests.

use weir_model::matching;
use weir_model::nft::{self, Load, Statement, With, ct_state, ct_status};

/// One test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cond {
    /// A test of one loaded value.
    Test(nft::Test),
    /// A test as nft text.
    Opaque(nft::OpaqueStatement),
    /// Holds unless the statement continues; also where the value is absent.
    Unless(Box<Statement>),
    /// Holds if one of the tests does.
    Any(Vec<nft::Test>),
}

/// `--ctstate`: the states are one value of nft's, SNAT and DNAT bits of another, which a packet
/// without an entry does not have.
pub(super) fn ct_state_test(out: &mut Vec<Cond>, bits: u16, negated: bool) {
    use matching::ct_state as old;
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
    let state = nft::Test { load: Load::CtState, with: With::AnyBit(states), negated };
    let translated = nft::Test { load: Load::CtStatus, with: With::AnyBit(status), negated: false };
    match (states != 0, status != 0, negated) {
        (true, true, false) => out.push(Cond::Any(vec![state, translated])),
        (true, false, _) => out.push(Cond::Test(state)),
        (_, true, false) => out.push(Cond::Test(translated)),
        (has_state, true, true) => {
            if has_state {
                out.push(Cond::Test(state));
            }
            out.push(Cond::Unless(Box::new(Statement::Test(translated))));
        }
        (false, false, _) => out.push(Cond::Test(state)),
    }
}
