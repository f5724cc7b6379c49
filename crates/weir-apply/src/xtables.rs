//! Tables of legacy iptables: the model as the kernel's entries.
//!
//! A table is encoded as libiptc lays it out (iptables/libiptc/libiptc.c): built-in chains in the
//! order of their hooks, then user chains by name; a user chain begins with an `ERROR` entry that
//! names it; each chain ends with its policy or the implied `RETURN`; an `ERROR` entry ends the
//! table. The bytes are those that `iptables-legacy-restore` 1.8.9 loads, with the revisions of
//! matches and targets that it chooses.

mod conntrack_limit_quota_matches;
mod entry_writer;
mod matches;
mod numeric_option;
mod owner_and_addrtype_matches;
mod rule_entry;
mod table_encoder;
mod targets;

use weir_kernel::xtables::{PacketByteCount, XtablesSocket};
use weir_model::Table;

pub use self::table_encoder::{EncodedTable, encode_table};
use crate::ApplyError;

/// Puts a table in place of the present one of its name, with the counters of the model.
///
/// The caller holds the [xtables lock](weir_kernel::xtables::XtablesLock). Packets meet the present
/// table or the new one. Counters that the model has are added after the replacement, so what the
/// new table counts meanwhile is kept.
///
/// Returns the counts of the replaced entries, in their order.
///
/// # Errors
/// Where a match or target is unknown to the encoder, or the kernel refuses the table.
pub fn load_table(
    socket: &XtablesSocket,
    table: &Table,
) -> Result<Vec<PacketByteCount>, ApplyError> {
    let mut encoded = encode_table(table, socket.family())?;
    let name = table.name.as_str();
    let present = socket.read_entry_count(name)?;
    let replaced = socket.replace_table(name, &mut encoded.replacement, present)?;
    if encoded.entry_counters.iter().any(|count| *count != PacketByteCount::default()) {
        socket.add_counters(name, &encoded.entry_counters)?;
    }
    Ok(replaced)
}
