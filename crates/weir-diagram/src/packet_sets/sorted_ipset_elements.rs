//! Membership in sets, built from their sorted elements.
//!
//! A diagram per element, merged with the others, costs a traversal for each level of the balanced
//! merge: 20 of them for a million elements. Elements of the same prefix lengths test the same
//! bits, so they are points. Sorted by these bits in the order of the levels, their diagram is
//! built bottom-up, and each of its nodes is requested once.
//!
//! Prefixes of a single address nest. They are built in the same manner, with the terminal of the
//! shorter prefix below it where no longer one decides. Sets of several parts have one diagram of
//! points for each combination of prefix lengths; these are few, and overlaid in the order in which
//! the kernel tries them, the longest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_model::ipset::SetDataType;
use weir_model::{Element, ElementPart, Family, Field, IpSet};

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::bdd::operators::FirstNonzeroOperator;
use crate::packet_sets::ipset_masks_and_leaves::{
    find_ipset_mark_mask, find_ipset_netmask, select_address_field, select_element_terminal,
};
use crate::packet_sets::presence_and_field_predicates::{PacketPartPresence, icmp_protocol};
use crate::packet_sets::variable_layout::{LevelRange, VariableLayout};

/// An address or prefix and its terminal.
#[derive(Clone, Copy, Debug)]
struct IpsetPrefix {
    addr: u128,
    len: u8,
    terminal: DiagramRef,
}

/// A set of which only an address is tested; `None` for other sets.
pub(crate) fn build_single_address_ipset_membership(
    store: &mut NodeStore,
    layout: &VariableLayout,
    set: &IpSet,
    dirs: &[bool],
) -> Result<Option<DiagramRef>, LimitReached> {
    let netmask = find_ipset_netmask(set, layout.family);
    match set.kind.data_types[..] {
        [SetDataType::Ip] => {}
        [SetDataType::Net] if netmask == layout.family.max_addr() => {}
        _ => return Ok(None),
    }
    let mut prefixes = Vec::with_capacity(set.elements.len());
    for element in set.elements.iter() {
        let [ElementPart::AddrOrPrefix { addr, len }] = element.parts[..] else { return Ok(None) };
        let mask = netmask & layout.family.netmask(len.into());
        if addr.0 & !mask == 0 {
            let len = mask.count_ones() as u8;
            prefixes.push(IpsetPrefix {
                addr: addr.0,
                len,
                terminal: select_element_terminal(element),
            });
        }
    }
    // Stable: of equal prefixes, the first of the text decides.
    prefixes.sort_by_key(|prefix| (prefix.addr, prefix.len));
    let levels = layout.field_levels(select_address_field(dirs[0]));
    build_prefix_diagram(store, levels, levels.bit_count, &prefixes, DiagramRef::ZERO).map(Some)
}

/// The diagram of sorted prefixes that agree in all but the lowest `bits`; `shorter` is what holds
/// where none of them does.
fn build_prefix_diagram(
    store: &mut NodeStore,
    levels: LevelRange,
    bits: u32,
    mut prefixes: &[IpsetPrefix],
    mut shorter: DiagramRef,
) -> Result<DiagramRef, LimitReached> {
    let fixed_bits = levels.bit_count - bits;
    if let [first, ..] = prefixes
        && u32::from(first.len) == fixed_bits
    {
        shorter = first.terminal;
        let same = prefixes.partition_point(|prefix| u32::from(prefix.len) == fixed_bits);
        prefixes = &prefixes[same..];
    }
    if prefixes.is_empty() {
        return Ok(shorter);
    }
    let bit = bits - 1;
    let (low, high) =
        prefixes.split_at(prefixes.partition_point(|prefix| prefix.addr >> bit & 1 == 0));
    let low = build_prefix_diagram(store, levels, bit, low, shorter)?;
    let high = build_prefix_diagram(store, levels, bit, high, shorter)?;
    store.make_node(levels.level_of_bit_from_lowest(bit), low, high)
}

/// The bits of a field that a point fixes; all other bits of its value are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FixedBits {
    /// The level of the field's highest bit.
    first_level: u32,
    field: Field,
    mask: u128,
}

