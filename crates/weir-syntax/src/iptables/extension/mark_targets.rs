//! `-j MARK` and `-j CONNMARK`.

use weir_model::Target;
use weir_model::rule_match::ExtensionValue;
use weir_model::target::Effect;

use super::extension_value_builders::ModuleOptionsBuilder;
use super::option_values;
use crate::append_text;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, OptionSpec, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};

const ALL_MARK_BITS: u64 = u32::MAX as u64;
const MARK_ACTION_OPTION_BITS: u32 = 0b1_1111;
const CONNMARK_ACTION_OPTION_BITS: u32 = 0b111_1111;

const fn exclusive_mark_option(name: &'static str, id: u8, group: u32) -> OptionSpec {
    option_with_argument(name, id).excludes(group & !(1 << id))
}

pub(super) static MARK_TARGET: Extension<Target> = Extension {
    name: "MARK",
    options: &[
        exclusive_mark_option("set-xmark", 0, MARK_ACTION_OPTION_BITS),
        exclusive_mark_option("set-mark", 1, MARK_ACTION_OPTION_BITS),
        exclusive_mark_option("and-mark", 2, MARK_ACTION_OPTION_BITS),
        exclusive_mark_option("or-mark", 3, MARK_ACTION_OPTION_BITS),
        exclusive_mark_option("xor-mark", 4, MARK_ACTION_OPTION_BITS),
    ],
    build: build_mark_target,
    ..Extension::DEFAULT
};

pub(super) static CONNMARK_TARGET: Extension<Target> = Extension {
    name: "CONNMARK",
    options: &[
        exclusive_mark_option("set-xmark", 0, CONNMARK_ACTION_OPTION_BITS),
        exclusive_mark_option("set-mark", 1, CONNMARK_ACTION_OPTION_BITS),
        exclusive_mark_option("and-mark", 2, CONNMARK_ACTION_OPTION_BITS),
        exclusive_mark_option("or-mark", 3, CONNMARK_ACTION_OPTION_BITS),
        exclusive_mark_option("xor-mark", 4, CONNMARK_ACTION_OPTION_BITS),
        OptionSpec {
            arity: flag_option("", 0).arity,
            ..exclusive_mark_option("save-mark", 5, CONNMARK_ACTION_OPTION_BITS)
        },
        OptionSpec {
            arity: flag_option("", 0).arity,
            ..exclusive_mark_option("restore-mark", 6, CONNMARK_ACTION_OPTION_BITS)
        },
        option_with_argument("ctmask", 7).excludes(1 << 9),
        option_with_argument("nfmask", 8).excludes(1 << 9),
        option_with_argument("mask", 9).excludes(1 << 7 | 1 << 8),
        option_with_argument("left-shift-mark", 10),
        option_with_argument("right-shift-mark", 11),
    ],
    build: build_connmark_target,
    ..Extension::DEFAULT
};

/// Value to flip in and bits to clear, for the five spellings.
fn parse_mark_action_as_xmark(t: &ParsedOption) -> ParseResult<(u64, u64)> {
    Ok(match t.id {
        0 => option_values::parse_masked_number(t, ALL_MARK_BITS)?,
        1 => {
            let (v, m) = option_values::parse_masked_number(t, ALL_MARK_BITS)?;
            (v, v | m)
        }
        2 => (0, !option_values::parse_integer(t, 0, ALL_MARK_BITS)? & ALL_MARK_BITS),
        3 => {
            let v = option_values::parse_integer(t, 0, ALL_MARK_BITS)?;
            (v, v)
        }
        _ => (option_values::parse_integer(t, 0, ALL_MARK_BITS)?, 0),
    })
}

fn build_mark_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.iter().next() else {
        return g
            .extension_error("MARK without a mark")
            .with_help("give --set-mark or --set-xmark")
            .into_err();
    };
    let (v, mask) = parse_mark_action_as_xmark(t)?;
    Ok(Target::Effect(Box::new(Effect::Mark { xor_value: v as u32, clear_mask: mask as u32 })))
}

fn build_connmark_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let Some(t) = g.iter().find(|t| t.id <= 6) else {
        return g
            .extension_error("CONNMARK without an action")
            .with_help("give --set-mark, --save-mark or --restore-mark")
            .into_err();
    };
    let mut m = ConnmarkAction {
        xmark_value: 0,
        ctmask: ALL_MARK_BITS,
        nfmask: ALL_MARK_BITS,
        shift_amount_and_option: (0, ""),
    };
    for t in g.iter() {
        m.apply_option(t, g)?;
    }
    let mut options = ModuleOptionsBuilder::default();
    if t.id <= 4 {
        options.push_non_negated("set-xmark", ExtensionValue::Masked(m.xmark_value, m.ctmask));
    } else {
        options.push_non_negated(g.option_name_without_dashes(t.id), ExtensionValue::Flag);
        options.push_non_negated("nfmask", ExtensionValue::Hex(m.nfmask));
        options.push_non_negated("ctmask", ExtensionValue::Hex(m.ctmask));
    }
    if m.shift_amount_and_option.0 != 0 {
        options.push_non_negated(
            m.shift_amount_and_option.1,
            ExtensionValue::Number(m.shift_amount_and_option.0),
        );
    }
    Ok(super::log_targets::effect_target_with_options("CONNMARK", options))
}

/// The combined effect of CONNMARK's options; later ones take precedence.
struct ConnmarkAction {
    xmark_value: u64,
    ctmask: u64,
    nfmask: u64,
    shift_amount_and_option: (u64, &'static str),
}

impl ConnmarkAction {
    fn apply_option(&mut self, t: &ParsedOption, g: &ParsedExtensionOptions) -> ParseResult<()> {
        match t.id {
            0..=4 => (self.xmark_value, self.ctmask) = parse_mark_action_as_xmark(t)?,
            7 => self.ctmask = option_values::parse_integer(t, 0, ALL_MARK_BITS)?,
            8 => self.nfmask = option_values::parse_integer(t, 0, ALL_MARK_BITS)?,
            9 => {
                self.ctmask = option_values::parse_integer(t, 0, ALL_MARK_BITS)?;
                self.nfmask = self.ctmask;
            }
            10.. => {
                self.shift_amount_and_option =
                    (option_values::parse_integer(t, 0, 31)?, g.option_name_without_dashes(t.id))
            }
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn print_packet_mark_target(out: &mut String, value: u32, mask: u32) {
    out.push_str(" -j MARK --set-xmark ");
    append_text::append_0x_hex(out, value.into());
    out.push('/');
    append_text::append_0x_hex(out, mask.into());
}
