//! What a packet pays on its way, as a value that the passes are given.
//!
//! Two numbers decide the shape of a tree: what it costs to try a rule that does not match, and
//! what it costs to follow one that does into another chain. Wide nodes pay the first, deep trees
//! the second.
//!
//! A published table of benches on a 10 Gbps firewall gives measured points, as bits a level,
//! checks and jumps on the longest way, and connections per second: (2, 39, 11, 560k),
//! (3, 51, 8, 595k), (4, 73, 6, 580k), (5, 113, 5, 575k). A least-squares fit of
//! `1/rate = base + check × (checks + ratio × jumps)` has its best ratio at 14.7, with a shallow
//! minimum (12 to 20 fit nearly as well): there, following a jump costs as much as some fifteen
//! failed checks, for the chain at its end is cold in the cache.
//!
//! Our own points (Linux 6.18, two virtual CPUs, one flow, legacy tables at OUTPUT): 3.4 ns a
//! failed check over 16,384 rules, 10 ns each over the first sixteen, 16 ns a jump with its chain
//! in the cache, 110 ns a look into a `hash:ip` set. [`CostModel::default`] takes the check and the
//! set as measured, and for the jump the ratio of the published fit. The warm ratio makes more,
//! emptier chains, which forward no faster (16,384 hosts: 37 times what a list forwards, either
//! way) and take longer to load, for each chain is lines of its own. `weir calibrate`, whose
//! chains do not all lie in the nearest cache, measures 50 ns for a jump on that machine, and the
//! other shipped prices.

use serde::{Deserialize, Serialize};

/// Costs in nanoseconds, and how far a pass may go for them.
///
/// As a file it is TOML of these names; what is left out has the shipped value. `weir calibrate`
/// writes one with the prices of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// Trying a rule that does not match.
    pub check_ns: f64,
    /// Following a matching jump or goto into another chain.
    pub jump_ns: f64,
    /// One look into a set, whatever it holds, beside trying its rule.
    pub set_ns: f64,
    /// What each prefix length in a set adds: the kernel probes the hash once for each.
    pub probe_ns: f64,
    /// One look into an nft map, with the rule that makes it.
    pub map_ns: f64,
    /// Finding a packet's connection, once on its way.
    pub conntrack_ns: f64,
    /// Searching one byte for a string.
    pub byte_ns: f64,
    /// What a copy of a rule must gain to be worth its memory.
    pub copy_ns: f64,
    /// Rules that a run may become, as a multiple of the rules it has.
    pub copies_ratio_max: f64,
    /// A group of rules this small stands in its parent's chain, without one of its own.
    pub inline_rules_max: usize,
    /// Rules of its own that a protocol needs for a chain of its own.
    pub split_rules_min: usize,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            check_ns: 3.5,
            jump_ns: 50.0,
            set_ns: 85.0,
            probe_ns: 9.5,
            map_ns: 38.0,
            conntrack_ns: 340.0,
            byte_ns: 2.8,
            copy_ns: 0.01,
            copies_ratio_max: 4.0,
            inline_rules_max: 2,
            split_rules_min: 8,
        }
    }
}

/// What a packet's whole way takes more for one construction of `studies/calibrate`, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slopes {
    /// For each rule that does not match.
    pub checks: f64,
    /// For each level of a binary tree of chains: a goto, and half a failed check.
    pub levels: f64,
    /// For each rule that looks into a `hash:ip` set.
    pub sets: f64,
    /// For each rule that looks into a `hash:net` set with one prefix length.
    pub nets_of_one: f64,
    /// For each rule that looks into a `hash:net` set with nine.
    pub nets_of_nine: f64,
    /// For each rule that looks into an nft map.
    pub maps: f64,
    /// For one rule that needs connections to be tracked.
    pub conntrack: f64,
    /// For each rule that searches forty bytes for a string.
    pub strings: f64,
}

impl CostModel {
    /// The prices of a machine, from what was measured on it; limits as shipped.
    ///
    /// Prices are to a hundredth; one that came out below nothing, within the noise, is nothing.
    pub fn measured(slopes: &Slopes) -> Self {
        let check_ns = slopes.checks;
        let price = |ns: f64| (ns.max(0.0) * 100.0).round() / 100.0;
        CostModel {
            check_ns: price(check_ns),
            jump_ns: price(slopes.levels - check_ns / 2.0),
            set_ns: price(slopes.sets - check_ns),
            probe_ns: price((slopes.nets_of_nine - slopes.nets_of_one) / 8.0),
            map_ns: price(slopes.maps),
            conntrack_ns: price(slopes.conntrack - check_ns),
            byte_ns: price((slopes.strings - check_ns) / 40.0),
            ..CostModel::default()
        }
    }

    /// The expected cost of finding one of `rules` rules by an ideal tree of them.
    ///
    /// A node with `n` children costs `n/2` checks and a jump and divides the rules by `n`; the
    /// best `n` is the same at every level.
    pub fn search_ns(&self, rules: usize) -> f64 {
        let linear = self.check_ns * (rules as f64 + 1.0) / 2.0;
        if rules < 4 {
            return linear;
        }
        linear.min(self.level_ns() * (rules as f64).ln())
    }

    /// The cost of dividing the rules by *e*, at the best number of children.
    fn level_ns(&self) -> f64 {
        (2..=64u32)
            .map(|n| {
                let n = f64::from(n);
                (self.check_ns * n / 2.0 + self.jump_ns) / n.ln()
            })
            .fold(f64::INFINITY, f64::min)
    }

    /// The cost of trying all of `rules` rules in vain.
    pub fn linear_ns(&self, rules: usize) -> f64 {
        self.check_ns * rules as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_dearer_than_a_tree_and_a_short_one_is_not() {
        let cost = CostModel::default();
        assert!(cost.search_ns(10_000) < cost.linear_ns(10_000) / 20.0);
        assert!(cost.search_ns(3) <= cost.linear_ns(3));
    }

    #[test]
    fn a_price_is_what_a_construction_adds_to_its_rules() {
        let slopes = Slopes {
            checks: 4.0,
            levels: 22.0,
            sets: 94.0,
            nets_of_one: 100.0,
            nets_of_nine: 260.0,
            maps: 30.0,
            conntrack: 304.0,
            strings: 44.0,
        };
        let cost = CostModel::measured(&slopes);
        assert_eq!((cost.check_ns, cost.jump_ns, cost.set_ns), (4.0, 20.0, 90.0));
        assert_eq!((cost.probe_ns, cost.map_ns), (20.0, 30.0));
        assert_eq!((cost.conntrack_ns, cost.byte_ns), (300.0, 1.0));
        let noise = CostModel::measured(&Slopes { checks: 4.0, ..Slopes::default() });
        assert_eq!(noise.jump_ns, 0.0, "a price is never negative");
    }

    #[test]
    fn dear_jumps_make_the_search_dearer() {
        let cheap = CostModel { jump_ns: 5.0, ..CostModel::default() };
        let dear = CostModel { jump_ns: 60.0, ..CostModel::default() };
        assert!(cheap.search_ns(1000) < dear.search_ns(1000));
    }
}
