//! The nft that weir writes ([`print()`]), and what `nft list ruleset` prints of it once it is
//! loaded.
//!
//! No other nft is read: a table that weir did not write, or a statement that weir does not write,
//! is refused by name and position. So files, artefacts and rulesets in force can be compared, and
//! a text is read back before it is written.
//!
//! nft 1.0.6 prints other text than its input. `==` is omitted, numbers become names, counters are
//! printed with what they counted, elements with their counters; a test of the protocol is omitted
//! if a port of it is tested (`tcp dport 22`); a load of `@th,0,16` becomes `icmp type` and `icmp
//! code`; defaults (`burst 5 packets`, `level warn`) are omitted. The reader maps both spellings to
//! the same [`Ruleset`]; if two tests have another order, [`check_rulesets_equal`] ignores it.
//!
//! Some information is not in the text: counters have no credit, and an opaque test does not know
//! its original.
//!
//! ```
//! let text = "table ip weir_filter {\n\tchain FORWARD {\n\
//!             \t\ttype filter hook forward priority filter; policy drop;\n\
//!             \t\ttcp dport 22 counter packets 3 bytes 180 accept\n\t}\n}\n";
//! let ruleset = weir_syntax::nft::parse(text).unwrap();
//! assert_eq!(ruleset.tables[0].chains[0].rules[0].statements.len(), 4);
//! ```

mod action_parser;
mod comparison_parser;
mod normal_form;
mod opaque_test_parser;
mod print;
mod reject_types;
mod seen_map_keys;
mod statement_parser;
mod table_parser;
mod token_cursor;
mod value_parser;

use weir_model::nft::Ruleset;

use crate::Diagnostic;

pub use normal_form::{check_rulesets_equal, normalize_ruleset};
pub use print::{
    family_keyword, print, print_effect, print_element_key, print_nat, print_reject,
    sanitize_and_truncate_comment, statements_masked_against_nft_merging,
    value_of_single_value_test,
};

/// Reads nft text that weir wrote, or a listing of it.
///
/// # Errors
/// Everything in it that weir does not write, each with its place.
pub fn parse(text: &str) -> Result<Ruleset, Vec<Diagnostic>> {
    table_parser::parse_ruleset(text)
}

/// Whether a text reads as nft rather than as `iptables-save`: its first word is nft's.
///
/// ```
/// assert!(weir_syntax::nft::is_nft_ruleset_text("# listed\ntable ip weir_filter {\n}\n"));
/// assert!(!weir_syntax::nft::is_nft_ruleset_text("*filter\nCOMMIT\n"));
/// ```
pub fn is_nft_ruleset_text(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let first = lines.take(1).flat_map(str::split_ascii_whitespace).next();
    matches!(first, Some("table" | "add" | "flush" | "delete" | "create" | "define" | "include"))
}
