//! Frames to send: a pcap file, and the verdict that each frame should get.
//!
//! The last eight bytes of each packet become a tag: a word that is unique to this trial, and the
//! frame's number with the verdict. The sink identifies by it what arrived, and whether it had to.
//! The tag lengthens the packet, so lengths and checksums are recomputed. Ethernet addresses are
//! set, too, because those in the file are not weir's.

pub(crate) mod drop_mix;
pub mod flows;
pub mod frame_facts;

use std::fs;
use std::path::{Path, PathBuf};

use weir_packet::checksum::{InternetChecksum, crc32c};
use weir_packet::{Mac, pcap};

use crate::LabError;

/// Longest frame that fits into a slot of the generator's small table, tag included.
pub const SMALL_FRAME_TABLE_SLOT_BYTES: usize = 120;
/// The same of its table for larger frames.
pub const LARGE_FRAME_TABLE_SLOT_BYTES: usize = 1528;
/// Most frames of the small table: 128 MiB.
pub const SMALL_FRAME_TABLE_MAX_SLOTS: usize = 1 << 20;
/// Most frames of the other one: 96 MiB.
pub const LARGE_FRAME_TABLE_MAX_SLOTS: usize = 1 << 16;
/// Longest frame that the devices take: a packet of 1500 bytes.
const MAX_DEVICE_FRAME_BYTES: usize = 1514;

const TRIAL_TAG_BYTES: usize = 8;
const ETHERNET_HEADER_BYTES: usize = 14;
const EXPECTED_DROP_TAG_BIT: u32 = 1;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// The ruleset has to drop it.
    pub to_drop: bool,
}

impl Frame {
    /// Whether it is an IPv6 packet.
    pub fn is_ipv6(&self) -> bool {
        self.bytes.get(12..ETHERNET_HEADER_BYTES) == Some(&[0x86, 0xdd])
    }
}

/// The file of verdicts of a pcap file: `FILE.verdicts`.
pub fn verdicts_path(pcap: &Path) -> PathBuf {
    let mut name = pcap.as_os_str().to_owned();
    name.push(".verdicts");
    PathBuf::from(name)
}

/// Reads a pcap file and its verdicts, `accept` or `drop`, one a line.
///
/// # Errors
/// Files that cannot be read, and as many verdicts as there are frames; frames that are neither
/// IPv4 nor IPv6, or too long for the table; no frame at all.
pub fn load_pcap_and_verdicts(path: &Path) -> Result<Vec<Frame>, LabError> {
    let bytes = pcap::read_frames(path).map_err(LabError::file_error("read", path))?;
    let beside = verdicts_path(path);
    let text = fs::read_to_string(&beside).map_err(LabError::file_error("read", &beside))?;
    let wrong = |path: &Path, message: String| LabError::UnsendableFrames {
        path: path.to_owned(),
        message,
    };
    let mut verdicts = Vec::new();
    for (at, line) in text.lines().enumerate() {
        verdicts.push(match line.trim() {
            "accept" => false,
            "drop" => true,
            other => {
                let message = format!("line {}: `{other}` is neither accept nor drop", at + 1);
                return Err(wrong(&beside, message));
            }
        });
    }
    if verdicts.len() != bytes.len() {
        let message = format!("{} verdicts for {} frames", verdicts.len(), bytes.len());
        return Err(wrong(&beside, message));
    }
    let frames: Vec<Frame> =
        bytes.into_iter().zip(verdicts).map(|(bytes, to_drop)| Frame { bytes, to_drop }).collect();
    check_sendable(&frames).map_err(|message| wrong(path, message))?;
    Ok(frames)
}

/// Whether the generator can send these frames.
///
/// # Errors
/// Why not.
pub fn check_sendable(frames: &[Frame]) -> Result<(), String> {
    let most = if needs_large_frame_table(frames) {
        LARGE_FRAME_TABLE_MAX_SLOTS
    } else {
        SMALL_FRAME_TABLE_MAX_SLOTS
    };
    if frames.is_empty() || frames.len() > most {
        return Err(format!("{} frames; 1 to {most} of that length can be sent", frames.len()));
    }
    for (at, frame) in frames.iter().enumerate() {
        if let Err(why) = build_tagged_frame(frame, 1, 0, Default::default(), Default::default()) {
            return Err(format!("frame {}: {why}", at + 1));
        }
    }
    Ok(())
}

