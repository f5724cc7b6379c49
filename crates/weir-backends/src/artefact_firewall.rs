//! A written artefact as one firewall: the contents of its files, translated to iptables.
//!
//! Rules that count for an original are credited with it; rules that a pass added have no credit.
//! If only the sum of several rules' counters is known, the rules share the credit of the first.

use weir_artefact::{Artefact, ArtefactFileKind};
use weir_model::{Family, Firewall, Ruleset, nft};
use weir_syntax::iptables::{self, ParserSettings};
use weir_syntax::{Diagnostic, ipset};

use crate::nft::to_iptables::{self, OpaqueNftTextDictionary};
use crate::original_rule_ids::OriginalRuleIds;

/// Reads the texts of an artefact. `original` gives the meaning of nft-specific text.
///
/// # Errors
/// A text that is refused, or that says what iptables has no words for: in a sentence.
pub fn read_artefact_as_iptables(
    artefact: &Artefact,
    original: &Firewall,
) -> Result<Firewall, String> {
    let Artefact { contents, manifest } = artefact;
    let text = |kind| contents.text_of_file(kind).unwrap_or_default();
    let mut out = Firewall::default();
    for kind in [ArtefactFileKind::UserSets, ArtefactFileKind::GeneratedSets] {
        out.sets
            .extend(ipset::parse(text(kind)).map_err(|e| describe_first_parse_error(kind, &e))?);
    }
    for family in [Family::V4, Family::V6] {
        let kind = ArtefactFileKind::IptablesRules(family);
        if !text(kind).is_empty() {
            let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
            let ruleset = iptables::parse(text(kind), &options)
                .map_err(|e| describe_first_parse_error(kind, &e))?;
            *ruleset_slot_mut(&mut out, family) = Some(ruleset);
        }
    }
    let mut tables = match text(ArtefactFileKind::Nft) {
        "" => nft::Ruleset::default(),
        text => weir_syntax::nft::parse(text)
            .map_err(|e| describe_first_parse_error(ArtefactFileKind::Nft, &e))?,
    };
    let mut counters = manifest.counters.clone();
    for summed in &manifest.summed {
        counters.0.extend(summed.rules.first().map(|r| (r.clone(), summed.counters.clone())));
    }
    OriginalRuleIds::from_manifest(&counters).credit_artefact_from_manifest_counters(
        &counters,
        &mut out,
        &mut tables,
    );
    for family in [Family::V4, Family::V6] {
        if tables.tables.iter().any(|t| t.family == family) {
            let said = to_iptables::translate_tables_of_family(
                &tables,
                family,
                &OpaqueNftTextDictionary::from_firewall(original, family),
            )
            .map_err(|all| all.first().map(ToString::to_string).unwrap_or_default())?;
            let rest =
                ruleset_slot_mut(&mut out, family).get_or_insert_with(|| Ruleset::new(family));
            to_iptables::add_translated_tables(rest, said).map_err(|e| e.to_string())?;
        }
    }
    Ok(out)
}

fn ruleset_slot_mut(firewall: &mut Firewall, family: Family) -> &mut Option<Ruleset> {
    match family {
        Family::V4 => &mut firewall.v4,
        Family::V6 => &mut firewall.v6,
    }
}

fn describe_first_parse_error(kind: ArtefactFileKind, errors: &[Diagnostic]) -> String {
    format!(
        "{} is refused: {}",
        kind.file_name(),
        errors.first().map_or("", |d| d.message.as_str())
    )
}
