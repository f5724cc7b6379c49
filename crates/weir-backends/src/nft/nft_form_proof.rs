//! Proves the form for all packets: the nft tables are translated to iptables and compared as
//! diagrams.
//!
//! Packets that the two inherently treat differently are excluded
//! ([`CompareOptions::exclude_unreadable_headers`]), as in
//! [`compare_nft_form_at_hooks`](super::compare_nft_form_at_hooks).

use weir_artefact::CompiledForm;
use weir_diagram::{CompareOptions, ProofBudget, StatefulTestPairing};
use weir_model::{Family, Firewall, Ruleset, Target};
use weir_passes::equivalence_check::{ProofResult, prove_equivalence};

use super::nft_form::NftForm;
use super::to_iptables::{self, OpaqueNftTextDictionary};
use crate::compile_options::{CompileError, CompileOptions, FractionDoneFn};

/// Why there is no proof; `None` if there is one. It may use the steps that passes left.
///
/// # Errors
/// [`CompileError::NotEquivalent`] with a packet that the form treats in another way.
pub(super) fn prove_nft_form_or_explain(
    firewall: &Firewall,
    form: &NftForm,
    (options, budget): (&CompileOptions, ProofBudget),
    progress: &mut FractionDoneFn<'_>,
) -> Result<Option<String>, CompileError> {
    let whole = match form_to_iptables(firewall, form) {
        Ok(whole) => whole,
        Err(what) => return Ok(Some(what)),
    };
    let compare = CompareOptions {
        memory_bytes: options.diagram_memory_bytes_per_path_max,
        steps_max: budget.steps_for_next_proof(false),
        stateful_pairing: StatefulTestPairing::ByCredit,
        regions_max: 1,
        exclude_unreadable_headers: true,
        ..CompareOptions::default()
    };
    let [firewall, whole] = [firewall, &whole].map(|f| unify_effect_spelling(f, firewall));
    let (result, _) = prove_equivalence(&firewall, &whole, &compare, progress);
    match result {
        ProofResult::Equal => Ok(None),
        ProofResult::Undecided(why) => Ok(Some(why)),
        ProofResult::Disproven(example) => {
            Err(CompileError::NotEquivalent { form: CompiledForm::Nft, example })
        }
    }
}

/// The form as one firewall; what iptables has no words for, by name.
fn form_to_iptables(firewall: &Firewall, form: &NftForm) -> Result<Firewall, String> {
    let mut out = form.iptables_tables_with_hooks_left();
    for family in [Family::V4, Family::V6] {
        if !form.nft_ruleset.tables.iter().any(|t| t.family == family) {
            continue;
        }
        let said = to_iptables::translate_tables_of_family(
            &form.nft_ruleset,
            family,
            &OpaqueNftTextDictionary::from_firewall(firewall, family),
        )
        .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let rest = match family {
            Family::V4 => &mut out.v4,
            Family::V6 => &mut out.v6,
        };
        let rest = rest.get_or_insert_with(|| Ruleset::new(family));
        to_iptables::add_translated_tables(rest, said).map_err(|unsaid| unsaid.to_string())?;
    }
    Ok(out)
}

/// The firewall with one spelling of effects that are the same in nft (NOTRACK and `CT --notrack`):
/// the one that comes first in `by`.
fn unify_effect_spelling(firewall: &Firewall, by: &Firewall) -> Firewall {
    let mut out = firewall.clone();
    for ruleset in [&mut out.v4, &mut out.v6].into_iter().flatten() {
        let dictionary = OpaqueNftTextDictionary::from_firewall(by, ruleset.family);
        let chains = ruleset.tables.iter_mut().flat_map(|t| &mut t.chains);
        for rule in chains.flat_map(|c| &mut c.rules) {
            if let Target::Effect(effect) = &mut rule.target {
                **effect = dictionary.use_original_effect_spelling(effect);
            }
        }
    }
    out
}
