//! Creates, changes and reads the sets of a network namespace through netlink.
//!
//! The caller writes and reads the attributes of sets and elements
//! ([`ipset_protocol`](crate::ipset_protocol)). This module contains the messages around them:
//!
//! * Elements are sent many in one message, as `ipset restore` does it (`IPSET_ATTR_ADT`). A list
//!   of attributes has at most 64 KiB, so a message has some thousand elements. Each message is
//!   sent after the response to the previous one: the kernel would process the next message of a
//!   datagram even after it refused one, and the contents of the set would be unknown.
//! * Each element has its number (`IPSET_ATTR_LINENO`). If the kernel refuses one, it repeats the
//!   message with that number in it; elements before it are in the set.
//! * There is no transaction over several messages: to avoid a partly filled set, fill another one
//!   and swap them ([`IpsetSocket::swap_sets`]).

use std::ops::RangeInclusive;

use crate::KernelError;
use crate::ipset_error::IpsetError;
use crate::ipset_protocol::*;
use crate::netlink::attribute::{AttributeWriter, MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{
    DUMP_TIMEOUT, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkError, NetlinkProtocol,
    NetlinkRequest, NetlinkSocket,
};

/// Bytes of elements after which a message is closed: a list has at most 65535 bytes, an element at
/// most a few hundred.
const ELEMENT_BYTES_PER_MESSAGE: usize = 64_000;

/// A change of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementChange {
    /// Add them; an existing element is an error.
    Add,
    /// Add them; an existing element is replaced.
    AddOrReplace,
    /// Delete them; a missing element is an error.
    Delete,
    /// Delete them; missing elements are ignored.
    DeleteIfPresent,
}

/// Name and type of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpsetIdentity {
    /// Its name, at most 31 bytes.
    pub name: String,
    /// `hash:net`.
    pub type_name: String,
    /// Revision of the type.
    pub revision: u8,
    /// `AF_INET`, `AF_INET6`, or `AF_UNSPEC` for sets without addresses.
    pub address_family: u8,
}

/// A socket to the sets of one network namespace.
#[derive(Debug)]
pub struct IpsetSocket {
    socket: NetlinkSocket,
}

impl IpsetSocket {
    /// Opens the sets of the current network namespace. The kernel loads ipset if it is not there.
    ///
    /// # Errors
    /// If the kernel has no netlink.
    pub fn open() -> Result<IpsetSocket, KernelError> {
        let socket = NetlinkSocket::open(NetlinkProtocol::Netfilter);
        Ok(IpsetSocket { socket: socket.map_err(KernelError::io("open", "ipset"))? })
    }

    /// The revisions of a type that the kernel has.
    ///
    /// # Errors
    /// If it has no such type.
    pub fn read_type_revisions(
        &mut self,
        type_name: &str,
        address_family: u8,
    ) -> Result<RangeInclusive<u8>, IpsetError> {
        let mut request = new_request(IPSET_CMD_TYPE, 0);
        request.attributes.put_text(IPSET_ATTR_TYPENAME, type_name);
        request.attributes.put(IPSET_ATTR_FAMILY, &[address_family]);
        let read = self.socket.get_existing_object(&request, |message| {
            let attributes = message.attributes(NFGENMSG_BYTES)?;
            let last = attributes.require(IPSET_ATTR_REVISION)?.u8()?;
            let first = attributes.find(IPSET_ATTR_REVISION_MIN).map(|r| r.u8()).transpose()?;
            Ok(first.unwrap_or(last)..=last)
        });
        read.map_err(|error| ipset_error("find the type of", type_name, type_name, error))
    }

    /// Creates a set. `fill` writes its attributes.
    ///
    /// # Errors
    /// If there is one of its name, or the kernel refuses.
    pub fn create_set(
        &mut self,
        set: &IpsetIdentity,
        fill: impl FnOnce(&mut AttributeWriter),
    ) -> Result<(), IpsetError> {
        let mut request = new_request(IPSET_CMD_CREATE, NLM_F_CREATE | NLM_F_EXCL);
        request.attributes.put_text(IPSET_ATTR_SETNAME, &set.name);
        request.attributes.put_text(IPSET_ATTR_TYPENAME, &set.type_name);
        request.attributes.put(IPSET_ATTR_REVISION, &[set.revision]);
        request.attributes.put(IPSET_ATTR_FAMILY, &[set.address_family]);
        request.attributes.put_nested(IPSET_ATTR_DATA, fill);
        let sent = self.socket.send_and_check(&[request]);
        sent.map_err(|error| ipset_error("create", &set.name, &set.type_name, error))
    }