/// Whether any of the frames needs the table for larger ones.
pub(crate) fn needs_large_frame_table(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| frame.bytes.len() + TRIAL_TAG_BYTES > SMALL_FRAME_TABLE_SLOT_BYTES)
}

/// The frame as it is sent: addressed, with its tag, lengths and checksums correct.
///
/// # Errors
/// A frame that is neither IPv4 nor IPv6, shorter than its headers say, or too long. A frame of
/// full length takes the tag in place of its last bytes.
pub(crate) fn build_tagged_frame(
    frame: &Frame,
    magic: u32,
    number: u32,
    destination: Mac,
    source: Mac,
) -> Result<Vec<u8>, String> {
    let ethertype =
        frame.bytes.get(12..ETHERNET_HEADER_BYTES).ok_or("shorter than an Ethernet header")?;
    let mut packet = match ethertype {
        [0x08, 0x00] => extract_unpadded_ip_packet(&frame.bytes, 20, 2, 0)?,
        [0x86, 0xdd] => extract_unpadded_ip_packet(&frame.bytes, 40, 4, 40)?,
        _ => return Err("neither IPv4 nor IPv6".to_owned()),
    };
    if packet.len() + ETHERNET_HEADER_BYTES > MAX_DEVICE_FRAME_BYTES {
        let bytes = packet.len() + ETHERNET_HEADER_BYTES;
        return Err(format!("{bytes} bytes; {MAX_DEVICE_FRAME_BYTES} can be sent"));
    }
    packet.truncate(MAX_DEVICE_FRAME_BYTES - ETHERNET_HEADER_BYTES - TRIAL_TAG_BYTES);
    let number_and_flag = (number << 1) | if frame.to_drop { EXPECTED_DROP_TAG_BIT } else { 0 };
    packet.extend_from_slice(&magic.to_ne_bytes());
    packet.extend_from_slice(&number_and_flag.to_ne_bytes());
    if ethertype == [0x08, 0x00] {
        fix_ipv4_lengths_checksums(&mut packet)?
    } else {
        fix_ipv6_lengths_checksums(&mut packet)
    }
    let mut bytes = Vec::with_capacity(ETHERNET_HEADER_BYTES + packet.len());
    bytes.extend_from_slice(&destination);
    bytes.extend_from_slice(&source);
    bytes.extend_from_slice(ethertype);
    bytes.extend_from_slice(&packet);
    Ok(bytes)
}

/// The network packet of a frame, without what pads the frame. The length is at `length_offset`,
/// and `uncounted_bytes` is what it does not count.
fn extract_unpadded_ip_packet(
    frame: &[u8],
    min_header_bytes: usize,
    length_offset: usize,
    uncounted_bytes: usize,
) -> Result<Vec<u8>, String> {
    let packet = &frame[ETHERNET_HEADER_BYTES..];
    if packet.len() < min_header_bytes {
        return Err("shorter than its network header".to_owned());
    }
    let length =
        usize::from(u16::from_be_bytes([packet[length_offset], packet[length_offset + 1]]))
            + uncounted_bytes;
    if length < min_header_bytes || length > packet.len() {
        return Err(format!("its header says {length} bytes, it has {}", packet.len()));
    }
    Ok(packet[..length].to_vec())
}

fn fix_ipv4_lengths_checksums(packet: &mut [u8]) -> Result<(), String> {
    let header = usize::from(packet[0] & 0xf) * 4;
    if header < 20 || header + TRIAL_TAG_BYTES > packet.len() {
        return Err("its network header exceeds the frame".to_owned());
    }
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[10..12].fill(0);
    let mut sum = InternetChecksum::new();
    sum.add_zero_padded_bytes(&packet[..header]);
    let sum = sum.finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    if !is_fragment {
        let (network, transport) = packet.split_at_mut(header);
        fix_transport_length_checksum(network[9], &network[12..20], transport);
    }
    Ok(())
}

fn fix_ipv6_lengths_checksums(packet: &mut [u8]) {
    let (network, transport) = packet.split_at_mut(40);
    network[4..6].copy_from_slice(&(transport.len() as u16).to_be_bytes());
    // After extension headers the checksum is unchanged: it does not cover the tag, and is wrong.
    fix_transport_length_checksum(network[6], &network[8..40], transport);
}

