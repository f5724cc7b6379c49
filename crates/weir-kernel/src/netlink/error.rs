//! What can go wrong between a request and its answer.

use std::fmt;
use std::io;

use super::attribute::MalformedNetlink;

/// A request that came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetlinkError {
    /// The socket refused to send or to receive.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The kernel refused the request.
    #[error(transparent)]
    Refused(#[from] KernelRefusal),
    /// The kernel sent more than the receive buffer holds, and what did not fit is lost.
    #[error(
        "netlink messages were lost: the receive buffer was full (ENOBUFS); read more often, or \
         raise net.core.rmem_max where weir is not root"
    )]
    ReceiveOverrun,
    /// A dump was interrupted by changes each time that it was requested.
    #[error(
        "what was read changed meanwhile, in each of {attempts} attempts; try again when nothing \
         changes it"
    )]
    EveryDumpAttemptInterrupted {
        /// How often it was requested.
        attempts: u32,
    },
    /// An answer that is not what the kernel writes.
    #[error(transparent)]
    Malformed(#[from] MalformedNetlink),
    /// An attribute of a request that is longer than an attribute can be.
    #[error("netlink attribute {kind} of a request is longer than 65535 bytes")]
    AttributeTooLong {
        /// Its type.
        kind: u16,
    },
    /// No answer came in time.
    #[error("the kernel did not answer a netlink request in time")]
    ReplyTimeout,
}

/// What the kernel says about a request that it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRefusal {
    /// Which of the requests that were sent together, from 0.
    pub request_index: usize,
    /// The number of the error, e.g. `EEXIST`.
    pub errno: i32,
    /// The kernel's own sentence about it, where it has one (`NLMSGERR_ATTR_MSG`).
    pub extack_message: Option<Box<str>>,
    /// Where in the request, from its header on, the attribute is that the error is about
    /// (`NLMSGERR_ATTR_OFFS`).
    pub attribute_offset: Option<u32>,
    /// The number that the sender gave to the element that ipset refused (`IPSET_ATTR_LINENO`).
    pub refused_element_number: Option<u32>,
}

impl fmt::Display for KernelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.errno))?;
        if let Some(extack_message) = &self.extack_message {
            write!(f, ": {}", extack_message.trim_end_matches(['.', '\n']))?;
        }
        if let Some(attribute_offset) = self.attribute_offset {
            write!(f, " (byte {attribute_offset} of the request)")?;
        }
        Ok(())
    }
}

impl std::error::Error for KernelRefusal {}

impl NetlinkError {
    /// The number of the system's error, where the system gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            NetlinkError::Socket(error) => error.raw_os_error(),
            NetlinkError::Refused(refusal) => Some(refusal.errno),
            NetlinkError::ReceiveOverrun => Some(libc::ENOBUFS),
            _ => None,
        }
    }
}
