//! The cost of evaluating rules for a packet, as a value that is passed to the passes.
//!
//! Two numbers decide the shape of a tree: the cost of trying a rule that does not match, and the
//! cost of following one that does into another chain. Wide nodes increase the first, deep trees
//! the second.
//!
//! A published table of benchmarks on a 10 Gbps firewall gives measured points, as bits per level,
//! checks and jumps on the longest path, and connections per second: (2, 39, 11, 560k), (3, 51, 8,
//! 595k), (4, 73, 6, 580k), (5, 113, 5, 575k). A least-squares fit of `1/rate = base + check ×
//! (checks + ratio × jumps)` has its best ratio at 14.7, with a shallow minimum (12 to 20 fit
//! nearly as well): there, following a jump costs as much as some fifteen failed checks, because
//! the target chain is not in the cache.
//!
//! Our own points (Linux 6.18, two virtual CPUs, one flow, legacy tables at OUTPUT): 3.4 ns per
//! failed check over 16,384 rules, 10 ns each over the first sixteen, 16 ns per jump to a chain in
//! the cache, 110 ns per lookup in a `hash:ip` set. [`CostModel::default`] uses the measured check
//! and set, and for the jump the ratio of the published fit. The ratio for a warm cache gives more
//! and emptier chains, which forward no faster (16,384 hosts: 37 times what a list forwards, either
//! way) and take longer to load, because each chain adds lines. `weir calibrate`, whose chains do
//! not all fit into the nearest cache, measures 50 ns for a jump on that machine, and the other
//! default costs.

use serde::{Deserialize, Serialize};

/// Costs in nanoseconds, and how far a pass may go for them.
///
/// As a file it is TOML with these names; omitted values have their defaults. `weir calibrate`
/// writes one with the costs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// Trying a rule that does not match.
    pub check_ns: f64,
    /// Following a matching jump or goto into another chain.
    pub jump_ns: f64,
    /// One lookup in a set, whatever it contains, in addition to trying its rule.
    pub set_ns: f64,
    /// What each prefix length in a set adds: the kernel probes the hash once for each.
    pub probe_ns: f64,
    /// One lookup in an nft map, including its rule.
    #[serde(rename = "map_ns")]
    pub map_rule_ns: f64,
    /// Finding a packet's connection, once per packet.
    pub conntrack_ns: f64,
    /// Searching one byte for a string.
    pub byte_ns: f64,
    /// What a copy of a rule must gain to be worth its memory.
    #[serde(rename = "copy_ns")]
    pub min_gain_per_copy_ns: f64,
    /// Rules that a run may become, as a multiple of the rules it has.
    pub copies_ratio_max: f64,
    /// A group of rules this small stays in its parent's chain.
    #[serde(rename = "inline_rules_max")]
    pub inlined_group_rules_max: usize,
    /// Minimum number of rules of a protocol for a separate chain.
    #[serde(rename = "split_rules_min")]
    pub protocol_chain_rules_min: usize,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            check_ns: 3.5,
            jump_ns: 50.0,
            set_ns: 85.0,
            probe_ns: 9.5,
            map_rule_ns: 38.0,
            conntrack_ns: 340.0,
            byte_ns: 2.8,
            min_gain_per_copy_ns: 0.01,
            copies_ratio_max: 4.0,
            inlined_group_rules_max: 2,
            protocol_chain_rules_min: 8,
        }
    }
}

/// What a packet's whole way takes more for one construction of `studies/calibrate`, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationSlopes {
    /// For each rule that does not match.
    pub per_check_ns: f64,
    /// For each level of a binary tree of chains: a goto, and half a failed check.
    pub per_tree_level_ns: f64,
    /// For each rule that looks into a `hash:ip` set.
    pub per_ip_set_ns: f64,
    /// For each rule that looks into a `hash:net` set with one prefix length.
    pub per_net_set_1_length_ns: f64,
    /// For each rule that looks into a `hash:net` set with nine.
    pub per_net_set_9_lengths_ns: f64,
    /// For each rule that looks into an nft map.
    pub per_map_ns: f64,
    /// For one rule that needs connections to be tracked.
    pub conntrack_rule_ns: f64,
    /// For each rule that searches forty bytes for a string.
    pub per_40_byte_string_search_ns: f64,
}

