//! Names and numbers of ipsets: rules name a set by its number (net/netfilter/ipset/ip_set_core.c,
//! `ip_set_sockfn_get`).

use std::io;
use std::os::fd::OwnedFd;

use super::XtablesSocket;
use crate::KernelError;
use crate::socket_option::read_socket_option;

const SO_IP_SET: i32 = 83;
const IP_SET_OP_GET_BYNAME: u32 = 6;
const IP_SET_OP_GET_BYINDEX: u32 = 7;
const IP_SET_OP_VERSION: u32 = 0x100;
const IPSET_INVALID_ID: u16 = 65_535;
/// Names of sets have fewer bytes (`IPSET_MAXNAMELEN`).
const SET_NAME_BYTES: usize = 32;
/// struct ip_set_req_get_set: operation, version, and a name or a number.
const SET_REQUEST_BYTES: usize = 8 + SET_NAME_BYTES;

impl XtablesSocket {
    /// The number by which rules name a set; `None` where there is no such set.
    ///
    /// # Errors
    /// If the kernel has no ipset.
    pub fn read_set_index(&self, name: &str) -> Result<Option<u16>, KernelError> {
        let error = || KernelError::io("look up set", name);
        if name.len() >= SET_NAME_BYTES {
            return Ok(None);
        }
        let mut request = self.build_versioned_set_request(IP_SET_OP_GET_BYNAME).map_err(error())?;
        request[8..8 + name.len()].copy_from_slice(name.as_bytes());
        self.look_up_set(&mut request).map_err(error())?;
        let index = u16::from_ne_bytes([request[8], request[9]]);
        Ok((index != IPSET_INVALID_ID).then_some(index))
    }

    /// The name of the set of a number; `None` where there is no such set.
    ///
    /// # Errors
    /// If the kernel has no ipset.
    pub fn read_set_name(&self, index: u16) -> Result<Option<String>, KernelError> {
        let error = || KernelError::io("look up set", index);
        let mut request =
            self.build_versioned_set_request(IP_SET_OP_GET_BYINDEX).map_err(error())?;
        request[8..10].copy_from_slice(&index.to_ne_bytes());
        self.look_up_set(&mut request).map_err(error())?;
        let name = request[8..].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
        Ok(name.map(str::to_owned))
    }

    /// A request in the version of the protocol that the kernel speaks.
    fn build_versioned_set_request(&self, operation: u32) -> io::Result<[u8; SET_REQUEST_BYTES]> {
        let mut version = [0; 8];
        version[..4].copy_from_slice(&IP_SET_OP_VERSION.to_ne_bytes());
        self.look_up_set(&mut version)?;
        let mut request = [0; SET_REQUEST_BYTES];
        request[..4].copy_from_slice(&operation.to_ne_bytes());
        request[4..8].copy_from_slice(&version[4..8]);
        Ok(request)
    }

    fn look_up_set(&self, request: &mut [u8]) -> io::Result<()> {
        read_socket_option(self.ipv4_socket_for_sets(), libc::SOL_IP, SO_IP_SET, request)
    }

    /// Sets are requested through a socket of IPv4 whatever the family of the table.
    fn ipv4_socket_for_sets(&self) -> &OwnedFd {
        self.ipv4_fd.as_ref().unwrap_or(&self.fd)
    }
}
