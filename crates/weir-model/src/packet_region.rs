//! A region: all packets of one family that fulfil some conditions, each on one field.

use weir_packet::Packet;

use crate::field::{Field, FieldReading};
use crate::rule_test::Predicate;

/// A set of packets: those that fulfil every condition.
///
/// ```
/// use weir_model::{Addr, Family, Field, FieldCondition, Packet, PacketRegion, Predicate};
///
/// let udp = FieldCondition {
///     field: Field::Proto,
///     alternatives: vec![Predicate::InSpans(vec![(17, 17)])],
///     negated: false,
///     accepts_absent_field: false,
/// };
/// let region = PacketRegion { conditions: vec![udp] };
/// assert!(region.contains(&Packet::new(Family::V4, Addr(1), Addr(2), 17)));
/// assert!(!region.contains(&Packet::new(Family::V4, Addr(1), Addr(2), 6)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRegion {
    /// Without any, the region is all packets.
    pub conditions: Vec<FieldCondition>,
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCondition {
    /// The field.
    pub field: Field,
    /// One of these holds for its value.
    pub alternatives: Vec<Predicate>,
    /// None of them holds instead.
    pub negated: bool,
    /// A packet without the field fulfils it, negated or not; else it fulfils neither.
    pub accepts_absent_field: bool,
}

impl PacketRegion {
    /// Whether a packet fulfils every condition.
    pub fn contains(&self, packet: &Packet) -> bool {
        self.conditions.iter().all(|condition| condition.is_fulfilled_by(packet))
    }

    /// Names of devices, and prefixes of names (true), that its conditions test.
    pub fn tested_device_names_and_prefixes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.conditions.iter().flat_map(|c| &c.alternatives).filter_map(|predicate| match predicate
        {
            Predicate::Device { name, prefix } => Some((&**name, *prefix)),
            _ => None,
        })
    }
}

impl FieldCondition {
    /// Whether a packet fulfils it.
    pub fn is_fulfilled_by(&self, packet: &Packet) -> bool {
        let holds = match (self.field.device_name(packet), self.field.read(packet)) {
            (Some(device), _) => self.alternatives.iter().any(|p| p.holds_for_device(device)),
            (None, FieldReading::Value(value)) => {
                self.alternatives.iter().any(|p| p.holds_for_value(value))
            }
            (None, FieldReading::Absent | FieldReading::Truncated) => {
                return self.accepts_absent_field;
            }
        };
        holds != self.negated
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::{Addr, Family, Transport};

    use super::*;

    fn region_of_one_condition(
        field: Field,
        alternatives: Vec<Predicate>,
        negated: bool,
    ) -> PacketRegion {
        let condition =
            FieldCondition { field, alternatives, negated, accepts_absent_field: false };
        PacketRegion { conditions: vec![condition] }
    }

    #[test]
    fn a_packet_without_the_field_matches_neither_condition_nor_negation() {
        let ports = vec![Predicate::InSpans(vec![(22, 22)])];
        let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
        packet.transport = Transport::Udp { sport: 1, dport: 22 };
        assert!(region_of_one_condition(Field::Dport, ports.clone(), false).contains(&packet));
        assert!(!region_of_one_condition(Field::Dport, ports.clone(), true).contains(&packet));
        packet.fragment.offset = 9;
        assert!(!region_of_one_condition(Field::Dport, ports.clone(), false).contains(&packet));
        let mut region = region_of_one_condition(Field::Dport, ports, true);
        assert!(!region.contains(&packet));
        region.conditions[0].accepts_absent_field = true;
        assert!(region.contains(&packet));
    }

    #[test]
    fn a_device_may_be_one_of_several() {
        let devices = [("ppp", true), ("eth0", false)]
            .map(|(name, prefix)| Predicate::Device { name: name.into(), prefix });
        let region = region_of_one_condition(Field::Iif, devices.to_vec(), false);
        assert_eq!(
            region.tested_device_names_and_prefixes().collect::<Vec<_>>(),
            [("ppp", true), ("eth0", false)]
        );
        for (device, is_inside) in [("eth0", true), ("ppp7", true), ("eth1", false), ("", false)] {
            let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
            packet.iif = device.to_owned();
            assert_eq!(region.contains(&packet), is_inside, "{device}");
        }
    }
}
