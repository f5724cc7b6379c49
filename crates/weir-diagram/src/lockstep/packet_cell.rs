//! Cells: sets of packets given by addresses, devices and ports.
//!
//! A cell is divided along one of these axes so that a test of the axis has the same result for all
//! packets of a part ([`AxisDivision`]). Devices are represented by the numbers of the classes of
//! names that rules distinguish, and a packet without ports by [`NO_PORT`]. Parts need not be
//! intervals: values that the same tests hold for are one part, so a node of a prefix tree has as
//! many parts as children, and one for all gaps between them.

use std::collections::HashMap;
use std::rc::Rc;

use weir_model::{Family, Field};
use weir_partition::IntervalSet;
use weir_partition::interval::Interval;

/// Number of axes.
pub(crate) const CELL_AXIS_COUNT: usize = 6;

/// The fields by which cells are divided, by number.
pub(crate) const CELL_AXES: [Field; CELL_AXIS_COUNT] =
    [Field::Saddr, Field::Daddr, Field::Iif, Field::Oif, Field::Sport, Field::Dport];

/// The axes of ports.
pub(crate) const PORT_AXES: [usize; 2] = [axis_of(Field::Sport), axis_of(Field::Dport)];
/// The highest port.
pub(crate) const PORT_MAX: u128 = u16::MAX as u128;
/// The value on the axes of ports of packets that have none: later fragments, and packets of
/// protocols without ports.
const NO_PORT: u128 = PORT_MAX + 1;

/// The number of the axis of a field.
///
/// # Panics
/// If cells are not divided by the field.
pub(crate) const fn axis_of(field: Field) -> usize {
    let mut axis = 0;
    while CELL_AXES[axis] as usize != field as usize {
        axis += 1;
    }
    axis
}

/// Packets with some addresses, devices and ports.
#[derive(Clone, Debug)]
pub(crate) struct PacketCell {
    /// By axis: sorted and not adjacent.
    pub values: [Rc<[Interval]>; CELL_AXIS_COUNT],
}

/// The result of the tests of an axis for the packets of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellTestResult {
    Never,
    Sometimes,
    Always,
}

/// By axis, the values for which a rule's tests hold; `None` for all.
pub(crate) type CellSpans = [Option<Rc<IntervalSet>>; CELL_AXIS_COUNT];

/// By axis, the result of a rule's tests for the packets of a cell.
pub(crate) type CellTestResults = [CellTestResult; CELL_AXIS_COUNT];

impl PacketCell {
    /// All packets, where devices have numbers up to `device_number_max`.
    pub fn all_packets(family: Family, device_number_max: u128) -> PacketCell {
        PacketCell {
            values: CELL_AXES.map(|field| -> Rc<[Interval]> {
                Rc::new(match field {
                    Field::Iif | Field::Oif => [(0, device_number_max)],
                    Field::Sport | Field::Dport => [(0, NO_PORT)],
                    _ => [(0, family.max_addr())],
                })
            }),
        }
    }

    /// Whether all packets have ports: none is a later fragment.
    pub fn has_only_packets_with_ports(&self) -> bool {
        PORT_AXES.iter().any(|axis| self.values[*axis].last().is_none_or(|(_, hi)| *hi < NO_PORT))
    }

    /// The packets of the cell with some of its values on an axis. A packet that has one port has
    /// both.
    pub fn part(&self, axis: usize, values: Vec<Interval>) -> PacketCell {
        let mut part = self.clone();
        part.values[axis] = values.into();
        let Some(port_axis) = PORT_AXES.iter().position(|port| *port == axis) else { return part };
        let has_ports = |(_, hi): &Interval| *hi < NO_PORT;
        let is_without_port = |(lo, _): &Interval| *lo == NO_PORT;
        let possible = match &*part.values[axis] {
            values if values.iter().all(has_ports) => (0, PORT_MAX),
            values if values.iter().all(is_without_port) => (NO_PORT, NO_PORT),
            _ => return part,
        };
        let other = &mut part.values[PORT_AXES[1 - port_axis]];
        let left = IntervalSet::from_intervals(other.iter().copied())
            .and(&IntervalSet::from_intervals([possible]));
        *other = left.into_intervals().into();
        part
    }

    /// The results of the tests of a rule.
    pub fn test_spans(&self, spans: &CellSpans) -> CellTestResults {
        std::array::from_fn(|axis| match &spans[axis] {
            None => CellTestResult::Always,
            Some(spans) => test_intervals(&self.values[axis], spans.intervals()),
        })
    }
}

/// The first axis of addresses or devices on which tests hold for some packets of a cell only.
pub(crate) fn undecided_address_axis(results: &CellTestResults) -> Option<usize> {
    let is_undecided = |axis: &usize| results[*axis] == CellTestResult::Sometimes;
    (0..CELL_AXIS_COUNT).filter(|axis| !PORT_AXES.contains(axis)).find(is_undecided)
}

