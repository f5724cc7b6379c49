//! The effect of a rule on sets of packets.
//!
//! [`RulePacketBoxes`] has for a rule: an upper bound of the packets that it matches, and whether
//! that is exact; the packets that it drops because it requires a truncated header; and the packets
//! for which it evaluates a stateful match. What may change between two rules (a mark after MARK, a
//! set to which a rule adds, the result of a match that weir cannot evaluate) is never assumed to
//! be equal: such tests make a rule inexact.

use std::collections::{BTreeSet, HashMap};

use weir_model::effect::{UNKNOWN_TARGET_ROW, collect_fields_changed_within_table};
use weir_model::ipset::SetDataType;
use weir_model::mask::interval_of_value_under_mask;
use weir_model::rule_match::ct_state;
use weir_model::{
    ChangingSets, Family, Field, FieldSet, Firewall, Hotdrop, Match, Predicate, Rule, Ruleset,
    SetOption, SharedName, Table, Test, lower_to_tests_with_match_index, target_effects,
};

use crate::hyper_rect::{CodeAxis, CodeSet, HyperRect, header_code, highest_present_axis_value};
use crate::interval::{Interval, IntervalSet};

/// Boxes that the packets of a rule are described by, at most, before it is approximated.
pub const BOXES_PER_RULE_MAX: usize = 64;

/// What a rule does to sets of packets.
#[derive(Clone, Debug, Default)]
pub struct RulePacketBoxes {
    /// The packets that it matches, and maybe more.
    pub matched_boxes: Vec<HyperRect>,
    /// Exactly those.
    pub is_exact: bool,
    /// The packets that it drops immediately, and maybe more; and whether it is exactly those.
    pub hotdrop_boxes_with_exactness: Vec<(HyperRect, bool)>,
    /// The packets for which it evaluates a stateful or counting match.
    pub stateful_boxes: Vec<HyperRect>,
    /// More boxes than were allowed would describe its packets.
    pub is_approximated: bool,
}

/// A test that no axis represents: it is true or false independently of other fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AxislessTest {
    /// A mask with holes, or a field without an axis.
    MaskedField {
        /// A field that every packet has.
        field: Field,
        /// Wanted bits.
        value: u128,
        /// Bits that are tested.
        mask: u128,
    },
    /// Membership in an ipset whose content lasts.
    SetMembership {
        /// The set.
        name: SharedName,
        /// Source (`true`) or destination for each part of an element.
        dirs: Vec<bool>,
    },
}

/// What all rules of a table have in common.
pub struct BoxLowering<'a> {
    family: Family,
    firewall: &'a Firewall,
    /// Device names of the rules; a name is a value of the two device classes.
    devices: Vec<(SharedName, bool)>,
    /// Numbers of the tests without an axis.
    axisless_test_numbers: HashMap<AxislessTest, u32>,
    /// Fields that some target of the table may change.
    changing_fields: FieldSet,
    /// Some target of the table is not known.
    has_unknown_target: bool,
    /// Sets that rules may change.
    changing_sets: ChangingSets,
    /// How many boxes the matched packets of the rule that is lowered may have.
    boxes_max: usize,
}

impl<'a> BoxLowering<'a> {
    /// Of a table of a ruleset; sets are looked up in the firewall.
    pub fn for_table(firewall: &'a Firewall, ruleset: &'a Ruleset, table: &'a Table) -> Self {
        let rules = || table.chains.iter().flat_map(|c| &c.rules);
        let devices: BTreeSet<(SharedName, bool)> = rules()
            .flat_map(|r| [&r.base.iif, &r.base.oif])
            .flatten()
            .map(|d| (d.name.clone(), d.is_prefix))
            .collect();
        BoxLowering {
            family: ruleset.family,
            firewall,
            // The last two values are the missing device and any other.
            devices: devices.into_iter().take(254).collect(),
            axisless_test_numbers: HashMap::new(),
            // Another CPU may change the connection's mark at the same time.
            changing_fields: collect_fields_changed_within_table(table)
                .union(FieldSet::from_fields(&[Field::CtMark])),
            has_unknown_target: rules().any(|r| target_effects(&r.target) == UNKNOWN_TARGET_ROW),
            changing_sets: ChangingSets::from_firewall(firewall),
            boxes_max: BOXES_PER_RULE_MAX,
        }
    }

