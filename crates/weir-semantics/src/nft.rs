//! Evaluates an nftables ruleset for a packet.
//!
//! This evaluator of [`weir_model::nft`] shares with the iptables interpreter only the effects of
//! targets on fields, so that the nft form can be checked against the interpreter before it is
//! written. It follows nf_tables, not iptables: a value that a packet lacks stops the rule, negated
//! or not; a transport load reads the bytes at that position, also in later fragments
//! (net/netfilter/nf_tables_core.c); a counter counts at its position in the rule; a base chain
//! without a decision ends with its policy.

mod candidate_rules;
mod loaded_value;

use std::collections::HashMap;

use weir_model::nft::{
    BaseChain, Chain, Comparand, CreditedRuleOrPolicy, ElementKeyPart, LoadExpression,
    MapKeyExpression, OpaqueNftTest, Ruleset, Statement, Table, Test, Verdict, VerdictMap,
};
use weir_model::{Effect, Hook, NatTarget, Packet, Policy, TableName};

use self::candidate_rules::{NamedNftObjects, NftCandidateIndex};
use self::loaded_value::load_expression_value;
use crate::effects;
use crate::entered_chains_limit::max_entered_chains;

/// What a walk of one base chain does in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NftWalkEnd {
    /// Accepted: the next base chain sees the packet.
    Accept,
    /// Dropped.
    Drop,
    /// Dropped and answered, by iptables' word.
    Reject(&'static str),
    /// Translated.
    Translated,
    /// Not known: the packet entered more chains than it is followed into.
    Unknown,
}

/// The result of a walk.
#[derive(Clone, Debug, PartialEq)]
pub struct NftWalkResult<'n> {
    /// How it ended.
    pub end: NftWalkEnd,
    /// The originals counted, in order, each as often as it counted.
    pub credited_originals: Vec<CreditedRuleOrPolicy>,
    /// What was done, in order.
    pub effects: Vec<NftPacketEffect<'n>>,
}

/// Something done to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NftPacketEffect<'n> {
    /// An effect.
    Effect(&'n Effect),
    /// An answer.
    Reject(&'static str),
    /// A translation.
    Nat(&'n NatTarget),
}

/// A ruleset with its chains and maps indexed.
#[derive(Debug)]
pub struct NftEvaluator<'n> {
    tables: Vec<NftTableIndex<'n>>,
}

#[derive(Debug)]
struct NftTableIndex<'n> {
    table: &'n Table,
    chains: HashMap<&'n str, usize>,
    base_chains: Vec<(Hook, usize)>,
    maps: HashMap<&'n str, NftMapIndex<'n>>,
    /// By chain; only long chains have one.
    candidate_indexes: Vec<Option<NftCandidateIndex>>,
    /// Chains that a packet is followed into.
    entered_chains_max: usize,
}

#[derive(Debug)]
struct NftMapIndex<'n> {
    map: &'n VerdictMap,
    exact_elements: HashMap<Vec<ElementKeyPart>, usize>,
    /// Elements of an interval map with one part, by their first value.
    sorted_intervals: Vec<(u128, u128, usize)>,
}

impl<'n> NftEvaluator<'n> {
    /// Indexes a ruleset.
    ///
    /// # Panics
    /// If an interval map has more than one part: weir writes none.
    pub fn new(ruleset: &'n Ruleset) -> Self {
        NftEvaluator { tables: ruleset.tables.iter().map(NftTableIndex::new).collect() }
    }

    /// Traverses the base chain that replaces an iptables table at a hook; `None` if there is no
    /// such chain.
    ///
    /// `packet` is changed by the rules, translations aside. `answer` is called for
    /// [`Statement::OpaqueTest`]; it returns whether the original match is true.
    ///
    /// # Panics
    /// If a verdict names a chain or a lookup names a map that is not there.
    pub fn walk_base_chain(
        &self,
        table: TableName,
        hook: Hook,
        packet: &mut Packet,
        answer: &mut dyn FnMut(&OpaqueNftTest, &Packet) -> bool,
    ) -> Option<NftWalkResult<'n>> {
        let indexed_table = self
            .tables
            .iter()
            .find(|t| t.table.family == packet.family && t.table.iptables_table == table)?;
        let (_, base) = *indexed_table.base_chains.iter().find(|(at, _)| *at == hook)?;
        let mut run = NftWalker {
            indexed_table,
            packet,
            answer_opaque: answer,
            selected_rules: HashMap::new(),
            result: NftWalkResult {
                end: NftWalkEnd::Accept,
                credited_originals: vec![],
                effects: vec![],
            },
        };
        run.run_base_chain(base);
        Some(run.result)
    }
}

