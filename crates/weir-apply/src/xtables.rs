//! Tables of legacy iptables: the model as the kernel's entries.
//!
//! A table is encoded as libiptc lays it out (iptables/libiptc/libiptc.c): built-in chains in the
//! order of their hooks, then user chains by name; a user chain begins with an `ERROR` entry that
//! names it; each chain ends with its policy or the implied `RETURN`; an `ERROR` entry ends the
//! table. The bytes are those that `iptables-legacy-restore` 1.8.9 loads, with the revisions of
//! matches and targets that it chooses.

pub(crate) mod decoder;
mod encoder;
pub(crate) mod entry_comparison;
pub(crate) mod entry_offsets;
pub(crate) mod entry_writer;
mod kernel_table;
mod numeric_option_value;
pub(crate) mod rule_entry;
mod set_indices;

use weir_kernel::xtables::{PacketByteCount, XtablesSocket};
use weir_model::Table;

pub use self::decoder::{KernelExtension, KernelExtensionKind, decode_table};
pub use self::encoder::table_encoder::{EncodedTable, encode_table};
pub use self::kernel_table::{KernelChain, KernelTable};
pub use self::set_indices::SetIndices;
use crate::ApplyError;

/// Puts a table in place of the present one of its name, with the counters of the model.
///
/// The caller holds the [xtables lock](weir_kernel::xtables::XtablesLock). Packets traverse the
/// present table or the new one. Counters that the model has are added after the replacement, so
/// what the new table counts meanwhile is kept.
///
/// Returns the counts of the replaced entries, in their order.
///
/// # Errors
/// If a match or target is unknown to the encoder, or the kernel refuses the table.
pub fn load_table(
    socket: &XtablesSocket,
    table: &Table,
) -> Result<Vec<PacketByteCount>, ApplyError> {
    let mut encoded = encode_table(table, socket.family(), &SetIndices::of_socket(socket))?;
    let name = table.name.as_str();
    let present = socket.read_entry_count(name)?;
    let replaced = socket.replace_table(name, &mut encoded.replacement, present)?;
    if encoded.counts.iter().any(|count| *count != PacketByteCount::default()) {
        socket.add_counters(name, &encoded.counts)?;
    }
    Ok(replaced)
}
