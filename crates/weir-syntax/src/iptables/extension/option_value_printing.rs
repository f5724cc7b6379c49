//! Values of options as `iptables-save` prints them: as most modules do, and as several do.

use weir_model::Family;
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};

use super::option_values;
use crate::append_text;
use crate::iptables::base_option_table;

/// Appends ` --name value` for each option.
pub(super) fn print_module_options(
    out: &mut String,
    options: &[TypedExtensionOption],
    print_value: fn(&mut String, &TypedExtensionOption, Family),
    family: Family,
) {
    for o in options {
        out.push_str(if o.negated { " ! --" } else { " --" });
        out.push_str(o.name);
        if o.value != ExtensionValue::Flag {
            out.push(' ');
            print_value(out, o, family);
        }
    }
}

/// Appends a value as most modules print it.
pub(super) fn print_option_value(out: &mut String, o: &TypedExtensionOption, family: Family) {
    match &o.value {
        ExtensionValue::Flag => {}
        ExtensionValue::Number(n) | ExtensionValue::DurationInModuleUnit(n) => {
            append_text::append_decimal(out, *n)
        }
        ExtensionValue::Hex(n) => append_text::append_0x_hex(out, *n),
        ExtensionValue::Range(lo, hi) => option_values::print_number_range(out, *lo, *hi),
        ExtensionValue::Masked(v, mask) => {
            append_text::append_0x_hex(out, *v);
            out.push('/');
            append_text::append_0x_hex(out, *mask);
        }
        ExtensionValue::RateCountPerMilliseconds(count, unit) => {
            append_text::append_decimal(out, *count);
            out.push_str(match unit {
                86_400_000 => "/day",
                3_600_000 => "/hour",
                60_000 => "/min",
                _ => "/sec",
            });
        }
        ExtensionValue::Probability(p) => {
            use std::fmt::Write as _;
            let _ = write!(out, "{:.11}", f64::from(*p) / f64::from(1u32 << 31));
        }
        ExtensionValue::Addr(a) => append_text::append_addr(out, *a, family),
        ExtensionValue::AddrAndMask(a, mask) => append_text::append_net(out, *a, *mask, family),
        ExtensionValue::Keyword(w) => out.push_str(w),
        ExtensionValue::KeywordList(list) => {
            append_text::append_comma_list(out, list, |out, w| out.push_str(w))
        }
        ExtensionValue::Text(text) => append_text::append_xtables_save_string(out, text),
        ExtensionValue::ByteString(bytes) => {
            out.push('"');
            out.push_str(&String::from_utf8_lossy(bytes));
            out.push('"');
        }
    }
}

/// The same, but text is quoted only if it must be.
pub(super) fn print_text_quoted_if_needed(
    out: &mut String,
    o: &TypedExtensionOption,
    family: Family,
) {
    match &o.value {
        ExtensionValue::Text(text) => append_text::append_word_quoted_if_needed(out, text),
        _ => print_option_value(out, o, family),
    }
}

/// The same, but text is in quotes and only what must be is escaped.
pub(super) fn print_text_in_quotes(out: &mut String, o: &TypedExtensionOption, family: Family) {
    match &o.value {
        ExtensionValue::Text(text) => append_text::append_quoted_minimal_escape(out, text),
        _ => print_option_value(out, o, family),
    }
}

/// Appends an argument that was left as it was written.
pub(super) fn print_written_argument(out: &mut String, o: &TypedExtensionOption, family: Family) {
    match &o.value {
        ExtensionValue::Text(text) => append_opaque_word(out, text, family),
        _ => print_option_value(out, o, family),
    }
}

/// Appends a word of a module. What would be read as an option of the rule is quoted: then it stays
/// the module's.
pub(super) fn append_opaque_word(out: &mut String, word: &str, family: Family) {
    if base_option_table::is_option_ending_opaque_words(word, family) {
        append_text::append_quoted(out, word);
    } else {
        append_text::append_word_quoted_if_needed(out, word);
    }
}