    /// The same for rules between which no field changes: the caller divides the rules before one
    /// that tests a field which an earlier one may have written.
    pub fn assuming_unchanged_fields(self) -> Self {
        BoxLowering { changing_fields: FieldSet::NONE, ..self }
    }

    /// Whether some target of the table may change anything: then nothing can be concluded.
    pub fn has_unknown_target_in_table(&self) -> bool {
        self.has_unknown_target
    }

    /// The packets that a built-in chain may see: what has no device there has the empty name.
    pub fn packets_possible_in_builtin_chain(&self, chain: &str) -> HyperRect {
        let all = HyperRect::all_packets(self.family);
        let missing = CodeSet::from_codes([self.devices.len()]);
        let class = match chain {
            "INPUT" | "PREROUTING" => CodeAxis::Oif,
            "OUTPUT" => CodeAxis::Iif,
            _ => return all,
        };
        let cell = all.restrict_to_codes(class, missing).unwrap_or(all);
        // ip_local_deliver reassembles datagrams before the hook.
        match (chain, self.family) {
            ("INPUT", Family::V4) => {
                let whole = cell.restrict_to_codes(
                    CodeAxis::HeaderPresence,
                    header_code::collect_later_fragment_codes().complement(),
                );
                whole.unwrap_or(cell)
            }
            _ => cell,
        }
    }

    /// What a rule of the table does.
    pub fn lower_rule(&mut self, rule: &Rule) -> RulePacketBoxes {
        self.lower_rule_with_boxes_max(rule, BOXES_PER_RULE_MAX)
    }

    /// What a rule does, its matched packets described by at most `boxes_max` boxes: 1 to
    /// [`BOXES_PER_RULE_MAX`].
    pub fn lower_rule_with_boxes_max(&mut self, rule: &Rule, boxes_max: usize) -> RulePacketBoxes {
        self.boxes_max = boxes_max;
        let mut reach = RulePacketBoxes {
            is_exact: true,
            matched_boxes: vec![self.all_packets_with_valid_codes()],
            ..RulePacketBoxes::default()
        };
        for (from, test) in lower_to_tests_with_match_index(rule, self.family) {
            let from = from.map(|i| &rule.matches[i]);
            self.narrow_by_test(&mut reach, rule, from, test);
            if reach.matched_boxes.is_empty() {
                break;
            }
        }
        reach
    }

    /// All packets, with the device values that there are.
    pub fn all_packets_with_valid_codes(&self) -> HyperRect {
        let all = HyperRect::all_packets(self.family);
        let devices = CodeSet::from_codes(0..self.devices.len() + 2);
        let shapes = CodeSet::from_codes([0, 1, 2, 3, 4]);
        // A packet without an entry has no translation.
        let states = CodeSet::from_codes([0].into_iter().chain(4..16).chain([16]));
        let worlds = [
            (CodeAxis::Iif, devices),
            (CodeAxis::Oif, devices),
            (CodeAxis::HeaderPresence, shapes),
            (CodeAxis::CtStateAndNat, states),
        ];
        worlds
            .into_iter()
            .try_fold(all, |cell, (class, bits)| cell.restrict_to_codes(class, bits))
            .unwrap_or_else(|| HyperRect::all_packets(self.family))
    }

