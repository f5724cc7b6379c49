//! A handle for programs that change tables of legacy iptables.
//!
//! A [`Transaction`] reads a table once, takes any number of changes in memory, and puts the
//! result in force as one replacement: the operations of IPTables::libiptc (Perl), without a call
//! of a tool for each of them.
//!
//! ```no_run
//! use weir_apply::iptables::Transaction;
//! use weir_kernel::xtables::{XtablesLock, XtablesSocket};
//! use weir_model::{Family, TableName};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let socket = XtablesSocket::open(Family::V4)?;
//! let mut table = Transaction::init(&socket, TableName::Filter)?;
//! if !table.is_chain("customers") {
//!     table.create_chain("customers")?;
//! }
//! let rule = table.parse_rule("-s 192.0.2.7/32 -p tcp --dport 25 -j DROP")?;
//! table.append_rule("customers", &rule)?;
//! let wait = std::time::Duration::from_secs(10);
//! let lock = XtablesLock::acquire("/run/xtables.lock".as_ref(), wait)?;
//! table.commit(&lock)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is kept
//! A rule that the transaction does not touch keeps the bytes that the kernel gave, whether weir
//! knows its modules or not, and its counts: the kernel returns what the replaced entries had
//! counted up to the last packet, and these counts are added to the new entries. What these count
//! in between is kept, too. A reader of counters sees lower ones until they are added; if the
//! process ends in between, they are lost, since the kernel has no operation that does both.
//!
//! What a module of the kernel remembers for a rule begins anew with every replacement: the credit
//! of `limit`, the rest of `quota`, the position of `statistic`. Lists of `recent` and tables of
//! `hashlimit` have names, and stay while a rule names them.
//!
//! # Changes by others
//! The kernel has no generation number of tables. A commit reads the table again and compares it,
//! except for counts, with the one that the transaction began with; if it differs, the commit is
//! refused with the chains that differ. The lock excludes the tools between this and the
//! replacement. A program that ignores the lock is noticed there only if the number of entries
//! differs.

mod chain_difference;
mod draft_table;
mod draft_table_layout;
mod table_difference;
mod transaction;

pub use self::chain_difference::{ChainDifference, ChainDifferenceKind};
pub use self::transaction::{ListedRule, Transaction};
