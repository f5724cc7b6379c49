//! Numbers of the sets of a transaction.

use std::collections::HashMap;

/// A map of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapWithId {
    /// Its number in the transaction.
    pub id: u32,
    pub has_intervals: bool,
}

/// The maps of a table by name.
pub(super) type MapIds<'r> = HashMap<&'r str, MapWithId>;

/// The maps of a table, and the number of the next set of the transaction.
pub(super) struct TableMapIdAllocator<'r> {
    map_ids: MapIds<'r>,
    next_set_id: &'r mut u32,
}

impl<'r> TableMapIdAllocator<'r> {
    pub(super) fn new(next_set_id: &'r mut u32) -> TableMapIdAllocator<'r> {
        TableMapIdAllocator { map_ids: MapIds::new(), next_set_id }
    }

    /// Gives a map its number.
    pub(super) fn assign_map_id(&mut self, name: &'r str, has_intervals: bool) -> u32 {
        let id = *self.next_set_id;
        *self.next_set_id += 1;
        self.map_ids.insert(name, MapWithId { id, has_intervals });
        id
    }

    pub(super) fn borrow_map_ids_and_next_set_id(&mut self) -> (&MapIds<'r>, &mut u32) {
        (&self.map_ids, self.next_set_id)
    }
}
