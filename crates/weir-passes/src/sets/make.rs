//! Turns a group into sets and the rules that use them.

use std::collections::{BTreeMap, HashMap};

use weir_model::matching::{Match, SetMatch};
use weir_model::set::{Method, Part};
use weir_model::{
    Addr, Element, ElementPart, Family, IpSet, Name, Rule, RuleIndex, SetKind, SetOption, Span,
};

use super::Work;
use super::group::{self, Fold, Group, PrefixSet};
use crate::run::{Axis, RunItem};
use crate::{CostModel, Prefix};

/// Sets that a group of overlapping rules which do not decide may become.
const LAYERS_MAX: usize = 16;

/// Widest range of one bitmap (`IPSET_BITMAP_MAX_RANGE`).
const BITMAP_MAX: u128 = 65_536;

/// One rule's element before it is written.
struct SetEntry<'a> {
    prefix: Prefix,
    port: Option<(u8, u16)>,
    item: RunItem<'a>,
}

impl Work<'_> {
    /// Writes a group as sets and rules; `false` if it had better stay a list.
    pub(super) fn group(&mut self, group: &Group<'_>, out: &mut Vec<Rule>) -> bool {
        let (Some(fold), Some(shape)) = (group.fold, &group.shape) else { return false };
        let axis = fold.axis();
        let entries = group.members.iter().map(|m| SetEntry {
            prefix: m.prefix(axis),
            port: match fold {
                Fold::Addr(_) => None,
                Fold::AddrPort(_) => group::port_of(m.rule),
            },
            item: *m,
        });
        let decides = shape.target.leaves_chain();
        let mut dead = Vec::new();
        let layers = if decides {
            vec![alive(entries.collect(), self.family, &mut dead)]
        } else {
            match layers(entries.collect(), self.family) {
                Some(layers) => layers,
                None => return false,
            }
        };
        if !layers.iter().any(|l| self.pays(l)) {
            return false;
        }
        self.dead.append(&mut dead);
        let mut made = Vec::new();
        for layer in layers {
            if self.pays(&layer) {
                made.push(self.layer(&layer, fold, shape, out));
            } else {
                out.extend(layer.iter().map(|e| e.item.rule.clone()));
            }
        }
        self.report(group, format!("{axis} in {}", made.join(", ")));
        true
    }

    /// Whether looking into a set is cheaper than trying the rules.
    fn pays(&self, entries: &[SetEntry<'_>]) -> bool {
        let cost = &self.options.cost;
        entries.len() > 1
            && cost.linear_ns(entries.len()) * 0.75 > lookup_ns(entries, self.family, cost)
    }

    /// One set and its rule; returns what kind it is.
    fn layer(
        &mut self,
        entries: &[SetEntry<'_>],
        fold: Fold,
        shape: &Rule,
        out: &mut Vec<Rule>,
    ) -> String {
        let family = self.family;
        let axis = fold.axis();
        let mut rule = shape.clone();
        let name = self.name();
        let kind = match fold {
            Fold::Addr(_) => {
                if weir_partition::may_drop(shape, family) {
                    rule.matches.insert(0, look(&name, axis, false, true));
                }
                rule.matches.push(look(&name, axis, false, false));
                self.address_set(name, entries, true)
            }
            Fold::AddrPort(_) => {
                let guard = self.name();
                rule.matches.insert(0, look(&guard, axis, false, false));
                rule.matches.push(look(&name, axis, true, false));
                self.address_set(guard, entries, false);
                self.port_set(name, entries)
            }
        };
        out.push(rule);
        kind
    }

    /// `hash:ip`, `hash:net` or `bitmap:ip` of the entries' prefixes; with counters and credit, or
    /// without either.
    fn address_set(&mut self, name: Name, entries: &[SetEntry<'_>], counts: bool) -> String {
        let family = self.family;
        let mut elements: BTreeMap<Prefix, Vec<RuleIndex>> = BTreeMap::new();
        for e in entries {
            let credit = if counts { &e.item.rule.credit[..] } else { &[] };
            elements.entry(e.prefix).or_default().extend(credit);
        }
        let hosts = elements.keys().all(|p| p.len == family.bits());
        let span = elements.keys().next().zip(elements.keys().next_back());
        let (first, last) = span.map_or((0, 0), |(a, b)| (a.addr, b.addr));
        let per_slot = if counts { 16 } else { 0 };
        let bitmap_bytes = (last - first + 1).saturating_mul(per_slot) + (last - first) / 8;
        // As `ipset list -t` shows it for tables of a thousand to sixty thousand hosts.
        let hash_bytes = elements.len() as u128 * if counts { 58 } else { 40 };
        let bitmap = family == Family::V4
            && hosts
            && last - first < BITMAP_MAX
            && bitmap_bytes <= 2 * hash_bytes;
        let part = if hosts { Part::Ip } else { Part::Net };
        let mut options = if bitmap {
            vec![SetOption::Range(Addr(first), Addr(last))]
        } else {
            sizes(elements.len())
        };
        if counts {
            options.push(SetOption::Counters);
        }
        let method = if bitmap { Method::Bitmap } else { Method::Hash };
        let kind = format!("{}:{}", method_word(method), part_word(part));
        let kind_text = format!("{kind} of {} elements", elements.len());
        self.sets.push(IpSet {
            name,
            kind: SetKind { method, parts: vec![part] },
            family: (!bitmap).then_some(family),
            options,
            elements: elements.into_iter().map(|(p, credit)| element(p, None, credit)).collect(),
            span: Span::NONE,
            leading_comments: Vec::new(),
        });
        kind_text
    }

    /// `hash:ip,port` or `hash:net,port`, with counters and credit.
    fn port_set(&mut self, name: Name, entries: &[SetEntry<'_>]) -> String {
        let family = self.family;
        let hosts = entries.iter().all(|e| e.prefix.len == family.bits());
        let part = if hosts { Part::Ip } else { Part::Net };
        let mut elements: BTreeMap<_, Vec<RuleIndex>> = BTreeMap::new();
        for e in entries {
            elements.entry((e.prefix, e.port)).or_default().extend(&e.item.rule.credit);
        }
        let mut options = sizes(elements.len());
        options.push(SetOption::Counters);
        let text = format!("hash:{},port of {} elements", part_word(part), elements.len());
        self.sets.push(IpSet {
            name,
            kind: SetKind { method: Method::Hash, parts: vec![part, Part::Port] },
            family: Some(family),
            options,
            elements: elements.into_iter().map(|((p, port), c)| element(p, port, c)).collect(),
            span: Span::NONE,
            leading_comments: Vec::new(),
        });
        text
    }
}

fn method_word(method: Method) -> &'static str {
    match method {
        Method::Hash => "hash",
        Method::Bitmap => "bitmap",
        Method::List => "list",
    }
}

fn part_word(part: Part) -> &'static str {
    if part == Part::Ip { "ip" } else { "net" }
}

fn element(p: Prefix, port: Option<(u8, u16)>, credit: Vec<RuleIndex>) -> Element {
    let mut parts = vec![ElementPart::Net { addr: Addr(p.addr), len: p.len as u8 }];
    parts.extend(port.map(|(proto, port)| ElementPart::Port { proto: Some(proto), port }));
    Element {
        parts,
        nomatch: false,
        timeout: None,
        counters: None,
        comment: None,
        rest: Vec::new(),
        span: Span::NONE,
        credit,
    }
}

/// Room for the elements: about one a bucket, and no more than there are.
fn sizes(elements: usize) -> Vec<SetOption> {
    let elements = elements as u32;
    vec![
        SetOption::HashSize(elements.next_power_of_two().max(64)),
        SetOption::MaxElem(elements.max(64)),
    ]
}

fn look(set: &Name, axis: Axis, port: bool, quiet: bool) -> Match {
    let src = axis == Axis::Source;
    Match::Set(SetMatch {
        negated: false,
        name: set.clone(),
        dirs: if port { vec![src, false] } else { vec![src] },
        options: if quiet { vec!["!".into(), "--update-counters".into()] } else { Vec::new() },
    })
}

/// The cost of one lookup in a set of the entries.
fn lookup_ns(entries: &[SetEntry<'_>], family: Family, cost: &CostModel) -> f64 {
    let mut lengths = PrefixSet::new(family);
    for e in entries {
        lengths.insert(e.prefix);
    }
    cost.set_ns + cost.probe_ns * f64::from(lengths.lengths())
}

/// The entries that a packet can reach: those that no earlier one covers. The others are dead.
fn alive<'a>(
    entries: Vec<SetEntry<'a>>,
    family: Family,
    dead: &mut Vec<RuleIndex>,
) -> Vec<SetEntry<'a>> {
    let mut seen: HashMap<Option<(u8, u16)>, PrefixSet> = HashMap::new();
    let mut out = Vec::with_capacity(entries.len());
    for e in entries {
        let seen = seen.entry(e.port).or_insert_with(|| PrefixSet::new(family));
        if !seen.covers(e.prefix) {
            seen.insert(e.prefix);
            out.push(e);
        } else {
            dead.extend(&e.item.rule.credit);
        }
    }
    out
}

