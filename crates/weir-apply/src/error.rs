//! Errors of putting a ruleset in force.

use weir_kernel::KernelError;
use weir_kernel::ipset_error::IpsetError;
use weir_kernel::netlink::KernelRefusal;
use weir_kernel::nft_socket::NftCommitError;
use weir_model::{SharedName, Span, TableName};
use weir_syntax::Diagnostic;

use crate::iptables::ChainDifference;
use crate::xtables::KernelExtension;

/// A ruleset that could not be put in force; what was in force before is still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A match or target that weir cannot encode for the kernel.
    #[error(
        "encode rule {number} of chain {chain}: the encoder does not know {extension_text} with these \
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
        extension_text: String,
    },
    /// A rule names a chain that its table does not have.
    #[error("encode table {table}: a rule names chain {missing_chain}: add the chain to the table")]
    MissingChain {
        /// The table.
        table: TableName,
        /// The missing chain.
        missing_chain: SharedName,
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
    /// A chain that the table does not have.
    #[error("table {table} has no chain {chain}: create it first")]
    NoSuchChain {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
    },
    /// A chain that the table has.
    #[error("table {table} has a chain {chain}: choose another name, or flush it")]
    ChainExists {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
    },
    /// A name that iptables does not take for a chain.
    #[error(
        "{chain:?} is no name of a chain: use 1 to 28 bytes without blanks, not the name of a \
         verdict, and no - or ! first"
    )]
    InvalidChainName {
        /// The name.
        chain: String,
    },
    /// A chain that cannot be deleted.
    #[error(
        "delete chain {chain} of table {table}: it is built in, has rules, or rules jump to it: \
         flush it and delete these rules first"
    )]
    ChainNotDeletable {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
    },
    /// A policy for a chain that has none.
    #[error("set policy of chain {chain} of table {table}: only built-in chains have a policy")]
    PolicyOfUserDefinedChain {
        /// The table.
        table: TableName,
        /// The chain.
        chain: SharedName,
    },
    /// A jump to a built-in chain.
    #[error(
        "a rule of table {table} jumps to the built-in chain {built_in_chain}: jump to a chain of yours"
    )]
    JumpToBuiltIn {
        /// The table.
        table: TableName,
        /// The built-in chain.
        built_in_chain: SharedName,
    },
    /// The words of a rule that weir cannot read.
    #[error("read rule {words:?}: {}", format_message_and_cure(.diagnostic))]
    UnreadableRule {
        /// The words.
        words: String,
        /// What is wrong with them, and where.
        diagnostic: Box<Diagnostic>,
    },
    /// A rule that the chain does not have.
    #[error("chain {chain} has no rule {rule}: list its rules")]
    NoSuchRule {
        /// The chain.
        chain: SharedName,
        /// The rule as the tools write it.
        rule: String,
    },
    /// A number that no rule of the chain has.
    #[error("chain {chain} has {length} rules, and no place {number}: count from 1")]
    NoRuleOfNumber {
        /// The chain.
        chain: SharedName,
        /// The number that was requested, from 1.
        number: usize,
        /// How many rules there are.
        length: usize,
    },
    /// A table that another program changed.
    #[error(
        "table {table} was changed since it was read ({}): begin the transaction again",
        list_first_chain_differences(.differences)
    )]
    TableChanged {
        /// The table.
        table: TableName,
        /// The chains that differ; none if it was changed between the comparison and the
        /// replacement.
        differences: Vec<ChainDifference>,
    },
    /// Rules that lead back to their own chain.
    #[error(
        "commit table {table}: the kernel found chains that jump to each other in a loop: remove \
         a jump of it"
    )]
    ChainLoop {
        /// The table.
        table: TableName,
    },
    /// A set that was destroyed or created anew since a rule that names it was given.
    #[error(
        "commit table {table}: set {set} was destroyed or created anew since a rule named it: \
         begin the transaction again"
    )]
    SetDestroyedOrRecreated {
        /// The table.
        table: TableName,
        /// The set.
        set: SharedName,
    },
    /// A table that is in force, without the counts of its rules.
    #[error("table {table} was replaced, but the counts of its rules are lost: {source}")]
    CountersNotAdded {
        /// The table.
        table: TableName,
        /// Why.
        source: KernelError,
    },
    /// An element of a set has a word that weir cannot encode.
    #[error(
        "encode element {element} of set {set}: the encoder does not know {word}: load it with \
         ipset restore"
    )]
    UnencodableSetElement {
        /// The set.
        set: SharedName,
        /// The element as ipset prints it.
        element: String,
        /// The word.
        word: String,
        /// Its line, if it was read from a text.
        span: Span,
    },
    /// The kernel refused an element of a set.
    #[error("element {element}: {source}")]
    SetElement {
        /// The element as ipset prints it.
        element: String,
        /// Its line, if it was read from a text.
        span: Span,
        /// The error of the kernel.
        source: Box<IpsetError>,
    },
    /// A set has a type or attribute that weir cannot decode.
    #[error("read set {set}: weir does not know {attribute}: read it with ipset save")]
    UndecodableSet {
        /// The set.
        set: SharedName,
        /// The type or attribute.
        attribute: String,
    },
    /// The set does not exist.
    #[error("set {set} does not exist: {cure}")]
    NoSuchSet {
        /// The set.
        set: String,
        /// The cure.
        cure: String,
    },
    /// The set is not one that lists of addresses can change.
    #[error(
        "set {set} is not a set of addresses that weir can change: {reason}: use ipset or nft for it"
    )]
    NotAnAddressSet {
        /// The set.
        set: String,
        /// Why not.
        reason: String,
    },
    /// The set has an element with `nomatch`, which a list of addresses cannot express.
    #[error(
        "set {set} has the element {element} nomatch, which a list cannot express: delete it \
         first, with ipset del"
    )]
    NomatchElementInSet {
        /// The set.
        set: String,
        /// The element.
        element: String,
    },
    /// Addresses outside the range of a set.
    #[error("{range} is outside {bounds}, the range of set {set}: use hash:net")]
    AddressOutsideSetRange {
        /// The set.
        set: String,
        /// The entry of the list.
        range: String,
        /// The range of the set.
        bounds: String,
    },
    /// The list has more elements than the set can hold.
    #[error(
        "the list does not fit into set {set}, which holds at most {capacity} elements: create a \
         larger one (maxelem, size) or one of prefixes (hash:net, flags interval), fill it, and swap \
         the two"
    )]
    SetCapacityExceeded {
        /// The set.
        set: String,
        /// Maximum number of elements.
        capacity: usize,
    },
    /// An element would be replaced by others and lose its timeout or comment.
    #[error(
        "element {element} of set {set} has a timeout, a comment or other values, which would be lost \
         because the list overlaps it only partly: delete the whole element first, or change the list"
    )]
    ElementHasMetadata {
        /// The set.
        set: String,
        /// The element.
        element: String,
    },
    /// Each listing of the set contained an element twice.
    #[error("read set {set}: the kernel is resizing it, so its listing is incomplete: try again")]
    SetBeingResized {
        /// The set.
        set: String,
    },
    /// Another process holds the lock of sets.
    #[error(
        "another weir set is changing sets of this network namespace (it holds {path}): try again"
    )]
    SetLockHeld {
        /// The lock file.
        path: std::path::PathBuf,
    },
    /// The lock of sets cannot be opened.
    #[error("open the lock of sets below /run/weir: {source}")]
    SetLockNotOpened {
        /// The system's error.
        source: std::io::Error,
    },
    /// An nft ruleset has a statement that weir cannot encode.
    #[error("encode {object}: the encoder does not know {statement}: load it with nft -f")]
    UnencodableNft {
        /// The rule or map.
        object: String,
        /// The unknown statement.
        statement: String,
    },
    /// The kernel refused a rule, map, chain or table of nf_tables; nothing has changed.
    #[error("load {object}: {source}")]
    NftRefused {
        /// A description of the object.
        object: String,
        /// The error of the kernel.
        source: KernelRefusal,
    },
    /// A transaction of nf_tables failed.
    #[error("change nf_tables: {0}")]
    NftCommit(#[from] NftCommitError),
    /// An operation on a set failed.
    #[error(transparent)]
    Ipset(#[from] IpsetError),
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// As many differences as fit in a line.
fn list_first_chain_differences(differences: &[ChainDifference]) -> String {
    const LISTED_MAX: usize = 5;
    if differences.is_empty() {
        return "by a program without the lock".to_owned();
    }
    let listed: Vec<String> =
        differences.iter().take(LISTED_MAX).map(ChainDifference::to_string).collect();
    let more = match differences.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    listed.join(", ") + &more
}

/// The message and the cure.
fn format_message_and_cure(diagnostic: &Diagnostic) -> String {
    let cure = diagnostic.help.iter().map(|help| format!(": {help}"));
    std::iter::once(diagnostic.message.clone()).chain(cure).collect()
}
