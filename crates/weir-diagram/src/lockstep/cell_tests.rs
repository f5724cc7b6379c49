//! The tests of a rule that are decided by a cell: for all packets of a small enough cell they
//! hold, or for none.
//!
//! These are only tests before which nothing in the rule has an effect: those of `-s`, `-d`, `-i`
//! and `-o`, which the kernel evaluates first (`ip_packet_match`, `ip6_packet_match`), and those of
//! `-m iprange`, of sets of addresses and of ports that precede any match that may drop the packet
//! or change state. Tests of ports drop a packet with a truncated header, so that they are only
//! decided where such packets are not compared. A later test of a set is also decided if it holds
//! for all packets that pass the tests before it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use weir_model::mask::interval_of_value_under_mask;
use weir_model::rule_match::{AddrMatch, IfaceMatch, Match, Negatable, SetMatch};
use weir_model::{
    Addr, Family, Field, Hotdrop, Predicate, Rule, Test, lower_to_tests_with_match_index,
    match_effects,
};
use weir_partition::IntervalSet;
use weir_partition::interval::Interval;

use crate::lockstep::cell_ipsets::{AddressPortIpset, CellIpsetMembers, CellIpsets};
use crate::lockstep::packet_cell::{
    CELL_AXES, CELL_AXIS_COUNT, CellSpans, CellTestResult, CellTestResults, PORT_AXES, PORT_MAX,
    axis_of,
};
use crate::packet_sets::device_name_classes::DeviceNameClasses;

/// The axes of devices.
const DEVICE_AXES: [usize; 2] = [axis_of(Field::Iif), axis_of(Field::Oif)];

/// Numbers devices by the classes of names that rules distinguish.
#[derive(Debug)]
pub(crate) struct DeviceNumbers<'c> {
    names: &'c [String],
    number_by_name: HashMap<&'c str, u128>,
    known: RefCell<HashMap<IfaceMatch, Option<Rc<IntervalSet>>>>,
}

impl<'c> DeviceNumbers<'c> {
    pub fn new(classes: &'c DeviceNameClasses) -> DeviceNumbers<'c> {
        let names = classes.class_example_names();
        let number_by_name = names.iter().map(String::as_str).zip(0..).collect();
        DeviceNumbers { names, number_by_name, known: RefCell::default() }
    }

    pub fn number_max(&self) -> u128 {
        self.names.len() as u128 - 1
    }

    /// The numbers of devices for which a test holds. An unknown device has the empty name, which
    /// is the first.
    fn numbers_of_test(&self, test: &IfaceMatch) -> Option<Rc<IntervalSet>> {
        let numbers = || {
            let number = |number: u128| (number, number);
            let numbers: Vec<Interval> = match test.is_prefix {
                // A name that a rule tests is alone in its class.
                false if test.name.is_empty() => return None,
                false => vec![number(*self.number_by_name.get(&*test.name)?)],
                true => self
                    .names
                    .iter()
                    .zip(0..)
                    .filter(|(name, _)| name.starts_with(&*test.name))
                    .map(|(_, at)| number(at))
                    .collect(),
            };
            let numbers = IntervalSet::from_intervals(numbers);
            Some(Rc::new(match test.negated {
                true => numbers.complement(self.number_max()),
                false => numbers,
            }))
        };
        self.known.borrow_mut().entry(test.clone()).or_insert_with(numbers).clone()
    }
}

/// Lowers tests of the rules of one side to spans of axes.
#[derive(Clone, Copy)]
pub(crate) struct CellTestLowering<'s, 'f> {
    pub family: Family,
    /// Whether tests of each axis may be decided: its values cannot change within the table, and
    /// evaluating the tests has no effect.
    pub is_axis_usable: [bool; CELL_AXIS_COUNT],
    /// Whether packets with a truncated header are not compared.
    pub headers_are_whole: bool,
    pub devices: &'s DeviceNumbers<'s>,
    pub ipsets: &'s CellIpsets<'f>,
    /// The side whose sets are used.
    pub side: usize,
}

/// The tests of a rule, divided into those decided by cells and others.
#[derive(Debug)]
pub(crate) struct RuleCellTests {
    /// The values for which the decided tests hold.
    pub spans: CellSpans,
    pub decided_tests: RuleTestsDecidedByCells,
    /// Whether the rule has tests that cells do not decide.
    pub has_other_tests: bool,
    /// A test of an address with a port, if it is the last of the other tests.
    pub address_port_test: Option<AddressPortTest>,
}

/// Which tests of a rule cells decide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleTestsDecidedByCells {
    base_tests: [bool; CELL_AXIS_COUNT],
    /// A bit per match, by index, if its tests of usable axes are decided.
    matches: u64,
    is_axis_usable: [bool; CELL_AXIS_COUNT],
}

