//! The two checksums of packets: the internet checksum and CRC-32C.

use crate::{Addr, Family};

/// A running internet checksum (RFC 1071): the one's complement sum of 16-bit words.
///
/// ```
/// use weir_packet::checksum::InternetChecksum;
/// let mut sum = InternetChecksum::new();
/// sum.add_zero_padded_bytes(&[0x00, 0x01, 0xf2, 0x03]);
/// assert_eq!(sum.finish(), !0xf204);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct InternetChecksum {
    sum: u64,
}

impl InternetChecksum {
    /// Nothing summed yet.
    pub fn new() -> Self {
        InternetChecksum::default()
    }

    /// Adds bytes; an odd last byte is padded with zero, so only the last call may have one.
    pub fn add_zero_padded_bytes(&mut self, bytes: &[u8]) {
        let (pairs, odd) = bytes.as_chunks::<2>();
        for pair in pairs {
            self.sum += u64::from(u16::from_be_bytes(*pair));
        }
        if let [last] = odd {
            self.sum += u64::from(*last) << 8;
        }
    }

    /// Adds the pseudo header of a transport protocol (RFC 9293, section 3.1; RFC 8200, section
    /// 8.1). `bytes`: length of the transport header and what follows it.
    pub fn add_pseudo_header(
        &mut self,
        family: Family,
        saddr: Addr,
        daddr: Addr,
        proto: u8,
        bytes: usize,
    ) {
        for addr in [saddr, daddr] {
            match family {
                Family::V4 => self.add_zero_padded_bytes(&(addr.0 as u32).to_be_bytes()),
                Family::V6 => self.add_zero_padded_bytes(&addr.0.to_be_bytes()),
            }
        }
        self.sum += u64::from(proto) + bytes as u64;
    }

    /// The checksum to write into the packet.
    pub fn finish(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// CRC-32C (Castagnoli), as SCTP uses it (RFC 9260, appendix A).
///
/// ```
/// assert_eq!(weir_packet::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc, byte| CRC32C_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

const CRC32C_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_in_place_sums_to_zero() {
        let mut header =
            vec![0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7];
        let mut sum = InternetChecksum::new();
        sum.add_zero_padded_bytes(&header);
        header[10..12].copy_from_slice(&sum.finish().to_be_bytes());
        let mut again = InternetChecksum::new();
        again.add_zero_padded_bytes(&header);
        assert_eq!(again.finish(), 0);
    }

    #[test]
    fn an_odd_byte_is_padded() {
        let (mut odd, mut even) = (InternetChecksum::new(), InternetChecksum::new());
        odd.add_zero_padded_bytes(&[1, 2, 3]);
        even.add_zero_padded_bytes(&[1, 2, 3, 0]);
        assert_eq!(odd.finish(), even.finish());
    }
}
