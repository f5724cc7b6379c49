//! netlink: how the kernel is queried about links, addresses, connections, sets and rules.
//!
//! A [`NetlinkRequest`] is a message with a fixed header and attributes ([`attribute`]). A
//! [`NetlinkSocket`] numbers requests, sends them as one datagram and matches what comes back by
//! that number:
//!
//! * An acknowledgement or a [`KernelRefusal`] answers a request. Only the last request of a
//!   datagram asks for an acknowledgement: the kernel works through a datagram in order, so when
//!   the last one is answered, every refusal before it has been read.
//! * A dump is a series of messages that ends with `NLMSG_DONE`. If the tables changed in between,
//!   the kernel marks it with `NLM_F_DUMP_INTR`; it is discarded and requested again.
//! * nf_tables takes changes only in a batch ([`netfilter::wrap_in_batch`]), which takes effect as
//!   a whole.
//! * A reply may have any length; the receive buffer grows to the length that the kernel announces.
//!
//! The lengths in a message from the kernel are checked; a wrong one is
//! [`NetlinkError::Malformed`].

pub mod attribute;
mod error;
pub mod netfilter;
mod received_message;
mod request;
mod socket;

pub use error::{KernelRefusal, NetlinkError};
pub use received_message::NetlinkMessage;
pub use request::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkRequest};
pub(crate) use socket::DUMP_TIMEOUT;
pub use socket::{NetlinkProtocol, NetlinkSocket};
