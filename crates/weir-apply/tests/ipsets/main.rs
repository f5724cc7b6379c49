//! Sets of ipset, loaded and read by weir, with the tool as oracle.

mod every_type;
mod load_and_read;
mod tool_sets;
