//! Changes the tables of nf_tables of a network namespace in transactions.
//!
//! A transaction is one datagram of messages between two that open and close a batch: the kernel
//! applies all of it or nothing. Each transaction changes the generation number of the ruleset. A
//! transaction names the generation on which it is based ([`NftSocket::read_generation`]), and the
//! kernel refuses it if the ruleset has changed since.
//!
//! The caller writes the contents of the messages ([`nft_protocol`](crate::nft_protocol)).

use crate::KernelError;
use crate::netlink::attribute::{AttributeWriter, MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{
    DUMP_TIMEOUT, KernelRefusal, NLM_F_CREATE, NLM_F_DUMP, NetlinkError, NetlinkProtocol,
    NetlinkRequest, NetlinkSocket,
};
use crate::nft_protocol::{
    NFT_MSG_DELSETELEM, NFT_MSG_GETGEN, NFT_MSG_GETSET, NFT_MSG_GETSETELEM, NFT_MSG_NEWSETELEM,
    NFTA_GEN_ID, NFTA_LIST_ELEM, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_LIST_SET,
    NFTA_SET_ELEM_LIST_SET_ID, NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_NAME, NFTA_SET_TABLE,
};

/// Bytes of elements after which a message is closed: a list has at most 65535 bytes.
const ELEMENT_BYTES_PER_MESSAGE: usize = 64_000;

/// A set of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NftSetPlace {
    /// `NFPROTO_…`.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub set: String,
}

