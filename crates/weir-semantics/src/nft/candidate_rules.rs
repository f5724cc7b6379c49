//! The rules of a long chain that a packet may match.
//!
//! A packet of a long chain fails at almost every rule, at a test of an address or a port. Nothing
//! before such a test has an effect, so these rules need not be evaluated. [`NftCandidateIndex`]
//! has for each rule one *selecting test*: of the tests before everything else in it, the one that
//! selects the fewest values. Its values are prefixes, and rules are found by the prefixes of the
//! packet's own values. A lookup in a map is a test of its keys. A jump to a chain of a few rules
//! has the selecting tests of these: where all of them fail, the packet comes back unchanged.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use weir_model::index_hash_table::MultiplicativeHasher;
use weir_model::nft::{
    Comparand, ElementKeyPart, LoadExpression, MapKeyExpression, Rule, Statement, Table, Verdict,
    VerdictMap,
};
use weir_model::{Family, Packet};

use super::loaded_value::load_expression_value;

/// Shorter chains have no index.
const INDEXED_CHAIN_RULES_MIN: usize = 64;
/// Prefixes that the values of a selecting test may be divided into.
const PREFIXES_PER_RULE_MAX: usize = 256;
/// The most values that a selecting test may hold for, of all values.
const SELECTED_SHARE_MAX: f64 = 1.0 / 16.0;
/// Rules of a called chain whose selecting tests are those of the jump.
const CALLED_RULES_MAX: usize = 8;
/// How deep chains are entered for the selecting tests of a jump.
const CALL_DEPTH_MAX: usize = 3;

type RulesByPrefix = HashMap<u128, Vec<u32>, BuildHasherDefault<MultiplicativeHasher>>;

/// The rules of a chain by what they select.
#[derive(Debug)]
pub(super) struct NftCandidateIndex {
    /// Rules without a selecting test.
    unselective_rules: Vec<u32>,
    selective_rules: Vec<RulesByFieldAndPrefixLength>,
}

/// Rules that select prefixes of the same length of one field.
#[derive(Debug)]
struct RulesByFieldAndPrefixLength {
    load: LoadExpression,
    /// The bits after the prefix.
    suffix_bits: u32,
    rules: RulesByPrefix,
}

/// Values of a load: first and last.
type ValueSpan = (u128, u128);

/// What a selecting test loads, and the values that pass it.
type SelectedValues = (LoadExpression, Vec<ValueSpan>);

/// The chains and maps of a table that rules name.
pub(super) struct NamedNftObjects<'n> {
    family: Family,
    rules_by_chain: HashMap<&'n str, &'n [Rule]>,
    map_by_name: HashMap<&'n str, &'n VerdictMap>,
}

impl<'n> NamedNftObjects<'n> {
    pub fn new(table: &'n Table) -> NamedNftObjects<'n> {
        NamedNftObjects {
            family: table.family,
            rules_by_chain: table.chains.iter().map(|c| (c.name.as_str(), &*c.rules)).collect(),
            map_by_name: table.maps.iter().map(|m| (m.name.as_str(), m)).collect(),
        }
    }
}

impl NftCandidateIndex {
    /// The index of a chain; `None` if it would not help.
    pub fn new(rules: &[Rule], named: &NamedNftObjects<'_>) -> Option<NftCandidateIndex> {
        if rules.len() < INDEXED_CHAIN_RULES_MIN {
            return None;
        }
        let mut by_length: HashMap<(LoadExpression, u32), RulesByPrefix> = HashMap::new();
        let mut unselective_rules = Vec::new();
        for (number, rule) in (0_u32..).zip(rules) {
            let Some(tests) = named.find_selecting_tests(rule, 0) else {
                unselective_rules.push(number);
                continue;
            };
            for (load, spans) in tests {
                for (suffix_bits, prefix) in spans.into_iter().flat_map(divide_into_prefixes) {
                    let by_prefix = by_length.entry((load, suffix_bits)).or_default();
                    let listed = by_prefix.entry(prefix).or_default();
                    if listed.last() != Some(&number) {
                        listed.push(number);
                    }
                }
            }
        }
        // Where half of the rules are candidates for each packet, few are skipped.
        (unselective_rules.len() < rules.len() / 2).then(|| NftCandidateIndex {
            unselective_rules,
            selective_rules: by_length
                .into_iter()
                .map(|((load, suffix_bits), rules)| RulesByFieldAndPrefixLength {
                    load,
                    suffix_bits,
                    rules,
                })
                .collect(),
        })
    }

