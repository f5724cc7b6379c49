//! Turns a group into sets and the rules that use them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::rule_match::{Match, SetMatch};
use weir_model::{
    Addr, Element, ElementPart, Family, IpSet, OriginalRuleIndex, Rule, SetKind, SetOption,
    SharedName, Span,
};

use super::SetFolder;
use super::rule_groups::{self, PrefixSet, RuleGroup, VaryingPart};
use crate::rule_runs::{AddressAxis, RuleWithPrefixesAndBarrier};
use crate::{CostModel, Prefix};

/// Sets that a group of overlapping rules which do not decide may become.
const MAX_SET_LAYERS: usize = 16;

/// Widest range of one bitmap (`IPSET_BITMAP_MAX_RANGE`).
const MAX_BITMAP_ADDRESSES: u128 = 65_536;

/// One rule's element before it is written.
struct SetElementDraft<'a> {
    prefix: Prefix,
    port: Option<(u8, u16)>,
    item: RuleWithPrefixesAndBarrier<'a>,
}

impl SetFolder<'_> {
    /// Writes a group as sets and rules; `false` if it had better stay a list.
    pub(super) fn fold_group(&mut self, group: &RuleGroup<'_>, out: &mut Vec<Rule>) -> bool {
        let (Some(fold), Some(shape)) = (group.varying_part, &group.common_rule) else {
            return false;
        };
        let axis = fold.axis();
        let entries = group.members.iter().map(|m| SetElementDraft {
            prefix: m.prefix(axis),
            port: match fold {
                VaryingPart::Address(_) => None,
                VaryingPart::AddressPort(_) => rule_groups::find_sole_proto_and_dport(m.rule),
            },
            item: *m,
        });
        let decides = shape.target.leaves_chain();
        let mut dead = Vec::new();
        let layers = if decides {
            vec![remove_covered_entries(entries.collect(), self.family, &mut dead)]
        } else {
            match split_into_non_overlapping_layers(entries.collect(), self.family) {
                Some(layers) => layers,
                None => return false,
            }
        };
        if !layers.iter().any(|l| self.is_set_cheaper(l)) {
            return false;
        }
        self.dead_rules.append(&mut dead);
        let mut made = Vec::new();
        for layer in layers {
            if self.is_set_cheaper(&layer) {
                made.push(self.emit_set_layer_and_describe(&layer, fold, shape, out));
            } else {
                out.extend(layer.iter().map(|e| e.item.rule.clone()));
            }
        }
        self.record_group_as_compiled_run(group, format!("{axis} in {}", made.join(", ")));
        true
    }

    /// Whether looking into a set is cheaper than trying the rules.
    fn is_set_cheaper(&self, entries: &[SetElementDraft<'_>]) -> bool {
        let cost = &self.options.cost;
        entries.len() > 1
            && cost.full_list_scan_ns(entries.len()) * 0.75
                > estimate_set_lookup_ns(entries, self.family, cost)
    }

    /// One set and its rule; returns what kind it is.
    fn emit_set_layer_and_describe(
        &mut self,
        entries: &[SetElementDraft<'_>],
        varying_part: VaryingPart,
        shape: &Rule,
        out: &mut Vec<Rule>,
    ) -> String {
        let family = self.family;
        let axis = varying_part.axis();
        let mut rule = shape.clone();
        let name = self.allocate_set_name();
        let kind = match varying_part {
            VaryingPart::Address(_) => {
                if weir_partition::can_drop_truncated(shape, family) {
                    rule.matches.insert(0, build_set_match(&name, axis, false, true));
                }
                rule.matches.push(build_set_match(&name, axis, false, false));
                self.add_address_set_and_describe(name, entries, true)
            }
            VaryingPart::AddressPort(_) => {
                let guard = self.allocate_set_name();
                rule.matches.insert(0, build_set_match(&guard, axis, false, false));
                rule.matches.push(build_set_match(&name, axis, true, false));
                self.add_address_set_and_describe(guard, entries, false);
                self.add_address_port_set_and_describe(name, entries)
            }
        };
        out.push(rule);
        kind
    }

    /// `hash:ip`, `hash:net` or `bitmap:ip` of the entries' prefixes; with counters and credit, or
    /// without either.
    fn add_address_set_and_describe(
        &mut self,
        name: SharedName,
        entries: &[SetElementDraft<'_>],
        counts: bool,
    ) -> String {
        let family = self.family;
        let mut elements: BTreeMap<Prefix, Vec<OriginalRuleIndex>> = BTreeMap::new();
        for e in entries {
            let credited_originals = if counts { &e.item.rule.credited_originals[..] } else { &[] };
            elements.entry(e.prefix).or_default().extend(credited_originals);
        }
        let hosts = elements.keys().all(|p| p.len == family.addr_bits());
        let span = elements.keys().next().zip(elements.keys().next_back());
        let (first, last) = span.map_or((0, 0), |(a, b)| (a.addr, b.addr));
        let per_slot = if counts { 16 } else { 0 };
        let bitmap_bytes = (last - first + 1).saturating_mul(per_slot) + (last - first) / 8;
        // As `ipset list -t` shows it for tables of a thousand to sixty thousand hosts.
        let hash_bytes = elements.len() as u128 * if counts { 58 } else { 40 };
        let bitmap = family == Family::V4
            && hosts
            && last - first < MAX_BITMAP_ADDRESSES
            && bitmap_bytes <= 2 * hash_bytes;
        let part = if hosts { SetDataType::Ip } else { SetDataType::Net };
        let mut options = if bitmap {
            vec![SetOption::AddrRange(Addr(first), Addr(last))]
        } else {
            hash_size_options(elements.len())
        };
        if counts {
            options.push(SetOption::Counters);
        }
        let method = if bitmap { SetStorage::Bitmap } else { SetStorage::Hash };
        let kind = format!("{}:{}", ipset_method_name(method), ipset_datatype_name(part));
        let kind_text = format!("{kind} of {} elements", elements.len());
        self.sets.push(IpSet {
            name,
            kind: SetKind { storage: method, data_types: vec![part] },
            family: (!bitmap).then_some(family),
            options,
            elements: Arc::new(
                elements
                    .into_iter()
                    .map(|(p, credited_originals)| build_set_element(p, None, credited_originals))
                    .collect(),
            ),
            span: Span::NONE,
            leading_comments: Vec::new(),
        });
        kind_text
    }

    /// `hash:ip,port` or `hash:net,port`, with counters and credit.
    fn add_address_port_set_and_describe(
        &mut self,
        name: SharedName,
        entries: &[SetElementDraft<'_>],
    ) -> String {
        let family = self.family;
        let hosts = entries.iter().all(|e| e.prefix.len == family.addr_bits());
        let part = if hosts { SetDataType::Ip } else { SetDataType::Net };
        let mut elements: BTreeMap<_, Vec<OriginalRuleIndex>> = BTreeMap::new();
        for e in entries {
            elements.entry((e.prefix, e.port)).or_default().extend(&e.item.rule.credited_originals);
        }
        let mut options = hash_size_options(elements.len());
        options.push(SetOption::Counters);
        let text =
            format!("hash:{},port of {} elements", ipset_datatype_name(part), elements.len());
        self.sets.push(IpSet {
            name,
            kind: SetKind { storage: SetStorage::Hash, data_types: vec![part, SetDataType::Port] },
            family: Some(family),
            options,
            elements: Arc::new(
                elements.into_iter().map(|((p, port), c)| build_set_element(p, port, c)).collect(),
            ),
            span: Span::NONE,
            leading_comments: Vec::new(),
        });
        text
    }
}

fn ipset_method_name(method: SetStorage) -> &'static str {
    match method {
        SetStorage::Hash => "hash",
        SetStorage::Bitmap => "bitmap",
        SetStorage::List => "list",
    }
}

fn ipset_datatype_name(part: SetDataType) -> &'static str {
    if part == SetDataType::Ip { "ip" } else { "net" }
}

fn build_set_element(
    p: Prefix,
    port: Option<(u8, u16)>,
    credited_originals: Vec<OriginalRuleIndex>,
) -> Element {
    let mut parts = vec![ElementPart::AddrOrPrefix { addr: Addr(p.addr), len: p.len as u8 }];
    parts.extend(port.map(|(proto, port)| ElementPart::ProtoAndPort {
        proto: Some(proto),
        port_or_icmp_type_and_code: port,
    }));
    Element {
        parts,
        nomatch: false,
        timeout: None,
        counters: None,
        comment: None,
        other_words: Vec::new(),
        span: Span::NONE,
        credited_originals: credited_originals.into(),
    }
}

/// Room for the elements: about one a bucket, and no more than there are.
fn hash_size_options(elements: usize) -> Vec<SetOption> {
    let elements = elements as u32;
    vec![
        SetOption::HashSize(elements.next_power_of_two().max(64)),
        SetOption::MaxElem(elements.max(64)),
    ]
}

fn build_set_match(set: &SharedName, axis: AddressAxis, port: bool, quiet: bool) -> Match {
    let src = axis == AddressAxis::Source;
    Match::Set(SetMatch {
        negated: false,
        name: set.clone(),
        src_directions: if port { vec![src, false] } else { vec![src] },
        options: if quiet { vec!["!".into(), "--update-counters".into()] } else { Vec::new() },
    })
}

/// The cost of one lookup in a set of the entries.
fn estimate_set_lookup_ns(
    entries: &[SetElementDraft<'_>],
    family: Family,
    cost: &CostModel,
) -> f64 {
    let mut lengths = PrefixSet::new(family);
    for e in entries {
        lengths.insert(e.prefix);
    }
    cost.set_ns + cost.probe_ns * f64::from(lengths.count_distinct_lengths())
}

/// The entries that a packet can reach: those that no earlier one covers. The others are dead.
fn remove_covered_entries<'a>(
    entries: Vec<SetElementDraft<'a>>,
    family: Family,
    dead: &mut Vec<OriginalRuleIndex>,
) -> Vec<SetElementDraft<'a>> {
    let mut seen: HashMap<Option<(u8, u16)>, PrefixSet> = HashMap::new();
    let mut out = Vec::with_capacity(entries.len());
    for e in entries {
        let seen = seen.entry(e.port).or_insert_with(|| PrefixSet::new(family));
        if !seen.covers(e.prefix) {
            seen.insert(e.prefix);
            out.push(e);
        } else {
            dead.extend(&e.item.rule.credited_originals);
        }
    }
    out
}

