//! Messages from the kernel: their header, and what acknowledgements and refusals say.

use super::attribute::{MalformedNetlink, NetlinkAttributes};
use super::error::KernelRefusal;
use crate::ipset_protocol::IPSET_ATTR_LINENO;

/// Bytes of `struct nlmsghdr`.
pub(super) const NLMSG_HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The tables changed during a dump.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// A refusal repeats the header of the request, not its body.
const NLM_F_CAPPED: u16 = 0x100;
/// Attributes follow a refusal or the end of a dump.
const NLM_F_ACK_TLVS: u16 = 0x200;
/// The subsystem of ipset, and the header of its messages (`netfilter`, which this module is
/// below).
const NFNL_SUBSYS_IPSET: u16 = 6;
const NFGENMSG_BYTES: usize = 4;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkMessage<'a> {
    /// Its type: the subsystem's, and what it is about.
    pub kind: u16,
    /// The number of the request that it answers; events have none of ours.
    pub sequence: u32,
    /// What follows its header.
    pub payload: &'a [u8],
    flags: u16,
}

/// What a message is to the request with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplyStatus {
    /// Data, of which more may follow.
    Data,
    /// Done, or the end of a dump.
    Done,
    /// Refused; which request it was is for the caller to say.
    Refused(KernelRefusal),
}

impl<'a> NetlinkMessage<'a> {
    /// Its attributes, after a fixed header of so many bytes.
    ///
    /// # Errors
    /// If it is shorter, or they are malformed.
    pub fn attributes(
        &self,
        header_bytes: usize,
    ) -> Result<NetlinkAttributes<'a>, MalformedNetlink> {
        NetlinkAttributes::parse(bytes_after(self.payload, header_bytes)?)
    }

    /// Its fixed header.
    ///
    /// # Errors
    /// If it is shorter.
    pub fn fixed_header<const N: usize>(&self) -> Result<[u8; N], MalformedNetlink> {
        let short = MalformedNetlink::ShortHeader { expected: N, left: self.payload.len() };
        self.payload.first_chunk().copied().ok_or(short)
    }

    /// Whether the tables changed during the dump that it is part of.
    pub(super) fn is_dump_interrupted(&self) -> bool {
        self.flags & NLM_F_DUMP_INTR != 0
    }

    pub(super) fn reply_status(&self) -> Result<ReplyStatus, MalformedNetlink> {
        let attributes_at = match self.kind {
            NLMSG_ERROR if self.flags & NLM_F_CAPPED != 0 => 4 + NLMSG_HEADER_BYTES,
            // The whole request stands before the attributes.
            NLMSG_ERROR => {
                let length = bytes_after(self.payload, 4)?.first_chunk().copied();
                let length = length.map_or(0, u32::from_ne_bytes) as usize;
                4 + length.max(NLMSG_HEADER_BYTES).next_multiple_of(4)
            }
            NLMSG_DONE => 4,
            _ => return Ok(ReplyStatus::Data),
        };
        // A dump without an error may end without a number.
        let number = match self.payload.first_chunk() {
            Some(bytes) => i32::from_ne_bytes(*bytes),
            None if self.kind == NLMSG_DONE => 0,
            None => {
                return Err(MalformedNetlink::ShortHeader {
                    expected: 4,
                    left: self.payload.len(),
                });
            }
        };
        if number >= 0 {
            return Ok(ReplyStatus::Done);
        }
        let mut refusal = KernelRefusal {
            request_index: 0,
            errno: number.saturating_neg(),
            extack_message: None,
            attribute_offset: None,
            refused_element_number: None,
        };
        if self.kind == NLMSG_ERROR && self.flags & NLM_F_CAPPED == 0 {
            refusal.refused_element_number = self.find_refused_ipset_element();
        }
        if self.flags & NLM_F_ACK_TLVS != 0 {
            let attributes = self.attributes(attributes_at)?;
            refusal.extack_message =
                attributes.find(NLMSGERR_ATTR_MSG).map(|message| message.to_text().into());
            refusal.attribute_offset =
                attributes.find(NLMSGERR_ATTR_OFFS).map(|o| o.u32()).transpose()?;
        }
        Ok(ReplyStatus::Refused(refusal))
    }

    /// ipset repeats a request with the number of the refused element in it (`call_ad` in
    /// net/netfilter/ipset/ip_set_core.c).
    fn find_refused_ipset_element(&self) -> Option<u32> {
        let request = parse_messages(self.payload.get(4..)?).next()?.ok()?;
        if request.kind >> 8 != NFNL_SUBSYS_IPSET {
            return None;
        }
        let line = request.attributes(NFGENMSG_BYTES).ok()?.find(IPSET_ATTR_LINENO)?;
        line.u32().ok()
    }
}

fn bytes_after(bytes: &[u8], at: usize) -> Result<&[u8], MalformedNetlink> {
    bytes.get(at..).ok_or(MalformedNetlink::ShortHeader { expected: at, left: bytes.len() })
}

