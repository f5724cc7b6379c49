//! Describes a set in words: a few regions, the largest first.
//!
//! A region is one set of values per field. Diagrams are traversed field by field; values that lead
//! to the same node are grouped. The traversal follows the largest share first, so the regions are
//! ordered by size, and only as many as requested are computed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::fmt;
use std::rc::Rc;

use weir_model::{Family, Field, Match};
use weir_semantics::{OutcomeDifference, Verdict};

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::device_name_classes::ANY_OTHER_DEVICE_PHRASE;
use crate::packet_sets::match_and_field_descriptions::{
    describe_ct_states_with_nat, describe_value_span, format_packet_language_field_name,
    has_all_ct_states_but_invalid,
};
use crate::packet_sets::packet_share::{AssignmentShareCache, count_possible_five_tuples};
use crate::packet_sets::packet_space::{PacketSet, PacketSpace};
use crate::packet_sets::presence_and_field_predicates::build_span_union_predicate;
use crate::packet_sets::variable_layout::{LevelRange, VariableBlock};
use crate::packet_sets::witness::{Witness, merge_bit_assumption_phrases};

/// Packets that do not differ in any tested field.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Which part of all packets it is, from 0 to 1.
    pub share: f64,
    /// How many headers (addresses, protocol, ports) that is.
    pub packet_count: f64,
    /// What its packets have; a field that is not here may be anything.
    pub field_values: Vec<FieldValues>,
    /// Some of its packets, of which the first looks as usual as the region allows. Only regions of
    /// a comparison have them.
    pub examples: Vec<ComparedExamplePacket>,
}

/// A packet that was sent through both rulesets of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedExamplePacket {
    /// The packet, with the answers that its difference needs.
    pub witness: Witness,
    /// What differs.
    pub difference: OutcomeDifference,
    /// Its verdicts, before and after.
    pub verdicts: (Verdict, Verdict),
}

/// What the packets of a region have in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldValues {
    /// The field in the words of `--packet`: `ip saddr`, `tcp dport`, `iif`.
    pub name: String,
    /// Values, prefixes (`192.0.2.0/24`) and ranges (`1-1023`); empty where the name says it all.
    pub values: Vec<String>,
    /// How many more there are.
    pub omitted_count: usize,
    /// How many values of the field these are; of addresses and ports.
    pub size: Option<RegionFieldSize>,
    /// The match that is true or false, if packets do not determine it.
    pub assumed_match: Option<(Match, bool)>,
}

/// How much of a field a region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionFieldSize {
    /// Source or destination, address or port.
    pub field: Field,
    /// Values of the region.
    pub value_count: u128,
    /// The greatest value that the field has; there is one value more.
    pub field_max: u128,
}

impl FieldValues {
    fn from_phrase_alone(name: String) -> FieldValues {
        FieldValues { name, values: Vec::new(), omitted_count: 0, size: None, assumed_match: None }
    }
}

