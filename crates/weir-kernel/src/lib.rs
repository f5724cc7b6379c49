//! The lowest layer: namespaces, links, processes, probes, and the reaper.
//!
//! A [`Session`] owns everything that weir creates on a machine: network namespaces named
//! `weir-<run>-<role>`, the links inside them, pins, processes, and the few global sysctls that it
//! changed. All of it ends with the session, even if its process is killed: the session records
//! what it creates (and names it after its owner) before creating it, and the next [`Session::new`]
//! removes leftovers of dead sessions ([`reaper`]).
//!
//! The network namespace in which the user works is never changed: links are created inside weir's
//! own namespaces, and nothing is written outside of them except through
//! [`Session::global_sysctl`], which restores the old value, and [`Session::borrow_device`], whose
//! device is returned.
//!
//! Links, connections, sets, logged packets and the counters of nft are read and changed through
//! one implementation of [`netlink`].
//!
//! Nothing here knows what a ruleset or a study is.

mod beneath;
mod borrow;
mod bpf;
pub mod conntrack;
mod device_name;
pub mod doctor;
mod error;
mod give_back;
mod inject;
pub mod interrupt;
mod ioctl;
pub mod ipset;
mod journal;
mod link;
mod live;
mod namespace;
pub mod netlink;
pub mod nflog;
pub mod nftables;
mod packet_socket;
mod paths;
mod pid_namespace;
pub mod process;
pub mod reaper;
mod record;
mod rtnetlink;
mod session;
mod socket_option;
pub mod xtables;

pub use borrow::Device;
pub use error::KernelError;
pub use inject::{FrameSocket, HostSocket};
pub use link::{LinkEnd, VethOptions};
pub use namespace::{Entered, Namespace};
pub use packet_socket::packet_socket;
pub use session::Session;
pub use socket_option::set_socket_option;