impl<'n> NftTableIndex<'n> {
    fn new(table: &'n Table) -> Self {
        let maps: HashMap<&str, NftMapIndex<'n>> =
            table.maps.iter().map(|m| (m.name.as_str(), NftMapIndex::new(m))).collect();
        let named = NamedNftObjects::new(table);
        let index = |c: &Chain| NftCandidateIndex::new(&c.rules, &named);
        let candidate_indexes = table.chains.iter().map(index).collect();
        let hook = |(at, c): (usize, &Chain)| c.base.as_ref().map(|base| (base.hook, at));
        NftTableIndex {
            table,
            chains: table.chains.iter().enumerate().map(|(i, c)| (c.name.as_str(), i)).collect(),
            base_chains: table.chains.iter().enumerate().filter_map(hook).collect(),
            maps,
            candidate_indexes,
            entered_chains_max: max_entered_chains(
                table.chains.iter().map(|c| c.rules.len()).sum(),
            ),
        }
    }
}

impl<'n> NftMapIndex<'n> {
    fn new(map: &'n VerdictMap) -> Self {
        let mut index =
            NftMapIndex { map, exact_elements: HashMap::new(), sorted_intervals: Vec::new() };
        for (i, e) in map.elements.iter().enumerate() {
            if map.has_intervals {
                let [ElementKeyPart::Span(lo, hi)] = e.key[..] else {
                    panic!("interval of one part")
                };
                index.sorted_intervals.push((lo, hi, i));
            } else {
                index.exact_elements.insert(e.key.clone(), i);
            }
        }
        index.sorted_intervals.sort_unstable();
        index
    }

    fn find_element(&self, key: &[ElementKeyPart]) -> Option<usize> {
        if !self.map.has_intervals {
            return self.exact_elements.get(key).copied();
        }
        let [ElementKeyPart::Span(value, _)] = *key else { return None };
        let after = self.sorted_intervals.partition_point(|&(lo, ..)| lo <= value);
        let &(_, hi, i) = self.sorted_intervals[..after].last()?;
        (value <= hi).then_some(i)
    }
}

struct NftWalker<'n, 'p> {
    indexed_table: &'p NftTableIndex<'n>,
    packet: &'p mut Packet,
    answer_opaque: &'p mut dyn FnMut(&OpaqueNftTest, &Packet) -> bool,
    /// By chain with an index: the rules that the packet as it is selects.
    selected_rules: HashMap<usize, Vec<u32>>,
    result: NftWalkResult<'n>,
}

/// How a rule ended.
enum NftRuleEnd {
    NextRule,
    Verdict(Verdict),
    EndWalk(NftWalkEnd),
}

