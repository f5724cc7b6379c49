//! The leaf that touches the machine: namespaces, links, processes, probes, and the reaper.
//!
//! A [`Session`] owns everything that weir makes on a machine: network namespaces named
//! `weir-<run>-<role>`, the links inside them, pins, processes, and the few global sysctls that it
//! changed. All of it ends with the session, also where its process was killed: what a session
//! makes is written down (and named after its owner) before it is made, and the next
//! [`Session::new`] removes what dead sessions left ([`reaper`]).
//!
//! The network namespace that the user works in is never changed: links are made inside our own
//! namespaces, and nothing here writes outside of them except through
//! [`Session::global_sysctl`], which puts the old value back, and [`Session::borrow_device`], whose
//! device is given back.
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
