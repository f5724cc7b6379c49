//! Numbers of the messages of nf_tables: commands, attributes and flags
//! (include/uapi/linux/netfilter/nf_tables.h).

/// Creates a table.
pub const NFT_MSG_NEWTABLE: u8 = 0;
/// Reads tables.
pub const NFT_MSG_GETTABLE: u8 = 1;
/// Deletes a table with all that is in it.
pub const NFT_MSG_DELTABLE: u8 = 2;
/// Creates a chain.
pub const NFT_MSG_NEWCHAIN: u8 = 3;
/// Reads chains.
pub const NFT_MSG_GETCHAIN: u8 = 4;
/// Creates a rule.
pub const NFT_MSG_NEWRULE: u8 = 6;
/// Reads rules.
pub const NFT_MSG_GETRULE: u8 = 7;
/// Creates a set or map.
pub const NFT_MSG_NEWSET: u8 = 9;
/// Reads sets and maps.
pub const NFT_MSG_GETSET: u8 = 10;
/// Adds elements.
pub const NFT_MSG_NEWSETELEM: u8 = 12;
/// Reads elements.
pub const NFT_MSG_GETSETELEM: u8 = 13;
/// Deletes elements.
pub const NFT_MSG_DELSETELEM: u8 = 14;
/// Reads the number of the generation.
pub const NFT_MSG_GETGEN: u8 = 16;

pub(crate) const NFTA_GEN_ID: u16 = 1;

/// Name of a table.
pub const NFTA_TABLE_NAME: u16 = 1;

/// Table of a chain.
pub const NFTA_CHAIN_TABLE: u16 = 1;
/// Name of a chain.
pub const NFTA_CHAIN_NAME: u16 = 3;
/// Where a base chain is attached.
pub const NFTA_CHAIN_HOOK: u16 = 4;
/// Policy of a base chain.
pub const NFTA_CHAIN_POLICY: u16 = 5;
/// Type of a base chain.
pub const NFTA_CHAIN_TYPE: u16 = 7;
/// What nft keeps of a chain: its comment.
pub const NFTA_CHAIN_USERDATA: u16 = 12;
/// Number of a hook.
pub const NFTA_HOOK_HOOKNUM: u16 = 1;
/// Priority at a hook.
pub const NFTA_HOOK_PRIORITY: u16 = 2;

/// Table of a rule.
pub const NFTA_RULE_TABLE: u16 = 1;
/// Chain of a rule.
pub const NFTA_RULE_CHAIN: u16 = 2;
/// Expressions of a rule.
pub const NFTA_RULE_EXPRESSIONS: u16 = 4;
/// What nft keeps of a rule: its comment.
pub const NFTA_RULE_USERDATA: u16 = 7;

/// Table of a set.
pub const NFTA_SET_TABLE: u16 = 1;
/// Name of a set.
pub const NFTA_SET_NAME: u16 = 2;
/// `NFT_SET_…`.
pub const NFTA_SET_FLAGS: u16 = 3;
/// Type of the key, as nft numbers them.
pub const NFTA_SET_KEY_TYPE: u16 = 4;
/// Bytes of the key.
pub const NFTA_SET_KEY_LEN: u16 = 5;
/// Type of the data of a map.
pub const NFTA_SET_DATA_TYPE: u16 = 6;
/// Bytes of the data of a map.
pub const NFTA_SET_DATA_LEN: u16 = 7;
/// What the kernel needs to choose a structure.
pub const NFTA_SET_DESC: u16 = 9;
/// Number of a set in its transaction.
pub const NFTA_SET_ID: u16 = 10;
/// What nft keeps of a set: byte orders of key and data.
pub const NFTA_SET_USERDATA: u16 = 13;
/// The expression that every element has.
pub const NFTA_SET_EXPR: u16 = 17;
/// The expressions that every element has, if they are several.
pub const NFTA_SET_EXPRESSIONS: u16 = 18;
/// Number of elements that a set may have.
pub const NFTA_SET_DESC_SIZE: u16 = 1;
/// Lengths of the parts of a concatenation.
pub const NFTA_SET_DESC_CONCAT: u16 = 2;
/// Length of one part.
pub const NFTA_SET_FIELD_LEN: u16 = 1;

/// The set belongs to its rule.
pub const NFT_SET_ANONYMOUS: u32 = 1;
/// The set does not change while rules use it.
pub const NFT_SET_CONSTANT: u32 = 2;
/// Elements may be intervals.
pub const NFT_SET_INTERVAL: u32 = 4;
/// Elements have data.
pub const NFT_SET_MAP: u32 = 8;
/// Elements have a timeout.
pub const NFT_SET_TIMEOUT: u32 = 16;
/// Rules add elements.
pub const NFT_SET_EVAL: u32 = 32;
/// Elements name objects.
pub const NFT_SET_OBJECT: u32 = 64;
/// The key is a concatenation of intervals.
pub const NFT_SET_CONCAT: u32 = 128;

/// Table of a list of elements.
pub const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
/// Set of a list of elements.
pub const NFTA_SET_ELEM_LIST_SET: u16 = 2;
/// The elements of a list.
pub const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
/// Number of the set in its transaction.
pub const NFTA_SET_ELEM_LIST_SET_ID: u16 = 4;
/// Key of an element.
pub const NFTA_SET_ELEM_KEY: u16 = 1;
/// Data of an element.
pub const NFTA_SET_ELEM_DATA: u16 = 2;
/// `NFT_SET_ELEM_…`.
pub const NFTA_SET_ELEM_FLAGS: u16 = 3;
/// Timeout of an element.
pub const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
/// When the element ends; also of one with the timeout of its set, which is not listed.
pub const NFTA_SET_ELEM_EXPIRATION: u16 = 5;
/// What nft keeps of an element: its comment.
pub const NFTA_SET_ELEM_USERDATA: u16 = 6;
/// Expression of an element.
pub const NFTA_SET_ELEM_EXPR: u16 = 7;
/// End of the key of a concatenation of intervals.
pub const NFTA_SET_ELEM_KEY_END: u16 = 10;
/// Expressions of an element, if they are several.
pub const NFTA_SET_ELEM_EXPRESSIONS: u16 = 11;
/// The key is the first value after an interval.
pub const NFT_SET_ELEM_INTERVAL_END: u32 = 1;
/// The element of all keys that no other has.
pub const NFT_SET_ELEM_CATCHALL: u32 = 2;

/// One of a list.
pub const NFTA_LIST_ELEM: u16 = 1;
/// Bytes of a value.
pub const NFTA_DATA_VALUE: u16 = 1;
/// A verdict.
pub const NFTA_DATA_VERDICT: u16 = 2;
/// Number of a verdict.
pub const NFTA_VERDICT_CODE: u16 = 1;
/// Chain of a verdict.
pub const NFTA_VERDICT_CHAIN: u16 = 2;

/// Name of an expression.
pub const NFTA_EXPR_NAME: u16 = 1;
/// Attributes of an expression.
pub const NFTA_EXPR_DATA: u16 = 2;
/// Bytes that a counter counted.
pub const NFTA_COUNTER_BYTES: u16 = 1;
/// Packets that a counter counted.
pub const NFTA_COUNTER_PACKETS: u16 = 2;
