//! Where rulesets are loaded and measured: in namespaces of this machine, or of another one.
//!
//! In a run over two machines, the machine on which weir is started sends and counts, on two of its
//! interfaces; the firewall is another machine, reached by `ssh` ([`remote`]). There `weir lab
//! agent` ([`agent`]) creates namespaces, loads rulesets and reads counters on request
//! ([`agent_protocol`]). The rest of a run uses only the traits of [`host_trait`].

pub mod agent;
pub(crate) mod agent_protocol;
pub(crate) mod host_trait;
pub(crate) mod kernel_boot;
pub(crate) mod local;
pub(crate) mod namespace_command;
pub(crate) mod remote;
pub mod router_config;
mod ssh;
pub(crate) mod study_command;
