//! (being written)

#![forbid(unsafe_code)]

pub mod nft;