/// Length and checksum of a transport header. `addresses` are both addresses of the packet.
fn fix_transport_length_checksum(proto: u8, addresses: &[u8], transport: &mut [u8]) {
    let (at, with_addresses) = match proto {
        1 => (2, false),
        6 => (16, true),
        17 => (6, true),
        58 => (2, true),
        132 => return recompute_sctp_crc32c(transport),
        _ => return,
    };
    if transport.len() < at + 2 {
        return;
    }
    let length = transport.len();
    if proto == 17 {
        transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    transport[at..at + 2].fill(0);
    let mut sum = InternetChecksum::new();
    if with_addresses {
        // RFC 9293, section 3.1; RFC 8200, section 8.1: the sum is the same.
        sum.add_zero_padded_bytes(addresses);
        sum.add_zero_padded_bytes(&[0, proto]);
        sum.add_zero_padded_bytes(&(length as u32).to_be_bytes());
    }
    sum.add_zero_padded_bytes(transport);
    let mut sum = sum.finish();
    if proto == 17 && sum == 0 {
        sum = 0xffff;
    }
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn recompute_sctp_crc32c(transport: &mut [u8]) {
    if transport.len() >= 12 {
        transport[8..12].fill(0);
        let sum = crc32c(transport);
        transport[8..12].copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet of `payload` bytes over IPv4, its checksums left empty.
    pub(crate) fn udp(payload: usize) -> Vec<u8> {
        let total = (28 + payload) as u16;
        let mut frame = vec![0; 12];
        frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
        frame.extend_from_slice(&total.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        frame.extend_from_slice(&[0x30, 0x39, 0, 53]);
        frame.extend_from_slice(&((8 + payload) as u16).to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.resize(ETHERNET_HEADER_BYTES + usize::from(total), 7);
        frame
    }

    fn sum_of(parts: &[&[u8]]) -> u16 {
        let mut sum = InternetChecksum::new();
        parts.iter().for_each(|part| sum.add_zero_padded_bytes(part));
        sum.finish()
    }

    #[test]
    fn a_tagged_frame_has_right_lengths_and_checksums() {
        let frame = Frame { bytes: udp(6), to_drop: true };
        let bytes = build_tagged_frame(&frame, 0xabcd, 3, [2; 6], [4; 6]).unwrap();
        assert_eq!(bytes.len(), frame.bytes.len() + TRIAL_TAG_BYTES);
        assert_eq!(&bytes[..6], &[2; 6]);
        assert_eq!(bytes[16..18], (28 + 6 + 8_u16).to_be_bytes());
        assert_eq!(bytes[38..40], (8 + 6 + 8_u16).to_be_bytes());
        assert_eq!(sum_of(&[&bytes[14..34]]), 0, "header checksum");
        assert_eq!(sum_of(&[&bytes[26..34], &[0, 17, 0, 22], &bytes[34..]]), 0, "udp checksum");
        assert_eq!(bytes[bytes.len() - 4..], (3_u32 << 1 | 1).to_ne_bytes());
    }

    #[test]
    fn ethernet_padding_is_removed_before_the_tag() {
        let mut padded = udp(2);
        padded.resize(64, 0);
        let plain = Frame { bytes: udp(2), to_drop: false };
        let padded = Frame { bytes: padded, to_drop: false };
        let tag = |frame| build_tagged_frame(frame, 1, 0, [0; 6], [0; 6]);
        assert_eq!(tag(&padded), tag(&plain));
    }

    #[test]
    fn the_tag_replaces_the_last_bytes_of_full_length_frames() {
        let tag = |payload| {
            let frame = Frame { bytes: udp(payload), to_drop: false };
            build_tagged_frame(&frame, 0xabcd, 3, [0; 6], [0; 6]).unwrap()
        };
        assert_eq!((tag(1464).len(), tag(1465).len(), tag(1472).len()), (1514, 1514, 1514));
        assert_eq!(sum_of(&[&tag(1472)[14..34]]), 0, "header checksum");
        assert_eq!(tag(1472)[1506..1510], 0xabcd_u32.to_ne_bytes());
    }

    #[test]
    fn frames_that_cannot_be_played_are_refused() {
        let refused = |bytes: Vec<u8>| {
            build_tagged_frame(&Frame { bytes, to_drop: false }, 1, 0, [0; 6], [0; 6]).unwrap_err()
        };
        assert!(refused(udp(1473)).contains("can be sent"));
        assert!(refused(vec![0; 60]).contains("neither IPv4"));
        assert!(refused(vec![0; 3]).contains("shorter"));
        let mut lying = udp(4);
        lying[16] = 9;
        assert!(refused(lying).contains("its header says"));
    }
}