    fn narrow_by_test(
        &mut self,
        reach: &mut RulePacketBoxes,
        rule: &Rule,
        from: Option<&Match>,
        test: Test,
    ) {
        match test {
            Test::Never => reach.matched_boxes.clear(),
            Test::Opaque { stateful, hotdrop, .. } => {
                if stateful {
                    reach.stateful_boxes.append(&mut reach.matched_boxes.clone());
                }
                if hotdrop != Hotdrop::Never {
                    reach
                        .hotdrop_boxes_with_exactness
                        .extend(reach.matched_boxes.iter().map(|c| (c.clone(), false)));
                }
                reach.is_exact = false;
            }
            Test::Set { index } => self.narrow_by_set_membership(reach, rule, index),
            Test::EitherPort { spans, negated } => {
                self.require_transport_header(reach, from);
                narrow_by_either_port(reach, &spans, negated, self.boxes_max);
            }
            Test::Field { field, predicate, negated } => {
                if matches!(
                    field,
                    Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode
                ) {
                    self.require_transport_header(reach, from);
                }
                if self.changing_fields.contains(field) {
                    reach.is_exact = false;
                } else {
                    self.narrow_by_field(reach, field, &predicate, negated);
                }
            }
        }
    }

    /// A match that requires the transport header: without it the packet is dropped (xt_tcpudp.c,
    /// xt_multiport.c), or does not match.
    fn require_transport_header(&self, reach: &mut RulePacketBoxes, from: Option<&Match>) {
        let (mut hot, mut read) = (
            vec![header_code::TRUNCATED_AFTER_PORTS, header_code::TRUNCATED_BEFORE_PORTS],
            vec![header_code::COMPLETE_HEADER],
        );
        match from {
            Some(Match::Multiport { .. }) => {
                hot = vec![header_code::TRUNCATED_BEFORE_PORTS];
                read.push(header_code::TRUNCATED_AFTER_PORTS);
            }
            Some(Match::Tcp { .. }) if self.family == Family::V4 => {
                hot.push(header_code::FRAGMENT_OFFSET_1)
            }
            _ => {}
        }
        let (hot, read) = (CodeSet::from_codes(hot), CodeSet::from_codes(read));
        let cells = std::mem::take(&mut reach.matched_boxes);
        let exact = reach.is_exact;
        reach.hotdrop_boxes_with_exactness.extend(
            cells
                .iter()
                .filter_map(|c| Some((c.restrict_to_codes(CodeAxis::HeaderPresence, hot)?, exact))),
        );
        reach.matched_boxes = cells
            .iter()
            .filter_map(|c| c.restrict_to_codes(CodeAxis::HeaderPresence, read))
            .collect();
    }

    fn narrow_by_field(
        &mut self,
        reach: &mut RulePacketBoxes,
        field: Field,
        predicate: &Predicate,
        negated: bool,
    ) {
        match (field, predicate) {
            (Field::Iif | Field::Oif, Predicate::Device { name, prefix }) => {
                let class = if field == Field::Iif { CodeAxis::Iif } else { CodeAxis::Oif };
                match self.device_code_set(name, *prefix) {
                    Some(bits) => narrow_to_codes(reach, class, bits, negated),
                    None => reach.is_exact = false,
                }
            }
            (Field::IsLaterFragment, _) => narrow_to_codes(
                reach,
                CodeAxis::HeaderPresence,
                header_code::collect_later_fragment_codes(),
                negated,
            ),
            (Field::TcpFlags, Predicate::Masked { value, mask }) => {
                let flags = CodeSet::from_codes((0..256).filter(|f| *f as u128 & mask == *value));
                narrow_to_codes(reach, CodeAxis::TcpFlagsByte, flags, negated);
            }
            (Field::CtState, Predicate::AnyBit(mask)) => {
                narrow_to_codes(
                    reach,
                    CodeAxis::CtStateAndNat,
                    build_ct_state_codes(*mask as u16),
                    negated,
                );
            }
            (Field::PktType, Predicate::InSpans(spans)) => {
                let in_spans = |v: &usize| predicate.holds_for_value(*v as u128);
                debug_assert!(!spans.is_empty());
                narrow_to_codes(
                    reach,
                    CodeAxis::PktType,
                    CodeSet::from_codes((0..256).filter(in_spans)),
                    negated,
                );
            }
            (_, Predicate::Present) => {}
            (_, Predicate::InSpans(spans)) if HyperRect::has_number_axis(field) => {
                narrow_to_spans(
                    reach,
                    field,
                    spans,
                    negated,
                    (highest_present_axis_value(field, self.family), self.boxes_max),
                );
            }
            (_, Predicate::Masked { value, mask }) => {
                self.narrow_by_mask(reach, field, *value, *mask, negated);
            }
            _ => reach.is_exact = false,
        }
    }