/// What an element requires of the header of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequiredHeader {
    /// Nothing: no protocol and port among its parts, or in IPv4 a protocol without ports.
    Nothing,
    /// A whole header with ports.
    Ports,
    /// A whole header of ICMP.
    Icmp,
    /// In IPv6, other protocols are found only in the first fragment.
    FirstFragment,
}

/// Most fields of an element: of three parts, one is a protocol and its port.
const ELEMENT_FIELDS_MAX: usize = 4;

/// What points of one diagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IpsetElementPointGroup {
    /// The longest come first.
    prefix_lens: Reverse<[u8; 3]>,
    header: RequiredHeader,
    /// In the order of the levels; `None` after the last.
    fixed: [Option<FixedBits>; ELEMENT_FIELDS_MAX],
}

/// A value for each field of its group, and the terminal.
#[derive(Clone, Copy, Debug)]
struct IpsetElementPoint {
    values: [u128; ELEMENT_FIELDS_MAX],
    terminal: DiagramRef,
}

/// A set of several parts, or of one that is no address; `None` for a set that tests devices or
/// other sets, or one field twice.
pub(crate) fn build_multipart_ipset_membership(
    store: &mut NodeStore,
    layout: &VariableLayout,
    presence: &PacketPartPresence,
    set: &IpSet,
    dirs: &[bool],
) -> Result<Option<DiagramRef>, LimitReached> {
    let Some(groups) = group_ipset_elements_as_points(layout, set, dirs) else { return Ok(None) };
    let groups: Vec<_> = groups.into_iter().collect();
    let found =
        store.build_and_merge_diagrams(FirstNonzeroOperator, groups.len(), |store, i| {
            let (group, points) = &groups[i];
            let fixed: Vec<_> = group.fixed.iter().flatten().copied().collect();
            let points = build_point_diagram(store, layout, &fixed, u128::BITS, 0, points)?;
            match group.header {
                RequiredHeader::Nothing => Ok(points),
                RequiredHeader::Ports => store.and(presence.complete_header_with_ports, points),
                RequiredHeader::Icmp => store.and(presence.icmp, points),
                RequiredHeader::FirstFragment => {
                    let first = store.minus(DiagramRef::ONE, presence.later_fragment)?;
                    store.and(first, points)
                }
            }
        })?;
    Ok(Some(found))
}

/// The diagram of sorted points that agree in what is above the lowest `bits` of field `at`.
fn build_point_diagram(
    store: &mut NodeStore,
    layout: &VariableLayout,
    fixed: &[FixedBits],
    bits: u32,
    at: usize,
    points: &[IpsetElementPoint],
) -> Result<DiagramRef, LimitReached> {
    let [first, ..] = points else { return Ok(DiagramRef::ZERO) };
    let Some(field) = fixed.get(at) else { return Ok(first.terminal) };
    let below = if bits == u128::BITS { field.mask } else { field.mask & ((1 << bits) - 1) };
    let Some(bit) = below.checked_ilog2() else {
        return build_point_diagram(store, layout, fixed, u128::BITS, at + 1, points);
    };
    let (low, high) =
        points.split_at(points.partition_point(|point| point.values[at] >> bit & 1 == 0));
    let low = build_point_diagram(store, layout, fixed, bit, at, low)?;
    let high = build_point_diagram(store, layout, fixed, bit, at, high)?;
    store.make_node(layout.field_levels(field.field).level_of_bit_from_lowest(bit), low, high)
}

/// The sorted points of a set.
fn group_ipset_elements_as_points(
    layout: &VariableLayout,
    set: &IpSet,
    dirs: &[bool],
) -> Option<BTreeMap<IpsetElementPointGroup, Vec<IpsetElementPoint>>> {
    let mut groups = BTreeMap::<IpsetElementPointGroup, Vec<IpsetElementPoint>>::new();
    for element in set.elements.iter() {
        let port_part = element.parts.iter().find_map(|part| match part {
            ElementPart::ProtoAndPort { proto, .. } => Some(*proto),
            _ => None,
        });
        // bitmap:port knows TCP and UDP, and which of the two does not matter.
        let (tcp_and_udp, own) = ([6, 17], [port_part.flatten().unwrap_or(0)]);
        let protos = if port_part == Some(None) { &tcp_and_udp[..] } else { &own[..] };
        for proto in protos {
            let lowered = lower_element_to_point(layout, set, dirs, element, *proto)?;
            if let Some((group, point)) = lowered.point {
                groups.entry(group).or_default().push(point);
            }
        }
    }
    // Stable: of equal points, the first of the text decides.
    groups.values_mut().for_each(|points| points.sort_by_key(|point| point.values));
    Some(groups)
}

