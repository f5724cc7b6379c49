//! ipsets: the match `set` and the target `SET`.

use weir_model::Hook::{Forward, Output, Postrouting};
use weir_model::ipset::SET_DIRECTIONS_MAX;
use weir_model::rule_match::{ExtensionValue, SetMatch, TypedExtensionOption};
use weir_model::{Family, Match, SharedName, TableName, Target};

use super::extension_value_builders::ModuleOptionsBuilder;
use super::option_value_printing::print_option_value;
use super::option_values;
use crate::append_text;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, OptionSpec, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};

pub(super) static SET_MATCH: Extension<Match> = Extension {
    name: "set",
    options: &[
        option_with_argument("match-set", 0).invertible().with_two_arguments(),
        option_with_argument("set", 0).invertible().with_two_arguments(),
        flag_option("return-nomatch", 1).repeatable(),
        flag_option("update-counters", 2).invertible().repeatable(),
        flag_option("update-subcounters", 3).invertible().repeatable(),
        option_with_argument("packets-eq", 4).invertible().excludes(1 << 5 | 1 << 6),
        option_with_argument("packets-lt", 5).excludes(1 << 4 | 1 << 6),
        option_with_argument("packets-gt", 6).excludes(1 << 4 | 1 << 5),
        option_with_argument("bytes-eq", 7).invertible().excludes(1 << 8 | 1 << 9),
        option_with_argument("bytes-lt", 8).excludes(1 << 7 | 1 << 9),
        option_with_argument("bytes-gt", 9).excludes(1 << 7 | 1 << 8),
    ],
    build: build_set_match,
    ..Extension::DEFAULT
};

const fn require_add_set_option(o: OptionSpec) -> OptionSpec {
    o.requires_all(1 << 0)
}

pub(super) static SET_TARGET: Extension<Target> = Extension {
    name: "SET",
    options: &[
        // A `!` before them is read, and forgotten by the tool.
        option_with_argument("add-set", 0).with_two_arguments().invertible(),
        option_with_argument("del-set", 1).with_two_arguments().invertible(),
        option_with_argument("map-set", 2).with_two_arguments().invertible(),
        require_add_set_option(flag_option("exist", 3).invertible()),
        require_add_set_option(option_with_argument("timeout", 4).invertible()),
        flag_option("map-mark", 5).requires_all(1 << 2).invertible(),
        flag_option("map-prio", 6).requires_all(1 << 2).invertible(),
        flag_option("map-queue", 7).requires_all(1 << 2).invertible(),
    ],
    build: build_set_target,
    print_value: print_set_target_value,
    ..Extension::DEFAULT
};

fn parse_set_name(t: &ParsedOption) -> ParseResult<SharedName> {
    if t.arg.is_empty() || t.arg.len() > 31 {
        return t.arg_error("set name is not 1 to 31 bytes").into_err();
    }
    Ok(SharedName::from(t.arg))
}

fn parse_set_directions_true_for_src(t: &ParsedOption) -> ParseResult<Vec<bool>> {
    let mut out = Vec::new();
    for word in t.second_arg.split(',') {
        match word {
            "src" => out.push(true),
            "dst" => out.push(false),
            _ => {
                return t
                    .second_arg_error(format!("{word:?} is not src or dst"))
                    .with_help("write one for each part of the set's elements: src,dst")
                    .into_err();
            }
        }
    }
    if out.len() > SET_DIRECTIONS_MAX {
        return t
            .second_arg_error(format!("more than {SET_DIRECTIONS_MAX} of src and dst"))
            .into_err();
    }
    Ok(out)
}

fn build_set_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.first_with_id(0) else {
        return g
            .extension_error("set without --match-set")
            .with_help("write --match-set NAME src")
            .into_err();
    };
    let mut options = Vec::new();
    if g.has_option(1) {
        options.push("--return-nomatch".to_owned());
    }
    // Without `!` they say what holds anyway, and take back no `!`.
    for id in [2, 3].into_iter().filter(|id| g.iter().any(|t| t.id == *id && t.negated)) {
        options.extend(["!".to_owned(), format!("--{}", g.option_name_without_dashes(id))]);
    }
    for o in (4..=9).filter_map(|id| g.first_with_id(id)) {
        if o.negated {
            options.push("!".to_owned());
        }
        let n = option_values::parse_integer(o, 0, u64::MAX)?;
        options.extend([format!("--{}", g.option_name_without_dashes(o.id)), n.to_string()]);
    }
    Ok(Match::Set(SetMatch {
        negated: t.negated,
        name: parse_set_name(t)?,
        src_directions: parse_set_directions_true_for_src(t)?,
        options,
    }))
}

fn build_set_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    for t in (0..=2).filter_map(|id| g.first_with_id(id)) {
        let mut words = parse_set_name(t)?.to_string();
        words.push(' ');
        append_set_directions(&mut words, &parse_set_directions_true_for_src(t)?);
        options.push_non_negated(g.option_name_without_dashes(t.id), ExtensionValue::Text(words));
        if t.id == 0 {
            if g.has_option(3) {
                options.push_non_negated("exist", ExtensionValue::Flag);
            }
            if let Some(t) = g.first_with_id(4) {
                options.push_non_negated(
                    "timeout",
                    ExtensionValue::Number(option_values::parse_integer(t, 0, 2_147_483)?),
                );
            }
        }
    }
    if options.0.is_empty() {
        return g
            .extension_error("SET without an action")
            .with_help("give --add-set or --del-set")
            .into_err();
    }
    if let Some(t) = g.first_with_id(2) {
        if !(5..=7).any(|id| g.has_option(id)) {
            return Diagnostic::new(
                "--map-set without a value to map",
                t.negation_to_arguments_span,
            )
            .with_help("give --map-mark, --map-prio or --map-queue")
            .into_err();
        }
        if g.table != TableName::Mangle {
            return Diagnostic::new(
                format!("--map-set in the {} table", g.table),
                t.negation_to_arguments_span,
            )
            .with_help("the kernel accepts it only in mangle")
            .into_err();
        }
        if g.has_option(6) || g.has_option(7) {
            g.restrict_hooks(&[Forward, Output, Postrouting]);
        }
        for id in (5..=7).filter(|id| g.has_option(*id)) {
            options.push_non_negated(g.option_name_without_dashes(id), ExtensionValue::Flag);
        }
    }
    Ok(super::log_targets::effect_target_with_options("SET", options))
}

fn append_set_directions(out: &mut String, dirs: &[bool]) {
    append_text::append_comma_list(out, dirs, |out, src| {
        out.push_str(if *src { "src" } else { "dst" })
    });
}

/// A set's name, quoted where it needs it, and the directions.
fn print_set_target_value(out: &mut String, o: &TypedExtensionOption, family: Family) {
    let ExtensionValue::Text(words) = &o.value else { return print_option_value(out, o, family) };
    let (name, directions) = words.rsplit_once(' ').unwrap_or((words, ""));
    append_text::append_word_quoted_if_needed(out, name);
    out.push(' ');
    out.push_str(directions);
}

pub(super) fn print_set_match(out: &mut String, m: &SetMatch) {
    out.push_str(" -m set");
    append_text::append_negatable_option_name(out, m.negated, "--match-set");
    append_text::append_word_quoted_if_needed(out, &m.name);
    out.push(' ');
    append_set_directions(out, &m.src_directions);
    for word in &m.options {
        out.push(' ');
        out.push_str(word);
    }
}
