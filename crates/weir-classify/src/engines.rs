//! The engines, one file or folder each.

pub mod linear;
