//! A study over two machines rather than over namespaces of one.
//!
//! The machine that weir is started on plays and counts, by two interfaces of its own; the firewall
//! is another machine, which the system's `ssh` reaches ([`ssh`]). There `weir lab agent`
//! ([`agent`]) makes namespaces, loads rulesets and reads counters, as it is asked to
//! ([`protocol`]). All else of a run is the same on one machine and on two. Where the file names
//! [`kernels`], the firewall is booted into each, with a run for each.

pub mod agent;
mod boot;
pub mod kernels;
pub(crate) mod protocol;
pub(crate) mod ssh;
