//! Properties of every text: the bodies of fuzz targets, and of tests on modified seeds.
//!
//! Reading never panics. Printed text reads back as the same value, and prints the same. Errors can
//! be rendered.

use weir_model::{Family, IpSet, Ruleset, Span};

use crate::diagnostic::{Diagnostic, render_diagnostics};
use crate::iptables::{ParserSettings, parse, print};
use crate::{ipset, nft};

/// Maximum number of errors that are shown for one text.
const RENDERED_ERRORS_MAX: usize = 4;

/// The text of `iptables-save` or `ip6tables-save`.
///
/// # Panics
/// Where what was read is not read back the same.
pub fn check_iptables_round_trip(data: &[u8], family: Family) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    match parse(text, &options) {
        Err(errors) => check_errors_render(&errors, text),
        Ok(ruleset) => {
            let printed = print(&ruleset, true);
            match parse(&printed, &options) {
                Err(errors) => {
                    panic!(
                        "printed text is refused: {}",
                        render_diagnostics(&errors, "", &printed, false)
                    );
                }
                Ok(again) => {
                    assert_eq!(print(&again, true), printed);
                    assert_eq!(
                        strip_spans_and_fill_counters(again),
                        strip_spans_and_fill_counters(ruleset),
                        "{printed}"
                    );
                }
            }
        }
    }
}

/// The text of `ipset save`.
///
/// # Panics
/// Where what was read is not read back the same.
pub fn check_ipset_round_trip(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match ipset::parse(text) {
        Err(errors) => check_errors_render(&errors, text),
        Ok(sets) => {
            let printed = ipset::print(&sets);
            match ipset::parse(&printed) {
                Err(errors) => {
                    panic!(
                        "printed text is refused: {}",
                        render_diagnostics(&errors, "", &printed, false)
                    );
                }
                Ok(again) => {
                    assert_eq!(ipset::print(&again), printed);
                    assert_eq!(
                        strip_spans_and_use_print_order(again),
                        strip_spans_and_use_print_order(sets),
                        "{printed}"
                    );
                }
            }
        }
    }
}

/// nft text.
///
/// # Panics
/// Where what was read has no one normal form.
pub fn check_nft_normalize_idempotent(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match nft::parse(text) {
        Err(errors) => check_errors_render(&errors, text),
        Ok(ruleset) => {
            let normal = nft::normalize_ruleset(&ruleset);
            assert_eq!(nft::normalize_ruleset(&normal), normal);
            assert_eq!(nft::check_rulesets_equal(&ruleset, &normal), Ok(()));
        }
    }
}

fn check_errors_render(errors: &[Diagnostic], text: &str) {
    assert!(!errors.is_empty(), "a refusal says why");
    let drawn = &errors[..errors.len().min(RENDERED_ERRORS_MAX)];
    assert!(!render_diagnostics(drawn, "fuzz", text, true).is_empty());
}

/// The ruleset without positions.
///
/// A chain's counters that are not given are zeros.
fn strip_spans_and_fill_counters(mut ruleset: Ruleset) -> Ruleset {
    for chain in ruleset.tables.iter_mut().flat_map(|t| &mut t.chains) {
        chain.span = Span::NONE;
        chain.counters.get_or_insert_default();
        for rule in &mut chain.rules {
            rule.span = Span::NONE;
            rule.match_and_target_spans.fill(Span::NONE);
            rule.counters.get_or_insert_default();
        }
    }
    ruleset
}

/// Sets in the order of printing, lists last, their options in the order of printing.
fn strip_spans_and_use_print_order(mut sets: Vec<IpSet>) -> Vec<IpSet> {
    use weir_model::ipset::SetStorage;
    sets.sort_by_key(|s| s.kind.storage == SetStorage::List);
    for set in &mut sets {
        set.span = Span::NONE;
        set.options.sort_by_key(ipset::create_line_option_position);
        for element in std::sync::Arc::make_mut(&mut set.elements) {
            element.span = Span::NONE;
        }
    }
    sets
}
