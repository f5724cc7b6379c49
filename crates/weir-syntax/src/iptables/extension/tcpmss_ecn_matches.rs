//! Matches of TCP options and of ECN bits: tcpmss, ecn.

use weir_model::Match;
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};

use super::extension_value_builders::unmodelled_input_match;
use super::option_values;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};

pub(super) static TCPMSS_MATCH: Extension<Match> = Extension {
    name: "tcpmss",
    options: &[option_with_argument("mss", 0).invertible().mandatory()],
    build: |g| {
        let Some(t) = g.first_with_id(0) else {
            return g.extension_error("tcpmss without --mss").into_err();
        };
        let (lo, hi) = option_values::parse_number_range(t, 0xffff)?;
        if lo > hi {
            return t
                .arg_error(format!("the lower end of {} is above its upper end", t.arg))
                .into_err();
        }
        let value = ExtensionValue::Range(lo, hi);
        Ok(unmodelled_input_match(
            "tcpmss",
            vec![TypedExtensionOption { negated: t.negated, name: "mss", value }],
        ))
    },
    scope: ExtensionScope::for_protocols(&[6]),
    ..Extension::DEFAULT
};

pub(super) static ECN_MATCH: Extension<Match> = Extension {
    name: "ecn",
    options: &[
        flag_option("ecn-tcp-cwr", 0).invertible(),
        flag_option("ecn-tcp-ece", 1).invertible(),
        option_with_argument("ecn-ip-ect", 2).invertible(),
    ],
    build: build_ecn_match,
    ..Extension::DEFAULT
};

fn build_ecn_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = Vec::new();
    for id in [1, 0, 2] {
        let Some(t) = g.first_with_id(id) else { continue };
        let value = match id {
            2 => ExtensionValue::Number(option_values::parse_integer(t, 0, 3)?),
            _ => ExtensionValue::Flag,
        };
        let tcp = g.base.proto.is_some_and(|p| p.proto == 6 && !p.negated);
        if id != 2 && !tcp {
            return Diagnostic::new(
                "test of TCP bits in a rule that is not for TCP only",
                t.negation_to_arguments_span,
            )
            .with_help("write -p tcp in the rule")
            .into_err();
        }
        options.push(TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(id),
            value,
        });
    }
    if options.is_empty() {
        return g.extension_error("ecn without an option").into_err();
    }
    Ok(unmodelled_input_match("ecn", options))
}
