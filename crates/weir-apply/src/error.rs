//! Errors of putting a ruleset in force.

use weir_kernel::KernelError;
use weir_model::{SharedName, TableName};

use crate::xtables::KernelExtension;

/// A ruleset that could not be put in force; what was in force before is still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A match or target that weir cannot encode for the kernel.
    #[error(
        "encode rule {number} of chain {chain}: the encoder does not know {extension} with these \
         options: load table {table} with iptables-restore"
    )]
    UnsupportedExtension {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
        /// The number of the rule, from 1.
        number: usize,
        /// The match or target as the tools write it.
        extension: String,
    },
    /// A rule names a chain that its table does not have.
    #[error("encode table {table}: a rule names chain {chain}: add the chain to the table")]
    MissingChain {
        /// The table.
        table: TableName,
        /// The missing chain.
        chain: SharedName,
    },
    /// A rule names a set that the kernel does not have.
    #[error(
        "encode rule {number} of chain {chain} of table {table}: there is no set {set}: create it \
         first, e.g. with ipset restore"
    )]
    MissingSet {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
        /// The number of the rule, from 1.
        number: usize,
        /// The missing set.
        set: SharedName,
    },
    /// A table that is too large for the offsets of the kernel.
    #[error("encode table {table}: its entries exceed 2 GiB: split it into sets")]
    TableTooLarge {
        /// The table.
        table: TableName,
    },
    /// An entry of the kernel with a match or target that weir cannot decode.
    #[error(
        "decode rule {number} of chain {chain}: weir does not know the {extension}, or these \
         values of it: read table {table} with iptables-save"
    )]
    UndecodedExtension {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
        /// The number of the rule, from 1.
        number: usize,
        /// The match or target.
        extension: KernelExtension,
    },
    /// Entries that are not laid out as libiptc does it.
    #[error(
        "read table {table}: its entries are not laid out as iptables does it at offset {offset}: \
         list it with iptables-save and load it again with iptables-restore"
    )]
    UnreadableTable {
        /// The table.
        table: TableName,
        /// Bytes from the first entry.
        offset: usize,
    },
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}
