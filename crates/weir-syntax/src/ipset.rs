//! The text of `ipset save`.
//!
//! A text consists of `create` and `add` lines. What `ipset restore` accepts in addition to the
//! output of `ipset save` (ranges, prefixes of plain addresses, service names, omitted defaults) is
//! also read, and printed as `ipset save` would: expanded, numeric, with the set's own timeout and
//! counters on each element. Only `initval` and the order of elements are chosen by the kernel.

mod create_line;
mod element_expansion;
mod icmp_names;
mod print;
mod read;

use weir_model::IpSet;

pub use create_line::parse_ipset_type_name;
pub use print::{create_line_option_position, ipset_type_name, print, print_element};

use crate::Diagnostic;

/// Reads sets.
///
/// ```
/// let text = "create lan hash:net family inet\nadd lan 192.0.2.0-192.0.2.127\n";
/// let sets = weir_syntax::ipset::parse(text).unwrap();
/// assert_eq!(weir_syntax::ipset::print_element(&sets[0], &sets[0].elements[0]), "192.0.2.0/25");
/// ```
///
/// # Errors
/// All errors of the text, in its order.
pub fn parse(text: &str) -> Result<Vec<IpSet>, Vec<Diagnostic>> {
    read::read_ipset_save(text)
}
