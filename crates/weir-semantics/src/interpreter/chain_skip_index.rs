//! Skips rules of a long chain that cannot match a packet.
//!
//! A packet of a long list fails at almost every rule, nearly always at the same test: an address
//! or a port. Such a failure has no effect, so rules that would fail at such a test need not be
//! evaluated one by one. [`ChainSkipIndex`] has for each rule one *selecting test* that is cheap to
//! look up: an address under a mask, or ports. The next rule that can match is the nearest of those
//! that the packet's own values select, and of those without a selecting test.
//!
//! Only tests that precede everything else in the rule are taken: header tests, which never drop a
//! packet, then the first test of a port. A packet with a truncated transport header is dropped by
//! a test of ports; rules with ports are not skipped for it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use weir_model::Field;

use weir_model::index_hash_table::MultiplicativeHasher;

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
    end_rule: u32,
    /// Rules without a selecting test.
    rules_without_selecting_test: Vec<u32>,
    address_mask_groups: Vec<RulesByAddressUnderMask>,
    port_field_groups: Vec<RulesByPortOrHighByte>,
}

/// The indexes of a table, by chain; only long chains have one.
#[derive(Debug)]
pub(crate) struct TableSkipIndexes(Vec<Option<ChainSkipIndex>>);

/// Rules that test an address under the same mask.
#[derive(Debug)]
struct RulesByAddressUnderMask {
    view_slot: u8,
    mask: u128,
    rules: RulesByValue<u128>,
}

/// Rules that test the same port.
#[derive(Debug)]
struct RulesByPortOrHighByte {
    view_slot: u8,
    /// Rules with narrow spans, by each port.
    rules_by_port: RulesByValue<u64>,
    /// Rules with wider spans, by the highest byte of the ports.
    rules_by_port_high_byte: Vec<Vec<u32>>,
}

/// The test of a rule that selects packets.
enum SelectingTest {
    Address { slot: u8, value: u128, mask: u128 },
    Ports { slot: u8, spans: Vec<(u32, u32)> },
}

impl ChainSkipIndex {
    /// The index of a chain of `table` whose rules are `first..end_rule`; `None` if it would not
    /// help.
    fn new(table: &LoweredTable<'_>, first: u32, end_rule: u32) -> Option<ChainSkipIndex> {
        if (end_rule - first) as usize <= INDEXED_CHAIN_RULES_MIN {
            return None;
        }
        let mut addresses: HashMap<(u8, u128), RulesByValue<u128>> = HashMap::new();
        let mut ports: HashMap<u8, RulesByPortOrHighByte> = HashMap::new();
        let mut rules_without_selecting_test = Vec::new();
        for rule in first..end_rule {
            match find_selecting_test(table, rule) {
                Some(SelectingTest::Address { slot, value, mask }) => {
                    addresses.entry((slot, mask)).or_default().entry(value).or_default().push(rule)
                }
                Some(SelectingTest::Ports { slot, spans }) => {
                    ports
                        .entry(slot)
                        .or_insert_with(|| RulesByPortOrHighByte::new(slot))
                        .add_rule_by_port_spans(rule, &spans);
                }
                None => rules_without_selecting_test.push(rule),
            }
        }
        let mut address_mask_groups = Vec::new();
        for ((view_slot, mask), rules) in addresses {
            if rules.values().map(Vec::len).sum::<usize>() < RULES_PER_MASK_MIN {
                rules_without_selecting_test.extend(rules.into_values().flatten());
            } else {
                address_mask_groups.push(RulesByAddressUnderMask { view_slot, mask, rules });
            }
        }
        rules_without_selecting_test.sort_unstable();
        // Where half of the rules can match any packet, few are skipped at a time.
        let helps = rules_without_selecting_test.len() < (end_rule - first) as usize / 2;
        helps.then(|| ChainSkipIndex {
            end_rule,
            rules_without_selecting_test,
            address_mask_groups,
            port_field_groups: ports.into_values().collect(),
        })
    }

    /// The first rule from `from` on that the packet may match; `end_rule` if there is none.
    fn next_possibly_matching_rule(&self, view: &PacketView, from: u32) -> u32 {
        if view.truncated_slots != 0 && !self.port_field_groups.is_empty() {
            return from;
        }
        let mut next = self.end_rule;
        let mut see = |rules: &[u32]| {
            if let Some(rule) = rules.get(rules.partition_point(|rule| *rule < from)) {
                next = next.min(*rule);
            }
        };
        see(&self.rules_without_selecting_test);
        for RulesByAddressUnderMask { view_slot, mask, rules } in &self.address_mask_groups {
            if let Some(rules) = rules.get(&(read_address_or_mac_value(view, *view_slot) & mask)) {
                see(rules);
            }
        }
        for RulesByPortOrHighByte { view_slot, rules_by_port, rules_by_port_high_byte } in
            &self.port_field_groups
        {
            if view.missing_slots >> view_slot & 1 == 0 {
                let port = view.narrow_values[*view_slot as usize];
                if let Some(rules) = rules_by_port.get(&port.into()) {
                    see(rules);
                }
                if let Some(rules) = rules_by_port_high_byte.get(port as usize >> 8) {
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
            Some(index) if in_row >= FAILURES_BEFORE_SKIP => {
                index.next_possibly_matching_rule(view, failed + 1)
            }
            _ => failed + 1,
        }
    }
}

impl RulesByPortOrHighByte {
    fn new(view_slot: u8) -> RulesByPortOrHighByte {
        RulesByPortOrHighByte {
            view_slot,
            rules_by_port: RulesByValue::default(),
            rules_by_port_high_byte: vec![Vec::new(); 256],
        }
    }

    fn add_rule_by_port_spans(&mut self, rule: u32, spans: &[(u32, u32)]) {
        // A rule is listed once in each list, however many spans lead to it.
        let push = |list: &mut Vec<u32>| {
            if list.last() != Some(&rule) {
                list.push(rule);
            }
        };
        for &(lo, hi) in spans.iter().filter(|(lo, hi)| lo <= hi) {
            if hi - lo < NARROW_SPAN_PORTS_MAX {
                (lo..=hi).for_each(|port| push(self.rules_by_port.entry(port.into()).or_default()));
            } else {
                self.rules_by_port_high_byte[lo as usize >> 8..=hi as usize >> 8]
                    .iter_mut()
                    .for_each(push);
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
