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
//! not [*possible*](super::test_lowering) packets.

use weir_model::{Family, Field};

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
    TruncatedAfterPorts,
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
    VariableBlock::TruncatedAfterPorts,
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
    PortsFirst,
}

impl VariableOrder {
    /// All of them, the one that is tried first in front.
    pub const ALL: [VariableOrder; 3] = [
        VariableOrder::DestinationBeforeSource,
        VariableOrder::SourceBeforeDestination,
        VariableOrder::PortsFirst,
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
            VariableOrder::PortsFirst => [
                fields(&[CtState, Iif, Oif]),
                FRAGMENT_AND_PROTOCOL_BLOCKS.to_vec(),
                fields(&[Dport, Sport, Daddr]),
                SOURCE_ADDRESS_AND_MAC_BLOCKS.to_vec(),
            ],
        };
        let mut blocks = [parts.concat(), RARELY_TESTED_BLOCKS.to_vec()].concat();
        for block in Field::always_present_number_fields().map(VariableBlock::Field) {
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

/// The word for devices that no rule names.
pub(crate) const ANY_OTHER_DEVICE_PHRASE: &str = "any other device";

/// Bits of the conntrack block, lowest first: see [`encode`](super::encode).
pub(crate) mod ct_bit {
    /// There is an entry.
    pub const ENTRY: u32 = 5;
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
                VariableBlock::Field(Field::CtState) => ct_bit::COUNT,
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
    pub fn block_at_level(&self, level: u32) -> Option<(VariableBlock, LevelRange)> {
        let after = self.blocks.partition_point(|(_, l)| l.first <= level);
        self.blocks[..after].iter().rev().find(|(_, l)| level < l.end()).copied()
    }
}

/// Classes of device names that no rule distinguishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceNameClasses {
    /// Names, and prefixes (true), that rules test; sorted.
    tested_names: Vec<(String, bool)>,
    /// One name of each class; the first is the empty name.
    class_names: Vec<String>,
}

impl DeviceNameClasses {
    /// The classes of the tested names and prefixes. `lo` always has its own class.
    pub fn new(asked: impl IntoIterator<Item = (String, bool)>) -> DeviceNameClasses {
        let mut asked: Vec<_> = asked.into_iter().collect();
        asked.push(("lo".to_owned(), false));
        asked.sort();
        asked.dedup();
        let mut devices = DeviceNameClasses { tested_names: asked, class_names: Vec::new() };
        // A class is known by the set of tests that hold for it: one example for each name, for
        // each prefix something that no other test names, and something that none names at all.
        let mut candidates = vec![String::new()];
        candidates.extend(devices.find_untested_name_with_prefix(""));
        for (name, prefix) in &devices.tested_names {
            candidates.extend(if *prefix {
                devices.find_untested_name_with_prefix(name)
            } else {
                Some(name.clone())
            });
        }
        let mut seen = std::collections::HashSet::new();
        for name in candidates {
            // The empty name is apart: a missing device.
            if seen.insert((name.is_empty(), devices.evaluate_name_tests(&name))) {
                devices.class_names.push(name);
            }
        }
        devices
    }

    /// A name with this prefix that no test names exactly nor by a longer prefix, if there is one.
    fn find_untested_name_with_prefix(&self, prefix: &str) -> Option<String> {
        let stem = if prefix.is_empty() { "eth" } else { prefix };
        let numbered = (0..1000).map(|n| format!("{stem}{n}"));
        let lettered = ('a'..='z').map(|c| format!("{prefix}{c}"));
        let bare = (!prefix.is_empty()).then(|| prefix.to_owned());
        numbered.chain(lettered).chain(bare).find(|name| {
            self.tested_names.iter().all(|(asked, is_prefix)| match is_prefix {
                false => asked != name,
                true => asked.len() <= prefix.len() || !name.starts_with(asked.as_str()),
            })
        })
    }

    fn evaluate_name_tests(&self, name: &str) -> Vec<bool> {
        let holds = |(asked, prefix): &(String, bool)| match prefix {
            true => name.starts_with(asked.as_str()),
            false => name == asked,
        };
        self.tested_names.iter().map(holds).collect()
    }

