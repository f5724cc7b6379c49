//! Where rulesets are loaded and measured: in namespaces of this machine, or of another one.
//!
//! In a run over two machines, the machine on which weir is started sends and counts, on two of its
//! interfaces; the firewall is another machine, reached by `ssh` ([`remote`]). There `weir lab
//! agent` ([`agent`]) creates namespaces, loads rulesets and reads counters on request
//! ([`protocol`]). The rest of a run uses only the traits of [`target`].

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
