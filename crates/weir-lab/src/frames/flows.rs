//! Frames that need no ruleset: of a given size and number of flows, all to be accepted.
//!
//! Sizes are those of RFC 2544: the whole Ethernet frame with its checksum of four bytes, which
//! packet sockets never see. A simple IMIX is seven frames of 64 bytes, four of 594 and one of 1518
//! (as RFC 6985 names it).

use serde::Deserialize;
use weir_packet::{Addr, Family, Packet, Transport};
use weir_random::Rng;

use crate::frames::{Frame, TRIAL_TAG_BYTES};

const FCS_BYTES: usize = 4;
/// Of the TCP flags.
const TCP_ACK_FLAG: u8 = 0x10;
const IMIX_FRAME_BYTES: [u32; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];
/// Random frames, if some flows have more of them than others.
const ZIPF_FRAME_COUNT: usize = 65_536;

/// What frames of flows look like.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Bytes of each frame.
    pub size: FrameSize,
    /// How many flows: 1 to 1,000,000.
    pub flow_count: u32,
    /// Which flows have how many of the frames.
    pub popularity: FlowPopularity,
    /// IPv4 or IPv6.
    pub family: Family,
    /// What they carry.
    pub protocol: FlowProtocol,
}

/// Bytes of a frame, its checksum included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// All alike: 64 to 1518.
    Fixed(u32),
    /// Seven of 64, four of 594, one of 1518.
    Imix,
}

/// Which flows have how many frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowPopularity {
    /// All the same.
    #[default]
    Uniform,
    /// The one at place k has a share of 1/k.
    Zipf,
}

/// What packets carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowProtocol {
    /// Datagrams to port 53.
    #[default]
    Udp,
    /// Segments with ACK to port 80.
    Tcp,
    /// Echo requests; a flow is an address.
    Icmp,
}

impl FlowSpec {
    /// Most flows.
    pub const MAX_FLOWS: u32 = 1_000_000;

    /// Generates the frames, before they are tagged.
    ///
    /// # Errors
    /// A size or a number of flows that is out of range.
    pub fn generate_frames(&self, seed: u64) -> Result<Vec<Frame>, String> {
        if !(1..=FlowSpec::MAX_FLOWS).contains(&self.flow_count) {
            return Err(format!(
                "{} flows; 1 to {} can be sent",
                self.flow_count,
                FlowSpec::MAX_FLOWS
            ));
        }
        let headers = self.build_flow_packet_without_payload(0).to_frame_with_dmac([0; 6]).len();
        let least = headers + TRIAL_TAG_BYTES + FCS_BYTES;
        if let FrameSize::Fixed(bytes) = self.size
            && !(least.max(64)..=1518).contains(&(bytes as usize))
        {
            return Err(format!("frames of {bytes} bytes; {} to 1518 can be made", least.max(64)));
        }
        let frame = |(at, flow): (usize, u32)| {
            let size = match self.size {
                FrameSize::Fixed(bytes) => bytes as usize,
                FrameSize::Imix => {
                    (IMIX_FRAME_BYTES[at % IMIX_FRAME_BYTES.len()] as usize).max(least)
                }
            };
            let mut packet = self.build_flow_packet_without_payload(flow);
            packet.payload = vec![0; size - least];
            Frame { bytes: packet.to_frame_with_dmac([0; 6]), to_drop: false }
        };
        Ok(self.list_flow_of_each_frame(seed).into_iter().enumerate().map(frame).collect())
    }