/// The first axis of ports on which tests hold for some packets of a cell only.
pub(crate) fn undecided_port_axis(results: &CellTestResults) -> Option<usize> {
    PORT_AXES.into_iter().find(|axis| results[*axis] == CellTestResult::Sometimes)
}

/// The result of a test for `spans` for the values of a cell. Both lists are sorted, and no two
/// intervals of a list are adjacent.
fn test_intervals(cell: &[Interval], spans: &[Interval]) -> CellTestResult {
    let (Some(first), Some(last)) = (cell.first(), cell.last()) else {
        return CellTestResult::Never;
    };
    let is_inside = |(lo, hi): &Interval| {
        let at = spans.partition_point(|span| span.1 < *lo);
        spans.get(at).is_some_and(|span| span.0 <= *lo && *hi <= span.1)
    };
    // The shorter list is searched for in the longer one.
    let (few, many) = if cell.len() < spans.len() { (cell, spans) } else { (spans, cell) };
    let is_in_both = |(lo, hi): &Interval| {
        let at = many.partition_point(|values| values.1 < *lo);
        many.get(at).is_some_and(|values| values.0 <= *hi)
    };
    // One interval holds for all of a cell if it does for both ends.
    let is_always = match spans {
        [(lo, hi)] => *lo <= first.0 && last.1 <= *hi,
        _ => cell.iter().all(is_inside),
    };
    if is_always {
        CellTestResult::Always
    } else if few.iter().any(is_in_both) {
        CellTestResult::Sometimes
    } else {
        CellTestResult::Never
    }
}

/// The values of a cell on one axis, divided into parts with equal results of some tests.
pub(crate) struct AxisDivision {
    /// Sorted, with the number of the part that each belongs to.
    ranges: Vec<(Interval, u32)>,
    /// The values of each part.
    pub parts: Vec<Vec<Interval>>,
    /// By part, the last question that listed it.
    listed_by: Vec<u32>,
    question: u32,
}

impl AxisDivision {
    /// Divides values so that each part is in some of the sets and outside of the others. Two
    /// parts may become one (by a collision of hashes): then a test is not decided for it.
    pub fn new<'s>(
        values: &[Interval],
        sets: impl Iterator<Item = &'s IntervalSet>,
    ) -> AxisDivision {
        // The bounds of the sets, and what each adds to the label of the values from there on.
        let mut edges: Vec<(u128, u64)> = Vec::new();
        for (set, number) in sets.zip(1_u64..) {
            let label = mix_bits(number);
            for (lo, hi) in set.intervals() {
                edges.push((*lo, label));
                edges.extend(hi.checked_add(1).map(|after| (after, label.wrapping_neg())));
            }
        }
        edges.sort_unstable_by_key(|(at, _)| *at);
        let mut division = AxisDivision {
            ranges: Vec::new(),
            parts: Vec::new(),
            listed_by: Vec::new(),
            question: 0,
        };
        let mut part_by_label: HashMap<u64, u32> = HashMap::new();
        let (mut label, mut next_edge) = (0_u64, 0);
        for (lo, hi) in values {
            let mut from = *lo;
            loop {
                while let Some((_, change)) = edges.get(next_edge).filter(|(at, _)| *at <= from) {
                    label = label.wrapping_add(*change);
                    next_edge += 1;
                }
                let to = match edges.get(next_edge) {
                    Some((at, _)) if at <= hi => at - 1,
                    _ => *hi,
                };
                division.push_range((from, to), label, &mut part_by_label);
                if to == *hi {
                    break;
                }
                from = to + 1;
            }
        }
        division.listed_by = vec![0; division.parts.len()];
        division
    }

    fn push_range(&mut self, range: Interval, label: u64, part_by_label: &mut HashMap<u64, u32>) {
        let next_part = self.parts.len() as u32;
        let part = *part_by_label.entry(label).or_insert(next_part);
        if part == next_part {
            self.parts.push(Vec::new());
        }
        self.ranges.push((range, part));
        // Ranges that touch and are of the same part are one interval.
        match self.parts[part as usize].last_mut() {
            Some(last) if last.1.checked_add(1) == Some(range.0) => last.1 = range.1,
            _ => self.parts[part as usize].push(range),
        }
    }

    /// The intervals of all parts.
    pub fn interval_count(&self) -> usize {
        self.ranges.len()
    }

    /// The parts that have a value of a set, each once.
    pub fn list_overlapping_parts(&mut self, spans: &IntervalSet, parts: &mut Vec<u32>) {
        parts.clear();
        self.question += 1;
        for (lo, hi) in spans.intervals() {
            let first = self.ranges.partition_point(|((_, to), _)| to < lo);
            for (_, part) in self.ranges[first..].iter().take_while(|((from, _), _)| from <= hi) {
                if self.listed_by[*part as usize] != self.question {
                    self.listed_by[*part as usize] = self.question;
                    parts.push(*part);
                }
            }
        }
    }
}