impl fmt::Display for FieldValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match self.omitted_count {
            0 => String::new(),
            n => format!(", … {n} more"),
        };
        match &self.values[..] {
            [] => f.write_str(&self.name),
            [one] if self.omitted_count == 0 => write!(f, "{} {one}", self.name),
            many => write!(f, "{} {{ {}{more} }}", self.name, many.join(", ")),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field_values.is_empty() {
            return f.write_str("every packet");
        }
        let words: Vec<_> = self.field_values.iter().map(FieldValues::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

/// Values of one field that are kept; what is more is only counted.
const VALUES_SHOWN_PER_FIELD_MAX: usize = 8;
/// Spans of one field that are looked for.
const COLLECTED_SPANS_PER_FIELD_MAX: usize = 1 << 14;
/// Places that are looked at for one region that is wanted.
const SEARCH_STEPS_PER_REGION: usize = 4096;

/// A way from the top to a node.
struct RegionSearchPath {
    /// The share of assignments that go this way and are packets of the set.
    share: f64,
    /// How often the questions on it are answered so.
    answer_probability: f64,
    node: DiagramRef,
    /// The packets that there are on this way.
    possible_packets: DiagramRef,
    last_test: Option<Rc<PathTestList>>,
}

/// The variables tested on a path, the last first.
struct PathTestList {
    previous: Option<Rc<PathTestList>>,
    test: PathTest,
}

enum PathTest {
    BlockValues(VariableBlock, LevelRange, Vec<(u128, u128)>),
    FreeVariableAnswer(u32, bool),
}

impl PartialEq for RegionSearchPath {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RegionSearchPath {}

impl PartialOrd for RegionSearchPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RegionSearchPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.share.total_cmp(&other.share).then(other.node.cmp(&self.node))
    }
}

impl PacketSpace<'_> {
    /// At most `count` regions of a set, the largest first. If there are fewer than requested, they
    /// cover the set.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn largest_regions(
        &mut self,
        a: PacketSet,
        count: usize,
    ) -> Result<Vec<Region>, LimitReached> {
        let regions = self.largest_regions_with_packet_sets(a, count, false)?;
        Ok(regions.into_iter().map(|(region, _)| region).collect())
    }

    /// The same, each with its packets. `omit_obvious` omits what is obvious for a set without
    /// corner cases.
    pub(crate) fn largest_regions_with_packet_sets(
        &mut self,
        a: PacketSet,
        count: usize,
        omit_obvious: bool,
    ) -> Result<Vec<(Region, DiagramRef)>, LimitReached> {
        let mut shares = AssignmentShareCache::default();
        let all = self.assignment_share(self.possible_packets, &mut shares);
        let mut paths = BinaryHeap::new();
        let (possible, at) = (self.possible_packets, a.0);
        paths.push(RegionSearchPath {
            share: 1.0,
            answer_probability: 1.0,
            node: at,
            possible_packets: possible,
            last_test: None,
        });
        let (mut out, mut steps) = (Vec::new(), count * SEARCH_STEPS_PER_REGION);
        while let Some(path) = paths.pop().filter(|_| steps > 0) {
            steps -= 1;
            if path.node.is_leaf() && path.node != DiagramRef::ZERO {
                let set = self.packets_on_path(&path)?;
                out.push((self.build_region(&path, all, omit_obvious), set));
            }
            if out.len() == count {
                break;
            }
            if path.node.is_leaf() {
                continue;
            }
            for (at, chance, part) in self.list_block_exits(path.node) {
                let possible = self.restrict_to_block_values(&part, path.possible_packets)?;
                // What no packet is may lie in a set, and is neither shown nor counted.
                let inside = self.store.and(at, possible)?;
                if inside != DiagramRef::ZERO {
                    let chance = path.answer_probability * chance;
                    let share = chance * self.assignment_share(inside, &mut shares);
                    let said = Some(Rc::new(PathTestList {
                        previous: path.last_test.clone(),
                        test: part,
                    }));
                    paths.push(RegionSearchPath {
                        share,
                        answer_probability: chance,
                        node: at,
                        possible_packets: possible,
                        last_test: said,
                    });
                }
            }
        }
        Ok(out)
    }

    /// The packets on a way, as far as its spans were looked for.
    fn packets_on_path(&mut self, path: &RegionSearchPath) -> Result<DiagramRef, LimitReached> {
        let mut out = path.possible_packets;
        let mut said = &path.last_test;
        while let Some(link) = said {
            if let PathTest::FreeVariableAnswer(question, answer) = link.test {
                let level = self.layout.fields_end + question;
                let (low, high) = if answer {
                    (DiagramRef::ZERO, DiagramRef::ONE)
                } else {
                    (DiagramRef::ONE, DiagramRef::ZERO)
                };
                let question = self.store.make_node(level, low, high)?;
                out = self.store.and(out, question)?;
            }
            said = &link.previous;
        }
        Ok(out)
    }

    /// What of `possible` has the values of a part.
    fn restrict_to_block_values(
        &mut self,
        part: &PathTest,
        possible: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        match part {
            PathTest::FreeVariableAnswer(..) => Ok(possible),
            PathTest::BlockValues(_, levels, spans) => {
                let values = build_span_union_predicate(&mut self.store, *levels, spans)?;
                self.store.and(values, possible)
            }
        }
    }

    /// Where the values of a node's block lead, or the answers to its question, with their chance.
    fn list_block_exits(&self, from: DiagramRef) -> Vec<(DiagramRef, f64, PathTest)> {
        let level = self.store.level(from);
        let Some((block, levels)) = self.layout.packet_block_at_level(level) else {
            let (low, high) = self.store.branches(from);
            let question = level - self.layout.fields_end;
            return vec![
                (low, 0.5, PathTest::FreeVariableAnswer(question, false)),
                (high, 0.5, PathTest::FreeVariableAnswer(question, true)),
            ];
        };
        let mut found: BTreeMap<DiagramRef, Vec<(u128, u128)>> = BTreeMap::new();
        let mut left = COLLECTED_SPANS_PER_FIELD_MAX;
        self.collect_exit_spans(from, levels, levels.bit_count, 0, &mut found, &mut left);
        let exit = |(at, spans)| (at, 1.0, PathTest::BlockValues(block, levels, spans));
        found.into_iter().map(exit).collect()
    }

    /// Collects the spans of values that lead out of a block, by where they lead.
    fn collect_exit_spans(
        &self,
        at: DiagramRef,
        levels: LevelRange,
        bits: u32,
        base: u128,
        found: &mut BTreeMap<DiagramRef, Vec<(u128, u128)>>,
        left: &mut usize,
    ) {
        let level = self.store.level(at);
        if level >= levels.end() {
            let hi = base | if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
            let spans = found.entry(at).or_default();
            match spans.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(base) => last.1 = hi,
                _ if *left == 0 => {}
                _ => {
                    *left -= 1;
                    spans.push((base, hi));
                }
            }
            return;
        }
        if *left == 0 {
            return;
        }
        let bit = bits - 1;
        let (low, high) = self.store.cofactors(at, levels.level_of_bit_from_lowest(bit));
        self.collect_exit_spans(low, levels, bit, base, found, left);
        self.collect_exit_spans(high, levels, bit, base | 1 << bit, found, left);
    }

    fn build_region(&self, path: &RegionSearchPath, all: f64, omit_obvious: bool) -> Region {
        let mut parts = Vec::new();
        let mut said = &path.last_test;
        while let Some(link) = said {
            parts.push(&link.test);
            said = &link.previous;
        }
        parts.reverse();
        let share = (path.share / all).min(1.0);
        let packets = share * count_possible_five_tuples(self.family());
        Region {
            share,
            packet_count: packets,
            field_values: self.describe_path_values(&parts, omit_obvious),
            examples: Vec::new(),
        }
    }

    fn describe_path_values(&self, parts: &[&PathTest], omit_obvious: bool) -> Vec<FieldValues> {
        let spans_of = |wanted: VariableBlock| {
            parts.iter().find_map(|p| match p {
                PathTest::BlockValues(block, _, spans) if *block == wanted => Some(&spans[..]),
                _ => None,
            })
        };
        // A packet with a port is neither a later fragment nor cut.
        let transport = [Field::Sport, Field::Dport, Field::TcpFlags, Field::IcmpTypeAndCode];
        let has_header = transport.iter().any(|f| spans_of(VariableBlock::Field(*f)).is_some());
        let proto = match spans_of(VariableBlock::Field(Field::Proto)) {
            Some([(lo, hi)]) if lo == hi => Some(*lo),
            _ => None,
        };
        let mut out = Vec::new();
        let mut questions = Vec::new();
        for part in parts {
            match part {
                PathTest::FreeVariableAnswer(question, answer) => {
                    questions.push(self.make_assumption(*question, *answer));
                }
                PathTest::BlockValues(VariableBlock::Field(Field::Proto), ..)
                    if has_header && proto.is_some() => {}
                PathTest::BlockValues(block, levels, spans) => {
                    let named =
                        self.describe_block_values(*block, *levels, spans, (proto, omit_obvious));
                    out.extend(named.filter(|v| !(has_header && v.name.starts_with("not a"))));
                }
            }
        }
        let words = merge_bit_assumption_phrases(
            questions.iter().map(|o| (o.variable, &*o.description, o.answer)),
        );
        out.extend(words.into_iter().map(|(words, answer)| {
            let asked =
                questions.iter().find(|o| o.description == words && Some(o.answer) == answer);
            let asked = asked.and_then(|o| Some((o.assumed_match.clone()?, o.answer)));
            let name = if answer == Some(false) { format!("not ({words})") } else { words };
            FieldValues { assumed_match: asked, ..FieldValues::from_phrase_alone(name) }
        }));
        out
    }

    fn describe_block_values(
        &self,
        block: VariableBlock,
        levels: LevelRange,
        spans: &[(u128, u128)],
        (proto, omit_obvious): (Option<u128>, bool),
    ) -> Option<FieldValues> {
        let yes = spans.iter().any(|s| s.1 == 1);
        let flag = |yes_words: &str, no_words: &str| {
            let name = if yes { yes_words } else { no_words }.to_owned();
            let is_said = yes || !omit_obvious || matches!(block, VariableBlock::HasMac);
            is_said.then(|| FieldValues::from_phrase_alone(name))
        };
        let field = match block {
            VariableBlock::Redirected => return None,
            VariableBlock::FragmentOffsetOne => return flag("at offset 1", "not at offset 1"),
            VariableBlock::AnyHeaderTruncation => {
                return flag("with a truncated header", "not a truncated header");
            }
            VariableBlock::TruncatedWithReadablePorts => {
                return flag("truncated after the ports", "truncated before the ports");
            }
            VariableBlock::HasMac => return flag("with a source MAC", "without a source MAC"),
            VariableBlock::Field(Field::IsLaterFragment) => {
                return flag("later fragment", "not a later fragment");
            }
            VariableBlock::Field(field) => field,
        };
        let family = self.family();
        let codes = || spans.iter().flat_map(|(lo, hi)| *lo as u32..=*hi as u32);
        let words: Vec<String> = match field {
            Field::Iif | Field::Oif => {
                // All devices, where there is one.
                let classes = self.layout.device_classes.class_example_names().len() as u32;
                if omit_obvious && (1..classes).all(|class| codes().any(|code| code == class)) {
                    return None;
                }
                let word =
                    |class: &u32| self.layout.device_classes.describe_device_class(*class as usize);
                let (there, missing): (Vec<u32>, Vec<u32>) =
                    (1..classes).partition(|class| codes().any(|code| code == *class));
                let any_other =
                    there.iter().filter_map(word).any(|word| word == ANY_OTHER_DEVICE_PHRASE);
                if omit_obvious && any_other && missing.len() < there.len() {
                    let missing: Vec<String> = missing.iter().filter_map(word).collect();
                    vec![format!("any device but {}", missing.join(", "))]
                } else {
                    codes().filter_map(|c| word(&c)).collect()
                }
            }
            Field::CtState if omit_obvious && has_all_ct_states_but_invalid(codes()) => {
                return None;
            }
            Field::CtState => describe_ct_states_with_nat(codes(), omit_obvious),
            Field::TcpFlags if spans == [(0, field.max_value(family))] => Vec::new(),
            Field::TcpFlags => list_distinct_tcp_flags(codes()),
            _ => {
                let all = field.max_value(family);
                let spans = spans.iter().filter(|s| **s != (0, all));
                spans.map(|s| describe_value_span(field, *s, family)).collect()
            }
        };
        debug_assert!(levels.bit_count > 0);
        let more = words.len().saturating_sub(VALUES_SHOWN_PER_FIELD_MAX);
        let values: Vec<_> = words.into_iter().take(VALUES_SHOWN_PER_FIELD_MAX).collect();
        (!values.is_empty()).then(|| FieldValues {
            name: format_packet_language_field_name(field, family, proto),
            values,
            omitted_count: more,
            size: count_region_addresses_or_ports(field, spans, field.max_value(family)),
            assumed_match: None,
        })
    }
}

/// Each combination of TCP flags once: the two bits for congestion have no name, and no test of
/// iptables reads them.
fn list_distinct_tcp_flags(codes: impl Iterator<Item = u32>) -> Vec<String> {
    let words = codes.map(|flags| Field::TcpFlags.display_value(flags.into(), Family::V4));
    let mut named = HashSet::new();
    words.filter(|word| named.insert(word.clone())).collect()
}

/// How many addresses or ports some spans are.
fn count_region_addresses_or_ports(
    field: Field,
    spans: &[(u128, u128)],
    max: u128,
) -> Option<RegionFieldSize> {
    let sized = [Field::Saddr, Field::Daddr, Field::Sport, Field::Dport].contains(&field);
    let values =
        spans.iter().fold(0u128, |n, (lo, hi)| n.saturating_add((hi - lo).saturating_add(1)));
    sized.then_some(RegionFieldSize { field, value_count: values, field_max: max })
}