    /// The rules with a selecting test that holds for the packet, in order.
    pub fn list_selected_rules(&self, packet: &Packet) -> Vec<u32> {
        let mut selected = Vec::new();
        for RulesByFieldAndPrefixLength { load, suffix_bits, rules } in &self.selective_rules {
            let value = load_expression_value(*load, packet);
            let prefix = value.map(|value| value.checked_shr(*suffix_bits).unwrap_or(0));
            selected.extend(prefix.and_then(|prefix| rules.get(&prefix)).into_iter().flatten());
        }
        selected.sort_unstable();
        selected.dedup();
        selected
    }

    /// The first rule from `from` on that is one of `selected`, or has no selecting test.
    pub fn next_candidate(&self, selected: &[u32], from: usize) -> Option<usize> {
        let first = |rules: &[u32]| {
            rules.get(rules.partition_point(|rule| (*rule as usize) < from)).copied()
        };
        match (first(selected), first(&self.unselective_rules)) {
            (Some(a), Some(b)) => Some(a.min(b) as usize),
            (a, b) => a.or(b).map(|rule| rule as usize),
        }
    }
}

/// Bits of the values that are selected by.
fn bit_width_if_selectable(load: LoadExpression, family: Family) -> Option<u32> {
    match load {
        LoadExpression::Saddr | LoadExpression::Daddr => Some(family.addr_bits()),
        LoadExpression::Sport | LoadExpression::Dport => Some(16),
        _ => None,
    }
}

impl NamedNftObjects<'_> {
    /// Tests of which one holds for each packet on which the rule does anything: of the tests
    /// before everything else in it, the one with the fewest values, or those of the rules of a
    /// chain that it jumps to. `None` if there are none, or they have too many values.
    fn find_selecting_tests(&self, rule: &Rule, depth: usize) -> Option<Vec<SelectedValues>> {
        let tests = match self.find_selecting_test_of_rule(rule) {
            Some(own) => vec![own],
            None => self.find_selecting_tests_of_called_chain(rule, depth)?,
        };
        let spans = tests.iter().flat_map(|(_, spans)| spans);
        let prefixes = spans.flat_map(|span| divide_into_prefixes(*span));
        (prefixes.take(PREFIXES_PER_RULE_MAX + 1).count() <= PREFIXES_PER_RULE_MAX).then_some(tests)
    }

    fn find_selecting_test_of_rule(&self, rule: &Rule) -> Option<SelectedValues> {
        let mut best: Option<(f64, LoadExpression, Vec<ValueSpan>)> = None;
        let mut see = |load: LoadExpression, spans: Vec<ValueSpan>| {
            let Some(bits) = bit_width_if_selectable(load, self.family) else { return };
            let values = spans.iter().map(|(lo, hi)| (hi - lo) as f64 + 1.0).sum::<f64>();
            let share = values / 2_f64.powi(bits as i32);
            if share <= SELECTED_SHARE_MAX && best.as_ref().is_none_or(|(least, ..)| share < *least)
            {
                best = Some((share, load, spans));
            }
        };
        for statement in &rule.statements {
            match statement {
                Statement::Test(test) => {
                    if let (Comparand::InSpans(spans), false) = (&test.comparand, test.negated)
                        && spans.iter().all(|(lo, hi)| lo <= hi)
                    {
                        see(test.expression, spans.clone());
                    }
                }
                Statement::Vmap { key, map } => {
                    let Some(map) = self.map_by_name.get(map.as_str()) else { break };
                    for (number, part) in key.iter().enumerate() {
                        if let Some(spans) = list_key_part_spans(map, number, part) {
                            see(part.expression, spans);
                        }
                    }
                    break;
                }
                _ => break,
            }
        }
        best.map(|(_, load, spans)| (load, spans))
    }

    /// The selecting tests of the rules of the chain that a rule jumps to, after tests alone.
    fn find_selecting_tests_of_called_chain(
        &self,
        rule: &Rule,
        depth: usize,
    ) -> Option<Vec<SelectedValues>> {
        let is_test = |statement: &&Statement| matches!(statement, Statement::Test(_));
        let Statement::Verdict(Verdict::Jump(to)) =
            rule.statements.iter().find(|statement| !is_test(statement))?
        else {
            return None;
        };
        let called = self.rules_by_chain.get(to.as_str()).filter(|_| depth < CALL_DEPTH_MAX)?;
        if called.len() > CALLED_RULES_MAX {
            return None;
        }
        let tests = called.iter().map(|rule| self.find_selecting_tests(rule, depth + 1));
        Some(tests.collect::<Option<Vec<_>>>()?.concat())
    }
}

