//! Names and numbers of ipsets, looked up when a rule first names them.

use std::cell::RefCell;
use std::collections::HashMap;

use weir_kernel::xtables::XtablesSocket;
use weir_model::SharedName;

/// The sets that rules name, by name and by number.
///
/// Without a socket there are no sets, and a rule that names one is refused.
#[derive(Debug, Default)]
pub struct SetIndices<'s> {
    socket: Option<&'s XtablesSocket>,
    /// Whether a missing set gets a number of its own.
    assumes_sets_exist: bool,
    index_by_name: RefCell<HashMap<SharedName, u16>>,
    name_by_index: RefCell<HashMap<u16, SharedName>>,
}

impl<'s> SetIndices<'s> {
    /// The sets of the network namespace of a socket.
    pub fn of_socket(socket: &'s XtablesSocket) -> SetIndices<'s> {
        SetIndices { socket: Some(socket), ..SetIndices::default() }
    }

    /// Every set that a rule names is assumed to exist: to find out whether a table can be
    /// encoded before its sets are created. The numbers are not those of the kernel.
    pub fn assuming_all_sets_exist() -> SetIndices<'s> {
        SetIndices { assumes_sets_exist: true, ..SetIndices::default() }
    }

    /// The number of a set; `None` where there is no such set.
    pub(crate) fn find_index(&self, name: &str) -> Option<u16> {
        if let Some(index) = self.index_by_name.borrow().get(name) {
            return Some(*index);
        }
        let index = match self.socket {
            Some(socket) => socket.read_set_index(name).ok()??,
            None if self.assumes_sets_exist => self.index_by_name.borrow().len() as u16,
            None => return None,
        };
        self.remember(SharedName::from(name), index);
        Some(index)
    }

    /// The name of a set; `None` where there is no such set.
    pub(crate) fn find_name(&self, index: u16) -> Option<SharedName> {
        if let Some(name) = self.name_by_index.borrow().get(&index) {
            return Some(name.clone());
        }
        let name = SharedName::from(self.socket?.read_set_name(index).ok()??.as_str());
        self.remember(name.clone(), index);
        Some(name)
    }

    /// A set that no longer has the number that was looked up: rules with it would name another.
    pub(crate) fn find_renumbered_set(&self) -> Option<SharedName> {
        let socket = self.socket?;
        let index_by_name = self.index_by_name.borrow();
        let mut sets = index_by_name.iter();
        let renumbered = sets.find(
            |(name, index)| !matches!(socket.read_set_index(name), Ok(Some(now)) if now == **index),
        );
        renumbered.map(|(name, _)| name.clone())
    }

    fn remember(&self, name: SharedName, index: u16) {
        self.name_by_index.borrow_mut().insert(index, name.clone());
        self.index_by_name.borrow_mut().insert(name, index);
    }
}
