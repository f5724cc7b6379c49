//! Properties of every text: the bodies of fuzz targets, and of tests on modified seeds.
//!
//! Reading never panics. Printed text reads back as the same value, and prints the same. Errors can
//! be rendered.

use weir_model::{Family, IpSet, Ruleset, Span};

use crate::diagnostic::{Diagnostic, render};
use crate::iptables::{ParseOptions, parse, print};
use crate::{ipset, nft};

/// Maximum number of errors that are shown for one text.
const DRAWN_MAX: usize = 4;

/// The text of `iptables-save` or `ip6tables-save`.
///
/// # Panics
/// Where what was read is not read back the same.
pub fn iptables(data: &[u8], family: Family) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let options = ParseOptions { family: Some(family), ..ParseOptions::default() };
    match parse(text, &options) {
        Err(errors) => draw(&errors, text),
        Ok(ruleset) => {
            let printed = print(&ruleset, true);
            match parse(&printed, &options) {
                Err(errors) => {
                    panic!("printed text is refused: {}", render(&errors, "", &printed, false));
                }
                Ok(again) => {
                    assert_eq!(print(&again, true), printed);
                    assert_eq!(without_places(again), without_places(ruleset), "{printed}");
                }
            }
        }
    }
}

/// The text of `ipset save`.
///
/// # Panics
/// Where what was read is not read back the same.
pub fn ipset(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match ipset::parse(text) {
        Err(errors) => draw(&errors, text),
        Ok(sets) => {
            let printed = ipset::print(&sets);
            match ipset::parse(&printed) {
                Err(errors) => {
                    panic!("printed text is refused: {}", render(&errors, "", &printed, false));
                }
                Ok(again) => {
                    assert_eq!(ipset::print(&again), printed);
                    assert_eq!(sets_without_places(again), sets_without_places(sets), "{printed}");
                }
            }
        }
    }
}

/// nft text.
///
/// # Panics
/// Where what was read has no one normal form.
pub fn nft(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match nft::parse(text) {
        Err(errors) => draw(&errors, text),
        Ok(ruleset) => {
            let normal = nft::normal(&ruleset);
            assert_eq!(nft::normal(&normal), normal);
            assert_eq!(nft::agrees(&ruleset, &normal), Ok(()));
        }
    }
}

fn draw(errors: &[Diagnostic], text: &str) {
    assert!(!errors.is_empty(), "a refusal says why");
    let drawn = &errors[..errors.len().min(DRAWN_MAX)];
    assert!(!render(drawn, "fuzz", text, true).is_empty());
}

/// The ruleset without positions.
///
/// A chain's counters that are not given are zeros.
fn without_places(mut ruleset: Ruleset) -> Ruleset {
    for chain in ruleset.tables.iter_mut().flat_map(|t| &mut t.chains) {
        chain.span = Span::NONE;
        chain.counters.get_or_insert_default();
        for rule in &mut chain.rules {
            rule.span = Span::NONE;
            rule.spans.fill(Span::NONE);
            rule.counters.get_or_insert_default();
        }
    }
    ruleset
}

/// Sets in the order of printing, lists last, their options in the order of printing.
fn sets_without_places(mut sets: Vec<IpSet>) -> Vec<IpSet> {
    use weir_model::set::Method;
    sets.sort_by_key(|s| s.kind.method == Method::List);
    for set in &mut sets {
        set.span = Span::NONE;
        set.options.sort_by_key(ipset::rank);
        for element in &mut set.elements {
            element.span = Span::NONE;
        }
    }
    sets
}