/// The kernel refused a transaction; nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NftCommitError {
    /// The ruleset has changed since the generation on which the transaction is based.
    #[error("nf_tables was changed by another program in the meantime: try again")]
    GenerationChanged,
    /// The kernel refused a request of the transaction.
    #[error(transparent)]
    Refused(#[from] KernelRefusal),
    /// The socket.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// A socket to nf_tables of one network namespace.
#[derive(Debug)]
pub struct NftSocket {
    socket: NetlinkSocket,
}

impl NftSocket {
    /// Opens nf_tables of the current network namespace. The kernel loads it if it is not there.
    ///
    /// # Errors
    /// If the kernel has no netlink.
    pub fn open() -> Result<NftSocket, KernelError> {
        let socket = NetlinkSocket::open(NetlinkProtocol::Netfilter);
        Ok(NftSocket { socket: socket.map_err(KernelError::io("open", "nf_tables"))? })
    }

    /// The number of the generation of the ruleset.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or weir is not root.
    pub fn read_generation(&mut self) -> Result<u32, KernelError> {
        let request = NetfilterSubsystem::NfTables.new_request(NFT_MSG_GETGEN, 0, 0, 0);
        let read = self.socket.get_existing_object(&request, |message| {
            message.attributes(NFGENMSG_BYTES)?.require(NFTA_GEN_ID)?.be32()
        });
        read.map_err(KernelError::netlink("read the generation of", "nf_tables"))
    }

    /// Commits requests as one transaction, if the ruleset still has this generation.
    ///
    /// # Errors
    /// [`NftCommitError::Refused`] has the index of the request.
    pub fn commit(
        &mut self,
        requests: Vec<NetlinkRequest>,
        generation: u32,
    ) -> Result<(), NftCommitError> {
        let subsystem = NetfilterSubsystem::NfTables;
        match self.socket.commit_batch_at_generation(subsystem, requests, Some(generation)) {
            Ok(()) => Ok(()),
            Err(NetlinkError::Refused(refusal)) if refusal.errno == libc::ERESTART => {
                Err(NftCommitError::GenerationChanged)
            }
            Err(NetlinkError::Refused(refusal)) => Err(refusal.into()),
            Err(error) => Err(KernelError::netlink("change", "nf_tables")(error).into()),
        }
    }

    /// Reads the attributes of a set; `None` if there is no such set.
    ///
    /// # Errors
    /// If the kernel refuses, or what it writes is malformed.
    pub fn read_set_attributes<T>(
        &mut self,
        place: &NftSetPlace,
        mut read: impl FnMut(NetlinkAttributes<'_>) -> Result<T, MalformedNetlink>,
    ) -> Result<Option<T>, KernelError> {
        let mut request =
            NetfilterSubsystem::NfTables.new_request(NFT_MSG_GETSET, 0, place.family, 0);
        request.attributes.put_text(NFTA_SET_TABLE, &place.table);
        request.attributes.put_text(NFTA_SET_NAME, &place.set);
        let found = self
            .socket
            .get_existing_object(&request, |message| read(message.attributes(NFGENMSG_BYTES)?));
        match found {
            Ok(set) => Ok(Some(set)),
            Err(NetlinkError::Refused(refusal)) if refusal.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(KernelError::netlink("read nft set", &place.set)(error)),
        }
    }

    /// Reads the elements of a set: `step` is called with a state from `start` and the attributes
    /// of each.
    ///
    /// # Errors
    /// If there is no such set, or what the kernel writes is malformed.
    pub fn fold_set_elements<S>(
        &mut self,
        place: &NftSetPlace,
        start: impl Fn() -> S,
        mut step: impl FnMut(&mut S, NetlinkAttributes<'_>) -> Result<(), MalformedNetlink>,
    ) -> Result<S, KernelError> {
        let mut request = NetfilterSubsystem::NfTables.new_request(
            NFT_MSG_GETSETELEM,
            NLM_F_DUMP,
            place.family,
            0,
        );
        request.attributes.put_text(NFTA_SET_ELEM_LIST_TABLE, &place.table);
        request.attributes.put_text(NFTA_SET_ELEM_LIST_SET, &place.set);
        let read =
            self.socket.fold_dumped_objects(&request, DUMP_TIMEOUT, start, |state, message| {
                let list = message.attributes(NFGENMSG_BYTES)?.find(NFTA_SET_ELEM_LIST_ELEMENTS);
                let Some(list) = list else { return Ok(()) };
                for element in list.nested_attributes()?.iter() {
                    step(state, element.nested_attributes()?)?;
                }
                Ok(())
            });
        read.map_err(KernelError::netlink("read nft set", &place.set))
    }
}

/// Whether elements are added or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NftElementChange {
    /// They are added.
    Add,
    /// They are deleted.
    Delete,
}

/// Adds the requests that change elements of a set. `encode` writes the attributes of one element.
/// `set_id` is the ID of a set created in the same transaction.
pub fn push_element_requests<E>(
    requests: &mut Vec<NetlinkRequest>,
    change: NftElementChange,
    place: &NftSetPlace,
    set_id: Option<u32>,
    elements: impl IntoIterator<Item = E>,
    mut encode: impl FnMut(&mut AttributeWriter, E),
) {
    let (message, flags) = match change {
        NftElementChange::Add => (NFT_MSG_NEWSETELEM, NLM_F_CREATE),
        NftElementChange::Delete => (NFT_MSG_DELSETELEM, 0),
    };
    let mut elements = elements.into_iter().peekable();
    while elements.peek().is_some() {
        let mut request = NetfilterSubsystem::NfTables.new_request(message, flags, place.family, 0);
        let attributes = &mut request.attributes;
        attributes.put_text(NFTA_SET_ELEM_LIST_TABLE, &place.table);
        attributes.put_text(NFTA_SET_ELEM_LIST_SET, &place.set);
        if let Some(set_id) = set_id {
            attributes.put_be32(NFTA_SET_ELEM_LIST_SET_ID, set_id);
        }
        attributes.put_nested(NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
            while list.byte_count() < ELEMENT_BYTES_PER_MESSAGE {
                let Some(element) = elements.next() else { break };
                list.put_nested(NFTA_LIST_ELEM, |attributes| encode(attributes, element));
            }
        });
        requests.push(request);
    }
}
