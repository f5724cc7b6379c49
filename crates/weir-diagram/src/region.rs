//! Describes a set in words: a few regions, the largest first.
//!
//! A region is one set of values per field. Diagrams are traversed field by field; values that lead
//! to the same node are grouped. The traversal follows the largest share first, so the regions are
//! ordered by size, and only as many as requested are computed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::rc::Rc;

use weir_model::{Field, Match};
use weir_semantics::{OutcomeDifference, Verdict};

use crate::layout::{ANY_OTHER, Block, Levels};
use crate::presence::spans_in;
use crate::share::{Shares, headers};
use crate::space::{PacketSet, Space};
use crate::store::{Full, Ref};
use crate::witness::{Witness, joined};
use crate::words::{field_words, is_any_state, span_words, state_words};

/// Packets that do not differ in any tested field.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Which part of all packets it is, from 0 to 1.
    pub share: f64,
    /// How many headers (addresses, protocol, ports) that is.
    pub packets: f64,
    /// What its packets have; a field that is not here may be anything.
    pub values: Vec<Values>,
    /// Some of its packets, of which the first looks as usual as the region allows. Only regions of
    /// a comparison have them.
    pub examples: Vec<ExamplePacket>,
}

/// A packet that was sent through both rulesets of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ExamplePacket {
    /// The packet, with the answers that its difference needs.
    pub witness: Witness,
    /// What differs.
    pub difference: OutcomeDifference,
    /// Its verdicts, before and after.
    pub verdicts: (Verdict, Verdict),
}

/// What the packets of a region have in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The field in the words of `--packet`: `ip saddr`, `tcp dport`, `iif`.
    pub name: String,
    /// Values, prefixes (`192.0.2.0/24`) and ranges (`1-1023`); empty where the name says it all.
    pub values: Vec<String>,
    /// How many more there are.
    pub more: usize,
    /// How many values of the field these are; of addresses and ports.
    pub size: Option<RegionSize>,
    /// The match that is true or false, if packets do not determine it.
    pub asked: Option<(Match, bool)>,
}

/// How much of a field a region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSize {
    /// Source or destination, address or port.
    pub field: Field,
    /// Values of the region.
    pub values: u128,
    /// The greatest value that the field has; there is one value more.
    pub max: u128,
}

