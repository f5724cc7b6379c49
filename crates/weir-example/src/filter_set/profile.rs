//! Distributions of acl1, fw1 and ipc1, counted in sets that ClassBench generated from these seeds.
//!
//! ClassBench's sets of 10,000 and of 100,000 filters from one seed differ in their addresses: the
//! small ones have few, which nest and are combined with many ports; in the large ones, nearly
//! every long prefix is distinct, and prefix lengths are those of the seed without their
//! neighbours. Ports hardly differ. Each profile therefore has
//! [two distributions of addresses](AddressProfile).
//!
//! Weights are about thousandths of all filters, or ten-thousandths. Rare combinations of prefix
//! lengths are summarised by rows that draw each length from a range.

use weir_random::Rng;

use super::address_trie::AddressBranching;

/// The ports of a filter, in ClassBench's terms WC, HI, AR and EM. LO (0 to 1023) does not occur in
/// the three seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortClass {
    Wildcard,
    High,
    Range,
    Exact,
}

/// Weight, and shortest and longest prefix of source and destination.
type PrefixLengthsRow = (usize, [u32; 2], [u32; 2]);
/// Weight, protocol, classes of source and destination port.
type PortClassesRow = (usize, Option<u8>, PortClass, PortClass);

/// Addresses of filters.
pub(super) struct AddressProfile {
    prefix_lengths: &'static [PrefixLengthsRow],
    pub(super) source_branching: AddressBranching,
    pub(super) destination_branching: AddressBranching,
    /// Filters whose destination is in the /16 network of the source.
    pub(super) same_network_percent: usize,
}

impl AddressProfile {
    pub(super) fn draw_prefix_lengths(&self, random: &mut Rng) -> (u32, u32) {
        let (_, source, destination) = pick_weighted(random, self.prefix_lengths, |row| row.0);
        let mut draw = |[lo, hi]: [u32; 2]| lo + random.below((hi - lo + 1) as usize) as u32;
        (draw(source), draw(destination))
    }
}

pub(super) struct FilterSetProfile {
    /// As in sets of up to 10,000 filters.
    pub(super) small_set_addresses: AddressProfile,
    /// As in sets of 100,000 filters.
    pub(super) large_set_addresses: AddressProfile,
    pub(super) port_classes: &'static [PortClassesRow],
    /// The frequent ones first.
    pub(super) exact_source_ports: &'static [u16],
    pub(super) exact_destination_ports: &'static [u16],
    pub(super) port_ranges: &'static [(u16, u16)],
    /// A filter comes before another one if it has that many fewer free address bits.
    pub(super) order_jitter_free_bits: usize,
}

impl FilterSetProfile {
    pub(super) fn draw_port_classes(&self, random: &mut Rng) -> (Option<u8>, PortClass, PortClass) {
        let (_, proto, source, destination) = pick_weighted(random, self.port_classes, |row| row.0);
        (proto, source, destination)
    }
}

fn pick_weighted<T: Copy>(random: &mut Rng, rows: &[T], weight: impl Fn(&T) -> usize) -> T {
    let mut left = random.below(rows.iter().map(&weight).sum());
    for row in rows {
        match left.checked_sub(weight(row)) {
            Some(rest) => left = rest,
            None => return *row,
        }
    }
    unreachable!("the draw is below the sum of the weights")
}

use PortClass::{Exact as EM, High as HI, Range as AR, Wildcard as WC};

const TCP: Option<u8> = Some(6);
const UDP: Option<u8> = Some(17);
const ICMP: Option<u8> = Some(1);
const GRE: Option<u8> = Some(47);

