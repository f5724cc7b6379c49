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
//! [`Session::set_global_sysctl`], which restores the old value, and [`Session::borrow_device`],
//! whose device is returned.
//!
//! The tables of legacy iptables are read and replaced as blocks of bytes ([`xtables`]). Links,
//! connections, sets, logged packets and the counters of nft are read and changed through one
//! implementation of [`netlink`].
//!
//! Nothing here knows what a ruleset or a study is.
//!
//! Modules:
//!
//! - `session`, `live_session`, `session_journal`, `session_record`: all that one run creates:
//!   while its process lives, and as recorded on disk;
//! - `session_changes`: the end of all sessions of a process that still runs;
//! - `reaper`, `process`, `recorded_process_liveness`: leftovers of dead sessions, and which
//!   processes still live;
//! - `namespace`, `veth`, `borrowed_device`, `borrowed_device_return`, `device_name`: network
//!   namespaces and their devices;
//! - `netlink`, `rtnetlink`, `ethtool`: links, addresses and device settings;
//! - `conntrack`, `nflog`: entries of the connection table, and packets that rules log;
//! - `ipset_socket`, `ipset_protocol`, `ipset_error`, `ipset_list`: sets, created, changed and
//!   read;
//! - `nft_socket`, `nft_protocol`, `nft_objects`: transactions of nf_tables, and what it has;
//! - `ipset_counters`, `nft_rule_and_element_counters`, `xtables`, `xtables_counters`: counters,
//!   and the tables of legacy iptables;
//! - `packet_socket`, `sending_sockets`, `socket_option`: sockets that send and receive frames and
//!   packets;
//! - `doctor`, `bpf_probe`: what this machine supports;
//! - `paths`, `symlink_safe_paths`: files that outlive a process;
//! - `tcp_sockets`, `process_sockets`: TCP sockets of the kernel, and those of a process and its
//!   ancestors;
//! - `boot_clock`, `network_namespace_identity`: the boot and its clock, and which namespace this
//!   is;
//! - `stop_signal`: Ctrl-C as a flag;
//! - `error`: errors of operations on the machine.

pub mod boot_clock;
mod borrowed_device;
mod borrowed_device_return;
pub mod bpf_links;
mod bpf_probe;
pub mod conntrack;
pub mod device_filters;
mod device_name;
pub mod doctor;
mod error;
mod ethtool;
pub mod ipset_counters;
pub mod ipset_error;
pub mod ipset_list;
pub mod ipset_protocol;
pub mod ipset_socket;
pub mod kernel_feature;
mod live_session;
mod namespace;
pub mod netfilter_hooks;
pub mod netlink;
pub mod network_namespace_identity;
pub mod nflog;
pub mod nft_objects;
pub mod nft_protocol;
pub mod nft_rule_and_element_counters;
pub mod nft_socket;
mod packet_socket;
mod paths;
pub mod process;
pub mod process_sockets;
pub mod reaper;
mod recorded_process_liveness;
mod rtnetlink;
mod sending_sockets;
mod session;
mod session_changes;
mod session_journal;
mod session_record;
mod socket_option;
pub mod stop_signal;
mod symlink_safe_paths;
pub mod tcp_sockets;
mod veth;
pub mod xtables;
pub mod xtables_counters;

pub use borrowed_device::DeviceMacCarrierAndUse;
pub use error::KernelError;
pub use namespace::{Namespace, NamespaceGuard, call_inside_named_namespace};
pub use packet_socket::open_packet_socket;
pub use sending_sockets::{FrameSocket, RawIpSocket};
pub use session::Session;
pub use socket_option::set_socket_option;
pub use veth::{VethEndAddresses, VethOptions};
