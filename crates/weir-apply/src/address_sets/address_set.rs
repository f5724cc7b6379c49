//! A set of addresses, of ipset or of nf_tables.

use weir_kernel::nft_socket::NftSetPlace;
use weir_model::{Addr, Family};
use weir_syntax::address_list::AddressRange;

use super::address_ranges::prefix_len_of_range;
use super::element_diff::ElementShape;

/// The name of a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddressSetName {
    /// Of ipset.
    Ipset(String),
    /// Of nf_tables.
    Nft(NftSetPlace),
}

impl AddressSetName {
    /// The set's own name, without family and table.
    pub fn set_name(&self) -> &str {
        match self {
            AddressSetName::Ipset(name) => name,
            AddressSetName::Nft(place) => &place.set,
        }
    }
}

/// A set of addresses, without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    /// Its name.
    pub name: AddressSetName,
    /// Its type, e.g. `hash:net`, `ipv4_addr`.
    pub type_name: String,
    /// The family of its addresses.
    pub family: Family,
    /// What one element can contain.
    pub shape: ElementShape,
    /// Maximum number of elements.
    pub capacity: Option<usize>,
    /// First and last address of its range; `None` if it can hold all addresses.
    pub bounds: Option<AddressRange>,
}

/// The elements of a set of addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressSetElements {
    /// Their addresses, sorted.
    pub ranges: Vec<AddressRange>,
    /// Elements that have a timeout, a comment or other values besides counters, sorted.
    pub ranges_with_metadata: Vec<AddressRange>,
    /// The first element with `nomatch`.
    pub first_nomatch_range: Option<AddressRange>,
}

impl AddressSet {
    /// An element in the format of a list: an address, a prefix or a range.
    pub fn display_range(&self, range: AddressRange) -> String {
        let family = self.family;
        let (first, last) = range;
        match prefix_len_of_range(range, family) {
            Some(len) if len == family.addr_bits() => Addr(first).display(family).to_string(),
            Some(len) => format!("{}/{len}", Addr(first).display(family)),
            None => format!("{}-{}", Addr(first).display(family), Addr(last).display(family)),
        }
    }
}
