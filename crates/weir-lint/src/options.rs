//! How a firewall is checked.

use crate::levels::Levels;

/// How a firewall is checked.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Counters of the text are those of real traffic: rules that never counted are found.
    pub counters: bool,
    /// Which lints speak, and how loudly.
    pub levels: Levels,
}
