//! Logging targets: LOG and NFLOG.

use weir_model::Target;
use weir_model::rule_match::ExtensionValue;
use weir_model::target::{Effect, ExtensionTarget as Plain};

use super::extension_value_builders::ModuleOptionsBuilder;
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};
use crate::strtoul;

pub(super) static LOG_TARGET: Extension<Target> = Extension {
    name: "LOG",
    options: &[
        option_with_argument("log-level", 0),
        option_with_argument("log-prefix", 1),
        flag_option("log-tcp-sequence", 2),
        flag_option("log-tcp-options", 3),
        flag_option("log-ip-options", 4),
        flag_option("log-uid", 5),
        flag_option("log-macdecode", 6),
    ],
    build: build_log_target,
    ..Extension::DEFAULT
};

pub(super) static NFLOG_TARGET: Extension<Target> = Extension {
    name: "NFLOG",
    options: &[
        option_with_argument("nflog-group", 0),
        option_with_argument("nflog-prefix", 1),
        option_with_argument("nflog-range", 2).excludes(1 << 3),
        option_with_argument("nflog-size", 3).excludes(1 << 2),
        option_with_argument("nflog-threshold", 4),
    ],
    build: build_nflog_target,
    ..Extension::DEFAULT
};

const IPTABLES_LOG_LEVELS: [(&str, u64); 9] = [
    ("alert", 1),
    ("crit", 2),
    ("debug", 7),
    ("emerg", 0),
    ("error", 3),
    ("info", 6),
    ("notice", 5),
    ("panic", 0),
    ("warning", 4),
];

/// Level where none is given; it is not printed back.
const DEFAULT_LOG_LEVEL: u64 = 4;

fn parse_log_level(t: &ParsedOption) -> ParseResult<u64> {
    let named = || IPTABLES_LOG_LEVELS.iter().find(|(name, _)| *name == t.arg).map(|(_, n)| *n);
    match strtoul::parse_number_in_range(t.arg, 0, 7).or_else(named) {
        Some(n) => Ok(n),
        None => t
            .arg_error(format!("no log level {}", t.arg))
            .with_help(
                "write a number from 0 to 7, or alert, crit, debug, emerg, error, info, notice, \
                 warning",
            )
            .into_err(),
    }
}

/// A prefix of at most `max` bytes: the tool cuts off the rest.
fn parse_and_truncate_log_prefix(t: &ParsedOption, max: usize) -> ParseResult<ExtensionValue> {
    if t.arg.is_empty() {
        return t.arg_error("empty prefix").with_help("remove the option").into_err();
    }
    if t.arg.contains('\n') {
        return t.arg_error("line end in a prefix").into_err();
    }
    match t.arg.get(..max.min(t.arg.len())) {
        Some(kept) => Ok(ExtensionValue::Text(kept.to_owned())),
        None => t
            .arg_error(format!(
                "the tool truncates the prefix after {max} bytes, inside a character"
            ))
            .with_help("write a shorter prefix")
            .into_err(),
    }
}

fn build_log_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    if let Some(t) = g.first_with_id(1) {
        options.push_non_negated("log-prefix", parse_and_truncate_log_prefix(t, 29)?);
    }
    if let Some(t) = g.first_with_id(0) {
        let level = parse_log_level(t)?;
        if level != DEFAULT_LOG_LEVEL {
            options.push_non_negated("log-level", ExtensionValue::Number(level));
        }
    }
    for id in 2..=6 {
        if g.has_option(id) {
            options.push_non_negated(g.option_name_without_dashes(id), ExtensionValue::Flag);
        }
    }
    Ok(effect_target_with_options("LOG", options))
}

fn build_nflog_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    if let Some(t) = g.first_with_id(1) {
        options.push_non_negated("nflog-prefix", parse_and_truncate_log_prefix(t, 63)?);
    }
    for (id, max) in [(0, 0xffff), (2, u32::MAX.into()), (3, u32::MAX.into()), (4, 0xffff)] {
        let Some(t) = g.first_with_id(id) else { continue };
        let n = option_values::parse_integer(t, 0, max)?;
        if n != 0 || id == 3 {
            options.push_non_negated(g.option_name_without_dashes(id), ExtensionValue::Number(n));
        }
    }
    Ok(effect_target_with_options("NFLOG", options))
}

/// A target after which the traversal continues.
pub(super) fn effect_target_with_options(
    module: &'static str,
    options: ModuleOptionsBuilder,
) -> Target {
    let options = options.0;
    Target::Effect(Box::new(Effect::Other(Plain { module, options })))
}
