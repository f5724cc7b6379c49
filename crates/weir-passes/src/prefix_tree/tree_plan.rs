//! Chooses the shape of one prefix tree.
//!
//! A node represents a prefix. It divides the rules that are narrower than itself by the first bits
//! of their prefix; the cost model chooses the number of bits node by node, or the user's list of
//! levels gives it. A rule that is too wide for one child goes into each child that it covers, and
//! also stays at the node for the packets that match no child. So every leaf has, in order, all
//! rules that a packet of its prefix could match.

use weir_model::Family;

use crate::rule_runs::{AddressAxis, RuleWithPrefixesAndBarrier};
use crate::{CostModel, Prefix};

/// The shape of a tree: indices point into the items that it was planned for.
#[derive(Clone, Debug)]
pub(crate) enum TreePlan {
    /// Rules to be tried one after another.
    Leaf(Vec<u32>),
    /// Children, and the rules for packets that belong to none.
    Node {
        /// Children in the order of their prefixes, which do not overlap.
        kids: Vec<TreeChild>,
        /// Rules wider than the children, in their order.
        rest: Vec<u32>,
    },
}

/// A child of a node.
#[derive(Clone, Debug)]
pub(crate) struct TreeChild {
    /// What its packets have in common.
    pub prefix: Prefix,
    /// Its rules are in the node's own chain.
    pub is_inlined: bool,
    /// What is in it.
    pub plan: TreePlan,
}

/// The plan would copy more rules than the cost model allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyCopies;

/// Plans one tree over some rules.
pub(crate) struct TreePlanner<'a> {
    pub family: Family,
    pub cost: &'a CostModel,
    /// The user's prefix lengths, ascending; `None` leaves them to the cost model.
    pub levels: Option<&'a [u8]>,
    pub items: &'a [RuleWithPrefixesAndBarrier<'a>],
    pub axis: AddressAxis,
    /// Rules that may still be written.
    pub rule_budget: usize,
}

/// A way to divide a node's rules.
struct CostedDivisionLength {
    prefix_len: u32,
    cost_ns: f64,
}

