//! Text to model and back: `iptables-save`, `ip6tables-save`, `ipset save`, the nft that weir
//! writes, the count rules of an `ipf.conf` ([`ipf_count_rules`]), and single packets ([`packet`]).
//!
//! A text is read completely, or refused with a position and a cure ([`Diagnostic`], drawn by
//! [`render_diagnostics`]); all errors of a text are reported together. The printed text is what
//! the tools themselves print after loading it, so reading and printing normalise a ruleset as the
//! kernel would. The references are `iptables-legacy-restore` 1.8.9 and `ipset` 7.17.
//!
//! Modules:
//!
//! - `iptables`: `iptables-save` and `ip6tables-save`;
//! - `ipset`: `ipset save`;
//! - `nft`: the nft that weir writes, and listings of it;
//! - `ipf_count_rules`: count rules of IP Filter;
//! - `packet`: the language of `--packet`;
//! - `diagnostic`, `terminal_escape`: errors with their place, and how they are printed;
//! - `strtod`, `strtoul`, `system_name_tables`: numbers and names as the tools read them;
//! - `append_text`, `intern`: text and names without needless allocation;
//! - `fuzz`: properties of every text, for fuzz targets and tests.
//!
//! ```
//! use weir_syntax::iptables::{self, ParserSettings};
//! let text = "*filter\n-A INPUT -s 10.0.0.1 -p tcp --dport ssh -j ACCEPT\nCOMMIT\n";
//! let ruleset = iptables::parse(text, &ParserSettings::default()).unwrap();
//! assert!(iptables::print(&ruleset, false).contains(
//!     "-A INPUT -s 10.0.0.1/32 -p tcp -m tcp --dport 22 -j ACCEPT\n"
//! ));
//! ```

#![forbid(unsafe_code)]

pub mod address_list;
mod append_text;
mod diagnostic;
#[doc(hidden)]
pub mod fuzz;
mod intern;
pub mod ipf_count_rules;
pub mod ipset;
pub mod iptables;
pub mod nft;
pub mod packet;
pub mod policy;
mod strtod;
mod strtoul;
mod system_name_tables;
mod terminal_escape;

pub use diagnostic::{Diagnostic, DiagnosticSeverity, render_diagnostics};
pub use terminal_escape::escape_control_chars;