/// `-m set --match-set NAME src,dst` of a set of addresses with ports.
#[derive(Debug)]
pub(crate) struct AddressPortTest {
    pub match_index: usize,
    pub axis: usize,
    pub is_source_port: bool,
    pub members: Rc<AddressPortIpset>,
}

impl RuleTestsDecidedByCells {
    /// Whether cells decide a test, given the index of the match that it comes from.
    pub fn is_decidable_by_cells(&self, match_index: Option<usize>, test: &Test) -> bool {
        let axis = match test {
            Test::Field { field, .. } => CELL_AXES.iter().position(|axis| axis == field),
            Test::Set { index } => return self.is_match_decidable_by_cells(*index),
            _ => None,
        };
        axis.is_some_and(|axis| match match_index {
            None => self.base_tests[axis],
            Some(index) => self.is_axis_usable[axis] && self.is_match_decidable_by_cells(index),
        })
    }

    /// Whether a test is decided for a cell in which a rule has these results. A test of a port may
    /// still be undecided.
    pub fn is_decided_by_results(
        &self,
        match_index: Option<usize>,
        test: &Test,
        results: CellTestResults,
    ) -> bool {
        let is_undecided_port = PORT_AXES.iter().any(|axis| {
            let is_of_axis =
                matches!(test, Test::Field { field, .. } if *field == CELL_AXES[*axis]);
            is_of_axis && results[*axis] == CellTestResult::Sometimes
        });
        !is_undecided_port && self.is_decidable_by_cells(match_index, test)
    }

    pub fn is_match_decidable_by_cells(&self, index: usize) -> bool {
        index < 64 && self.matches >> index & 1 == 1
    }

    fn add_decided_match(&mut self, index: usize) {
        self.matches |= 1 << index;
    }
}

impl CellTestLowering<'_, '_> {
    /// The tests of a rule.
    pub fn collect_cell_tests(&self, rule: &Rule) -> RuleCellTests {
        let decided_tests = RuleTestsDecidedByCells {
            is_axis_usable: self.is_axis_usable,
            ..RuleTestsDecidedByCells::default()
        };
        let mut tests = RuleCellTests {
            spans: Default::default(),
            decided_tests,
            has_other_tests: rule.base.proto.is_some() || rule.base.fragment.is_some(),
            address_port_test: None,
        };
        let base = &rule.base;
        for (axis, test) in [&base.saddr, &base.daddr].into_iter().enumerate() {
            let Some(test) = test else { continue };
            let spans = spans_of_addr_match(test, self.family).map(Rc::new);
            self.collect_base_test(&mut tests, axis, spans);
        }
        for (number, test) in [&base.iif, &base.oif].into_iter().enumerate() {
            let Some(test) = test else { continue };
            let spans = self.devices.numbers_of_test(test);
            self.collect_base_test(&mut tests, DEVICE_AXES[number], spans);
        }
        let leading = self.collect_leading_matches(rule, &mut tests);
        for (index, m) in rule.matches.iter().enumerate().skip(leading) {
            let is_decidable_by_cells = match m {
                Match::Set(m) if index < 64 => {
                    self.collect_implied_or_address_port_set_test(m, index, &mut tests);
                    tests.decided_tests.is_match_decidable_by_cells(index)
                }
                _ => false,
            };
            tests.has_other_tests |= !is_decidable_by_cells;
        }
        let is_last = |test: &AddressPortTest| test.match_index + 1 == rule.matches.len();
        tests.address_port_test = tests.address_port_test.filter(is_last);
        tests
    }