    fn narrow_by_mask(
        &mut self,
        reach: &mut RulePacketBoxes,
        field: Field,
        value: u128,
        mask: u128,
        negated: bool,
    ) {
        let interval = interval_of_value_under_mask(value, mask, field.max_value(self.family));
        let is_always_there = matches!(field, Field::Saddr | Field::Daddr)
            || field.row().ordinary_value_if_freely_settable.is_some();
        match interval.filter(|_| HyperRect::has_number_axis(field)) {
            Some(interval) => {
                narrow_to_spans(
                    reach,
                    field,
                    &[interval],
                    negated,
                    (highest_present_axis_value(field, self.family), self.boxes_max),
                );
            }
            // Where the test does not hold, its negation does.
            None if is_always_there => {
                let atom =
                    self.intern_axisless_test(AxislessTest::MaskedField { field, value, mask });
                narrow_by_axisless_test(reach, atom, !negated);
            }
            None => reach.is_exact = false,
        }
    }

    /// The family of the ruleset.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// The atoms of the rules that were lowered so far, and their numbers.
    pub fn numbered_axisless_tests(&self) -> impl Iterator<Item = (&AxislessTest, u32)> {
        self.axisless_test_numbers.iter().map(|(atom, number)| (atom, *number))
    }

    /// The device names that have codes of their own, in the order of their codes, and whether each
    /// is a prefix. The next code is the missing device, the one after it any other.
    pub fn coded_devices(&self) -> &[(SharedName, bool)] {
        &self.devices
    }

    /// The code of a device, by its name: that of the name itself or of the longest prefix, else
    /// the missing device or any other.
    pub(crate) fn code_of_longest_matching_device(&self, device: &str) -> usize {
        let exact = |(n, prefix): &(SharedName, bool)| !prefix && **n == *device;
        let begins =
            |(_, (n, prefix)): &(usize, &(SharedName, bool))| *prefix && device.starts_with(&**n);
        let longest = || {
            let prefixes = self.devices.iter().enumerate().filter(begins);
            prefixes.max_by_key(|(_, (n, _))| n.len()).map(|(i, _)| i)
        };
        let missing = self.devices.len();
        match self.devices.iter().position(exact) {
            Some(i) => i,
            None if device.is_empty() => missing,
            None => longest().unwrap_or(missing + 1),
        }
    }

    fn intern_axisless_test(&mut self, atom: AxislessTest) -> u32 {
        let next = self.axisless_test_numbers.len() as u32;
        *self.axisless_test_numbers.entry(atom).or_insert(next)
    }

    /// The values of a device class that a test of a name matches.
    ///
    /// A value represents the devices with exactly that name or, if the name is a prefix, those
    /// with that prefix that have no closer class; further values are the missing device and all
    /// others. The empty prefix is every device, including the missing one.
    fn device_code_set(&self, name: &str, prefix: bool) -> Option<CodeSet> {
        let named = |n: &SharedName, p: bool| match (prefix, p) {
            (true, _) => n.starts_with(name),
            (false, false) => **n == *name,
            (false, true) => false,
        };
        if prefix && name.is_empty() {
            return Some(CodeSet::from_codes(0..self.devices.len() + 2));
        }
        let known = self.devices.iter().any(|(n, p)| **n == *name && *p == prefix);
        let values = self.devices.iter().enumerate().filter(|(_, (n, p))| named(n, *p));
        known.then(|| CodeSet::from_codes(values.map(|(i, _)| i)))
    }