/// A number of which all bits depend on all bits (the finalizer of splitmix64): sums of labels are
/// then different for different sets.
const fn mix_bits(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(intervals: &[Interval]) -> IntervalSet {
        IntervalSet::from_intervals(intervals.iter().copied())
    }

    #[test]
    fn a_cell_test_agrees_with_testing_each_address() {
        let subsets = |bits: u32| {
            let numbers = (0..7_u128).filter(move |n| bits >> n & 1 == 1);
            set(&numbers.map(|n| (n, n)).collect::<Vec<_>>())
        };
        let mut found = [0; 3];
        for (cell, spans) in (1..128).flat_map(|a| (0..128).map(move |b| (a, b))) {
            let result = test_intervals(subsets(cell).intervals(), subsets(spans).intervals());
            let expected = match cell & spans {
                0 => CellTestResult::Never,
                both if both == cell => CellTestResult::Always,
                _ => CellTestResult::Sometimes,
            };
            assert_eq!(result, expected, "{cell:b} {spans:b}");
            found[result as usize] += 1;
        }
        assert!(found.iter().all(|count| *count > 100), "{found:?}");
    }

    #[test]
    fn each_part_is_inside_or_outside_of_each_set() {
        let addresses = [(0, 99), (200, 299)];
        let sets = [set(&[(10, 19), (210, 219)]), set(&[(10, 29)]), set(&[(50, 250)]), set(&[])];
        let mut division = AxisDivision::new(&addresses, sets.iter());
        let mut all: Vec<Interval> = division.parts.concat();
        all.sort_unstable();
        assert_eq!(weir_partition::interval::join_intervals(all), addresses);
        // In no set; in the first two; in the second; in the third; in the first and the third.
        assert_eq!(division.parts.len(), 5);
        for set in &sets {
            let mut listed = Vec::new();
            division.list_overlapping_parts(set, &mut listed);
            for (number, part) in division.parts.iter().enumerate() {
                let result = test_intervals(part, set.intervals());
                assert_ne!(result, CellTestResult::Sometimes);
                let is_listed = listed.contains(&(number as u32));
                assert_eq!(is_listed, result == CellTestResult::Always, "{part:?} {set:?}");
            }
        }
    }

    #[test]
    fn repeated_sets_do_not_multiply_the_parts() {
        // Once on each side of a comparison, in another order.
        let singles: Vec<IntervalSet> = (0..300).map(|n| set(&[(2 * n, 2 * n)])).collect();
        let both = singles.iter().chain(singles.iter().rev());
        let division = AxisDivision::new(&[(0, 1000)], both);
        assert_eq!(division.parts.len(), 301);
    }

    /// The packets of a cell by their ports: source and destination, or none.
    fn ports_of_packets(cell: &PacketCell) -> Vec<Option<(u128, u128)>> {
        let [source, destination] = PORT_AXES.map(|axis| set(&cell.values[axis]));
        let with_ports = (0..4).flat_map(|sport| (0..4).map(move |dport| (sport, dport)));
        let with_ports = with_ports
            .filter(|(sport, dport)| source.contains(*sport) && destination.contains(*dport));
        let without_ports = source.contains(NO_PORT) && destination.contains(NO_PORT);
        with_ports.map(Some).chain(without_ports.then_some(None)).collect()
    }

    #[test]
    fn a_part_has_the_packets_of_its_cell_with_its_values() {
        let mut without_ports = 0;
        let port_sets = (1..32_u32).map(|bits| {
            let ports = (0..5).filter(|n| bits >> n & 1 == 1);
            set(&ports
                .map(|n| if n == 4 { NO_PORT } else { n })
                .map(|n| (n, n))
                .collect::<Vec<_>>())
        });
        for (one, other) in
            port_sets.clone().flat_map(|a| port_sets.clone().map(move |b| (a.clone(), b)))
        {
            let mut whole = PacketCell::all_packets(Family::V4, 0);
            whole.values[PORT_AXES[1]] = other.intervals().into();
            let part = whole.part(PORT_AXES[0], one.intervals().to_vec());
            let mut expected = ports_of_packets(&whole);
            expected.retain(|ports| one.contains(ports.map_or(NO_PORT, |(sport, _)| sport)));
            assert_eq!(ports_of_packets(&part), expected, "{one:?} {other:?}");
            assert!(!part.has_only_packets_with_ports() || !expected.contains(&None));
            without_ports += usize::from(expected.contains(&None));
        }
        assert_eq!(without_ports, 16 * 16);
    }

    #[test]
    fn the_highest_address_is_in_a_part() {
        let max = u128::MAX;
        let sets = [set(&[(max - 1, max)]), set(&[(max, max)])];
        let division = AxisDivision::new(&[(0, max)], sets.iter());
        assert_eq!(
            division.parts,
            [vec![(0, max - 2)], vec![(max - 1, max - 1)], vec![(max, max)]]
        );
    }
}
