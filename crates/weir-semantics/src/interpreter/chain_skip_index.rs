//! Skips rules of a long chain that cannot match a packet.
//!
//! A packet of a long list fails at almost every rule, nearly always at the same test: an address or
//! a port. Such a failure has no effect, so rules that would fail at such a test need not be
//! evaluated one by one. [`ChainSkipIndex`] has for each rule one *selecting test* that is cheap to
//! look up: an address under a mask, or ports. The next rule that can match is the nearest of those
//! that the packet's own values select, and of those without a selecting test.
//!
//! Only tests that precede everything else in the rule are taken: header tests, which never drop a
//! packet, then the first test of a port. A packet with a truncated transport header is dropped by a
//! test of ports; rules with ports are not skipped for it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use weir_model::Field;

use weir_model::index_table::MultiplicativeHasher;

use super::packet_view::{
    MULTIPORT_DPORT_SLOT, MULTIPORT_SPORT_SLOT, PacketView, read_address_or_mac_value,
};
use super::rule_lowering::{ChainRuleRange, CompactTest, LoweredTable};

/// Rules that are evaluated one by one before the next is looked up.
const FAILURES_BEFORE_SKIP: u32 = 4;
/// Shorter chains have no index.
const INDEXED_CHAIN_RULES_MIN: usize = 64;
/// A mask that fewer rules test is not worth a lookup.
const RULES_PER_MASK_MIN: usize = 16;
/// Spans of more ports are listed by the highest byte.
const NARROW_SPAN_PORTS_MAX: u32 = 16;

type RulesByValue<V> = HashMap<V, Vec<u32>, BuildHasherDefault<MultiplicativeHasher>>;

/// The rules of a chain by what they test first. Rules are numbered as in their table.
#[derive(Debug)]
struct ChainSkipIndex {
    /// The number after the chain's last rule.
    end: u32,
    /// Rules without a selecting test.
    unselected: Vec<u32>,
    by_address: Vec<AddressGroup>,
    by_port: Vec<PortGroup>,
}

/// The indexes of a table, by chain; only long chains have one.
#[derive(Debug)]
pub(crate) struct TableSkipIndexes(Vec<Option<ChainSkipIndex>>);

/// Rules that test an address under the same mask.
#[derive(Debug)]
struct AddressGroup {
    slot: u8,
    mask: u128,
    rules: RulesByValue<u128>,
}

/// Rules that test the same port.
#[derive(Debug)]
struct PortGroup {
    slot: u8,
    /// Rules with narrow spans, by each port.
    narrow: RulesByValue<u64>,
    /// Rules with wider spans, by the highest byte of the ports.
    wide: Vec<Vec<u32>>,
}

/// The test of a rule that selects packets.
enum SelectingTest {
    Address { slot: u8, value: u128, mask: u128 },
    Ports { slot: u8, spans: Vec<(u32, u32)> },
}

impl ChainSkipIndex {
    /// The index of a chain of `table` whose rules are `first..end`; `None` if it would not help.
    fn new(table: &LoweredTable<'_>, first: u32, end: u32) -> Option<ChainSkipIndex> {
        if (end - first) as usize <= INDEXED_CHAIN_RULES_MIN {
            return None;
        }
        let mut addresses: HashMap<(u8, u128), RulesByValue<u128>> = HashMap::new();
        let mut ports: HashMap<u8, PortGroup> = HashMap::new();
        let mut unselected = Vec::new();
        for rule in first..end {
            match find_selecting_test(table, rule) {
                Some(SelectingTest::Address { slot, value, mask }) => {
                    addresses.entry((slot, mask)).or_default().entry(value).or_default().push(rule)
                }
                Some(SelectingTest::Ports { slot, spans }) => {
                    ports.entry(slot).or_insert_with(|| PortGroup::new(slot)).add(rule, &spans);
                }
                None => unselected.push(rule),
            }
        }
        let mut by_address = Vec::new();
        for ((slot, mask), rules) in addresses {
            if rules.values().map(Vec::len).sum::<usize>() < RULES_PER_MASK_MIN {
                unselected.extend(rules.into_values().flatten());
            } else {
                by_address.push(AddressGroup { slot, mask, rules });
            }
        }
        unselected.sort_unstable();
        // Where half of the rules can match any packet, few are skipped at a time.
        let helps = unselected.len() < (end - first) as usize / 2;
        helps.then(|| ChainSkipIndex {
            end,
            unselected,
            by_address,
            by_port: ports.into_values().collect(),
        })
    }