    fn collect_base_test(
        &self,
        tests: &mut RuleCellTests,
        axis: usize,
        spans: Option<Rc<IntervalSet>>,
    ) {
        match spans.filter(|_| self.is_axis_usable[axis]) {
            Some(spans) => {
                tests.spans[axis] = Some(spans);
                tests.decided_tests.base_tests[axis] = true;
            }
            None => tests.has_other_tests = true,
        }
    }

    /// Collects matches of addresses and ports before the first match that has or may have an
    /// effect besides its result, and returns the index of that match. ip6tables searches for the
    /// protocol of `-p` before it evaluates matches, and may then drop a packet.
    fn collect_leading_matches(&self, rule: &Rule, tests: &mut RuleCellTests) -> usize {
        if self.family == Family::V6 && rule.base.proto.is_some() && !self.headers_are_whole {
            return 0;
        }
        let mut lowered = None;
        for (index, m) in rule.matches.iter().enumerate().take(64) {
            match m {
                Match::IpRange { src, dst } => {
                    for (axis, range) in [src, dst].into_iter().enumerate() {
                        let Some(range) = range else { continue };
                        if !self.is_axis_usable[axis] {
                            tests.has_other_tests = true;
                            continue;
                        }
                        intersect_spans(&mut tests.spans[axis], self.spans_of_range(range));
                    }
                    tests.decided_tests.add_decided_match(index);
                }
                Match::Set(m) => {
                    let Some((axis, addresses)) = self.addresses_of_set_match(m) else {
                        return index;
                    };
                    match &mut tests.spans[axis] {
                        None => tests.spans[axis] = Some(addresses),
                        spans => intersect_spans(spans, addresses.as_ref().clone()),
                    }
                    tests.decided_tests.add_decided_match(index);
                }
                // Tests without an effect.
                Match::State(_) | Match::Mark(_) | Match::ConnMark(_) => {
                    tests.has_other_tests = true;
                }
                Match::Comment(_) => {}
                m if self.headers_are_whole && has_no_effect_with_whole_header(m, self.family) => {
                    let lowered = lowered
                        .get_or_insert_with(|| lower_to_tests_with_match_index(rule, self.family));
                    let own = lowered.iter().filter(|(from, _)| *from == Some(index));
                    self.collect_port_tests(index, own.map(|(_, test)| test), tests);
                }
                _ => return index,
            }
        }
        rule.matches.len().min(64)
    }