    /// Destroys a set.
    ///
    /// # Errors
    /// If there is none, or a rule or another set uses it.
    pub fn destroy_set(&mut self, name: &str) -> Result<(), IpsetError> {
        self.send_set_command("destroy", IPSET_CMD_DESTROY, name, None)
    }

    /// Removes all elements of a set.
    ///
    /// # Errors
    /// If there is none.
    pub fn flush_set(&mut self, name: &str) -> Result<(), IpsetError> {
        self.send_set_command("flush", IPSET_CMD_FLUSH, name, None)
    }

    /// Renames a set.
    ///
    /// # Errors
    /// If there is none, a rule or another set uses it, or the new name is taken.
    pub fn rename_set(&mut self, name: &str, new_name: &str) -> Result<(), IpsetError> {
        self.send_set_command("rename", IPSET_CMD_RENAME, name, Some(new_name))
    }

    /// Swaps the names of two sets: rules that use one then use the other.
    ///
    /// # Errors
    /// If one is missing, or they are of different types.
    pub fn swap_sets(&mut self, name: &str, other_name: &str) -> Result<(), IpsetError> {
        self.send_set_command("swap", IPSET_CMD_SWAP, name, Some(other_name))
    }

    fn send_set_command(
        &mut self,
        action: &'static str,
        command: u8,
        name: &str,
        second_name: Option<&str>,
    ) -> Result<(), IpsetError> {
        // Without this flag, destroying a missing set is not an error.
        let mut request = new_request(command, NLM_F_EXCL);
        request.attributes.put_text(IPSET_ATTR_SETNAME, name);
        if let Some(second_name) = second_name {
            request.attributes.put_text(IPSET_ATTR_SETNAME2, second_name);
        }
        let sent = self.socket.send_and_check(&[request]);
        sent.map_err(|error| ipset_error(action, name, "", error))
    }

    /// Adds or deletes elements; `encode` writes the attributes of one.
    ///
    /// # Errors
    /// [`IpsetError::Refused`] has the index of the first element that the kernel refuses; those
    /// before it are changed.
    pub fn change_elements<E>(
        &mut self,
        change: ElementChange,
        set_name: &str,
        type_name: &str,
        elements: impl IntoIterator<Item = E>,
        mut encode: impl FnMut(&mut AttributeWriter, E),
    ) -> Result<(), IpsetError> {
        let (command, flags, action) = match change {
            ElementChange::Add => (IPSET_CMD_ADD, NLM_F_EXCL, "add to"),
            ElementChange::AddOrReplace => (IPSET_CMD_ADD, 0, "add to"),
            ElementChange::Delete => (IPSET_CMD_DEL, NLM_F_EXCL, "delete from"),
            ElementChange::DeleteIfPresent => (IPSET_CMD_DEL, 0, "delete from"),
        };
        let mut elements = elements.into_iter().peekable();
        let mut element_number = 0u32;
        while elements.peek().is_some() {
            let mut request = new_request(command, flags);
            request.attributes.put_text(IPSET_ATTR_SETNAME, set_name);
            request.attributes.put(IPSET_ATTR_LINENO, &0u32.to_ne_bytes());
            request.attributes.put_nested(IPSET_ATTR_ADT, |list| {
                while list.byte_count() < ELEMENT_BYTES_PER_MESSAGE {
                    let Some(element) = elements.next() else { break };
                    element_number += 1;
                    list.put_nested(IPSET_ATTR_DATA, |data| {
                        encode(data, element);
                        data.put(IPSET_ATTR_LINENO, &element_number.to_ne_bytes());
                    });
                }
            });
            let sent = self.socket.send_and_check(&[request]);
            sent.map_err(|error| ipset_error(action, set_name, type_name, error))?;
        }
        Ok(())
    }

