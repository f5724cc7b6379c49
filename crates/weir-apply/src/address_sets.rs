//! Updates of sets of addresses from lists, for `weir set`.
//!
//! A set of ipset or of nf_tables is read and compared with a list ([`element_diff`]); only
//! elements that differ are changed. Changes in one namespace exclude each other by a lock. In
//! nf_tables a change is one transaction, which is refused if the ruleset changed since the set was
//! read. ipset has no transactions: elements are added before others are removed, so that an
//! address that stays in the set is always in it, and the change is undone if the kernel refuses an
//! element.

pub mod address_ranges;
mod address_set;
mod address_sets_lock;
pub mod element_diff;
mod ipset_addresses;
mod nft_addresses;

use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::nft_socket::NftSocket;
use weir_syntax::address_list::AddressRange;

pub use self::address_set::{AddressSet, AddressSetElements, AddressSetName};
pub use self::address_sets_lock::AddressSetsLock;
use self::element_diff::{
    AddressListOperation, SetElementDiff, TooManyAddresses, diff_set_against_list,
};
use crate::ApplyError;

/// A set that is open for reading and changing.
#[derive(Debug)]
pub struct OpenAddressSet {
    /// Its description.
    pub set: AddressSet,
    socket: AddressSetSocket,
}

#[derive(Debug)]
enum AddressSetSocket {
    Ipset(IpsetSocket),
    Nft(NftSocket),
}

/// A planned change, which can be committed.
#[derive(Clone, Debug)]
pub struct PlannedSetChange {
    /// The elements that differ.
    pub plan: SetElementDiff,
    /// The generation of nf_tables for which it was planned.
    generation: Option<u32>,
    present_element_count: usize,
}

impl OpenAddressSet {
    /// Opens a set of the current network namespace.
    ///
    /// # Errors
    /// If the set does not exist or is not a set of addresses.
    pub fn open(name: AddressSetName) -> Result<OpenAddressSet, ApplyError> {
        match &name {
            AddressSetName::Ipset(set) => {
                let mut socket = IpsetSocket::open()?;
                let set = ipset_addresses::describe_set(&mut socket, set)?;
                Ok(OpenAddressSet { set, socket: AddressSetSocket::Ipset(socket) })
            }
            AddressSetName::Nft(place) => {
                let mut socket = NftSocket::open()?;
                let set = nft_addresses::describe_set(&mut socket, place)?;
                Ok(OpenAddressSet { set, socket: AddressSetSocket::Nft(socket) })
            }
        }
    }

    /// Reads its elements.
    ///
    /// # Errors
    /// If the set no longer exists, or the kernel refuses.
    pub fn read_elements(&mut self) -> Result<AddressSetElements, ApplyError> {
        for _ in 0..LISTINGS_DURING_RESIZE_MAX {
            let mut elements = self.list_elements()?;
            elements.ranges.sort_unstable();
            elements.ranges_with_metadata.sort_unstable();
            if elements.ranges.is_sorted_by(|before, after| before < after) {
                return Ok(elements);
            }
        }
        Err(ApplyError::SetBeingResized { set: self.set.name.set_name().to_owned() })
    }

    /// Lists its elements once. While the kernel resizes the hash table of a set (after many
    /// elements were added), its listing has some elements twice and lacks others.
    fn list_elements(&mut self) -> Result<AddressSetElements, ApplyError> {
        match (&mut self.socket, &self.set.name) {
            (AddressSetSocket::Ipset(socket), name) => {
                ipset_addresses::read_elements(socket, name.set_name(), self.set.family)
            }
            (AddressSetSocket::Nft(socket), AddressSetName::Nft(place)) => {
                nft_addresses::read_elements(socket, place, &self.set)
            }
            (AddressSetSocket::Nft(_), AddressSetName::Ipset(_)) => {
                unreachable!("`open` pairs socket and name")
            }
        }
    }

    /// Plans the change for a list, which may be unsorted and have overlapping entries.
    ///
    /// # Errors
    /// If the list does not fit into the set, or if an element would lose its timeout or comment.
    pub fn plan_change(
        &mut self,
        list: Vec<AddressRange>,
        change: AddressListOperation,
    ) -> Result<PlannedSetChange, ApplyError> {
        let generation = match &mut self.socket {
            AddressSetSocket::Ipset(_) => None,
            AddressSetSocket::Nft(socket) => Some(socket.read_generation()?),
        };
        let elements = self.read_elements()?;
        let set = &self.set;
        let name = || set.name.set_name().to_owned();
        if let Some(range) = elements.first_nomatch_range {
            let element = set.display_range(range);
            return Err(ApplyError::NomatchElementInSet { set: name(), element });
        }
        if change != AddressListOperation::Delete
            && let Some((lowest, highest)) = set.bounds
            && let Some((first, last)) =
                list.iter().find(|(first, last)| *first < lowest || *last > highest)
        {
            return Err(ApplyError::AddressOutsideSetRange {
                set: name(),
                range: self.set.display_range((*first, *last)),
                bounds: self.set.display_range((lowest, highest)),
            });
        }
        let capacity = set.capacity.unwrap_or(EXPANDED_ADDRESSES_MAX_OF_UNSIZED_SET);
        let planned =
            diff_set_against_list(set.shape, set.family, &elements.ranges, list, change, capacity);
        let plan = planned.map_err(|TooManyAddresses| ApplyError::SetCapacityExceeded {
            set: name(),
            capacity,
        })?;
        let final_count = plan.kept + plan.added.len();
        if !plan.added.is_empty() && set.capacity.is_some_and(|capacity| final_count > capacity) {
            return Err(ApplyError::SetCapacityExceeded { set: name(), capacity });
        }
        let loses_metadata =
            |range: &&AddressRange| elements.ranges_with_metadata.binary_search(range).is_ok();
        if let Some(range) = plan.replaced.iter().find(loses_metadata) {
            let element = set.display_range(*range);
            return Err(ApplyError::ElementHasMetadata { set: name(), element });
        }
        Ok(PlannedSetChange { plan, generation, present_element_count: elements.ranges.len() })
    }

    /// Commits a planned change.
    ///
    /// # Errors
    /// If the kernel refuses; the set is then unchanged.
    pub fn commit(&mut self, change: &PlannedSetChange) -> Result<(), ApplyError> {
        let PlannedSetChange { plan, generation, present_element_count } = change;
        if plan.added.is_empty() && plan.removed.is_empty() {
            return Ok(());
        }
        match (&mut self.socket, &self.set.name) {
            (AddressSetSocket::Nft(socket), AddressSetName::Nft(place)) => {
                let generation = generation.unwrap_or_default();
                nft_addresses::commit(socket, place, &self.set, plan, generation)
            }
            (AddressSetSocket::Ipset(socket), _) => {
                ipset_addresses::commit(socket, &self.set, plan, *present_element_count)
            }
            (AddressSetSocket::Nft(_), AddressSetName::Ipset(_)) => {
                unreachable!("`open` pairs socket and name")
            }
        }
    }
}

/// How often a set is listed again because its listing has an element twice.
const LISTINGS_DURING_RESIZE_MAX: usize = 100;
/// Maximum number of single addresses to which a list is expanded, for a set without a size.
const EXPANDED_ADDRESSES_MAX_OF_UNSIZED_SET: usize = 1 << 24;