/// Entries of which no two overlap.
#[derive(Default)]
struct NonOverlappingSetLayer<'a> {
    prefixes: HashMap<Option<(u8, u16)>, PrefixSet>,
    entries: Vec<SetElementDraft<'a>>,
}

impl NonOverlappingSetLayer<'_> {
    fn overlaps(&self, e: &SetElementDraft<'_>) -> bool {
        self.prefixes.get(&e.port).is_some_and(|s| s.overlaps(e.prefix))
    }
}

/// Entries parted so that in none of the parts two overlap, and of two that overlap the earlier is
/// in the earlier part; `None` if that takes too many parts.
fn split_into_non_overlapping_layers<'a>(
    entries: Vec<SetElementDraft<'a>>,
    family: Family,
) -> Option<Vec<Vec<SetElementDraft<'a>>>> {
    let mut layers: Vec<NonOverlappingSetLayer<'a>> = Vec::new();
    for e in entries {
        let at = layers.iter().rposition(|l| l.overlaps(&e)).map_or(0, |i| i + 1);
        if at == layers.len() {
            if at == MAX_SET_LAYERS {
                return None;
            }
            layers.push(NonOverlappingSetLayer::default());
        }
        let layer = &mut layers[at];
        let prefixes = layer.prefixes.entry(e.port).or_insert_with(|| PrefixSet::new(family));
        prefixes.insert(e.prefix);
        layer.entries.push(e);
    }
    Some(layers.into_iter().map(|l| l.entries).collect())
}
