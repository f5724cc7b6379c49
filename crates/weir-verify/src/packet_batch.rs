//! Packets with the same path, which can be distinguished from each other.
//!
//! A packet is identified by its identification field (IPv4) or flow label (IPv6), which nothing
//! rewrites. [`PacketNumbering`] chooses numbers that no
//! rule can tell from the identification that the packet was made with. If padding does not affect
//! any test, its length is also unique, so that byte counters identify packets.

use std::collections::{HashSet, VecDeque};

use weir_kernel::conntrack::{self, ConntrackTuple};
use weir_packet::{Family, Packet, Transport};
use weir_semantics::JourneyKind;

use crate::conntrack_setup;
use crate::link_macs::{FIREWALL_INPUT_MAC, NEIGHBOUR_MAC};
use crate::packet_numbering::{self, PacketNumbering};

/// Most packets of a batch: fewer than the kernel queues for one processor.
pub(crate) const BATCH_PACKETS_MAX: usize = 900;
/// Longest packet that a link takes.
const PACKET_BYTES_MAX: usize = 1500;
/// Protocol number of GRE, and the length of its longest header.
pub(crate) const GRE_PROTOCOL: u8 = 47;
pub(crate) const GRE_BYTES_NEEDED_BY_NAT: usize = 16;

/// What all packets of a batch have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketPath {
    pub family: Family,
    pub journey_kind: JourneyKind,
    pub iif: String,
    pub oif: String,
    /// Every address is the host's own, as `addrtype` sees it (INPUT only).
    pub treats_all_addresses_as_own: bool,
}

impl PacketPath {
    pub fn from_packet(
        packet: &Packet,
        entry: JourneyKind,
        treats_all_addresses_as_own: bool,
    ) -> PacketPath {
        let (iif, oif) = match entry {
            JourneyKind::Forward => (packet.iif.clone(), packet.oif.clone()),
            JourneyKind::Input => (packet.iif.clone(), String::new()),
            JourneyKind::Output => (String::new(), packet.oif.clone()),
        };
        let treats_all_addresses_as_own =
            treats_all_addresses_as_own && entry == JourneyKind::Input;
        PacketPath {
            family: packet.family,
            journey_kind: entry,
            iif,
            oif,
            treats_all_addresses_as_own,
        }
    }

    /// The order in which paths are tried: routes rarely change, names of devices often.
    pub fn sort_key(&self) -> (Family, u8, bool, bool, &str, &str) {
        let back = self.iif == self.oif;
        (
            self.family,
            self.journey_kind as u8,
            self.treats_all_addresses_as_own,
            back,
            &self.iif,
            &self.oif,
        )
    }
}

/// A packet, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct PreparedPacket {
    /// As the interpreter sees it.
    pub packet: Packet,
    /// An Ethernet frame, or for OUTPUT the packet from its network header on.
    pub frame: Vec<u8>,
    /// Connections that must be there before.
    pub conntrack_entries: Vec<conntrack::ConntrackEntry>,
    /// The host without rules took it as its own.
    pub is_delivered_locally: bool,
}

/// Packets that follow the same path at the same time.
#[derive(Clone, Debug)]
pub(crate) struct PacketBatch {
    pub path: PacketPath,
    pub packets: Vec<PreparedPacket>,
    packet_numbers: Vec<u32>,
}

/// Gives each packet its number, and makes its bytes.
#[derive(Debug)]
pub(crate) struct BatchMaker {
    numbering: PacketNumbering,
    /// Families in which lengths are tested: there, packets keep their length.
    families_that_keep_lengths: Vec<Family>,
}

impl BatchMaker {
    pub fn new(numbering: PacketNumbering, lengths_matter: Vec<Family>) -> BatchMaker {
        BatchMaker { numbering, families_that_keep_lengths: lengths_matter }
    }

    /// Takes at most `max_packets` packets, all of which follow `path`, out of `packets`. A packet
    /// of the same connection as another packet of the batch stays in `packets` for a later batch,
    /// and so does one for which no number is left.
    pub fn take_batch_of_distinct_connections(
        &mut self,
        path: PacketPath,
        packets: &mut VecDeque<Packet>,
        max_packets: usize,
    ) -> PacketBatch {
        assert!(max_packets <= BATCH_PACKETS_MAX, "a batch fits into the kernel's queue");
        let (mut lengths, mut connections) = (HashSet::new(), HashSet::new());
        let mut batch = PacketBatch { path, packets: Vec::new(), packet_numbers: Vec::new() };
        for _ in 0..packets.len() {
            if batch.packets.len() == max_packets {
                break;
            }
            let Some(packet) = packets.pop_front() else { break };
            let number = insert_unseen_connection(&packet, &mut connections)
                .then(|| self.numbering.choose_number(&packet, &batch.packet_numbers));
            let Some(number) = number.flatten() else {
                packets.push_back(packet);
                continue;
            };
            batch.packet_numbers.push(number);
            batch.packets.push(self.prepare_packet(
                packet,
                number,
                batch.path.journey_kind,
                &mut lengths,
            ));
        }
        batch
    }

