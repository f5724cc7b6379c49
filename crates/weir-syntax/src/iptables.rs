//! The text of `iptables-save` and `ip6tables-save`, read as iptables-restore reads it.
//!
//! [`parse`] reads line by line ([`reader`]), each rule through one option scanner ([`scan`]) with
//! the option tables of the extensions ([`extension`]); properties of a whole table (chains, loops,
//! hooks) are checked at its end ([`loop_and_hook_checks`]). [`print`](fn@print) is the inverse.

pub(crate) mod address;
mod base_option_table;
pub(crate) mod extension;
#[doc(hidden)]
pub mod extension_descriptions;
mod family_guess;
mod loop_and_hook_checks;
mod option_specs_and_arguments;
mod parser_settings;
mod print;
mod reader;
mod scan;
mod single_rule_parser;
mod table_draft;
pub(crate) mod word_splitting;

use weir_model::{Family, Ruleset};

pub use self::extension::compute_rate_count_and_unit_millis;
pub(crate) use self::extension::find_reject_type;
pub use self::parser_settings::ParserSettings;
pub use self::print::{print, print_match, print_rule, print_target};
pub use self::single_rule_parser::parse_rule;
use crate::Diagnostic;

/// Reads a ruleset.
///
/// What comes out is what the kernel would hold: chains sorted as the tools print them, built-in
/// chains all there, comma lists expanded, `-I` and `-D` applied, each rule with its own
/// [`OriginalRuleIndex`](weir_model::OriginalRuleIndex) and its span in the text.
///
/// # Errors
/// All errors of the text, in its order.
///
/// ```
/// use weir_syntax::iptables::{parse, ParserSettings};
/// let errors = parse("*filter\n-A INPUT -s ! 10.0.0.0/8\nCOMMIT\n", &ParserSettings::default());
/// assert_eq!(errors.unwrap_err()[0].message, "old negation: ! after the option");
/// ```
pub fn parse(text: &str, options: &ParserSettings) -> Result<Ruleset, Vec<Diagnostic>> {
    parse_with_notes(text, options).map(|(ruleset, _)| ruleset)
}

/// The same, with notes on lines that have no effect: those for the other family (`-4`, `-6`).
///
/// # Errors
/// As [`parse`].
pub fn parse_with_notes(
    text: &str,
    options: &ParserSettings,
) -> Result<(Ruleset, Vec<Diagnostic>), Vec<Diagnostic>> {
    reader::read_iptables_save(text, options)
}

/// The family that a text looks like: by its comments, addresses and modules.
pub fn guess_family(text: &str) -> Family {
    family_guess::guess_family_or_v4(text)
}
