//! Puts a ruleset in force natively, without the tools.
//!
//! [`xtables`] turns a table of the model into the block of entries that legacy iptables has in
//! the kernel, and replaces the table that is in force there. What its encoder does not know is
//! refused by name: such a table is loaded by `iptables-restore`. It reads tables, too, and
//! decodes them to the model.
//!
//! [`iptables`] is a handle for programs: changes of a table in memory, and one replacement.
//!
//! [`ipsets`] creates and reads sets of ipset; [`address_sets`] updates sets of addresses, of ipset
//! and of nf_tables, from lists.
//!
//! [`nftables`] loads the nft form as one transaction.
//!
//! [`firewall_status`] says which firewalls run in a network namespace.
//!
//! [`generation_changes`] puts artefacts in force as generations, confirms them and rolls back.
//! [`apply_steps`] plans the steps, `step_execution` executes them, [`state_store`] keeps the state
//! on disk, [`change_supervisor`] rolls back unconfirmed generations, and [`apply_plan`]
//! reports in advance what would change. [`rule_counters`] carries counters over,
//! [`counter_listing`] prints them, [`generation_listing`] lists generations, [`firewall_metrics`]
//! reads what a monitoring system records, and [`kernel_ruleset`] is the value that all of them
//! work on.

#![forbid(unsafe_code)]

pub mod address_sets;
mod apply_conflicts;
pub mod apply_plan;
pub mod apply_steps;
mod artefact_ruleset;
pub mod change_supervisor;
pub mod counter_listing;
mod error;
pub mod firewall_metrics;
pub mod firewall_status;
pub mod generation_changes;
pub mod generation_listing;
pub mod ipsets;
pub mod iptables;
pub mod kernel_ruleset;
mod nft_transaction_text;
pub mod nftables;
mod operation_error;
pub mod rule_counters;
pub mod state_store;
mod step_execution;
mod tool_execution;
pub mod xtables;

pub use error::ApplyError;
pub use operation_error::ApplyOperationError;
