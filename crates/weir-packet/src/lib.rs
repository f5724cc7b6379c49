//! Packets: what the rest of weir looks at, and the bytes they are on a wire.
//!
//! A [`Packet`] is the reader's view: header fields, plus what the kernel knows beside the bytes
//! (devices, mark, conntrack state). The bytes themselves are made and read by the modules below.
//! Nothing here knows what a ruleset is.

#![forbid(unsafe_code)]

mod addr;
mod build;
pub mod checksum;
pub mod mask;
mod packet;
mod parse;
pub mod pcap;

pub use addr::{Addr, Family};
pub use packet::{Ct, CtState, Fragment, Mac, Packet, PktType, Transport, tcp_flag};
pub use parse::ParseError;