    /// The flow of each frame.
    fn list_flow_of_each_frame(&self, seed: u64) -> Vec<u32> {
        match self.popularity {
            FlowPopularity::Uniform if self.size == FrameSize::Imix => {
                // Each flow with each of the sizes, while there are few.
                (0..self.flow_count.next_multiple_of(12)).map(|at| at % self.flow_count).collect()
            }
            FlowPopularity::Uniform => (0..self.flow_count).collect(),
            FlowPopularity::Zipf => {
                let mut sum = 0.0;
                let sums: Vec<f64> = (1..=self.flow_count)
                    .map(|place| {
                        sum += 1.0 / f64::from(place);
                        sum
                    })
                    .collect();
                let mut random = Rng::new(seed);
                let mut draw = || {
                    let at = random.next_u64() as f64 / u64::MAX as f64 * sum;
                    sums.partition_point(|upto| *upto <= at).min(sums.len() - 1) as u32
                };
                (0..ZIPF_FRAME_COUNT).map(|_| draw()).collect()
            }
        }
    }

    /// A packet of a flow, without payload.
    fn build_flow_packet_without_payload(&self, flow: u32) -> Packet {
        let (saddr, daddr) = match self.family {
            // 10.0.0.0/8 and TEST-NET-2; the documentation prefix of RFC 3849.
            Family::V4 => (0x0a00_0001 + u128::from(flow), 0xc633_6402),
            Family::V6 => {
                let base = 0x2001_0db8_u128 << 96;
                (base + 1 + u128::from(flow), base + (1 << 64) + 2)
            }
        };
        let (proto, transport) = match (self.protocol, self.family) {
            (FlowProtocol::Udp, _) => (17, Transport::Udp { sport: 40_000, dport: 53 }),
            (FlowProtocol::Tcp, _) => {
                let (flags, options) = (TCP_ACK_FLAG, Vec::new());
                let ports = (40_000, 80);
                let (seq, ack) = (1, 1);
                (6, Transport::Tcp { sport: ports.0, dport: ports.1, seq, ack, flags, options })
            }
            (FlowProtocol::Icmp, Family::V4) => (1, build_echo_request_header(8)),
            (FlowProtocol::Icmp, Family::V6) => (58, build_echo_request_header(128)),
        };
        let mut packet = Packet::new(self.family, Addr(saddr), Addr(daddr), proto);
        packet.transport = transport;
        packet
    }
}

fn build_echo_request_header(kind: u8) -> Transport {
    Transport::Icmp { kind, code: 0, rest: [0, 1, 0, 1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(size: FrameSize, flows: u32, popularity: FlowPopularity) -> FlowSpec {
        let (family, protocol) = (Family::V4, FlowProtocol::Udp);
        FlowSpec { size, flow_count: flows, popularity, family, protocol }
    }

    /// Lengths as they are sent, without the checksum of four bytes.
    fn lengths(frames: &[Frame]) -> Vec<usize> {
        frames.iter().map(|frame| frame.bytes.len() + TRIAL_TAG_BYTES + FCS_BYTES).collect()
    }

    #[test]
    fn imix_has_seven_four_and_one_frames_per_flow() {
        let frames = flows(FrameSize::Imix, 1, FlowPopularity::Uniform).generate_frames(1).unwrap();
        let mut lengths = lengths(&frames);
        lengths.sort_unstable();
        assert_eq!(lengths, [vec![64; 7], vec![594; 4], vec![1518]].concat());
    }

    #[test]
    fn the_first_zipf_flow_has_twice_the_seconds_frames() {
        let frames =
            flows(FrameSize::Fixed(64), 1000, FlowPopularity::Zipf).generate_frames(1).unwrap();
        let of = |flow: u8| {
            let is_its = |frame: &&Frame| frame.bytes[28..30] == [0, flow + 1];
            frames.iter().filter(is_its).count() as f64
        };
        let ratio = of(0) / of(1);
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn unsupported_frame_sizes_and_flow_counts_are_refused() {
        let refused =
            |size, count| flows(size, count, FlowPopularity::Uniform).generate_frames(1).is_err();
        assert!(!refused(FrameSize::Fixed(64), 1));
        assert!(refused(FrameSize::Fixed(63), 1) && refused(FrameSize::Fixed(1519), 1));
        assert!(refused(FrameSize::Imix, 0) && refused(FrameSize::Imix, 1_000_001));
    }
}