/// An element that is a point.
struct LoweredIpsetElement {
    /// `None` if no packet is in it.
    point: Option<(IpsetElementPointGroup, IpsetElementPoint)>,
}

/// An element with the protocol of its port part; `None` if it is no point.
fn lower_element_to_point(
    layout: &VariableLayout,
    set: &IpSet,
    dirs: &[bool],
    element: &Element,
    proto: u8,
) -> Option<LoweredIpsetElement> {
    let family = layout.family;
    let mut header = RequiredHeader::Nothing;
    let mut prefix_lens = [0; 3];
    let (mut tests, mut count) = ([None; ELEMENT_FIELDS_MAX], 0);
    let mut fix = |field, value, mask| {
        *tests.get_mut(count)? = Some((field, value, mask));
        count += 1;
        Some(())
    };
    for (i, (part, src)) in element.parts.iter().zip(dirs).enumerate() {
        match part {
            ElementPart::AddrOrPrefix { addr, len } => {
                *prefix_lens.get_mut(i)? = *len;
                let mask = find_ipset_netmask(set, family) & family.netmask((*len).into());
                fix(select_address_field(*src), addr.0, mask)?;
            }
            ElementPart::ProtoAndPort { port_or_icmp_type_and_code: port, .. } => {
                fix(Field::Proto, proto.into(), 0xff)?;
                let ports = if *src { Field::Sport } else { Field::Dport };
                header = select_required_header(proto, family);
                match header {
                    RequiredHeader::Ports => fix(ports, (*port).into(), 0xffff)?,
                    RequiredHeader::Icmp => fix(Field::IcmpTypeAndCode, (*port).into(), 0xffff)?,
                    _ if *port != 0 => return Some(LoweredIpsetElement { point: None }),
                    _ => {}
                }
            }
            ElementPart::Mac(mac) => {
                let value = mac.iter().fold(0, |n, b| n << 8 | u128::from(*b));
                fix(Field::SourceMac, value, (1 << 48) - 1)?;
            }
            ElementPart::Mark(mark) => {
                fix(Field::Mark, (*mark).into(), find_ipset_mark_mask(set))?;
            }
            ElementPart::Iface { .. } | ElementPart::MemberSet(_) => return None,
        }
    }
    let mut tests: Vec<(Field, u128, u128)> = tests.into_iter().flatten().collect();
    tests.sort_unstable_by_key(|(field, ..)| layout.field_levels(*field).first);
    if tests.windows(2).any(|w| w[0].0 == w[1].0) {
        return None;
    }
    if tests.iter().any(|(_, value, mask)| value & !mask != 0) {
        return Some(LoweredIpsetElement { point: None });
    }
    let mut fixed = [None; ELEMENT_FIELDS_MAX];
    let mut values = [0; ELEMENT_FIELDS_MAX];
    for (i, (field, value, mask)) in tests.into_iter().enumerate() {
        let first_level = layout.field_levels(field).first;
        fixed[i] = Some(FixedBits { first_level, field, mask });
        values[i] = value;
    }
    let group = IpsetElementPointGroup { prefix_lens: Reverse(prefix_lens), header, fixed };
    let point = IpsetElementPoint { values, terminal: select_element_terminal(element) };
    Some(LoweredIpsetElement { point: Some((group, point)) })
}

