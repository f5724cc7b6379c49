//! What is known of modules whose effects are not modelled.

use super::conntrack_demand_level::ConntrackDemand;

/// One row: a module without a row in the table of effects whose rules share no objects by name.
///
/// Rules that use it are barriers nevertheless. If a module has neither this row nor one in
/// [`SHARED_OBJECT_ROWS`](super::shared_objects::SHARED_OBJECT_ROWS), weir assumes that all rules
/// that use it share one object, and that each of them configures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueModuleWithoutSharedObjects {
    /// Name, as in `-m NAME` or `-j NAME`.
    pub name: &'static str,
    /// What a rule with it enables.
    pub conntrack_demand: ConntrackDemand,
}

impl OpaqueModuleWithoutSharedObjects {
    /// A module that enables nothing.
    pub(super) const fn new(name: &'static str) -> OpaqueModuleWithoutSharedObjects {
        OpaqueModuleWithoutSharedObjects { name, conntrack_demand: ConntrackDemand::Nothing }
    }

    /// It makes the kernel track connections.
    pub(super) const fn with_tracking(self) -> OpaqueModuleWithoutSharedObjects {
        OpaqueModuleWithoutSharedObjects { conntrack_demand: ConntrackDemand::Tracking, ..self }
    }
}
