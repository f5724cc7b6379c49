//! `weir bench classify` with a ruleset of iptables: the filters of its largest look-up.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weir_backends::classifier_form::compile_chain_to_lookups;
use weir_classify::FilterSet;
use weir_model::{Family, Firewall, iptables_tool_name};
use weir_syntax::iptables::{self, ParserSettings};
use weir_syntax::{Diagnostic, ipset};

use super::compile_classifier::select_chains;
use crate::operand::{list_missing_sets, print_first_diagnostics};

/// The look-up whose filters are measured.
#[derive(Debug, Serialize)]
pub struct MeasuredLookup {
    /// The built-in chain: `iptables/filter/FORWARD`.
    pub chain: String,
    /// How many rules it reaches.
    pub rules: usize,
    /// How many look-ups the chain has.
    pub lookups: usize,
    /// Filters of the largest one, which is measured.
    pub filters: usize,
    /// Words of its keys.
    pub words: usize,
}

/// The largest look-up of the named chain, or of all built-in chains, with its filters. Rules that
/// are evaluated after a look-up have filters for the tests before.
///
/// # Errors
/// The text is not a ruleset, a set is missing, or the chain is.
pub fn compile_largest_lookup(
    (name, text): (&str, &str),
    chain: Option<&str>,
    ipset_file: Option<&Path>,
    color: bool,
) -> Result<(MeasuredLookup, FilterSet)> {
    let firewall = parse_firewall((name, text), ipset_file, color)?;
    let names: Vec<String> = chain.map(str::to_owned).into_iter().collect();
    let mut largest: Option<(MeasuredLookup, FilterSet)> = None;
    for (family, table, chain) in select_chains(&firewall, &names)? {
        let program = compile_chain_to_lookups(&firewall, (family, table, chain))?;
        let stretches = || program.chains().iter().flat_map(|chain| &chain.stretches);
        for stretch in stretches() {
            let filters = stretch.filters.filter_count();
            if filters <= largest.as_ref().map_or(0, |(lookup, _)| lookup.filters) {
                continue;
            }
            let lookup = MeasuredLookup {
                chain: format!("{}/{table}/{chain}", iptables_tool_name(family)),
                rules: program.reachable_rule_count(),
                lookups: stretches().count(),
                filters,
                words: stretch.filters.schema().word_count(),
            };
            largest = Some((lookup, stretch.filters.clone()));
        }
    }
    largest.with_context(|| format!("{name}: no rule of these chains is found by a look-up"))
}

fn parse_firewall(
    (name, text): (&str, &str),
    ipset_file: Option<&Path>,
    color: bool,
) -> Result<Firewall> {
    let refuse = |name: &str, text: &str, errors: &[Diagnostic]| {
        print_first_diagnostics(name, text, errors, "error", color);
        anyhow::anyhow!("errors in {name}: nothing was measured")
    };
    let mut firewall = Firewall::default();
    if let Some(path) = ipset_file {
        let sets =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.display().to_string();
        firewall.sets = ipset::parse(&sets).map_err(|errors| refuse(&name, &sets, &errors))?;
    }
    let family = iptables::guess_family(text);
    let settings = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = iptables::parse(text, &settings).map_err(|errors| refuse(name, text, &errors))?;
    match family {
        Family::V4 => firewall.v4 = Some(ruleset),
        Family::V6 => firewall.v6 = Some(ruleset),
    }
    match list_missing_sets(&firewall)[..] {
        [] => Ok(firewall),
        [first, ..] => bail!("{name} matches the set {first}: give the sets with --ipset FILE"),
    }
}
