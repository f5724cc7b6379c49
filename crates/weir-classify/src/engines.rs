//! The engines, one file or folder each.

mod build_budget;
mod dimension;
mod filter_test_rows;
mod masked_table;
mod tuple_space;

pub mod bitvector;
pub mod hipac;
pub mod hypersplit;
pub mod idd;
pub mod ipset;
pub mod linear;
pub mod tuple;
pub mod tuplemerge;
