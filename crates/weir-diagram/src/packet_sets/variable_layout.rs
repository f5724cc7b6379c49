//! The order of variables: the bits of a packet's fields, one block of levels per field.
//!
//! A field of the field table ([`Field`]) is a block of its bits, most significant bit first.
//! Further blocks are properties that no rule compares with a number: whether the header is
//! truncated, which translations are done. Tests that the packet does not determine follow after
//! all blocks, one variable each, in the order in which they occur.
//!
//! Some blocks hold a code. Every code has a meaning, so that no test has to handle invalid codes:
//!
//! - *devices*: the class of the name. Rules test names and prefixes of names; these divide all
//!   names, including the empty one, into classes that no rule can distinguish.
//! - *conntrack*: whether there is an entry, two bits of state, whether source and destination are
//!   translated, and whether the packet is a reply.
//! - *pkttype*: three values in two bits.
//!
//! Redundant codes, and combinations that no packet has (a length below that of its headers), are
//! not [*possible*](crate::packet_sets::possible_packets) packets.

use weir_model::{Family, Field};

use crate::packet_sets::device_name_classes::DeviceNameClasses;

/// A row of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum VariableBlock {
    /// A field of the table; [`Field::CtState`] with its entry, direction and translations.
    Field(Field),
    /// The packet is a fragment at offset 1.
    FragmentOffsetOne,
    /// Its transport header is truncated.
    AnyHeaderTruncation,
    /// Of a truncated header, at least the four bytes of the ports are there.
    TruncatedWithReadablePorts,
    /// It has a source MAC address.
    HasMac,
    /// It was sent to a port of this host by REDIRECT.
    Redirected,
}

/// Where a packet is in its datagram, what of its header is there, and its protocol.
const FRAGMENT_AND_PROTOCOL_BLOCKS: [VariableBlock; 5] = [
    VariableBlock::Field(Field::IsLaterFragment),
    VariableBlock::FragmentOffsetOne,
    VariableBlock::AnyHeaderTruncation,
    VariableBlock::TruncatedWithReadablePorts,
    VariableBlock::Field(Field::Proto),
];
/// The source; rules that test a MAC address mostly also test the address.
const SOURCE_ADDRESS_AND_MAC_BLOCKS: [VariableBlock; 3] = [
    VariableBlock::Field(Field::Saddr),
    VariableBlock::HasMac,
    VariableBlock::Field(Field::SourceMac),
];
/// What few rulesets ask for. A plain field of the table that stands nowhere here comes last.
const RARELY_TESTED_BLOCKS: [VariableBlock; 9] = [
    VariableBlock::Redirected,
    VariableBlock::Field(Field::IcmpTypeAndCode),
    VariableBlock::Field(Field::TcpFlags),
    VariableBlock::Field(Field::Mark),
    VariableBlock::Field(Field::CtMark),
    VariableBlock::Field(Field::Tos),
    VariableBlock::Field(Field::Ttl),
    VariableBlock::Field(Field::PktType),
    VariableBlock::Field(Field::Length),
];

/// The order in which fields are tested, on which the size of a diagram depends most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum VariableOrder {
    /// State, devices, protocol, destination address and port, source port, source address.
    #[default]
    DestinationBeforeSource,
    /// Input device and source address, output device, state, protocol, destination, ports: for
    /// rules that check where packets come from before all else.
    SourceBeforeDestination,
    /// State, devices, protocol, ports, destination address, source address.
    PortsBeforeAddresses,
}

impl VariableOrder {
    /// All of them, the one that is tried first in front.
    pub const ALL: [VariableOrder; 3] = [
        VariableOrder::DestinationBeforeSource,
        VariableOrder::SourceBeforeDestination,
        VariableOrder::PortsBeforeAddresses,
    ];

    fn blocks(self) -> Vec<VariableBlock> {
        use Field::{CtState, Daddr, Dport, Iif, Oif, Sport};
        let fields =
            |all: &[Field]| all.iter().copied().map(VariableBlock::Field).collect::<Vec<_>>();
        let parts = match self {
            VariableOrder::DestinationBeforeSource => [
                fields(&[CtState, Iif, Oif]),
                FRAGMENT_AND_PROTOCOL_BLOCKS.to_vec(),
                fields(&[Daddr, Dport, Sport]),
                SOURCE_ADDRESS_AND_MAC_BLOCKS.to_vec(),
            ],
            VariableOrder::SourceBeforeDestination => [
                [fields(&[Iif]), SOURCE_ADDRESS_AND_MAC_BLOCKS.to_vec()].concat(),
                fields(&[Oif, CtState]),
                FRAGMENT_AND_PROTOCOL_BLOCKS.to_vec(),
                fields(&[Daddr, Dport, Sport]),
            ],
            VariableOrder::PortsBeforeAddresses => [
                fields(&[CtState, Iif, Oif]),
                FRAGMENT_AND_PROTOCOL_BLOCKS.to_vec(),
                fields(&[Dport, Sport, Daddr]),
                SOURCE_ADDRESS_AND_MAC_BLOCKS.to_vec(),
            ],
        };
        let mut blocks = [parts.concat(), RARELY_TESTED_BLOCKS.to_vec()].concat();
        for block in Field::freely_settable_number_fields().map(VariableBlock::Field) {
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks
    }
}

/// A row of levels: `first` is that of the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelRange {
    pub first: u32,
    pub bit_count: u32,
}