/// The messages of a datagram; after a malformed one there are none.
pub(super) fn parse_messages(
    datagram: &[u8],
) -> impl Iterator<Item = Result<NetlinkMessage<'_>, MalformedNetlink>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let split = split_message(rest);
        rest = split.as_ref().map_or(&[], |(_, after)| after);
        Some(split.map(|(message, _)| message))
    })
}

fn split_message(bytes: &[u8]) -> Result<(NetlinkMessage<'_>, &[u8]), MalformedNetlink> {
    let Some(header) = bytes.first_chunk::<NLMSG_HEADER_BYTES>() else {
        return Err(MalformedNetlink::ShortHeader {
            expected: NLMSG_HEADER_BYTES,
            left: bytes.len(),
        });
    };
    let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
    let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
    let payload = bytes.get(NLMSG_HEADER_BYTES..length);
    let payload = payload.ok_or(MalformedNetlink::MessageLength { length, left: bytes.len() })?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    let message = NetlinkMessage {
        kind: u16::from_ne_bytes([k0, k1]),
        sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
        payload,
        flags: u16::from_ne_bytes([f0, f1]),
    };
    Ok((message, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::attribute::AttributeWriter;
    use super::*;

    fn encode_message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = (NLMSG_HEADER_BYTES + payload.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn first_reply_status(bytes: &[u8]) -> Result<ReplyStatus, MalformedNetlink> {
        parse_messages(bytes).next().expect("a message")?.reply_status()
    }

    /// A refusal with a sentence and an offset, with the whole request or its header only.
    fn encode_refusal(is_capped: bool) -> Vec<u8> {
        let request = encode_message(7, 0, if is_capped { &[] } else { &[1, 2, 3, 4, 5] });
        let mut payload = (-libc::EEXIST).to_ne_bytes().to_vec();
        payload.extend_from_slice(&request);
        payload.resize(payload.len().next_multiple_of(4), 0);
        let mut attributes = AttributeWriter::default();
        attributes.put_text(NLMSGERR_ATTR_MSG, "it is there");
        attributes.put(NLMSGERR_ATTR_OFFS, &24u32.to_ne_bytes());
        payload.extend_from_slice(attributes.bytes_unless_too_long().unwrap());
        encode_message(
            NLMSG_ERROR,
            NLM_F_ACK_TLVS | if is_capped { NLM_F_CAPPED } else { 0 },
            &payload,
        )
    }

    #[test]
    fn a_refusal_has_the_kernel_message_capped_or_not() {
        for is_capped in [true, false] {
            let Ok(ReplyStatus::Refused(refusal)) = first_reply_status(&encode_refusal(is_capped))
            else {
                panic!()
            };
            let text = "File exists (os error 17): it is there (byte 24 of the request)";
            assert_eq!(refusal.to_string(), text);
        }
    }

    #[test]
    fn an_error_message_with_errno_0_is_an_acknowledgement() {
        let payload = [&0i32.to_ne_bytes()[..], &encode_message(7, 0, &[])].concat();
        assert_eq!(
            first_reply_status(&encode_message(NLMSG_ERROR, NLM_F_CAPPED, &payload)),
            Ok(ReplyStatus::Done)
        );
        assert_eq!(first_reply_status(&encode_message(NLMSG_DONE, 0, &[])), Ok(ReplyStatus::Done));
        assert_eq!(first_reply_status(&encode_message(0x10, 0, &[])), Ok(ReplyStatus::Data));
        let Ok(ReplyStatus::Refused(refusal)) =
            first_reply_status(&encode_message(NLMSG_DONE, 0, &(-5i32).to_ne_bytes()))
        else {
            panic!("the end of a dump may be an error")
        };
        assert_eq!(refusal.errno, libc::EIO);
    }

    #[test]
    fn parsing_stops_after_a_malformed_message() {
        let mut bytes = encode_message(0x10, 0, &[1, 2, 3, 4]);
        bytes.extend_from_slice(&[200, 0, 0, 0]);
        bytes.extend_from_slice(&[0; 12]);
        let all: Vec<_> = parse_messages(&bytes).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], Err(MalformedNetlink::MessageLength { length: 200, left: 16 }));
    }

    proptest! {
        #[test]
        fn parsing_messages_from_any_bytes_does_not_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            kind in prop::sample::select(vec![NLMSG_ERROR, NLMSG_DONE, 0x10]),
            flags: u16,
        ) {
            for bytes in [bytes.clone(), encode_message(kind, flags, &bytes)] {
                for message in parse_messages(&bytes).flatten() {
                    let _ = (message.reply_status(), message.attributes(4), message.fixed_header::<16>());
                }
            }
        }

        #[test]
        fn a_refusal_with_a_changed_byte_does_not_panic(at: prop::sample::Index, to: u8) {
            let mut bytes = encode_refusal(false);
            let at = at.index(bytes.len());
            bytes[at] = to;
            parse_messages(&bytes).flatten().for_each(|message| drop(message.reply_status()));
        }
    }
}
