//! A written artefact as one firewall: what its files say, in the words of iptables.
//!
//! Rules that count for an original are credited with it; what a pass put there of its own has no
//! credit. Rules whose counters are known as a sum only share the credit of the first of them.

use std::fs;
use std::path::Path;

use weir_artefact::manifest::Manifest;
use weir_model::{Family, Firewall, Ruleset, nft};
use weir_syntax::iptables::{self, ParseOptions};
use weir_syntax::{Diagnostic, ipset};

use crate::nft::said::{self, Terms};
use crate::original::Originals;

/// Reads the files of an artefact. `original` tells what the words of nft stand for.
///
/// # Errors
/// A file that cannot be read, or that says what iptables has no words for: in a sentence.
pub fn firewall(dir: &Path, manifest: &Manifest, original: &Firewall) -> Result<Firewall, String> {
    let read = |name: &str| match manifest.files.iter().any(|f| f.name == name) {
        false => Ok(String::new()),
        true => fs::read_to_string(dir.join(name)).map_err(|e| format!("read {name}: {e}")),
    };
    let mut out = Firewall::default();
    for name in ["user.ipset", "weir.ipset"] {
        out.sets.extend(ipset::parse(&read(name)?).map_err(|e| first(name, &e))?);
    }
    for (name, family) in [("iptables.rules", Family::V4), ("ip6tables.rules", Family::V6)] {
        let text = read(name)?;
        if !text.is_empty() {
            let options = ParseOptions { family: Some(family), ..ParseOptions::default() };
            let ruleset = iptables::parse(&text, &options).map_err(|e| first(name, &e))?;
            *slot(&mut out, family) = Some(ruleset);
        }
    }
    let mut tables = match read("ruleset.nft")? {
        text if text.is_empty() => nft::Ruleset::default(),
        text => weir_syntax::nft::parse(&text).map_err(|e| first("ruleset.nft", &e))?,
    };
    let mut counters = manifest.counters.clone();
    for summed in &manifest.summed {
        counters.0.extend(summed.rules.first().map(|r| (r.clone(), summed.counters.clone())));
    }
    Originals::of_manifest(&counters).credit_artefact(&counters, &mut out, &mut tables);
    for family in [Family::V4, Family::V6] {
        if tables.tables.iter().any(|t| t.family == family) {
            let said = said::said(&tables, family, &Terms::of(original, family))
                .map_err(|all| all.first().map(ToString::to_string).unwrap_or_default())?;
            let rest = slot(&mut out, family).get_or_insert_with(|| Ruleset::new(family));
            said::join(rest, said).map_err(|e| e.to_string())?;
        }
    }
    Ok(out)
}

fn slot(firewall: &mut Firewall, family: Family) -> &mut Option<Ruleset> {
    match family {
        Family::V4 => &mut firewall.v4,
        Family::V6 => &mut firewall.v6,
    }
}

fn first(name: &str, errors: &[Diagnostic]) -> String {
    format!("{name} is refused: {}", errors.first().map_or("", |d| d.message.as_str()))
}
