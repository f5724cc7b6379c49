//! The effect of a rule on sets of packets.
//!
//! [`MatchSpace`] has for a rule: an upper bound of the packets that it matches, and whether that
//! is exact; the packets that it drops because it requires a truncated header; and the packets for
//! which it evaluates a stateful match. What may change between two rules (a mark after MARK, a set
//! to which a rule adds, the result of a match that weir cannot evaluate) is never assumed to be
//! equal: such tests make a rule inexact.

use std::collections::{BTreeSet, HashMap};

use weir_model::effect::{UNKNOWN_TARGET, changed_within};
use weir_model::mask::masked_interval;
use weir_model::matching::ct_state;
use weir_model::set::Part;
use weir_model::{
    ChangingSets, Family, Field, FieldSet, Firewall, Hotdrop, Match, Name, Predicate, Rule,
    Ruleset, SetOption, Table, Test, effects_of, located_tests_of,
};

use crate::interval::{Interval, IntervalSet};
use crate::rect::{CodeAxis, CodeSet, HyperRect, header, highest};

/// Cells that a rule's packets are described by, at most.
const CELLS: usize = 64;

/// What a rule does to sets of packets.
#[derive(Clone, Debug, Default)]
pub struct MatchSpace {
    /// The packets that it matches, and maybe more.
    pub cells: Vec<HyperRect>,
    /// Exactly those.
    pub exact: bool,
    /// The packets that it drops immediately, and maybe more; and whether it is exactly those.
    pub hot: Vec<(HyperRect, bool)>,
    /// The packets for which it evaluates a stateful or counting match.
    pub asks: Vec<HyperRect>,
}

/// A test that no axis represents: it is true or false independently of other fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    /// A mask with holes, or a field without an axis.
    Masked {
        /// A field that every packet has.
        field: Field,
        /// Wanted bits.
        value: u128,
        /// Bits looked at.
        mask: u128,
    },
    /// Membership in an ipset whose content lasts.
    Set {
        /// The set.
        name: Name,
        /// Source (`true`) or destination for each part of an element.
        dirs: Vec<bool>,
    },
}

/// What all rules of a table have in common.
pub struct Lowering<'a> {
    family: Family,
    firewall: &'a Firewall,
    /// Device names of the rules; a name is a value of the two device classes.
    devices: Vec<(Name, bool)>,
    /// Numbers of the atoms.
    atoms: HashMap<Atom, u32>,
    /// Fields that some target of the table may change.
    changing: FieldSet,
    /// Some target of the table is not known.
    opaque: bool,
    /// Sets that rules may change.
    changing_sets: ChangingSets,
}

impl<'a> Lowering<'a> {
    /// Of a table of a ruleset; sets are looked up in the firewall.
    pub fn new(firewall: &'a Firewall, ruleset: &'a Ruleset, table: &'a Table) -> Self {
        let rules = || table.chains.iter().flat_map(|c| &c.rules);
        let devices: BTreeSet<(Name, bool)> = rules()
            .flat_map(|r| [&r.base.iif, &r.base.oif])
            .flatten()
            .map(|d| (d.name.clone(), d.prefix))
            .collect();
        Lowering {
            family: ruleset.family,
            firewall,
            // The last two values are the missing device and any other.
            devices: devices.into_iter().take(254).collect(),
            atoms: HashMap::new(),
            // Another CPU may change the connection's mark at the same time.
            changing: changed_within(table).union(FieldSet::of(&[Field::CtMark])),
            opaque: rules().any(|r| effects_of(&r.target) == UNKNOWN_TARGET),
            changing_sets: ChangingSets::of(firewall),
        }
    }

    /// Whether some target of the table may change anything: then nothing can be concluded.
    pub fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// The packets that a built-in chain may see: what has no device there has the empty name.
    pub fn entering(&self, chain: &str) -> HyperRect {
        let all = HyperRect::all(self.family);
        let missing = CodeSet::of([self.devices.len()]);
        let class = match chain {
            "INPUT" | "PREROUTING" => CodeAxis::Oif,
            "OUTPUT" => CodeAxis::Iif,
            _ => return all,
        };
        let cell = all.among(class, missing).unwrap_or(all);
        // ip_local_deliver reassembles datagrams before the hook.
        match (chain, self.family) {
            ("INPUT", Family::V4) => {
                let whole = cell.among(CodeAxis::Header, header::fragments().complement());
                whole.unwrap_or(cell)
            }
            _ => cell,
        }
    }

    /// What a rule of the table does.
    pub fn reach(&mut self, rule: &Rule) -> MatchSpace {
        let mut reach =
            MatchSpace { exact: true, cells: vec![self.world()], ..MatchSpace::default() };
        for (from, test) in located_tests_of(rule, self.family) {
            let from = from.map(|i| &rule.matches[i]);
            self.narrow(&mut reach, rule, from, test);
            if reach.cells.is_empty() {
                break;
            }
        }
        reach
    }

