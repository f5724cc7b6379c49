//! Puts a ruleset in force natively, without the tools.
//!
//! [`xtables`] turns a table of the model into the block of entries that legacy iptables has in
//! the kernel, and replaces the table that is in force there. What its encoder does not know is
//! refused by name: such a table is loaded by `iptables-restore`. It reads tables, too, and
//! decodes them to the model.
//!
//! [`iptables`] is a handle for programs: changes of a table in memory, and one replacement.
//!
//! [`ipsets`] creates and reads sets of ipset; [`address_sets`] changes sets of addresses, of ipset
//! and of nf_tables, by lists.
//!
//! [`nftables`] loads the nft form as one transaction.
//!
//! [`firewall_status`] says which firewalls run in a network namespace.

#![forbid(unsafe_code)]

pub mod address_sets;
mod error;
pub mod firewall_status;
pub mod ipsets;
pub mod iptables;
pub mod nftables;
pub mod xtables;

pub use error::ApplyError;