    /// The first rule from `from` on that the packet may match; `end` if there is none.
    fn next_rule(&self, view: &PacketView, from: u32) -> u32 {
        if view.truncated_slots != 0 && !self.by_port.is_empty() {
            return from;
        }
        let mut next = self.end;
        let mut see = |rules: &[u32]| {
            if let Some(rule) = rules.get(rules.partition_point(|rule| *rule < from)) {
                next = next.min(*rule);
            }
        };
        see(&self.unselected);
        for AddressGroup { slot, mask, rules } in &self.by_address {
            if let Some(rules) = rules.get(&(read_address_or_mac_value(view, *slot) & mask)) {
                see(rules);
            }
        }
        for PortGroup { slot, narrow, wide } in &self.by_port {
            if view.missing_slots >> slot & 1 == 0 {
                let port = view.narrow_values[*slot as usize];
                if let Some(rules) = narrow.get(&port.into()) {
                    see(rules);
                }
                if let Some(rules) = wide.get(port as usize >> 8) {
                    see(rules);
                }
            }
        }
        next
    }
}

impl TableSkipIndexes {
    /// The indexes of a table's chains.
    pub fn new(table: &LoweredTable<'_>) -> TableSkipIndexes {
        let index = |chain: &ChainRuleRange<'_>| {
            ChainSkipIndex::new(table, chain.first_rule, chain.end_rule)
        };
        TableSkipIndexes(table.chains.iter().map(index).collect())
    }

    /// The next rule of a chain to evaluate after one that failed: the next that may match, if the
    /// chain has an index and so many rules failed in a row.
    pub fn next_rule_after_failure(
        &self,
        (chain, failed): (u32, u32),
        view: &PacketView,
        in_row: u32,
    ) -> u32 {
        match &self.0[chain as usize] {
            Some(index) if in_row >= FAILURES_BEFORE_SKIP => index.next_rule(view, failed + 1),
            _ => failed + 1,
        }
    }
}

impl PortGroup {
    fn new(slot: u8) -> PortGroup {
        PortGroup { slot, narrow: RulesByValue::default(), wide: vec![Vec::new(); 256] }
    }

    fn add(&mut self, rule: u32, spans: &[(u32, u32)]) {
        // A rule is listed once in each list, however many spans lead to it.
        let push = |list: &mut Vec<u32>| {
            if list.last() != Some(&rule) {
                list.push(rule);
            }
        };
        for &(lo, hi) in spans.iter().filter(|(lo, hi)| lo <= hi) {
            if hi - lo < NARROW_SPAN_PORTS_MAX {
                (lo..=hi).for_each(|port| push(self.narrow.entry(port.into()).or_default()));
            } else {
                self.wide[lo as usize >> 8..=hi as usize >> 8].iter_mut().for_each(push);
            }
        }
    }
}

/// The test that selects packets for a rule: an address, of two the longer prefix; else a port.
fn find_selecting_test(table: &LoweredTable<'_>, rule: u32) -> Option<SelectingTest> {
    const SADDR_SLOT: u8 = Field::Saddr as u8;
    const DADDR_SLOT: u8 = Field::Daddr as u8;
    let rule = table.rules[rule as usize];
    let first = rule.first_test as usize;
    let mut best: Option<(u8, u128, u128)> = None;
    for test in &table.tests[first..first + rule.test_count as usize] {
        let (slot, negated) = match *test {
            CompactTest::Masked {
                slot: slot @ (SADDR_SLOT | DADDR_SLOT),
                negated,
                value,
                mask,
            } => {
                let longer =
                    best.is_none_or(|(_, _, m)| u128::from(mask).count_ones() > m.count_ones());
                if !negated && longer {
                    best = Some((slot, value.into(), mask.into()));
                }
                continue;
            }
            CompactTest::WideMasked { slot: slot @ (SADDR_SLOT | DADDR_SLOT), negated, at } => {
                let (value, mask) = table.wide_pairs[at as usize];
                let longer = best.is_none_or(|(_, _, m)| mask.count_ones() > m.count_ones());
                if !negated && longer {
                    best = Some((slot, value, mask));
                }
                continue;
            }
            CompactTest::Device { .. } => continue,
            CompactTest::Span { slot, negated, .. } | CompactTest::Spans { slot, negated, .. } => {
                (slot, negated)
            }
            _ => break,
        };
        if slot == Field::Proto as u8 || slot == Field::IsLaterFragment as u8 {
            continue;
        }
        let is_port = slot == Field::Sport as u8
            || slot == Field::Dport as u8
            || slot == MULTIPORT_SPORT_SLOT
            || slot == MULTIPORT_DPORT_SLOT;
        if best.is_none() && is_port && !negated {
            let spans = match *test {
                CompactTest::Span { lo, hi, .. } => vec![(lo, hi)],
                CompactTest::Spans { count, first, .. } => {
                    table.spans[first as usize..first as usize + count as usize].to_vec()
                }
                _ => break,
            };
            return Some(SelectingTest::Ports { slot, spans });
        }
        break;
    }
    best.map(|(slot, value, mask)| SelectingTest::Address { slot, value, mask })
}