    /// All packets, with the device values that there are.
    pub fn world(&self) -> HyperRect {
        let all = HyperRect::all(self.family);
        let devices = CodeSet::of(0..self.devices.len() + 2);
        let shapes = CodeSet::of([0, 1, 2, 3, 4]);
        // A packet without an entry has no translation.
        let states = CodeSet::of([0].into_iter().chain(4..16).chain([16]));
        let worlds = [
            (CodeAxis::Iif, devices),
            (CodeAxis::Oif, devices),
            (CodeAxis::Header, shapes),
            (CodeAxis::Ct, states),
        ];
        worlds
            .into_iter()
            .try_fold(all, |cell, (class, bits)| cell.among(class, bits))
            .unwrap_or_else(|| HyperRect::all(self.family))
    }

    fn narrow(&mut self, reach: &mut MatchSpace, rule: &Rule, from: Option<&Match>, test: Test) {
        match test {
            Test::Never => reach.cells.clear(),
            Test::Opaque { stateful, hotdrop, .. } => {
                if stateful {
                    reach.asks.append(&mut reach.cells.clone());
                }
                if hotdrop != Hotdrop::Never {
                    reach.hot.extend(reach.cells.iter().map(|c| (c.clone(), false)));
                }
                reach.exact = false;
            }
            Test::Set { index } => self.set(reach, rule, index),
            Test::EitherPort { spans, negated } => {
                self.readable(reach, from);
                either(reach, &spans, negated);
            }
            Test::Field { field, predicate, negated } => {
                if matches!(field, Field::Sport | Field::Dport | Field::TcpFlags | Field::Icmp) {
                    self.readable(reach, from);
                }
                if self.changing.contains(field) {
                    reach.exact = false;
                } else {
                    self.field(reach, field, &predicate, negated);
                }
            }
        }
    }

    /// A match that requires the transport header: without it the packet is dropped (xt_tcpudp.c,
    /// xt_multiport.c), or does not match.
    fn readable(&self, reach: &mut MatchSpace, from: Option<&Match>) {
        let (mut hot, mut read) = (vec![header::PORTS, header::CUT], vec![header::WHOLE]);
        match from {
            Some(Match::Multiport { .. }) => {
                hot = vec![header::CUT];
                read.push(header::PORTS);
            }
            Some(Match::Tcp { .. }) if self.family == Family::V4 => hot.push(header::OFFSET_1),
            _ => {}
        }
        let (hot, read) = (CodeSet::of(hot), CodeSet::of(read));
        let cells = std::mem::take(&mut reach.cells);
        let exact = reach.exact;
        reach
            .hot
            .extend(cells.iter().filter_map(|c| Some((c.among(CodeAxis::Header, hot)?, exact))));
        reach.cells = cells.iter().filter_map(|c| c.among(CodeAxis::Header, read)).collect();
    }

    fn field(
        &mut self,
        reach: &mut MatchSpace,
        field: Field,
        predicate: &Predicate,
        negated: bool,
    ) {
        match (field, predicate) {
            (Field::Iif | Field::Oif, Predicate::Device { name, prefix }) => {
                let class = if field == Field::Iif { CodeAxis::Iif } else { CodeAxis::Oif };
                match self.device(name, *prefix) {
                    Some(bits) => among(reach, class, bits, negated),
                    None => reach.exact = false,
                }
            }
            (Field::Fragment, _) => among(reach, CodeAxis::Header, header::fragments(), negated),
            (Field::TcpFlags, Predicate::Masked { value, mask }) => {
                let flags = CodeSet::of((0..256).filter(|f| *f as u128 & mask == *value));
                among(reach, CodeAxis::Flags, flags, negated);
            }
            (Field::CtState, Predicate::AnyBit(mask)) => {
                among(reach, CodeAxis::Ct, states(*mask as u16), negated);
            }
            (Field::PktType, Predicate::In(spans)) => {
                let in_spans = |v: &usize| predicate.holds(*v as u128);
                debug_assert!(!spans.is_empty());
                among(reach, CodeAxis::PktType, CodeSet::of((0..256).filter(in_spans)), negated);
            }
            (_, Predicate::Present) => {}
            (_, Predicate::In(spans)) if HyperRect::is_number(field) => {
                within(reach, field, spans, negated, highest(field, self.family));
            }
            (_, Predicate::Masked { value, mask }) => {
                self.masked(reach, field, *value, *mask, negated);
            }
            _ => reach.exact = false,
        }
    }

    fn masked(
        &mut self,
        reach: &mut MatchSpace,
        field: Field,
        value: u128,
        mask: u128,
        negated: bool,
    ) {
        let interval = masked_interval(value, mask, field.max(self.family));
        let is_always_there =
            matches!(field, Field::Saddr | Field::Daddr) || field.row().usual.is_some();
        match interval.filter(|_| HyperRect::is_number(field)) {
            Some(interval) => {
                within(reach, field, &[interval], negated, highest(field, self.family));
            }
            // Where the test does not hold, its negation does.
            None if is_always_there => {
                let atom = self.atom(Atom::Masked { field, value, mask });
                where_atom(reach, atom, !negated);
            }
            None => reach.exact = false,
        }
    }