    /// Bits of a class's number.
    pub fn class_number_bit_width(&self) -> u32 {
        usize::BITS - (self.class_names.len() - 1).leading_zeros()
    }

    /// One name of each class.
    pub fn class_example_names(&self) -> &[String] {
        &self.class_names
    }

    /// A class in words: the name that rules test, `ppp+` for names that only the prefix matches.
    pub fn describe_device_class(&self, class: usize) -> Option<String> {
        let name = self.class_names.get(class)?;
        if name.is_empty() {
            return Some("none".to_owned());
        }
        if self.tested_names.iter().any(|(asked, prefix)| !prefix && asked == name) {
            return Some(name.clone());
        }
        let prefixes =
            self.tested_names.iter().filter(|(p, is_prefix)| *is_prefix && name.starts_with(p));
        let Some((longest, _)) = prefixes.max_by_key(|(prefix, _)| prefix.len()) else {
            return Some(ANY_OTHER_DEVICE_PHRASE.to_owned());
        };
        let narrower = |(asked, is_prefix): &(String, bool)| {
            asked.starts_with(longest.as_str()) && !(*is_prefix && asked == longest)
        };
        let other = if self.tested_names.iter().any(narrower) { "other " } else { "" };
        Some(format!("{other}{longest}+"))
    }

    /// The class of a name; `None` for one that is like no other and that no rule names, where
    /// the prefixes that rules name leave hardly any.
    pub fn class_of_name(&self, name: &str) -> Option<u32> {
        let held = self.evaluate_name_tests(name);
        let same =
            |n: &String| n.is_empty() == name.is_empty() && self.evaluate_name_tests(n) == held;
        self.class_names.iter().position(same).map(|i| i as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_rule_tells_apart_share_a_class() {
        let asked = [("eth0", false), ("eth", true), ("ppp", true), ("eth1", false)];
        let devices = DeviceNameClasses::new(asked.map(|(n, p)| (n.to_owned(), p)));
        let class = |name| devices.class_of_name(name);
        assert_eq!(class("eth7"), class("eth123"));
        assert_eq!(class("wlan0"), class("tun0"));
        let apart = ["", "lo", "eth0", "eth1", "eth7", "ppp3", "wlan0"];
        for (i, a) in apart.iter().enumerate() {
            assert!(apart[i + 1..].iter().all(|b| class(a) != class(b)), "{a}");
        }
        for (i, name) in devices.class_example_names().iter().enumerate() {
            assert_eq!(class(name), Some(i as u32), "{name}");
        }
    }

    #[test]
    fn a_class_is_worded_by_what_rules_ask_for_and_no_name_is_invented() {
        let asked = [("eth0", false), ("eth", true), ("ppp", true)];
        let devices = DeviceNameClasses::new(asked.map(|(n, p)| (n.to_owned(), p)));
        let word = |name| {
            devices.describe_device_class(devices.class_of_name(name).expect("a class") as usize)
        };
        for (name, want) in [
            ("eth0", "eth0"),
            ("eth7", "other eth+"),
            ("ppp1", "ppp+"),
            ("wlan0", "any other device"),
            ("lo", "lo"),
        ] {
            assert_eq!(word(name).as_deref(), Some(want));
        }
    }

    #[test]
    fn levels_follow_one_another_without_a_gap() {
        for order in VariableOrder::ALL {
            for family in [Family::V4, Family::V6] {
                let layout = VariableLayout::new(family, order, DeviceNameClasses::new([]));
                let mut end = 0;
                for (block, levels) in layout.blocks() {
                    assert_eq!(levels.first, end, "{block:?}");
                    end = levels.end();
                    if levels.bit_count > 0 {
                        assert_eq!(layout.block_at_level(levels.first).map(|b| b.0), Some(*block));
                        assert_eq!(layout.block_at_level(end - 1).map(|b| b.0), Some(*block));
                    }
                }
                assert_eq!(end, layout.fields_end);
                assert_eq!(layout.block_at_level(end), None);
            }
        }
    }
}