/// The values of one part of the keys of a map.
fn list_key_part_spans(
    map: &VerdictMap,
    number: usize,
    part: &MapKeyExpression,
) -> Option<Vec<ValueSpan>> {
    if part.mask.is_some() || map.elements.len() > PREFIXES_PER_RULE_MAX {
        return None;
    }
    let span = |key: &ElementKeyPart| match key {
        ElementKeyPart::Span(lo, hi) if lo <= hi => Some((*lo, *hi)),
        _ => None,
    };
    map.elements.iter().map(|element| span(element.key.get(number)?)).collect()
}

/// A span as prefixes: the bits after each, and its value without these.
fn divide_into_prefixes((mut lo, hi): ValueSpan) -> impl Iterator<Item = (u32, u128)> {
    let mut is_done = lo > hi;
    std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let is_within = |bits: u32| {
            let size = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
            lo & size == 0 && hi - lo >= size
        };
        let bits = (0..=128).take_while(|bits| is_within(*bits)).last().unwrap_or(0);
        let prefix = (bits, lo.checked_shr(bits).unwrap_or(0));
        let last = if bits == 128 { u128::MAX } else { lo | ((1 << bits) - 1) };
        match last.checked_add(1) {
            Some(next) if last < hi => lo = next,
            _ => is_done = true,
        }
        Some(prefix)
    })
}

#[cfg(test)]
mod tests {
    use weir_model::nft::Chain;
    use weir_model::{Addr, TableName};
    use weir_packet::Transport;

    use super::*;

    fn test_of(expression: LoadExpression, value: u128) -> Statement {
        let comparand = Comparand::InSpans(vec![(value, value)]);
        Statement::Test(weir_model::nft::Test { expression, comparand, negated: false })
    }

    /// A table with a chain of 100 jumps for UDP, each to a chain of a rule for a port, and the
    /// selection of its rules for a packet to port 7.
    fn select_jumps(last_test: Statement) -> (Option<usize>, Vec<u32>) {
        let rule = |statements| Rule { statements, comment: None };
        let chain =
            |name: String, rules| Chain { name, base: None, iptables_name_comment: None, rules };
        let jump = |n: u128| {
            let verdict = Statement::Verdict(Verdict::Jump(format!("called{n}")));
            rule(vec![test_of(LoadExpression::L4proto, 17), verdict])
        };
        let mut chains = vec![chain("jumps".to_owned(), (0..100).map(jump).collect())];
        chains.extend((0..100).map(|n| {
            let test = if n == 99 { last_test.clone() } else { test_of(LoadExpression::Dport, n) };
            let drop = Statement::Verdict(Verdict::Drop);
            chain(format!("called{n}"), vec![rule(vec![test, drop])])
        }));
        let table = Table {
            family: Family::V4,
            name: "weir_filter".to_owned(),
            iptables_table: TableName::Filter,
            maps: Vec::new(),
            chains,
        };
        let index = NftCandidateIndex::new(&table.chains[0].rules, &NamedNftObjects::new(&table));
        let mut packet = Packet::new(Family::V4, Addr(1), Addr(2), 17);
        packet.transport = Transport::Udp { sport: 1000, dport: 7 };
        let index = index.expect("most rules are selective");
        (
            index.unselective_rules.first().map(|rule| *rule as usize),
            index.list_selected_rules(&packet),
        )
    }

    #[test]
    fn a_jump_is_selected_by_the_tests_of_the_chain_that_it_leads_to() {
        assert_eq!(select_jumps(test_of(LoadExpression::Dport, 99)), (None, vec![7]));
        assert_eq!(select_jumps(test_of(LoadExpression::Sport, 1000)), (None, vec![7, 99]));
        // A chain with a rule that any packet may match.
        assert_eq!(select_jumps(test_of(LoadExpression::L4proto, 17)), (Some(99), vec![7]));
    }

    #[test]
    fn a_span_is_divided_into_the_prefixes_of_its_values() {
        for (lo, hi) in (0..40_u128).flat_map(|lo| (lo..40).map(move |hi| (lo, hi))) {
            let prefixes: Vec<(u32, u128)> = divide_into_prefixes((lo, hi)).collect();
            let values = prefixes.iter().flat_map(|(bits, prefix)| {
                let first = prefix << bits;
                first..first + (1 << bits)
            });
            assert_eq!(values.collect::<Vec<_>>(), (lo..=hi).collect::<Vec<_>>());
        }
        let all = |span| divide_into_prefixes(span).collect::<Vec<_>>();
        assert_eq!(all((0, u128::MAX)), [(128, 0)]);
        assert_eq!(all((u128::MAX, u128::MAX)), [(0, u128::MAX)]);
        assert_eq!(all((3, 2)), []);
    }
}