    fn narrow_by_set_membership(&mut self, reach: &mut RulePacketBoxes, rule: &Rule, index: usize) {
        let Match::Set(m) = &rule.matches[index] else { return };
        let set = self.firewall.find_set(&m.name);
        let counts = |o: &SetOption| matches!(o, SetOption::Counters);
        if set.is_none_or(|s| s.options.iter().any(counts)) {
            reach.stateful_boxes.append(&mut reach.matched_boxes.clone());
        }
        // What may change between two rules is not a fact: elements that expire or are added,
        // marks.
        let lasts = set.is_some_and(|s| {
            let ages = |o: &SetOption| matches!(o, SetOption::DefaultElementTimeout(_));
            let moves = |p: &SetDataType| matches!(p, SetDataType::Mark | SetDataType::Set);
            !s.options.iter().any(ages) && !s.kind.data_types.iter().any(moves)
        });
        if !lasts || !m.options.is_empty() || self.changing_sets.contains(&m.name) {
            reach.is_exact = false;
            return;
        }
        let atom = self.intern_axisless_test(AxislessTest::SetMembership {
            name: m.name.clone(),
            dirs: m.src_directions.clone(),
        });
        narrow_by_axisless_test(reach, atom, !m.negated);
    }
}

/// Every combination of a conntrack state and the two translations is a value.
fn build_ct_state_codes(mask: u16) -> CodeSet {
    let states = [
        ct_state::INVALID,
        ct_state::NEW,
        ct_state::RELATED,
        ct_state::ESTABLISHED,
        ct_state::UNTRACKED,
    ];
    CodeSet::from_codes((0..20).filter(|v| {
        let snat = if v & 1 != 0 { ct_state::SNAT } else { 0 };
        let dnat = if v & 2 != 0 { ct_state::DNAT } else { 0 };
        (states[v / 4] | snat | dnat) & mask != 0
    }))
}

fn narrow_to_spans(
    reach: &mut RulePacketBoxes,
    field: Field,
    spans: &[Interval],
    negated: bool,
    (max, boxes_max): (u128, usize),
) {
    let spans = match negated {
        true => IntervalSet::from_intervals(spans.iter().copied()).complement(max).into_intervals(),
        false => spans.to_vec(),
    };
    if reach.matched_boxes.len() * spans.len() > boxes_max {
        reach.is_exact = false;
        reach.is_approximated = true;
        return;
    }
    let cells = std::mem::take(&mut reach.matched_boxes);
    let parts = |c: &HyperRect| {
        spans.iter().filter_map(|s| c.restrict_to_interval(field, *s)).collect::<Vec<_>>()
    };
    reach.matched_boxes = cells.iter().flat_map(parts).collect();
}

fn narrow_to_codes(reach: &mut RulePacketBoxes, class: CodeAxis, bits: CodeSet, negated: bool) {
    let bits = if negated { bits.complement() } else { bits };
    reach.matched_boxes =
        reach.matched_boxes.iter().filter_map(|c| c.restrict_to_codes(class, bits)).collect();
}

fn narrow_by_axisless_test(reach: &mut RulePacketBoxes, atom: u32, holds: bool) {
    reach.matched_boxes = reach
        .matched_boxes
        .iter()
        .filter_map(|c| c.restrict_by_axisless_test(atom, holds))
        .collect();
}

/// `--ports`: one of the two ports in the spans, or neither.
fn narrow_by_either_port(
    reach: &mut RulePacketBoxes,
    spans: &[Interval],
    negated: bool,
    boxes_max: usize,
) {
    let limits = (0xffff, boxes_max);
    if negated {
        narrow_to_spans(reach, Field::Sport, spans, true, limits);
        narrow_to_spans(reach, Field::Dport, spans, true, limits);
        return;
    }
    if reach.matched_boxes.len() * spans.len() * 2 > boxes_max {
        reach.is_exact = false;
        reach.is_approximated = true;
        return;
    }
    let mut other = RulePacketBoxes {
        matched_boxes: reach.matched_boxes.clone(),
        ..RulePacketBoxes::default()
    };
    narrow_to_spans(reach, Field::Sport, spans, false, limits);
    narrow_to_spans(&mut other, Field::Dport, spans, false, limits);
    reach.matched_boxes.append(&mut other.matched_boxes);
}
