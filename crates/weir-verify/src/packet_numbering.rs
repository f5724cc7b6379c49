//! The numbers that identify test packets wherever they are logged.
//!
//! The number of an IPv4 packet is its identification, that of an IPv6 packet its flow label (and,
//! in a fragment, the low half of its identification, so that no two fragments are reassembled).
//! Both pass through a firewall unchanged. The flow label is not part of a [`Packet`], so that no
//! field of the table reads it. The identification is part of it: once a row of the table reads
//! it, rules can test it, and a number must not change what they answer.
//!
//! Thus a number is a value that every test of the ruleset answers as it answers the packet's own
//! value. Where such values are used up, the packet keeps its own value, or waits for a batch in
//! which no other packet has that value. Without tests, numbers are consecutive.

use std::collections::HashSet;

use weir_model::field::{FIELDS, FieldReading};
use weir_model::rule_test::Predicate;
use weir_model::{Family, Field, Firewall, Test, lower_to_tests};
use weir_packet::Packet;

/// Numbers of packets go from 1 to here, then begin again.
pub(crate) const PACKET_NUMBER_MAX: u32 = 60_000;
/// How many values are tried from the next number on, and as many after the packet's own value.
const CANDIDATES_PER_START_MAX: u32 = 256;

/// A test of the identification.
type IpIdentTest = (Family, Field, Predicate);

/// Chooses the numbers of packets.
#[derive(Debug)]
pub(crate) struct PacketNumbering {
    next_number: u32,
    /// Each once, of all rules.
    tests: HashSet<IpIdentTest>,
}

impl PacketNumbering {
    /// Numbers that no rule of the firewall can tell from a packet's own identification.
    pub fn new(firewall: &Firewall) -> PacketNumbering {
        let fields: Vec<Field> =
            FIELDS.iter().map(|row| row.field).filter(|f| depends_on_packet_ident(*f)).collect();
        let mut tests = HashSet::new();
        for ruleset in firewall.rulesets().filter(|_| !fields.is_empty()) {
            for (_, _, rule) in ruleset.rules_with_table_and_chain() {
                for test in lower_to_tests(rule, ruleset.family) {
                    if let Test::Field { field, predicate, .. } = test
                        && fields.contains(&field)
                    {
                        tests.insert((ruleset.family, field, predicate));
                    }
                }
            }
        }
        PacketNumbering::from_next_number(1, tests)
    }

    pub fn from_next_number(next_number: u32, tests: HashSet<IpIdentTest>) -> PacketNumbering {
        PacketNumbering { next_number, tests }
    }

    /// A number that is not `taken`; `None` if no such number is like the packet's own value.
    pub fn choose_number(&mut self, packet: &Packet, taken: &[u32]) -> Option<u32> {
        let tests: Vec<_> = self.tests.iter().filter(|t| t.0 == packet.family).collect();
        let is_like_own = |number: u32| {
            if tests.is_empty() {
                return true;
            }
            let mut numbered = packet.clone();
            write_number_to_packet_ident(&mut numbered, number);
            tests.iter().all(|test| {
                evaluate_identification_test(test, packet)
                    == evaluate_identification_test(test, &numbered)
            })
        };
        choose_free_number(&mut self.next_number, packet.ident, taken, is_like_own)
    }
}

/// The first of: the numbers from `next` on; those after `own`; `own` itself.
fn choose_free_number(
    next: &mut u32,
    own: u16,
    taken: &[u32],
    is_like_own: impl Fn(u32) -> bool,
) -> Option<u32> {
    let consecutive =
        (0..CANDIDATES_PER_START_MAX).map(|i| (*next - 1 + i) % PACKET_NUMBER_MAX + 1);
    let after_own = (1..=CANDIDATES_PER_START_MAX).map(|i| u32::from(own.wrapping_add(i as u16)));
    let mut candidates = consecutive.chain(after_own).chain([u32::from(own)]);
    let number = candidates.find(|n| is_like_own(*n) && !taken.contains(n))?;
    if number == *next {
        *next = number % PACKET_NUMBER_MAX + 1;
    }
    Some(number)
}

/// Numbers a packet, as far as its number is in a field of [`Packet`].
pub(crate) fn write_number_to_packet_ident(packet: &mut Packet, number: u32) {
    if packet.family == Family::V4 || packet.is_fragment() {
        packet.ident = number as u16;
    }
}

/// Writes the number into the flow label of an IPv6 packet, which no checksum covers.
pub(crate) fn write_number_to_flow_label(mut bytes: Vec<u8>, at: usize, number: u32) -> Vec<u8> {
    if bytes[at] >> 4 == 6 {
        bytes[at + 1] |= (number >> 16) as u8 & 0x0f;
        bytes[at + 2..at + 4].copy_from_slice(&(number as u16).to_be_bytes());
    }
    bytes
}

/// The number of a packet, from its network header on; `None` if it is no packet of IP.
pub(crate) fn read_packet_number(bytes: &[u8]) -> Option<u32> {
    match (bytes.first()? >> 4, bytes.get(..8)?) {
        (4, b) => Some(u32::from(u16::from_be_bytes([b[4], b[5]]))),
        (6, b) => Some(u32::from(b[1] & 0x0f) << 16 | u32::from(u16::from_be_bytes([b[2], b[3]]))),
        _ => None,
    }
}

/// What a test answers; `None` where the packet has no such field.
fn evaluate_identification_test(
    (_, field, predicate): &IpIdentTest,
    packet: &Packet,
) -> Option<bool> {
    match field.read(packet) {
        FieldReading::Value(value) => Some(predicate.holds_for_value(value)),
        FieldReading::Absent | FieldReading::Truncated => None,
    }
}

/// Whether the value of a field depends on the identification of some packet.
pub(crate) fn depends_on_packet_ident(field: Field) -> bool {
    [Family::V4, Family::V6].into_iter().any(|family| {
        let mut fragment = Packet::new(family, Default::default(), Default::default(), 17);
        fragment.fragment.offset = 1;
        let numbered = Packet { ident: u16::MAX, ..fragment.clone() };
        field.read(&fragment) != field.read(&numbered)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tests_numbers_are_consecutive_and_wrap_around() {
        let mut next = PACKET_NUMBER_MAX - 1;
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.extend(choose_free_number(&mut next, 7, &taken, |_| true));
        }
        assert_eq!(taken, [PACKET_NUMBER_MAX - 1, PACKET_NUMBER_MAX, 1, 2]);
    }

    #[test]
    fn a_chosen_number_gives_the_same_test_results() {
        // Rules test whether the value is 1000 to 1003, and whether it is odd.
        let answers = |n: u32| ((1000..=1003).contains(&n), n % 2);
        let choose = |next: &mut u32, own: u16, taken: &[u32]| {
            choose_free_number(next, own, taken, |n| answers(n) == answers(own.into()))
        };
        let (mut next, mut taken) = (1, Vec::new());
        for own in [0, 1, 8, 9] {
            taken.extend(choose(&mut next, own, &taken));
        }
        assert_eq!(taken, [2, 1, 4, 3], "numbers that others skipped are used");
        assert_eq!(choose(&mut next, 1001, &taken), Some(1003));
        assert_eq!(choose(&mut next, 1001, &[1003]), Some(1001));
        assert_eq!(choose(&mut next, 1001, &[1001, 1003]), None, "it waits for another batch");
    }
}