    fn prepare_packet(
        &self,
        mut packet: Packet,
        number: u32,
        entry: JourneyKind,
        lengths: &mut HashSet<usize>,
    ) -> PreparedPacket {
        packet_numbering::write_number_to_packet_ident(&mut packet, number);
        if entry != JourneyKind::Output && packet.smac.is_none() {
            packet.smac = Some(NEIGHBOUR_MAC);
        }
        let mut connections = Vec::new();
        let is_related = packet.ct.state == weir_packet::CtState::Related;
        if is_related && conntrack_setup::is_icmp_error(&packet) {
            connections
                .push(conntrack_setup::quote_new_connection_in_icmp_error(&mut packet, number));
        } else {
            connections.extend(conntrack_setup::build_conntrack_entries_of_packet(&packet, number));
        }
        if !self.families_that_keep_lengths.contains(&packet.family) {
            if packet.proto == GRE_PROTOCOL && !packet.is_fragment() {
                // A shorter header cannot be translated.
                packet.payload.resize(packet.payload.len().max(GRE_BYTES_NEEDED_BY_NAT), 0);
            }
            pad_for_distinct_byte_counts(&mut packet, lengths);
        }
        let frame = match entry {
            JourneyKind::Output => {
                packet_numbering::write_number_to_flow_label(packet.to_bytes(), 0, number)
            }
            JourneyKind::Forward | JourneyKind::Input => {
                packet_numbering::write_number_to_flow_label(
                    packet.to_frame_with_dmac(FIREWALL_INPUT_MAC),
                    14,
                    number,
                )
            }
        };
        PreparedPacket {
            packet,
            frame,
            conntrack_entries: connections,
            is_delivered_locally: entry == JourneyKind::Input,
        }
    }
}

/// Whether no packet before belongs to the same connection, in either direction.
fn insert_unseen_connection(packet: &Packet, connections: &mut HashSet<ConntrackTuple>) -> bool {
    let Some(tuple) = conntrack_setup::conntrack_tuple_of_packet(packet) else { return true };
    let reversed = tuple.invert();
    if connections.contains(&tuple) || connections.contains(&reversed) {
        return false;
    }
    connections.insert(tuple)
}

/// Lengthens the payload until no other packet of the batch is as long.
fn pad_for_distinct_byte_counts(packet: &mut Packet, lengths: &mut HashSet<usize>) {
    let pads = match packet.transport {
        Transport::Tcp { .. } | Transport::Udp { .. } | Transport::Icmp { .. } => true,
        // What follows is read by conntrack, or is part of what is truncated.
        Transport::Sctp { .. } | Transport::DccpPorts { .. } | Transport::Truncated => false,
        Transport::NoParsedHeader => packet.proto != GRE_PROTOCOL && packet.fragment.offset != 0,
    };
    // A piece before the last has a multiple of eight bytes.
    if pads && !packet.fragment.more_fragments {
        let mut length = packet.len();
        while length < PACKET_BYTES_MAX && lengths.contains(&length) {
            length += 1;
        }
        if !lengths.contains(&length) {
            packet.payload.resize(packet.payload.len() + length - packet.len(), 0);
        }
    }
    lengths.insert(packet.len());
}

impl PacketBatch {
    /// A batch of packets that carry their numbers already.
    pub fn from_numbered_packets(
        path: PacketPath,
        packets: impl IntoIterator<Item = (u32, PreparedPacket)>,
    ) -> PacketBatch {
        let (numbers, packets) = packets.into_iter().unzip();
        PacketBatch { path, packets, packet_numbers: numbers }
    }

    /// Which packet of the batch these bytes are; `None` if they are none of it.
    pub fn identify_packet(&self, bytes: &[u8]) -> Option<usize> {
        let number = packet_numbering::read_packet_number(bytes)?;
        let first = *self.packet_numbers.first()?;
        // Numbers are consecutive, but for those that were taken out and where they begin again.
        let guess = number.wrapping_sub(first) as usize;
        if self.packet_numbers.get(guess) == Some(&number) {
            return Some(guess);
        }
        self.packet_numbers.iter().position(|n| *n == number)
    }