    /// The family of the ruleset.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// The atoms of the rules that were lowered so far, and their numbers.
    pub(crate) fn atoms(&self) -> impl Iterator<Item = (&Atom, u32)> {
        self.atoms.iter().map(|(atom, number)| (atom, *number))
    }

    /// The code of a device, by its name: that of the name itself or of the longest prefix, else
    /// the missing device or any other.
    pub(crate) fn device_of(&self, device: &str) -> usize {
        let exact = |(n, prefix): &(Name, bool)| !prefix && **n == *device;
        let begins =
            |(_, (n, prefix)): &(usize, &(Name, bool))| *prefix && device.starts_with(&**n);
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

    fn atom(&mut self, atom: Atom) -> u32 {
        let next = self.atoms.len() as u32;
        *self.atoms.entry(atom).or_insert(next)
    }

    /// The values of a device class that a test of a name matches.
    ///
    /// A value represents the devices with exactly that name or, if the name is a prefix, those
    /// with that prefix that have no closer class; further values are the missing device and all
    /// others. The empty prefix is every device, including the missing one.
    fn device(&self, name: &str, prefix: bool) -> Option<CodeSet> {
        let named = |n: &Name, p: bool| match (prefix, p) {
            (true, _) => n.starts_with(name),
            (false, false) => **n == *name,
            (false, true) => false,
        };
        if prefix && name.is_empty() {
            return Some(CodeSet::of(0..self.devices.len() + 2));
        }
        let known = self.devices.iter().any(|(n, p)| **n == *name && *p == prefix);
        let values = self.devices.iter().enumerate().filter(|(_, (n, p))| named(n, *p));
        known.then(|| CodeSet::of(values.map(|(i, _)| i)))
    }

    fn set(&mut self, reach: &mut MatchSpace, rule: &Rule, index: usize) {
        let Match::Set(m) = &rule.matches[index] else { return };
        let set = self.firewall.set(&m.name);
        let counts = |o: &SetOption| matches!(o, SetOption::Counters);
        if set.is_none_or(|s| s.options.iter().any(counts)) {
            reach.asks.append(&mut reach.cells.clone());
        }
        // What may change between two rules is not a fact: elements that expire or are added,
        // marks.
        let lasts = set.is_some_and(|s| {
            let ages = |o: &SetOption| matches!(o, SetOption::Timeout(_));
            let moves = |p: &Part| matches!(p, Part::Mark | Part::Set);
            !s.options.iter().any(ages) && !s.kind.parts.iter().any(moves)
        });
        if !lasts || !m.options.is_empty() || self.changing_sets.contains(&m.name) {
            reach.exact = false;
            return;
        }
        let atom = self.atom(Atom::Set { name: m.name.clone(), dirs: m.dirs.clone() });
        where_atom(reach, atom, !m.negated);
    }
}

/// Every combination of a conntrack state and the two translations is a value.
fn states(mask: u16) -> CodeSet {
    let states = [
        ct_state::INVALID,
        ct_state::NEW,
        ct_state::RELATED,
        ct_state::ESTABLISHED,
        ct_state::UNTRACKED,
    ];
    CodeSet::of((0..20).filter(|v| {
        let snat = if v & 1 != 0 { ct_state::SNAT } else { 0 };
        let dnat = if v & 2 != 0 { ct_state::DNAT } else { 0 };
        (states[v / 4] | snat | dnat) & mask != 0
    }))
}

fn within(reach: &mut MatchSpace, field: Field, spans: &[Interval], negated: bool, max: u128) {
    let spans = match negated {
        true => IntervalSet::of(spans.iter().copied()).complement(max).into_intervals(),
        false => spans.to_vec(),
    };
    if reach.cells.len() * spans.len() > CELLS {
        reach.exact = false;
        return;
    }
    let cells = std::mem::take(&mut reach.cells);
    let parts =
        |c: &HyperRect| spans.iter().filter_map(|s| c.within(field, *s)).collect::<Vec<_>>();
    reach.cells = cells.iter().flat_map(parts).collect();
}

fn among(reach: &mut MatchSpace, class: CodeAxis, bits: CodeSet, negated: bool) {
    let bits = if negated { bits.complement() } else { bits };
    reach.cells = reach.cells.iter().filter_map(|c| c.among(class, bits)).collect();
}

fn where_atom(reach: &mut MatchSpace, atom: u32, holds: bool) {
    reach.cells = reach.cells.iter().filter_map(|c| c.where_atom(atom, holds)).collect();
}

/// `--ports`: one of the two ports in the spans, or neither.
fn either(reach: &mut MatchSpace, spans: &[Interval], negated: bool) {
    if negated {
        within(reach, Field::Sport, spans, true, 0xffff);
        within(reach, Field::Dport, spans, true, 0xffff);
        return;
    }
    if reach.cells.len() * spans.len() * 2 > CELLS {
        reach.exact = false;
        return;
    }
    let mut other = MatchSpace { cells: reach.cells.clone(), ..MatchSpace::default() };
    within(reach, Field::Sport, spans, false, 0xffff);
    within(&mut other, Field::Dport, spans, false, 0xffff);
    reach.cells.append(&mut other.cells);
}