/// ip_set_getport.c, `get_port`.
fn select_required_header(proto: u8, family: Family) -> RequiredHeader {
    match proto {
        6 | 17 | 132 | 136 => RequiredHeader::Ports,
        _ if proto == icmp_protocol(family) => RequiredHeader::Icmp,
        _ if family == Family::V6 => RequiredHeader::FirstFragment,
        _ => RequiredHeader::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Firewall;
    use weir_testkit::random_ruleset::TestRng;

    use crate::PacketSpace;

    /// Kinds of sets, with the directions of the test, and parts to choose elements from.
    const SETS: [(&str, &[bool], &str); 13] = [
        ("hash:ip family inet", &[true], "10.0.0.A"),
        ("hash:ip family inet netmask 30", &[false], "10.0.A.A"),
        ("bitmap:ip range 10.0.0.0/24", &[false], "10.0.0.A"),
        ("hash:net family inet", &[true], "10.0.0.A/L"),
        ("hash:net family inet6", &[true], "2001:db8::A/M"),
        ("hash:ip,port family inet", &[true, false], "10.0.0.A,P"),
        ("hash:ip,port family inet6", &[true, true], "2001:db8::A,Q"),
        ("hash:net,port family inet", &[false, false], "10.0.0.A/L,P"),
        ("hash:net,port,net family inet", &[false, false, true], "10.0.0.A/L,P,10.0.0.A/L"),
        ("hash:net,net family inet", &[false, true], "10.0.0.A/L,10.0.0.A/L"),
        ("hash:ip,mark family inet markmask 0xff0", &[true, true], "10.0.0.A,0x1A"),
        ("bitmap:port range 0-40", &[false], "A"),
        ("bitmap:ip,mac range 10.0.0.0/24", &[true, true], "10.0.0.A,02:00:00:00:00:1A"),
    ];

    fn generate_set(create: &str, element: &str, seed: u64) -> String {
        let mut rng = TestRng::new(seed);
        let mut text = format!("create s {create}\n");
        for _ in 0..rng.number_below(40) {
            let words = element.chars().map(|c| match c {
                'A' => rng.number_below(10).to_string(),
                'L' => (27 + rng.number_below(6)).to_string(),
                'M' => (123 + rng.number_below(6)).to_string(),
                'P' => rng.pick(&["tcp:1", "udp:1", "udp:2", "icmp:3/4", "sctp:9", "gre:0"]).into(),
                'Q' => rng.pick(&["tcp:1", "icmpv6:3/4", "gre:0", "ospf:0"]).into(),
                other => other.to_string(),
            });
            let words: String = words.collect();
            let is_exception = element.contains('/') && rng.number_below(4) == 0;
            let nomatch = if is_exception { "nomatch" } else { "" };
            text += &format!("add s {words} {nomatch} -exist\n");
        }
        text
    }

    #[test]
    fn sorted_elements_give_the_same_diagram_as_merging() {
        for (create, dirs, element) in SETS {
            let mut sizes = Vec::new();
            for seed in 0..60 {
                let text = generate_set(create, element, seed);
                let sets =
                    weir_syntax::ipset::parse(&text).unwrap_or_else(|e| panic!("{text}{e:?}"));
                let firewall = Firewall { sets, ..Firewall::default() };
                let set = &firewall.sets[0];
                let family = set.family.unwrap_or(weir_model::Family::V4);
                let mut space = PacketSpace::new(family, &firewall);
                let merged = space.merge_ipset_element_diagrams(set, dirs).expect("room");
                let sorted =
                    space.build_ipset_membership_from_sorted_elements(set, dirs).expect("room");
                assert_eq!(sorted, Some(merged), "seed {seed}\n{text}");
                sizes.push(set.elements.len());
            }
            assert!(sizes.iter().any(|n| *n > 8), "{create} has only small sets");
        }
    }

    #[test]
    fn set_types_without_point_elements_are_left_to_merging() {
        for (create, dirs, element) in [
            ("hash:net,iface family inet", &[true, true][..], "10.0.0.A/L,eth0"),
            ("hash:ip,port,ip family inet", &[true, true, true], "10.0.0.A,P,10.0.0.A"),
        ] {
            let text = generate_set(create, element, 1);
            let sets = weir_syntax::ipset::parse(&text).unwrap_or_else(|e| panic!("{text}{e:?}"));
            let firewall = Firewall { sets, ..Firewall::default() };
            let mut space = PacketSpace::new(weir_model::Family::V4, &firewall);
            let sorted = space.build_ipset_membership_from_sorted_elements(&firewall.sets[0], dirs);
            assert_eq!(sorted, Ok(None), "{text}");
        }
    }
}