    /// The batch with only these packets, in order.
    pub fn select_packets(&self, positions: impl IntoIterator<Item = usize>) -> PacketBatch {
        let mut batch = PacketBatch {
            path: self.path.clone(),
            packets: Vec::new(),
            packet_numbers: Vec::new(),
        };
        for at in positions {
            batch.packets.push(self.packets[at].clone());
            batch.packet_numbers.push(self.packet_numbers[at]);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::Field;
    use weir_model::field::{FIELDS, Layer};
    use weir_packet::{Addr, FragmentPosition};

    use crate::packet_numbering::{PACKET_NUMBER_MAX, depends_on_packet_ident};

    fn udp(family: Family, sport: u16) -> Packet {
        let mut p = Packet::new(family, Addr(1), Addr(2), 17);
        p.transport = Transport::Udp { sport, dport: 2 };
        p
    }

    fn queue(family: Family, count: u16) -> VecDeque<Packet> {
        (10..10 + count).map(|sport| udp(family, sport)).collect()
    }

    fn maker_for_ruleset_without_tests(families_that_keep_lengths: Vec<Family>) -> BatchMaker {
        let numbering = PacketNumbering::from_next_number(1, HashSet::new());
        BatchMaker::new(numbering, families_that_keep_lengths)
    }

    #[test]
    fn each_packet_of_a_batch_has_unique_number_and_length() {
        for family in [Family::V4, Family::V6] {
            let path = PacketPath::from_packet(&udp(family, 1), JourneyKind::Forward, false);
            let numbering =
                PacketNumbering::from_next_number(PACKET_NUMBER_MAX - 1, HashSet::new());
            let mut maker = BatchMaker::new(numbering, Vec::new());
            let batch = maker.take_batch_of_distinct_connections(path, &mut queue(family, 5), 10);
            let lengths: HashSet<_> = batch.packets.iter().map(|p| p.packet.len()).collect();
            assert_eq!(lengths.len(), 5);
            for (i, p) in batch.packets.iter().enumerate() {
                assert_eq!(batch.identify_packet(&p.frame[14..]), Some(i), "{family:?}");
            }
            let odd = batch.select_packets([1, 3]);
            assert_eq!(odd.identify_packet(&batch.packets[3].frame[14..]), Some(1));
            assert_eq!(odd.identify_packet(&batch.packets[2].frame[14..]), None);
        }
    }

    /// Fields of the table that differ between a packet and a frame.
    fn find_fields_changed_in_frame(packet: &Packet, frame: &[u8]) -> Vec<Field> {
        let sent = Packet::parse_frame_keeping_smac(frame).expect("a packet");
        let fields = FIELDS.iter().filter(|row| row.layer != Layer::Meta).map(|row| row.field);
        fields.filter(|field| field.read(packet) != field.read(&sent)).collect()
    }

    /// If the number overwrote another field, a different packet would be tested; the
    /// identification may change if no rule tests it.
    #[test]
    fn numbering_a_packet_changes_only_its_identification_field() {
        for family in [Family::V4, Family::V6] {
            let whole = Packet { smac: Some([2, 0, 0, 0, 0, 5]), ..udp(family, 1) };
            let fragment = |offset, more_fragments| {
                let fragment = FragmentPosition { offset, more_fragments };
                Packet { fragment, payload: vec![0; 8], ..whole.clone() }
            };
            let later = Packet { transport: Transport::NoParsedHeader, ..fragment(1, false) };
            for packet in [whole.clone(), fragment(0, true), later] {
                for number in [1, 0x55aa, PACKET_NUMBER_MAX] {
                    let prepared = maker_for_ruleset_without_tests(vec![family]).prepare_packet(
                        packet.clone(),
                        number,
                        JourneyKind::Forward,
                        &mut HashSet::new(),
                    );
                    let numbered = &prepared.packet;
                    assert_eq!(find_fields_changed_in_frame(numbered, &prepared.frame), []);
                    let fields = FIELDS.iter().map(|row| row.field);
                    for field in fields.filter(|f| !depends_on_packet_ident(*f)) {
                        assert_eq!(field.read(&packet), field.read(numbered), "{field:?}");
                    }
                }
            }
            let marked = Packet { ttl: whole.ttl ^ 1, ..whole.clone() };
            let frame = marked.to_frame_with_dmac(FIREWALL_INPUT_MAC);
            assert_eq!(find_fields_changed_in_frame(&whole, &frame), [Field::Ttl]);
        }
    }

    #[test]
    fn packet_lengths_are_unchanged_if_rules_test_them() {
        let path = PacketPath::from_packet(&udp(Family::V4, 1), JourneyKind::Input, false);
        let mut packets = queue(Family::V4, 3);
        let batch = maker_for_ruleset_without_tests(vec![Family::V4])
            .take_batch_of_distinct_connections(path, &mut packets, 10);
        assert!(batch.packets.iter().all(|p| p.packet.len() == 28));
    }

    #[test]
    fn a_batch_has_at_most_one_packet_per_connection() {
        let path = PacketPath::from_packet(&udp(Family::V4, 1), JourneyKind::Input, false);
        let mut packets = queue(Family::V4, 2);
        let mut answer = udp(Family::V4, 2);
        (answer.saddr, answer.daddr) = (Addr(2), Addr(1));
        answer.transport = Transport::Udp { sport: 2, dport: 10 };
        packets.push_back(answer.clone());
        let batch = maker_for_ruleset_without_tests(Vec::new()).take_batch_of_distinct_connections(
            path,
            &mut packets,
            10,
        );
        assert_eq!(batch.packets.len(), 2);
        assert_eq!(packets, [answer]);
    }
}