impl<'n> NftWalker<'n, '_> {
    fn run_base_chain(&mut self, base: usize) {
        let table = self.indexed_table.table;
        let Some(BaseChain { policy, .. }) = table.chains[base].base else {
            panic!("no base chain")
        };
        // Where to continue: chain, next rule.
        let mut stack: Vec<(usize, usize)> = vec![(base, 0)];
        let mut chains_left = self.indexed_table.entered_chains_max;
        while let Some((chain, at)) = stack.pop() {
            let at = self.skip_to_candidate(chain, at);
            let Some(rule) = table.chains[chain].rules.get(at) else { continue };
            let verdict = match self.run_rule(&rule.statements) {
                NftRuleEnd::NextRule => Verdict::Continue,
                NftRuleEnd::Verdict(v) => v,
                NftRuleEnd::EndWalk(end) => {
                    self.result.end = end;
                    return;
                }
            };
            match verdict {
                Verdict::Accept => return,
                Verdict::Drop => {
                    self.result.end = NftWalkEnd::Drop;
                    return;
                }
                Verdict::Continue => stack.push((chain, at + 1)),
                Verdict::Return => {}
                Verdict::Jump(_) | Verdict::Goto(_) if chains_left == 0 => {
                    self.result.end = NftWalkEnd::Unknown;
                    return;
                }
                Verdict::Jump(to) => {
                    chains_left -= 1;
                    stack.push((chain, at + 1));
                    stack.push((self.chain_index(&to), 0));
                }
                Verdict::Goto(to) => {
                    chains_left -= 1;
                    stack.push((self.chain_index(&to), 0));
                }
            }
        }
        if policy == Policy::Drop {
            self.result.end = NftWalkEnd::Drop;
        }
    }

    /// The next rule of a chain, from one on, that the packet may match.
    fn skip_to_candidate(&mut self, chain: usize, at: usize) -> usize {
        let Some(index) = &self.indexed_table.candidate_indexes[chain] else { return at };
        let packet = &*self.packet;
        let selected =
            self.selected_rules.entry(chain).or_insert_with(|| index.list_selected_rules(packet));
        let end = self.indexed_table.table.chains[chain].rules.len();
        index.next_candidate(selected, at).unwrap_or(end)
    }

    fn chain_index(&self, name: &str) -> usize {
        *self.indexed_table.chains.get(name).unwrap_or_else(|| panic!("chain {name} is not there"))
    }

    fn run_rule(&mut self, statements: &'n [Statement]) -> NftRuleEnd {
        for statement in statements {
            match statement {
                Statement::Test(t) => {
                    if !evaluate_nft_test(t, self.packet) {
                        return NftRuleEnd::NextRule;
                    }
                }
                Statement::OpaqueTest(o) => {
                    if o.needs_conntrack_entry() && !self.packet.ct.has_entry() {
                        return NftRuleEnd::NextRule;
                    }
                    if (self.answer_opaque)(o, self.packet) == o.is_inverted {
                        return NftRuleEnd::NextRule;
                    }
                }
                Statement::Counter(credited_originals) => {
                    self.result.credited_originals.extend(credited_originals)
                }
                Statement::Verdict(v) => return NftRuleEnd::Verdict(v.clone()),
                Statement::Vmap { key, map } => return self.lookup_vmap(key, map),
                Statement::Effect(e) => {
                    self.result.effects.push(NftPacketEffect::Effect(e));
                    self.selected_rules.clear();
                    effects::apply_effect_reporting_possible_change(e, self.packet);
                }
                Statement::Reject(word) => {
                    self.result.effects.push(NftPacketEffect::Reject(word));
                    return NftRuleEnd::EndWalk(NftWalkEnd::Reject(word));
                }
                Statement::Nat(target) => {
                    self.result.effects.push(NftPacketEffect::Nat(target));
                    return NftRuleEnd::EndWalk(NftWalkEnd::Translated);
                }
            }
        }
        NftRuleEnd::NextRule
    }

    fn lookup_vmap(&mut self, key: &[MapKeyExpression], map: &str) -> NftRuleEnd {
        let Some(values) = load_map_key(key, self.packet) else { return NftRuleEnd::NextRule };
        let map =
            self.indexed_table.maps.get(map).unwrap_or_else(|| panic!("map {map} is not there"));
        let Some(found) = map.find_element(&values) else { return NftRuleEnd::NextRule };
        let element = &map.map.elements[found];
        self.result.credited_originals.extend(&element.credited_originals);
        NftRuleEnd::Verdict(element.verdict.clone())
    }
}

fn load_map_key(key: &[MapKeyExpression], packet: &Packet) -> Option<Vec<ElementKeyPart>> {
    key.iter()
        .map(|k| match k.expression {
            LoadExpression::Iifname => Some(ElementKeyPart::Device(packet.iif.as_str().into())),
            LoadExpression::Oifname => Some(ElementKeyPart::Device(packet.oif.as_str().into())),
            load => {
                let value = load_expression_value(load, packet)? & k.mask.unwrap_or(u128::MAX);
                Some(ElementKeyPart::Span(value, value))
            }
        })
        .collect()
}

fn evaluate_nft_test(test: &Test, packet: &Packet) -> bool {
    let device = match test.expression {
        LoadExpression::Iifname => Some(&packet.iif),
        LoadExpression::Oifname => Some(&packet.oif),
        _ => None,
    };
    if let Some(device) = device {
        let Comparand::Device { name, prefix } = &test.comparand else { return false };
        let equal = if *prefix { device.starts_with(&**name) } else { device.as_str() == &**name };
        return equal != test.negated;
    }
    let Some(value) = load_expression_value(test.expression, packet) else { return false };
    let equal = match &test.comparand {
        Comparand::InSpans(spans) => spans.iter().any(|&(lo, hi)| (lo..=hi).contains(&value)),
        Comparand::Masked { mask, wanted } => value & mask == *wanted,
        Comparand::AnyBit(mask) => value & mask != 0,
        Comparand::Device { .. } => return false,
    };
    equal != test.negated
}