    /// Collects the tests of ports of a match, if all of them can be decided.
    fn collect_port_tests<'t>(
        &self,
        index: usize,
        of_match: impl Iterator<Item = &'t Test>,
        tests: &mut RuleCellTests,
    ) {
        let (mut decided, mut is_decidable) = (Vec::new(), true);
        for test in of_match {
            match self.ports_of_test(test) {
                Some(ports) => decided.push(ports),
                None => {
                    tests.has_other_tests = true;
                    is_decidable &= !is_port_test(test);
                }
            }
        }
        if !is_decidable || decided.is_empty() {
            tests.has_other_tests |= !decided.is_empty();
            return;
        }
        tests.decided_tests.add_decided_match(index);
        for (axis, ports) in decided {
            intersect_spans(&mut tests.spans[axis], ports);
        }
    }

    /// The axis of a test of a port, and the ports for which it holds.
    fn ports_of_test(&self, test: &Test) -> Option<(usize, IntervalSet)> {
        let Test::Field { field, predicate, negated } = test else { return None };
        if !is_port_test(test) {
            return None;
        }
        let axis = CELL_AXES.iter().position(|axis| axis == field)?;
        let ports = IntervalSet::from_intervals(match predicate {
            Predicate::Present => vec![(0, PORT_MAX)],
            Predicate::InSpans(spans) => spans.clone(),
            _ => return None,
        });
        self.is_axis_usable[axis].then(|| match negated {
            true => (axis, ports.complement(PORT_MAX)),
            false => (axis, ports),
        })
    }

    /// Collects a test of a set that holds for all packets that pass the tests before it, or
    /// records a test of a set of addresses with ports.
    fn collect_implied_or_address_port_set_test(
        &self,
        m: &SetMatch,
        index: usize,
        tests: &mut RuleCellTests,
    ) {
        if let Some((axis, addresses)) = self.addresses_of_set_match(m) {
            if tests.spans[axis].as_ref().is_some_and(|spans| addresses.covers(spans)) {
                tests.decided_tests.add_decided_match(index);
            }
            return;
        }
        let [is_source, is_source_port] = m.src_directions[..] else { return };
        let axis = usize::from(!is_source);
        if let (false, true, Some(CellIpsetMembers::AddressesWithPorts(members))) =
            (m.negated, self.is_axis_usable[axis], self.ipsets.members_of_match(self.side, m))
        {
            tests.address_port_test =
                Some(AddressPortTest { match_index: index, axis, is_source_port, members });
        }
    }

    /// The axis of a test of a set of addresses, and the addresses for which it holds.
    fn addresses_of_set_match(&self, m: &SetMatch) -> Option<(usize, Rc<IntervalSet>)> {
        let [is_source] = m.src_directions[..] else { return None };
        let axis = usize::from(!is_source);
        let members =
            self.ipsets.members_of_match(self.side, m).filter(|_| self.is_axis_usable[axis]);
        let CellIpsetMembers::Addresses(addresses) = members? else { return None };
        Some(match m.negated {
            true => (axis, Rc::new(addresses.complement(self.family.max_addr()))),
            false => (axis, addresses),
        })
    }

    fn spans_of_range(&self, range: &Negatable<(Addr, Addr)>) -> IntervalSet {
        let (lo, hi) = range.value;
        let addresses = IntervalSet::from_intervals([(lo.0, hi.0)]);
        match range.negated {
            true => addresses.complement(self.family.max_addr()),
            false => addresses,
        }
    }
}

/// Whether a test is one of the source or the destination port alone.
fn is_port_test(test: &Test) -> bool {
    matches!(test, Test::Field { field: Field::Sport | Field::Dport, .. })
}

/// Whether evaluating a match on a packet with a whole header has no effect: it keeps no state,
/// writes no field and drops no packet.
fn has_no_effect_with_whole_header(m: &Match, family: Family) -> bool {
    let effects = match_effects(m, family);
    let may_drop = match effects.hotdrop {
        Hotdrop::Never | Hotdrop::OnTruncatedHeader => false,
        Hotdrop::Unpredictable | Hotdrop::MatchMayAlsoDrop => true,
    };
    !effects.is_stateful() && effects.writes.is_empty() && !may_drop
}

fn intersect_spans(spans: &mut Option<Rc<IntervalSet>>, by: IntervalSet) {
    *spans = Some(Rc::new(match spans {
        Some(other) => other.and(&by),
        None => by,
    }));
}

/// `None` for a mask with holes.
fn spans_of_addr_match(test: &AddrMatch, family: Family) -> Option<IntervalSet> {
    let span = interval_of_value_under_mask(test.addr.0, test.mask.0, family.max_addr())?;
    let addresses = IntervalSet::from_intervals([span]);
    Some(if test.negated { addresses.complement(family.max_addr()) } else { addresses })
}
