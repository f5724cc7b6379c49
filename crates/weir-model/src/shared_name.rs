//! Names that rules share.

use std::sync::Arc;

/// A shared name: of a chain, a set, a device.
pub type SharedName = Arc<str>;
