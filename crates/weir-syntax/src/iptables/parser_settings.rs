//! Options of the parser.

use weir_model::{Family, IpSet, TableName};

/// How a text is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParserSettings<'a> {
    /// Whose text it is; guessed from the text where not given.
    pub family: Option<Family>,
    /// Only this table; the others are skipped unread.
    pub only_table: Option<TableName>,
    /// Look up host names. Off, a host name is an error.
    pub resolve_host_names: bool,
    /// The sets that there are. Where given, a match of any other set is an error.
    pub known_sets: Option<&'a [IpSet]>,
}