pub(super) const ACL_PROFILE: FilterSetProfile = FilterSetProfile {
    small_set_addresses: AddressProfile {
        prefix_lengths: &[
            (293, [32, 32], [32, 32]),
            (141, [31, 31], [32, 32]),
            (128, [32, 32], [31, 31]),
            (45, [31, 31], [31, 31]),
            (39, [32, 32], [30, 30]),
            (95, [32, 32], [21, 25]),
            (60, [22, 24], [31, 32]),
            (70, [29, 31], [21, 25]),
            (30, [29, 30], [31, 32]),
            (60, [20, 28], [20, 28]),
            (25, [23, 32], [16, 20]),
            (14, [0, 8], [0, 32]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [88, 2, 9, 31],
            is_skewed: true,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [95, 8, 3, 12],
            is_skewed: true,
        },
        same_network_percent: 5,
    },
    large_set_addresses: AddressProfile {
        prefix_lengths: &[
            (7530, [32, 32], [32, 32]),
            (480, [32, 32], [22, 22]),
            (480, [23, 23], [32, 32]),
            (340, [32, 32], [24, 24]),
            (270, [31, 31], [32, 32]),
            (170, [23, 23], [16, 16]),
            (140, [30, 30], [22, 22]),
            (120, [32, 32], [31, 31]),
            (70, [31, 31], [22, 22]),
            (70, [32, 32], [30, 30]),
            (60, [30, 30], [32, 32]),
            (40, [23, 23], [31, 31]),
            (30, [23, 23], [28, 28]),
            (130, [23, 23], [0, 8]),
            (60, [23, 23], [24, 26]),
            (14, [8, 8], [0, 0]),
            (1, [0, 0], [0, 0]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [100, 100, 100, 100],
            is_skewed: false,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [54, 68, 76, 100],
            is_skewed: false,
        },
        same_network_percent: 0,
    },
    port_classes: &[
        (593, TCP, WC, EM),
        (167, TCP, WC, WC),
        (114, TCP, WC, AR),
        (83, None, WC, WC),
        (30, ICMP, WC, WC),
        (11, UDP, WC, EM),
        (2, UDP, WC, AR),
    ],
    exact_source_ports: &[53],
    exact_destination_ports: &[
        1521, 1526, 1221, 1433, 135, 1525, 14753, 1711, 1724, 1704, 1717, 1708, 80, 443, 25, 22,
        23, 21, 53, 110, 139, 389, 445, 1715, 1716, 1718, 1719, 1720, 2030, 3268, 5631, 6789, 7100,
        8080, 8443, 9001,
    ],
    port_ranges: &[
        (1600, 1649),
        (1300, 1349),
        (1300, 1350),
        (7500, 7599),
        (32_200, 32_207),
        (2200, 2210),
        (1700, 1750),
        (1025, 65_535),
        (20, 21),
        (137, 139),
        (5555, 5560),
    ],
    order_jitter_free_bits: 20,
};

pub(super) const FIREWALL_PROFILE: FilterSetProfile = FilterSetProfile {
    small_set_addresses: AddressProfile {
        prefix_lengths: &[
            (188, [0, 0], [31, 31]),
            (146, [0, 0], [32, 32]),
            (181, [1, 1], [31, 32]),
            (55, [0, 0], [30, 30]),
            (85, [31, 32], [0, 0]),
            (49, [31, 32], [1, 1]),
            (27, [2, 2], [32, 32]),
            (45, [27, 30], [0, 0]),
            (38, [31, 32], [31, 32]),
            (24, [0, 1], [0, 1]),
            (20, [15, 26], [0, 2]),
            (60, [0, 3], [15, 29]),
            (82, [15, 32], [15, 32]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [98, 36, 2, 10],
            is_skewed: true,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [99, 50, 4, 10],
            is_skewed: true,
        },
        same_network_percent: 4,
    },
    large_set_addresses: AddressProfile {
        prefix_lengths: &[
            (595, [0, 0], [32, 32]),
            (156, [32, 32], [0, 0]),
            (60, [32, 32], [32, 32]),
            (19, [30, 30], [0, 0]),
            (19, [32, 32], [21, 21]),
            (15, [30, 30], [32, 32]),
            (15, [23, 23], [0, 0]),
            (15, [32, 32], [28, 28]),
            (15, [28, 28], [32, 32]),
            (15, [32, 32], [30, 30]),
            (15, [27, 27], [0, 0]),
            (14, [21, 21], [0, 0]),
            (8, [28, 28], [0, 0]),
            (8, [28, 28], [28, 28]),
            (7, [29, 29], [0, 0]),
            (4, [0, 0], [27, 27]),
            (4, [26, 26], [0, 0]),
            (4, [16, 16], [0, 0]),
            (4, [26, 26], [21, 21]),
            (4, [12, 12], [0, 0]),
            (3, [8, 8], [0, 0]),
            (4, [0, 0], [0, 0]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [100, 100, 100, 100],
            is_skewed: false,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [100, 100, 100, 100],
            is_skewed: false,
        },
        same_network_percent: 0,
    },
    port_classes: &[
        (445, TCP, WC, EM),
        (138, UDP, WC, EM),
        (106, UDP, EM, WC),
        (86, TCP, WC, WC),
        (48, GRE, WC, WC),
        (39, TCP, HI, HI),
        (36, ICMP, WC, WC),
        (26, UDP, EM, EM),
        (22, UDP, HI, HI),
        (21, UDP, EM, HI),
        (20, UDP, HI, EM),
        (11, None, WC, WC),
        (1, UDP, AR, HI),
        (1, UDP, HI, AR),
    ],
    exact_source_ports: &[123, 53, 750, 161, 69, 88, 67, 24_032, 7648, 162],
    exact_destination_ports: &[
        22, 80, 25, 53, 123, 544, 2105, 21, 750, 161, 443, 23, 88, 110, 113, 143, 389, 513, 514,
        515, 543, 749, 754, 993, 1494, 2049, 3389, 4321, 5900, 7000, 7001, 7648, 8080, 24_032,
    ],
    port_ranges: &[(33_434, 33_600)],
    order_jitter_free_bits: 30,
};

pub(super) const IP_CHAIN_PROFILE: FilterSetProfile = FilterSetProfile {
    small_set_addresses: AddressProfile {
        prefix_lengths: &[
            (70, [32, 32], [32, 32]),
            (68, [31, 32], [31, 32]),
            (170, [23, 26], [31, 32]),
            (150, [23, 26], [23, 26]),
            (110, [31, 32], [23, 26]),
            (80, [0, 1], [31, 32]),
            (40, [23, 25], [0, 1]),
            (40, [27, 30], [27, 32]),
            (40, [16, 22], [23, 32]),
            (40, [23, 32], [16, 22]),
            (22, [0, 2], [16, 26]),
            (170, [12, 32], [12, 32]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [60, 22, 14, 10],
            is_skewed: true,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [74, 24, 14, 10],
            is_skewed: true,
        },
        same_network_percent: 4,
    },
    large_set_addresses: AddressProfile {
        prefix_lengths: &[
            (242, [32, 32], [32, 32]),
            (94, [24, 24], [24, 24]),
            (88, [24, 24], [32, 32]),
            (52, [32, 32], [24, 24]),
            (40, [23, 23], [24, 24]),
            (39, [0, 0], [32, 32]),
            (32, [23, 23], [32, 32]),
            (30, [24, 24], [16, 16]),
            (25, [24, 24], [0, 0]),
            (25, [32, 32], [26, 26]),
            (21, [0, 0], [24, 24]),
            (20, [24, 24], [26, 26]),
            (19, [26, 26], [24, 24]),
            (19, [16, 16], [24, 24]),
            (15, [16, 16], [32, 32]),
            (15, [32, 32], [0, 0]),
            (11, [32, 32], [16, 16]),
            (10, [26, 26], [32, 32]),
            (202, [16, 28], [16, 28]),
            (1, [0, 0], [0, 0]),
        ],
        source_branching: AddressBranching {
            two_child_percent_of_octet: [100, 100, 100, 100],
            is_skewed: false,
        },
        destination_branching: AddressBranching {
            two_child_percent_of_octet: [100, 100, 100, 100],
            is_skewed: false,
        },
        same_network_percent: 1,
    },
    port_classes: &[
        (328, None, WC, WC),
        (218, UDP, WC, EM),
        (139, TCP, WC, EM),
        (85, UDP, EM, WC),
        (80, TCP, EM, WC),
        (60, UDP, WC, HI),
        (22, TCP, WC, WC),
        (18, TCP, WC, AR),
        (15, TCP, AR, WC),
        (11, ICMP, WC, WC),
        (6, UDP, WC, AR),
        (6, UDP, EM, EM),
        (3, UDP, HI, WC),
        (3, GRE, WC, WC),
    ],
    exact_source_ports: &[
        161, 53, 80, 25, 1433, 143, 22, 5550, 5540, 5520, 5530, 5631, 69, 110, 113, 123, 137, 389,
        443, 514, 1521, 2049,
    ],
    exact_destination_ports: &[
        69, 514, 80, 9003, 53, 25, 1433, 137, 162, 113, 143, 161, 22, 23, 110, 123, 389, 443, 1352,
        1521, 2049, 3389, 5520, 5530, 5540, 5550, 5631, 8080, 9001, 9002,
    ],
    port_ranges: &[(109, 110), (20, 23), (20, 21), (1645, 1646), (1812, 1813), (5000, 5001)],
    order_jitter_free_bits: 30,
};
