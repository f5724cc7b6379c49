//! Proves the form for all packets: the nft tables are translated to iptables and compared as
//! diagrams.
//!
//! Packets that the two inherently treat differently are excluded ([`CompareOptions::whole`]), as
//! in [`check`](super::check).

use weir_artefact::Form;
use weir_diagram::{CompareOptions, Identity};
use weir_model::{Family, Firewall, Ruleset, Target};
use weir_passes::RunOptions;
use weir_passes::check::{Proof, prove};

use super::form::NftForm;
use super::to_iptables::{self, OpaqueDictionary};
use crate::form::CompileError;

/// Why there is no proof; `None` if there is one.
///
/// # Errors
/// [`CompileError::Differs`] with a packet that the form treats in another way.
pub(super) fn unproven(
    firewall: &Firewall,
    form: &NftForm,
) -> Result<Option<String>, CompileError> {
    let whole = match whole(firewall, form) {
        Ok(whole) => whole,
        Err(what) => return Ok(Some(what)),
    };
    let options = CompareOptions {
        memory_bytes: RunOptions::default().proof_bytes,
        identity: Identity::Credit,
        regions: 1,
        whole: true,
        ..CompareOptions::default()
    };
    let [firewall, whole] = [firewall, &whole].map(|f| respelled(f, firewall));
    match prove(&firewall, &whole, &options) {
        Proof::Equal => Ok(None),
        Proof::Open(why) => Ok(Some(why)),
        Proof::Differs(example) => Err(CompileError::Differs { form: Form::Nft, example }),
    }
}

/// The form as one firewall; what iptables has no words for, by name.
fn whole(firewall: &Firewall, form: &NftForm) -> Result<Firewall, String> {
    let mut out = form.kept();
    for family in [Family::V4, Family::V6] {
        if !form.ruleset.tables.iter().any(|t| t.family == family) {
            continue;
        }
        let said =
            to_iptables::translate(&form.ruleset, family, &OpaqueDictionary::of(firewall, family))
                .map_err(|all| {
                    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                })?;
        let rest = match family {
            Family::V4 => &mut out.v4,
            Family::V6 => &mut out.v6,
        };
        let rest = rest.get_or_insert_with(|| Ruleset::new(family));
        to_iptables::join(rest, said).map_err(|unsaid| unsaid.to_string())?;
    }
    Ok(out)
}

/// The firewall with one spelling of effects that are the same in nft (NOTRACK and `CT --notrack`):
/// the one that comes first in `by`.
fn respelled(firewall: &Firewall, by: &Firewall) -> Firewall {
    let mut out = firewall.clone();
    for ruleset in [&mut out.v4, &mut out.v6].into_iter().flatten() {
        let dictionary = OpaqueDictionary::of(by, ruleset.family);
        let chains = ruleset.tables.iter_mut().flat_map(|t| &mut t.chains);
        for rule in chains.flat_map(|c| &mut c.rules) {
            if let Target::Effect(effect) = &mut rule.target {
                **effect = dictionary.effect(effect);
            }
        }
    }
    out
}
