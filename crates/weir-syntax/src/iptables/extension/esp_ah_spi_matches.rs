//! Security parameter indexes: esp, and ah of both families.

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::{Family, Match};

use super::extension_value_builders::unmodelled_input_match;
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};

pub(super) static ESP_MATCH: Extension<Match> = Extension {
    name: "esp",
    options: &[option_with_argument("espspi", 0).invertible()],
    build: |g| build_esp_or_ah_match(g, "espspi"),
    scope: ExtensionScope::for_protocols(&[50]),
    ..Extension::DEFAULT
};

pub(super) static AH_MATCH: Extension<Match> = Extension {
    name: "ah",
    family: Some(Family::V4),
    options: &[option_with_argument("ahspi", 0).invertible()],
    build: |g| build_esp_or_ah_match(g, "ahspi"),
    scope: ExtensionScope::for_protocols(&[51]),
    ..Extension::DEFAULT
};

pub(super) static AH6_MATCH: Extension<Match> = Extension {
    name: "ah",
    family: Some(Family::V6),
    options: &[
        option_with_argument("ahspi", 0).invertible(),
        option_with_argument("ahlen", 1).invertible(),
        flag_option("ahres", 2),
    ],
    build: |g| build_esp_or_ah_match(g, "ahspi"),
    ..Extension::DEFAULT
};

fn build_esp_or_ah_match(g: &ParsedExtensionOptions, name: &'static str) -> ParseResult<Match> {
    let mut options = Vec::new();
    if let Some(t) = g.first_with_id(0) {
        let (lo, hi) = option_values::parse_number_range(t, u32::MAX.into())?;
        if t.negated || lo != 0 || hi != u32::MAX.into() {
            options.push(TypedExtensionOption {
                negated: t.negated,
                name,
                value: ExtensionValue::Range(lo, hi),
            });
        }
    }
    if let Some(t) = g.first_with_id(1) {
        let n = option_values::parse_integer(t, 0, u32::MAX.into())?;
        if n != 0 || t.negated {
            let value = ExtensionValue::Number(n);
            options.push(TypedExtensionOption { negated: t.negated, name: "ahlen", value });
        }
    }
    if g.has_option(2) {
        options.push(TypedExtensionOption {
            negated: false,
            name: "ahres",
            value: ExtensionValue::Flag,
        });
    }
    Ok(unmodelled_input_match(if name == "espspi" { "esp" } else { "ah" }, options))
}
