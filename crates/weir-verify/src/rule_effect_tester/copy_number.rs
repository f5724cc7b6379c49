//! The number of a copy of a packet, which leads it to the chain of its rule.
//!
//! It is in the middle bits of the identification (IPv4) or of the lower half of the flow label
//! (IPv6), where u32 can test it. The other bits remain the packet's own: rules that test the
//! identification are measured by packets that differ in its lowest or highest bit.

use weir_packet::Family;
use weir_packet::checksum::InternetChecksum;

/// The largest number of a copy.
pub(super) const COPY_NUMBER_MAX: u32 = 0x3ff;
/// The bit that its lowest bit is.
const COPY_NUMBER_SHIFT_IN_IDENT: u32 = 2;
const COPY_NUMBER_MASK: u16 = (COPY_NUMBER_MAX << COPY_NUMBER_SHIFT_IN_IDENT) as u16;

/// Where the 16 bits are of which some are the number, from the network header on.
fn ident_or_flow_label_offset(bytes: &[u8]) -> usize {
    if bytes[0] >> 4 == 4 { 4 } else { 2 }
}

/// The number in a packet.
pub(super) fn read_copy_number(bytes: &[u8]) -> u32 {
    let at = ident_or_flow_label_offset(bytes);
    u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]) & COPY_NUMBER_MASK)
        >> COPY_NUMBER_SHIFT_IN_IDENT
}

/// Writes a number into a packet.
pub(super) fn write_copy_number(bytes: &mut [u8], number: u32) {
    assert!(number <= COPY_NUMBER_MAX, "a batch has fewer copies");
    let at = ident_or_flow_label_offset(bytes);
    let own = u16::from_be_bytes([bytes[at], bytes[at + 1]]) & !COPY_NUMBER_MASK;
    let numbered = own | (number << COPY_NUMBER_SHIFT_IN_IDENT) as u16;
    bytes[at..at + 2].copy_from_slice(&numbered.to_be_bytes());
    if bytes[0] >> 4 == 4 {
        let header = usize::from(bytes[0] & 0x0f) * 4;
        bytes[10..12].fill(0);
        let mut sum = InternetChecksum::new();
        sum.add_zero_padded_bytes(&bytes[..header]);
        bytes[10..12].copy_from_slice(&sum.finish().to_be_bytes());
    }
}

/// A test of the number in the words of iptables: from `lo` to `hi`, both included.
pub(super) fn format_copy_number_match(family: Family, lo: u32, hi: u32) -> String {
    // The word of which these are the lower 16 bits.
    let word_offset = match family {
        Family::V4 => 2,
        Family::V6 => 0,
    };
    let span = if lo == hi { format!("{lo:#x}") } else { format!("{lo:#x}:{hi:#x}") };
    format!(
        "-m u32 --u32 \"{word_offset}&{COPY_NUMBER_MASK:#x}>>{COPY_NUMBER_SHIFT_IN_IDENT}={span}\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Addr, Packet};

    #[test]
    fn a_copy_number_preserves_other_bits_and_can_be_removed() {
        for family in [Family::V4, Family::V6] {
            for ident in [0, 1, 0x8000, 0xffff] {
                let packet = Packet { ident, ..Packet::new(family, Addr(1), Addr(2), 59) };
                let mut bytes = packet.to_bytes();
                write_copy_number(&mut bytes, COPY_NUMBER_MAX);
                assert_eq!(read_copy_number(&bytes), COPY_NUMBER_MAX);
                if family == Family::V4 {
                    let numbered = Packet::parse(&bytes).expect("a packet");
                    assert_eq!(
                        numbered,
                        Packet { ident: ident | COPY_NUMBER_MASK, ..packet.clone() }
                    );
                    assert_eq!(numbered.to_bytes(), bytes, "the checksum is right");
                }
                write_copy_number(&mut bytes, read_copy_number(&packet.to_bytes()));
                assert_eq!(bytes, packet.to_bytes(), "{family:?} {ident:#x}");
            }
        }
    }
}