impl LevelRange {
    /// The level of a bit, counted from the lowest.
    pub const fn level_of_bit_from_lowest(self, bit: u32) -> u32 {
        self.first + self.bit_count - 1 - bit
    }

    /// The level after the last.
    pub const fn end(self) -> u32 {
        self.first + self.bit_count
    }
}

/// Bits of the conntrack block, lowest first: see
/// [`packet_bit_codec`](crate::packet_sets::packet_bit_codec).
pub(crate) mod ct_code_bit {
    /// There is an entry.
    pub const HAS_ENTRY: u32 = 5;
    /// With an entry: 00 NEW, 01 RELATED, 1x ESTABLISHED. Without: 0x INVALID, 1x UNTRACKED.
    pub const STATE_HIGH: u32 = 4;
    /// Lower bit of the state.
    pub const STATE_LOW: u32 = 3;
    /// Source translated.
    pub const SNAT: u32 = 2;
    /// Destination translated.
    pub const DNAT: u32 = 1;
    /// In the reply direction.
    pub const REPLY: u32 = 0;
    /// How many they are.
    pub const COUNT: u32 = 6;
}

/// The position of every block.
#[derive(Clone, Debug)]
pub(crate) struct VariableLayout {
    pub family: Family,
    blocks: Vec<(VariableBlock, LevelRange)>,
    /// Level of the first variable that is no bit of a field.
    pub fields_end: u32,
    /// Classes of device names.
    pub device_classes: DeviceNameClasses,
}

impl VariableLayout {
    pub fn new(family: Family, order: VariableOrder, devices: DeviceNameClasses) -> VariableLayout {
        let mut layout =
            VariableLayout { family, blocks: Vec::new(), fields_end: 0, device_classes: devices };
        for block in order.blocks() {
            let bits = match block {
                VariableBlock::Field(Field::Iif | Field::Oif) => {
                    layout.device_classes.class_number_bit_width()
                }
                VariableBlock::Field(Field::CtState) => ct_code_bit::COUNT,
                VariableBlock::Field(Field::PktType) => 2,
                VariableBlock::Field(field) => field.bit_width(family),
                _ => 1,
            };
            layout.blocks.push((block, LevelRange { first: layout.fields_end, bit_count: bits }));
            layout.fields_end += bits;
        }
        layout
    }

    /// The position of a block.
    pub fn block_levels(&self, block: VariableBlock) -> LevelRange {
        let found = self.blocks.iter().find(|(b, _)| *b == block);
        found.expect("every block has its levels").1
    }

    /// The position of a field.
    pub fn field_levels(&self, field: Field) -> LevelRange {
        self.block_levels(VariableBlock::Field(field))
    }

    /// All blocks in their order.
    #[cfg(test)]
    pub fn blocks(&self) -> &[(VariableBlock, LevelRange)] {
        &self.blocks
    }

    /// The block of a level; `None` for an opaque test.
    pub fn packet_block_at_level(&self, level: u32) -> Option<(VariableBlock, LevelRange)> {
        let after = self.blocks.partition_point(|(_, l)| l.first <= level);
        self.blocks[..after].iter().rev().find(|(_, l)| level < l.end()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_variable_blocks_are_contiguous() {
        for order in VariableOrder::ALL {
            for family in [Family::V4, Family::V6] {
                let layout = VariableLayout::new(family, order, DeviceNameClasses::new([]));
                let mut end = 0;
                for (block, levels) in layout.blocks() {
                    assert_eq!(levels.first, end, "{block:?}");
                    end = levels.end();
                    if levels.bit_count > 0 {
                        assert_eq!(
                            layout.packet_block_at_level(levels.first).map(|b| b.0),
                            Some(*block)
                        );
                        assert_eq!(
                            layout.packet_block_at_level(end - 1).map(|b| b.0),
                            Some(*block)
                        );
                    }
                }
                assert_eq!(end, layout.fields_end);
                assert_eq!(layout.packet_block_at_level(end), None);
            }
        }
    }
}