    /// Reads sets with their elements, all of them or one. `step` is called with a state from
    /// `start` and what the listing is made of: a set, then its elements.
    ///
    /// # Errors
    /// If there is no such set, or what the kernel writes is malformed.
    pub fn fold_sets<S>(
        &mut self,
        name: Option<&str>,
        start: impl Fn() -> S,
        step: impl FnMut(&mut S, IpsetListingItem<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<S, IpsetError> {
        self.fold_listing(new_request(IPSET_CMD_SAVE, NLM_F_DUMP), name, start, step)
    }

    /// Reads sets without their elements, all of them or one.
    ///
    /// # Errors
    /// As [`fold_sets`](IpsetSocket::fold_sets).
    pub fn fold_set_headers<S>(
        &mut self,
        name: Option<&str>,
        start: impl Fn() -> S,
        step: impl FnMut(&mut S, IpsetListingItem<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<S, IpsetError> {
        let mut request = new_request(IPSET_CMD_LIST, NLM_F_DUMP);
        request.attributes.put_be32(IPSET_ATTR_FLAGS, IPSET_FLAG_LIST_HEADER);
        self.fold_listing(request, name, start, step)
    }

    fn fold_listing<S>(
        &mut self,
        mut request: NetlinkRequest,
        name: Option<&str>,
        start: impl Fn() -> S,
        mut step: impl FnMut(&mut S, IpsetListingItem<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<S, IpsetError> {
        if let Some(name) = name {
            request.attributes.put_text(IPSET_ATTR_SETNAME, name);
        }
        let read =
            self.socket.fold_dumped_objects(&request, DUMP_TIMEOUT, start, |state, message| {
                let attributes = message.attributes(NFGENMSG_BYTES)?;
                if let Some(data) = attributes.find(IPSET_ATTR_DATA) {
                    let identity = IpsetIdentity {
                        name: attributes.require(IPSET_ATTR_SETNAME)?.to_text(),
                        type_name: attributes.require(IPSET_ATTR_TYPENAME)?.to_text(),
                        revision: attributes.require(IPSET_ATTR_REVISION)?.u8()?,
                        address_family: attributes.require(IPSET_ATTR_FAMILY)?.u8()?,
                    };
                    step(state, IpsetListingItem::Header(identity, data.nested_attributes()?))?;
                }
                let Some(elements) = attributes.find(IPSET_ATTR_ADT) else { return Ok(()) };
                for element in elements.nested_attributes()?.iter() {
                    step(state, IpsetListingItem::Element(element.nested_attributes()?))?;
                }
                Ok(())
            });
        read.map_err(|error| ipset_error("read", name.unwrap_or("(all)"), "", error))
    }
}

/// An item of a listing of sets.
#[derive(Clone, Debug)]
pub enum IpsetListingItem<'a> {
    /// A set, whose elements follow.
    Header(IpsetIdentity, NetlinkAttributes<'a>),
    /// An element of the last set.
    Element(NetlinkAttributes<'a>),
}

fn new_request(command: u8, flags: u16) -> NetlinkRequest {
    let family = libc::AF_INET as u8;
    let mut request = NetfilterSubsystem::Ipset.new_request(command, flags, family, 0);
    request.attributes.put(IPSET_ATTR_PROTOCOL, &[IPSET_PROTOCOL_VERSION]);
    request
}

fn ipset_error(
    action: &'static str,
    set: &str,
    type_name: &str,
    error: NetlinkError,
) -> IpsetError {
    let NetlinkError::Refused(refusal) = error else {
        return KernelError::netlink(action, format!("set {set}"))(error).into();
    };
    IpsetError::Refused {
        action,
        set: set.to_owned(),
        type_name: type_name.to_owned(),
        errno: refusal.errno,
        element_index: refusal.refused_element_number.and_then(index_of_element_number),
    }
}

/// Elements are numbered from 1.
fn index_of_element_number(number: u32) -> Option<usize> {
    (number as usize).checked_sub(1)
}
