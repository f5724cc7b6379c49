//! Packets: the fields that the rest of weir reads, and their bytes on the wire.
//!
//! A [`Packet`] has the header fields, plus what the kernel knows in addition to the bytes
//! (devices, mark, conntrack state). The modules below build and parse the bytes. This crate does
//! not know what a ruleset is.
//!
//! Modules:
//!
//! - `addr`: addresses as numbers;
//! - `mask`: masks of contiguous bits, and their intervals;
//! - `packet`: the packet as a rule sees it;
//! - `serialize`: a packet to bytes;
//! - `parse`: bytes to a packet;
//! - `checksum`: the internet checksum and CRC-32C;
//! - `pcap`: files of frames.

#![forbid(unsafe_code)]

mod addr;
pub mod checksum;
pub mod mask;
mod packet;
mod parse;
pub mod pcap;
mod serialize;

pub use addr::{Addr, Family};
pub use packet::{
    ConntrackInfo, CtState, FragmentPosition, Mac, Packet, PktType, Transport, tcp_flag,
};
pub use parse::ParseError;