impl TreePlanner<'_> {
    /// The plan for all items, with its expected cost; `None` if a list is as good.
    pub fn plan_root_with_cost_ns(&mut self) -> Result<Option<(TreePlan, f64)>, TooManyCopies> {
        let rules: Vec<u32> = (0..self.items.len() as u32).collect();
        let Some(division) = self.choose_division_length(Prefix::ALL, &rules) else {
            return Ok(None);
        };
        let plan = self.divide_node(Prefix::ALL, &rules, division.prefix_len)?;
        Ok(matches!(plan, TreePlan::Node { .. }).then_some((plan, division.cost_ns)))
    }

    fn plan_node(&mut self, at: Prefix, rules: Vec<u32>) -> Result<TreePlan, TooManyCopies> {
        if let Some(division) = self.choose_division_length(at, &rules) {
            return self.divide_node(at, &rules, division.prefix_len);
        }
        self.spend_rule_budget(rules.len())?;
        Ok(TreePlan::Leaf(rules))
    }

    fn spend_rule_budget(&mut self, rules: usize) -> Result<(), TooManyCopies> {
        self.rule_budget = self.rule_budget.checked_sub(rules).ok_or(TooManyCopies)?;
        Ok(())
    }

    fn rule_prefix(&self, rule: u32) -> Prefix {
        self.items[rule as usize].prefix(self.axis)
    }

    /// Divides a node's rules by the first `len` bits of their prefix.
    fn divide_node(
        &mut self,
        at: Prefix,
        rules: &[u32],
        len: u32,
    ) -> Result<TreePlan, TooManyCopies> {
        let family = self.family;
        let mut heads: Vec<u128> = rules
            .iter()
            .map(|&r| self.rule_prefix(r))
            .filter(|p| p.len >= len && p.len > at.len)
            .map(|p| Prefix::containing_addr(family, p.addr, len).addr)
            .collect();
        heads.sort_unstable();
        heads.dedup();
        let mut groups: Vec<(Option<Prefix>, bool, Vec<u32>)> =
            heads.iter().map(|_| (None, false, Vec::new())).collect();
        let mut rest = Vec::new();
        for &r in rules {
            let p = self.rule_prefix(r);
            if p.len >= len && p.len > at.len {
                let head = Prefix::containing_addr(family, p.addr, len).addr;
                let i = heads.partition_point(|h| *h < head);
                let (common, _, members) = &mut groups[i];
                *common = Some(common.map_or(p, |c| c.longest_common(family, p)));
                members.push(r);
                continue;
            }
            let first = heads.partition_point(|h| *h < p.addr);
            let end = heads.partition_point(|h| *h <= p.last_addr(family));
            for (_, covered, members) in &mut groups[first..end] {
                *covered = true;
                members.push(r);
            }
            self.spend_rule_budget(end - first)?;
            rest.push(r);
        }
        self.spend_rule_budget(rest.len() + groups.len())?;
        let mut kids = Vec::with_capacity(groups.len());
        for ((common, covered, members), head) in groups.into_iter().zip(heads) {
            let tight = common.expect("a group has a member");
            let inline = self.levels.is_none()
                && !covered
                && members.len() <= self.cost.inlined_group_rules_max;
            let prefix = if self.levels.is_none() { tight } else { Prefix { addr: head, len } };
            let plan =
                if inline { TreePlan::Leaf(members) } else { self.plan_node(prefix, members)? };
            kids.push(TreeChild { prefix, is_inlined: inline, plan });
        }
        if kids.iter().all(|k| k.is_inlined) {
            // No chain was created: the rules in order are the same list.
            return Ok(TreePlan::Leaf(rules.to_vec()));
        }
        Ok(TreePlan::Node { kids, rest })
    }

    /// How to divide the rules of a node, or `None` if they should stay a list.
    fn choose_division_length(&self, at: Prefix, rules: &[u32]) -> Option<CostedDivisionLength> {
        let mut narrow: Vec<Prefix> =
            rules.iter().map(|&r| self.rule_prefix(r)).filter(|p| p.len > at.len).collect();
        if narrow.is_empty() || (self.levels.is_none() && rules.len() < 4) {
            return None;
        }
        narrow.sort_unstable();
        let covering = rules.len() - narrow.len();
        let max = narrow.iter().map(|p| p.len).max()?;
        if let Some(levels) = self.levels {
            let len = levels.iter().map(|&l| u32::from(l)).find(|&l| l > at.len && l <= max)?;
            return Some(CostedDivisionLength { prefix_len: len, cost_ns: 0.0 });
        }
        let common = narrow[1..].iter().fold(narrow[0], |c, p| c.longest_common(self.family, *p));
        let first = if common.len > at.len { common.len } else { at.len + 1 };
        let mut best: Option<CostedDivisionLength> = None;
        for len in first..=max {
            let (cost_ns, groups) =
                self.estimate_division_ns_and_child_count(&narrow, covering, len);
            if best.as_ref().is_none_or(|b| cost_ns < b.cost_ns) {
                best = Some(CostedDivisionLength { prefix_len: len, cost_ns });
            }
            // Longer only moves rules out of the children.
            if groups == narrow.len() {
                break;
            }
        }
        let list_ns = self.cost.full_list_scan_ns(rules.len()) * MEAN_FRACTION_OF_LIST_TRIED;
        best.filter(|b| b.cost_ns < list_ns)
    }

    /// The expected cost of a node divided at `len` bits, and its number of children.
    fn estimate_division_ns_and_child_count(
        &self,
        narrow: &[Prefix],
        covering: usize,
        len: u32,
    ) -> (f64, usize) {
        let family = self.family;
        let mut heads: Vec<(u128, usize)> = Vec::new();
        let mut wide: Vec<Prefix> = Vec::new();
        for p in narrow {
            if p.len < len {
                wide.push(*p);
                continue;
            }
            let head = Prefix::containing_addr(family, p.addr, len).addr;
            match heads.last_mut() {
                Some((h, n)) if *h == head => *n += 1,
                _ => heads.push((head, 1)),
            }
        }
        // How many wide rules begin and end covering at each child.
        let mut steps = vec![0isize; heads.len() + 1];
        let mut copies = covering * heads.len();
        for p in &wide {
            let first = heads.partition_point(|(h, _)| *h < p.addr);
            let end = heads.partition_point(|(h, _)| *h <= p.last_addr(family));
            steps[first] += 1;
            steps[end] -= 1;
            copies += end - first;
        }
        let cost = self.cost;
        let total = narrow.len() as f64;
        let mut covered = covering as isize;
        let mut below_ns = 0.0;
        for ((_, own), step) in heads.iter().zip(&steps) {
            covered += step;
            let inline = covered == 0 && *own <= cost.inlined_group_rules_max;
            let here = if inline {
                0.0
            } else {
                cost.jump_ns
                    + cost.tree_search_ns(*own)
                    + cost.full_list_scan_ns(covered as usize) * MEAN_FRACTION_OF_LIST_TRIED
            };
            below_ns += here * *own as f64 / total;
        }
        let inlined = heads.iter().filter(|(_, n)| *n <= cost.inlined_group_rules_max);
        let extra: usize = inlined.map(|(_, n)| n - 1).sum();
        let children_ns = cost.full_list_scan_ns(heads.len() + extra) * MEAN_FRACTION_OF_LIST_TRIED;
        let wide_ns = cost.full_list_scan_ns(wide.len() + covering) * wide.len() as f64 / total;
        (children_ns + below_ns + wide_ns + cost.min_gain_per_copy_ns * copies as f64, heads.len())
    }
}

/// The part of a list that a packet tries on average: all of it if nothing matches, half of it if
/// something does.
const MEAN_FRACTION_OF_LIST_TRIED: f64 = 0.75;