/// Entries of which no two overlap.
#[derive(Default)]
struct DisjointEntries<'a> {
    prefixes: HashMap<Option<(u8, u16)>, PrefixSet>,
    entries: Vec<SetEntry<'a>>,
}

impl DisjointEntries<'_> {
    fn overlaps(&self, e: &SetEntry<'_>) -> bool {
        self.prefixes.get(&e.port).is_some_and(|s| s.overlaps(e.prefix))
    }
}

/// Entries parted so that in none of the parts two overlap, and of two that overlap the earlier is
/// in the earlier part; `None` if that takes too many parts.
fn layers<'a>(entries: Vec<SetEntry<'a>>, family: Family) -> Option<Vec<Vec<SetEntry<'a>>>> {
    let mut layers: Vec<DisjointEntries<'a>> = Vec::new();
    for e in entries {
        let at = layers.iter().rposition(|l| l.overlaps(&e)).map_or(0, |i| i + 1);
        if at == layers.len() {
            if at == LAYERS_MAX {
                return None;
            }
            layers.push(DisjointEntries::default());
        }
        let layer = &mut layers[at];
        let prefixes = layer.prefixes.entry(e.port).or_insert_with(|| PrefixSet::new(family));
        prefixes.insert(e.prefix);
        layer.entries.push(e);
    }
    Some(layers.into_iter().map(|l| l.entries).collect())
}