impl CostModel {
    /// The costs of a machine, from measurements on it; limits have their defaults.
    ///
    /// Costs are rounded to a hundredth; a negative value, within the noise, becomes zero.
    pub fn from_slopes(slopes: &CalibrationSlopes) -> Self {
        let check_ns = slopes.per_check_ns;
        let price = |ns: f64| (ns.max(0.0) * 100.0).round() / 100.0;
        CostModel {
            check_ns: price(check_ns),
            jump_ns: price(slopes.per_tree_level_ns - check_ns / 2.0),
            set_ns: price(slopes.per_ip_set_ns - check_ns),
            probe_ns: price(
                (slopes.per_net_set_9_lengths_ns - slopes.per_net_set_1_length_ns) / 8.0,
            ),
            map_rule_ns: price(slopes.per_map_ns),
            conntrack_ns: price(slopes.conntrack_rule_ns - check_ns),
            byte_ns: price((slopes.per_40_byte_string_search_ns - check_ns) / 40.0),
            ..CostModel::default()
        }
    }

    /// The expected cost of finding one of `rules` rules by an ideal tree of them.
    ///
    /// A node with `n` children costs `n/2` checks and a jump and divides the rules by `n`; the
    /// best `n` is the same at every level.
    pub fn tree_search_ns(&self, rules: usize) -> f64 {
        let linear = self.check_ns * (rules as f64 + 1.0) / 2.0;
        if rules < 4 {
            return linear;
        }
        linear.min(self.tree_ns_per_e_fold() * (rules as f64).ln())
    }

    /// The cost of dividing the rules by *e*, at the best number of children.
    fn tree_ns_per_e_fold(&self) -> f64 {
        (2..=64u32)
            .map(|n| {
                let n = f64::from(n);
                (self.check_ns * n / 2.0 + self.jump_ns) / n.ln()
            })
            .fold(f64::INFINITY, f64::min)
    }

    /// The cost of trying all of `rules` rules in vain.
    pub fn full_list_scan_ns(&self, rules: usize) -> f64 {
        self.check_ns * rules as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_cheaper_than_a_long_list() {
        let cost = CostModel::default();
        assert!(cost.tree_search_ns(10_000) < cost.full_list_scan_ns(10_000) / 20.0);
        assert!(cost.tree_search_ns(3) <= cost.full_list_scan_ns(3));
    }

    #[test]
    fn costs_are_derived_from_calibration_slopes() {
        let slopes = CalibrationSlopes {
            per_check_ns: 4.0,
            per_tree_level_ns: 22.0,
            per_ip_set_ns: 94.0,
            per_net_set_1_length_ns: 100.0,
            per_net_set_9_lengths_ns: 260.0,
            per_map_ns: 30.0,
            conntrack_rule_ns: 304.0,
            per_40_byte_string_search_ns: 44.0,
        };
        let cost = CostModel::from_slopes(&slopes);
        assert_eq!((cost.check_ns, cost.jump_ns, cost.set_ns), (4.0, 20.0, 90.0));
        assert_eq!((cost.probe_ns, cost.map_rule_ns), (20.0, 30.0));
        assert_eq!((cost.conntrack_ns, cost.byte_ns), (300.0, 1.0));
        let noise = CostModel::from_slopes(&CalibrationSlopes {
            per_check_ns: 4.0,
            ..CalibrationSlopes::default()
        });
        assert_eq!(noise.jump_ns, 0.0, "a price is never negative");
    }

    #[test]
    fn costlier_jumps_increase_the_tree_search_cost() {
        let cheap = CostModel { jump_ns: 5.0, ..CostModel::default() };
        let dear = CostModel { jump_ns: 60.0, ..CostModel::default() };
        assert!(cheap.tree_search_ns(1000) < dear.tree_search_ns(1000));
    }
}
