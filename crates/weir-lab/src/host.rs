//! Where rulesets are loaded and measured: in namespaces of this machine, or of another one.
//!
//! In a run over two machines the one that weir is started on plays and counts, by two interfaces
//! of its own; the firewall is another machine, which the system's `ssh` reaches ([`remote`]).
//! There `weir lab agent` ([`agent`]) makes namespaces, loads rulesets and reads counters, as it is
//! asked to ([`protocol`]). The rest of a run knows the traits of [`target`] alone.

pub mod agent;
pub(crate) mod boot;
pub(crate) mod command;
pub(crate) mod local;
pub(crate) mod protocol;
pub(crate) mod remote;
pub mod router;
pub(crate) mod shell;
mod ssh;
pub(crate) mod target;
