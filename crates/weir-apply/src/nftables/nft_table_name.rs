//! Tables by family and name, and the numbers of families.

use weir_model::Family;

/// `NFPROTO_IPV4` or `NFPROTO_IPV6`.
pub(super) const fn nft_family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// A table by its family and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NftTableName {
    /// `ip` or `ip6`.
    pub family: Family,
    /// Its name.
    pub name: String,
}
