//! Tables of legacy iptables, loaded, read and changed by weir, with the tools as oracle.

mod filter_rules;
mod load;
mod random_changes;
mod read;
mod table_rules;
mod testdata;
mod tool_tables;
mod transaction;