impl Values {
    fn named(name: String) -> Values {
        Values { name, values: Vec::new(), more: 0, size: None, asked: None }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match self.more {
            0 => String::new(),
            n => format!(", … {n} more"),
        };
        match &self.values[..] {
            [] => f.write_str(&self.name),
            [one] if self.more == 0 => write!(f, "{} {one}", self.name),
            many => write!(f, "{} {{ {}{more} }}", self.name, many.join(", ")),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return f.write_str("every packet");
        }
        let words: Vec<_> = self.values.iter().map(Values::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

/// Values of one field that are kept; what is more is only counted.
const VALUES: usize = 8;
/// Spans of one field that are looked for.
const SPANS: usize = 1 << 14;
/// Places that are looked at for one region that is wanted.
const STEPS: usize = 4096;

/// A way from the top to a node.
struct SearchPath {
    /// The share of assignments that go this way and are packets of the set.
    share: f64,
    /// How often the questions on it are answered so.
    chance: f64,
    at: Ref,
    /// The packets that there are on this way.
    possible: Ref,
    said: Option<Rc<Branches>>,
}

/// The variables tested on a path, the last first.
struct Branches {
    before: Option<Rc<Branches>>,
    part: PathPart,
}

enum PathPart {
    Block(Block, Levels, Vec<(u128, u128)>),
    Question(u32, bool),
}

impl PartialEq for SearchPath {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SearchPath {}

impl PartialOrd for SearchPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SearchPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.share.total_cmp(&other.share).then(other.at.cmp(&self.at))
    }
}

impl Space<'_> {
    /// At most `count` regions of a set, the largest first. If there are fewer than requested, they
    /// cover the set.
    ///
    /// # Errors
    /// [`Full`].
    pub fn regions(&mut self, a: PacketSet, count: usize) -> Result<Vec<Region>, Full> {
        let regions = self.regions_with_sets(a, count, false)?;
        Ok(regions.into_iter().map(|(region, _)| region).collect())
    }

    /// The same, each with its packets. `ordinary` omits what is obvious for a set without corner
    /// cases.
    pub(crate) fn regions_with_sets(
        &mut self,
        a: PacketSet,
        count: usize,
        ordinary: bool,
    ) -> Result<Vec<(Region, Ref)>, Full> {
        let mut shares = Shares::new();
        let all = self.share_of(self.possible, &mut shares);
        let mut ways = BinaryHeap::new();
        let (possible, at) = (self.possible, a.0);
        ways.push(SearchPath { share: 1.0, chance: 1.0, at, possible, said: None });
        let (mut out, mut steps) = (Vec::new(), count * STEPS);
        while let Some(way) = ways.pop().filter(|_| steps > 0) {
            steps -= 1;
            if way.at.is_leaf() && way.at != Ref::ZERO {
                let set = self.set_of(&way)?;
                out.push((self.region(&way, all, ordinary), set));
            }
            if out.len() == count {
                break;
            }
            if way.at.is_leaf() {
                continue;
            }
            for (at, chance, part) in self.exits(way.at) {
                let possible = self.within(&part, way.possible)?;
                // What no packet is may lie in a set, and is neither shown nor counted.
                let inside = self.store.and(at, possible)?;
                if inside != Ref::ZERO {
                    let chance = way.chance * chance;
                    let share = chance * self.share_of(inside, &mut shares);
                    let said = Some(Rc::new(Branches { before: way.said.clone(), part }));
                    ways.push(SearchPath { share, chance, at, possible, said });
                }
            }
        }
        Ok(out)
    }

    /// The packets on a way, as far as its spans were looked for.
    fn set_of(&mut self, way: &SearchPath) -> Result<Ref, Full> {
        let mut out = way.possible;
        let mut said = &way.said;
        while let Some(link) = said {
            if let PathPart::Question(question, answer) = link.part {
                let level = self.layout.end + question;
                let (low, high) =
                    if answer { (Ref::ZERO, Ref::ONE) } else { (Ref::ONE, Ref::ZERO) };
                let question = self.store.node(level, low, high)?;
                out = self.store.and(out, question)?;
            }
            said = &link.before;
        }
        Ok(out)
    }

    /// What of `possible` has the values of a part.
    fn within(&mut self, part: &PathPart, possible: Ref) -> Result<Ref, Full> {
        match part {
            PathPart::Question(..) => Ok(possible),
            PathPart::Block(_, levels, spans) => {
                let values = spans_in(&mut self.store, *levels, spans)?;
                self.store.and(values, possible)
            }
        }
    }

    /// Where the values of a node's block lead, or the answers to its question, with their chance.
    fn exits(&self, from: Ref) -> Vec<(Ref, f64, PathPart)> {
        let level = self.store.level(from);
        let Some((block, levels)) = self.layout.block_at(level) else {
            let (low, high) = self.store.branches(from);
            let question = level - self.layout.end;
            return vec![
                (low, 0.5, PathPart::Question(question, false)),
                (high, 0.5, PathPart::Question(question, true)),
            ];
        };
        let mut found: BTreeMap<Ref, Vec<(u128, u128)>> = BTreeMap::new();
        let mut left = SPANS;
        self.spans(from, levels, levels.bits, 0, &mut found, &mut left);
        let exit = |(at, spans)| (at, 1.0, PathPart::Block(block, levels, spans));
        found.into_iter().map(exit).collect()
    }

    /// Collects the spans of values that lead out of a block, by where they lead.
    fn spans(
        &self,
        at: Ref,
        levels: Levels,
        bits: u32,
        base: u128,
        found: &mut BTreeMap<Ref, Vec<(u128, u128)>>,
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
        let (low, high) = self.store.split(at, levels.of_bit(bit));
        self.spans(low, levels, bit, base, found, left);
        self.spans(high, levels, bit, base | 1 << bit, found, left);
    }

    fn region(&self, way: &SearchPath, all: f64, ordinary: bool) -> Region {
        let mut parts = Vec::new();
        let mut said = &way.said;
        while let Some(link) = said {
            parts.push(&link.part);
            said = &link.before;
        }
        parts.reverse();
        let share = (way.share / all).min(1.0);
        let packets = share * headers(self.family());
        Region { share, packets, values: self.values(&parts, ordinary), examples: Vec::new() }
    }

    fn values(&self, parts: &[&PathPart], ordinary: bool) -> Vec<Values> {
        let spans_of = |wanted: Block| {
            parts.iter().find_map(|p| match p {
                PathPart::Block(block, _, spans) if *block == wanted => Some(&spans[..]),
                _ => None,
            })
        };
        // A packet with a port is neither a later fragment nor cut.
        let transport = [Field::Sport, Field::Dport, Field::TcpFlags, Field::Icmp];
        let has_header = transport.iter().any(|f| spans_of(Block::Field(*f)).is_some());
        let proto = match spans_of(Block::Field(Field::Proto)) {
            Some([(lo, hi)]) if lo == hi => Some(*lo),
            _ => None,
        };
        let mut out = Vec::new();
        let mut questions = Vec::new();
        for part in parts {
            match part {
                PathPart::Question(question, answer) => {
                    questions.push(self.assumption(*question, *answer));
                }
                PathPart::Block(Block::Field(Field::Proto), ..)
                    if has_header && proto.is_some() => {}
                PathPart::Block(block, levels, spans) => {
                    let named = self.block_values(*block, *levels, spans, (proto, ordinary));
                    out.extend(named.filter(|v| !(has_header && v.name.starts_with("not a"))));
                }
            }
        }
        let words = joined(questions.iter().map(|o| (o.variable, &*o.words, o.answer)));
        out.extend(words.into_iter().map(|(words, answer)| {
            let asked = questions.iter().find(|o| o.words == words && Some(o.answer) == answer);
            let asked = asked.and_then(|o| Some((o.asked.clone()?, o.answer)));
            let name = if answer == Some(false) { format!("not ({words})") } else { words };
            Values { asked, ..Values::named(name) }
        }));
        out
    }

    fn block_values(
        &self,
        block: Block,
        levels: Levels,
        spans: &[(u128, u128)],
        (proto, ordinary): (Option<u128>, bool),
    ) -> Option<Values> {
        let yes = spans.iter().any(|s| s.1 == 1);
        let flag = |yes_words: &str, no_words: &str| {
            let name = if yes { yes_words } else { no_words }.to_owned();
            let is_said = yes || !ordinary || matches!(block, Block::HasMac);
            is_said.then(|| Values::named(name))
        };
        let field = match block {
            Block::Redirected => return None,
            Block::OffsetOne => return flag("at offset 1", "not at offset 1"),
            Block::Cut => return flag("with a truncated header", "not a truncated header"),
            Block::CutPorts => {
                return flag("truncated after the ports", "truncated before the ports");
            }
            Block::HasMac => return flag("with a source MAC", "without a source MAC"),
            Block::Field(Field::Fragment) => {
                return flag("later fragment", "not a later fragment");
            }
            Block::Field(field) => field,
        };
        let family = self.family();
        let codes = || spans.iter().flat_map(|(lo, hi)| *lo as u32..=*hi as u32);
        let words: Vec<String> = match field {
            Field::Iif | Field::Oif => {
                // All devices, where there is one.
                let classes = self.layout.devices.names().len() as u32;
                if ordinary && (1..classes).all(|class| codes().any(|code| code == class)) {
                    return None;
                }
                let word = |class: &u32| self.layout.devices.word(*class as usize);
                let (there, missing): (Vec<u32>, Vec<u32>) =
                    (1..classes).partition(|class| codes().any(|code| code == *class));
                let any_other = there.iter().filter_map(word).any(|word| word == ANY_OTHER);
                if ordinary && any_other && missing.len() < there.len() {
                    let missing: Vec<String> = missing.iter().filter_map(word).collect();
                    vec![format!("any device but {}", missing.join(", "))]
                } else {
                    codes().filter_map(|c| word(&c)).collect()
                }
            }
            Field::CtState if ordinary && is_any_state(codes()) => return None,
            Field::CtState => state_words(codes(), ordinary),
            _ => {
                let all = field.max(family);
                let spans = spans.iter().filter(|s| **s != (0, all));
                spans.map(|s| span_words(field, *s, family)).collect()
            }
        };
        debug_assert!(levels.bits > 0);
        let more = words.len().saturating_sub(VALUES);
        let values: Vec<_> = words.into_iter().take(VALUES).collect();
        (!values.is_empty()).then(|| Values {
            name: field_words(field, family, proto),
            values,
            more,
            size: size(field, spans, field.max(family)),
            asked: None,
        })
    }
}

/// How many addresses or ports some spans are.
fn size(field: Field, spans: &[(u128, u128)], max: u128) -> Option<RegionSize> {
    let sized = [Field::Saddr, Field::Daddr, Field::Sport, Field::Dport].contains(&field);
    let values =
        spans.iter().fold(0u128, |n, (lo, hi)| n.saturating_add((hi - lo).saturating_add(1)));
    sized.then_some(RegionSize { field, values, max })
}
