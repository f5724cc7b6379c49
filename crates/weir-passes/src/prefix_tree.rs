//! Turns runs of rules into prefix trees of chains.
//!
//! A node is a chain that dispatches a packet by prefixes of its address; a leaf has, in order and
//! with all their tests, the rules that a packet of its prefix could match. A packet is compared
//! with one rule per child on its path instead of one rule per address.
//!
//! The traversal must end as before. A leaf's RETURN must leave the chain of the original rules,
//! and a leaf's goto must return where that chain would; if the tree were entered by jumps, both
//! would only leave the leaf. So the tree is entered by *gotos*, which do not return: while a
//! packet is in the tree, the return address on top of the stack is still that of the original
//! chain, and RETURN, goto, the end of the list and the policy of a built-in chain mean what they
//! meant. This is also cheaper than jumps: a packet that no leaf decided does not return through
//! the remaining children.
//!
//! The rules after the run are reached in one of two ways. If no rule of the run itself leaves the
//! chain, one jump leads to the tree, whose nodes continue by gotos: packets that no leaf decided
//! return after that jump. Otherwise the rest becomes its own chain, and every leaf and every node
//! ends with a goto to it: one more line to load per chain.
//!
//! The order is preserved because a packet has one address: of the rules of a run it can match only
//! those whose prefix contains that address, and its leaf has all of these in the order of the
//! text. Rules that only count may be reordered first, since counting commutes.

mod tree_plan;

use std::ops::Range;

use weir_artefact::manifest::{CompiledRuleRun, UnchangedRule};
use weir_model::{Chain, Family, Rule, RuleIdTable, Ruleset, SharedName, Table, Target, rule_test};
use weir_partition::{TableBarriers, only_counts_and_never_hotdrops};

use crate::rule_runs::{self, AddressAxis, BarrierOrFreeSegment, RuleWithPrefixesAndBarrier};
use crate::{ChainNameAllocator, CostModel, RewrittenRuleset};
use tree_plan::{TooManyCopies, TreeChild, TreePlan, TreePlanner};

/// How trees are to be shaped.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// What a check and a jump cost.
    pub cost: CostModel,
    /// Prefix lengths of the levels, ascending; the cost model chooses where `None`.
    pub levels: Option<Vec<u8>>,
}

/// Rewrites every chain's runs as trees.
///
/// `places` are those of the ruleset as read: reports name its rules. Chains that `may_rewrite`
/// rules out stay.
pub fn build_prefix_trees(
    ruleset: &Ruleset,
    options: &TreeOptions,
    places: &RuleIdTable,
    may_rewrite: &dyn Fn(&Chain) -> bool,
) -> RewrittenRuleset {
    let mut out = RewrittenRuleset {
        ruleset: Ruleset { tables: Vec::new(), ..ruleset.clone() },
        sets: Vec::new(),
        compiled_rule_runs: Vec::new(),
        unchanged_rules: Vec::new(),
        dead_rules: Vec::new(),
    };
    for table in &ruleset.tables {
        let mut trees = TreeBuilder {
            family: ruleset.family,
            options,
            rule_ids: places,
            names: ChainNameAllocator::new(ruleset.family, table),
            new_chains: Vec::new(),
            compiled_rule_runs: Vec::new(),
            unchanged_rules: Vec::new(),
        };
        let barriers = TableBarriers::of_table(table, ruleset.family);
        let mut chains: Vec<Chain> = table
            .chains
            .iter()
            .map(|c| match may_rewrite(c) {
                true => trees.rewrite_chain(c, &barriers),
                false => c.clone(),
            })
            .collect();
        chains.append(&mut trees.new_chains);
        let table = Table { chains, ..table_without_chains(table) };
        out.ruleset.tables.push(table);
        out.compiled_rule_runs.append(&mut trees.compiled_rule_runs);
        out.unchanged_rules.append(&mut trees.unchanged_rules);
    }
    out
}

/// The table without its chains.
fn table_without_chains(table: &Table) -> Table {
    Table {
        name: table.name,
        chains: Vec::new(),
        leading_comments: table.leading_comments.clone(),
        trailing_comments: table.trailing_comments.clone(),
    }
}

/// The trees of one table while they are made.
struct TreeBuilder<'a> {
    family: Family,
    options: &'a TreeOptions,
    rule_ids: &'a RuleIdTable,
    names: ChainNameAllocator,
    new_chains: Vec<Chain>,
    compiled_rule_runs: Vec<CompiledRuleRun>,
    unchanged_rules: Vec<UnchangedRule>,
}

/// A stretch of rules and the outcome of it.
enum ListOrTreeSegment {
    RuleList(Range<usize>),
    Tree(Range<usize>, AddressAxis, TreePlan),
}

impl TreeBuilder<'_> {
    fn rewrite_chain(&mut self, chain: &Chain, barriers: &TableBarriers<'_>) -> Chain {
        let mut items = RuleWithPrefixesAndBarrier::from_chain(chain, self.family, barriers);
        reorder_count_only_rules(&mut items, self.family);
        let compiled_before = self.compiled_rule_runs.len();
        let rules = self.build_chain_rules(&mut items, &AddressAxis::BOTH, None, true);
        if self.compiled_rule_runs.len() == compiled_before {
            return chain.clone();
        }
        // Runs are compiled from the last to the first.
        self.compiled_rule_runs[compiled_before..].reverse();
        self.record_unchanged_rules(&items);
        Chain { rules, ..chain.clone() }
    }

    fn record_unchanged_rules(&mut self, items: &[RuleWithPrefixesAndBarrier<'_>]) {
        for item in items {
            let why = match item.barrier {
                Some(b) => b.to_string(),
                None if item.pinned_in_place => {
                    "its prefix covers so many others that copies of it would \
                                        cost more than they gain"
                        .to_owned()
                }
                None => continue,
            };
            if let Some(rule) = self.rule_ids.first_credited_id_text(item.rule) {
                self.unchanged_rules.push(UnchangedRule { rule, why });
            }
        }
    }

    /// The content of a chain that tries the rules in order and then continues with `then`.
    fn build_chain_rules(
        &mut self,
        items: &mut [RuleWithPrefixesAndBarrier<'_>],
        axes: &[AddressAxis],
        then: Option<SharedName>,
        report: bool,
    ) -> Vec<Rule> {
        let parts = self.pin_rules_and_split_into_lists_and_trees(items, axes);
        let mut content: Vec<Rule> = Vec::new();
        let mut then = then;
        let mut open = true;
        for part in parts.into_iter().rev() {
            match part {
                ListOrTreeSegment::RuleList(range) => {
                    let list = items[range].iter().map(|i| i.rule.clone());
                    if open {
                        content =
                            list.chain(then.take().map(make_unconditional_goto_rule)).collect();
                        open = false;
                    } else {
                        content.splice(0..0, list);
                    }
                }
                ListOrTreeSegment::Tree(range, axis, plan) => {
                    let run = &items[range];
                    let comes_back =
                        !open && run.iter().all(|i| is_not_return_or_goto(&i.rule.target));
                    if !open && !comes_back {
                        then =
                            Some(self.make_or_reuse_after_run_chain(std::mem::take(&mut content)));
                    }
                    let before = self.new_chains.len();
                    let behind = then.as_ref().filter(|_| !comes_back).cloned();
                    let mut at_root =
                        self.build_node_rules(&plan, run, axis, axes, behind.as_ref());
                    if report {
                        self.record_compiled_tree(run, axis, before, at_root.len());
                    }
                    if comes_back {
                        let top = self.names.allocate_numbered_tree_root_name();
                        self.new_chains
                            .push(Chain { rules: at_root, ..Chain::new(top.clone(), None) });
                        at_root = vec![Rule::unconditional(Target::Jump(top))];
                    }
                    content.splice(0..0, at_root);
                    open = false;
                }
            }
        }
        if open { then.map(make_unconditional_goto_rule).into_iter().collect() } else { content }
    }

    /// A chain for what is after a run; an old one where there is nothing but a goto.
    fn make_or_reuse_after_run_chain(&mut self, content: Vec<Rule>) -> SharedName {
        if let [only] = &content[..]
            && let Target::Goto(name) = &only.target
            && rule_test::lower_to_tests(only, self.family).is_empty()
            && only.credited_originals.is_empty()
        {
            return name.clone();
        }
        let name = self.names.allocate_after_run_chain_name();
        self.new_chains.push(Chain { rules: content, ..Chain::new(name.clone(), None) });
        name
    }

    fn record_compiled_tree(
        &mut self,
        items: &[RuleWithPrefixesAndBarrier<'_>],
        axis: AddressAxis,
        before: usize,
        at_root: usize,
    ) {
        // Rules that a pass made have no place.
        let first = items
            .iter()
            .find_map(|i| self.rule_ids.first_credited_id_text(i.rule))
            .unwrap_or_default();
        let made = &self.new_chains[before..];
        let rules = made.iter().map(|c| c.rules.len()).sum::<usize>() + at_root;
        let into = format!("tree by {axis}: {} chains, {rules} rules", made.len());
        self.compiled_rule_runs.push(CompiledRuleRun { first, rules: items.len() as u32, into });
    }

    /// Cuts rules into lists and trees.
    fn pin_rules_and_split_into_lists_and_trees(
        &self,
        items: &mut [RuleWithPrefixesAndBarrier<'_>],
        axes: &[AddressAxis],
    ) -> Vec<ListOrTreeSegment> {
        let mut parts = Vec::new();
        let mut list_from = 0;
        let mut at = 0;
        // A suffix of a run that was better left a list is one, too.
        let mut hopeless = [0; 2];
        let mut extents = rule_runs::compute_run_lengths(items);
        while at < items.len() {
            let mut best: Option<(f64, Range<usize>, AddressAxis, TreePlan)> = None;
            let mut copied = None;
            for &axis in axes {
                let a = axis as usize;
                let range = at..at + extents[at][a];
                if range.len() < 2 || at < hopeless[a] {
                    continue;
                }
                match self.plan_tree_with_cost_ns(&items[range.clone()], axis) {
                    Ok(Some((plan, cost_ns))) => {
                        let gain = self.options.cost.full_list_scan_ns(range.len()) - cost_ns;
                        if best.as_ref().is_none_or(|(g, ..)| gain > *g) {
                            best = Some((gain, range, axis, plan));
                        }
                    }
                    Ok(None) => hopeless[a] = range.end,
                    Err(TooManyCopies) => copied = copied.or(Some((range, axis))),
                }
            }
            if let Some((_, range, axis, plan)) = best {
                if list_from < at {
                    parts.push(ListOrTreeSegment::RuleList(list_from..at));
                }
                at = range.end;
                list_from = at;
                parts.push(ListOrTreeSegment::Tree(range, axis, plan));
            } else if let Some((range, axis)) = copied {
                pin_widest_prefix_rules_in_place(&mut items[range], axis);
                extents = rule_runs::compute_run_lengths(items);
            } else {
                at += 1;
            }
        }
        if list_from < at {
            parts.push(ListOrTreeSegment::RuleList(list_from..at));
        }
        parts
    }

    fn plan_tree_with_cost_ns(
        &self,
        items: &[RuleWithPrefixesAndBarrier<'_>],
        axis: AddressAxis,
    ) -> Result<Option<(TreePlan, f64)>, TooManyCopies> {
        let cost = &self.options.cost;
        let budget = (items.len() as f64 * cost.copies_ratio_max) as usize + 64;
        let levels = self.options.levels.as_deref();
        TreePlanner { family: self.family, cost, levels, items, axis, rule_budget: budget }
            .plan_root_with_cost_ns()
    }

    /// The content of a node's chain, which ends by going on with `then`.
    fn build_node_rules(
        &mut self,
        plan: &TreePlan,
        items: &[RuleWithPrefixesAndBarrier<'_>],
        axis: AddressAxis,
        axes: &[AddressAxis],
        then: Option<&SharedName>,
    ) -> Vec<Rule> {
        let (kids, rest) = match plan {
            TreePlan::Leaf(rules) => {
                return self.build_leaf_rules_by_other_axis(rules, items, axis, axes, then);
            }
            TreePlan::Node { kids, rest } => (kids, rest),
        };
        let mut content = Vec::new();
        for TreeChild { prefix, is_inlined: inline, plan } in kids {
            if let (true, TreePlan::Leaf(rules)) = (inline, plan) {
                content.extend(rules.iter().map(|&r| items[r as usize].rule.clone()));
                continue;
            }
            let name = self.names.allocate_tree_node_chain_name(axis, *prefix);
            let mut way = make_unconditional_goto_rule(name.clone());
            axis.set_prefix(&mut way, self.family, *prefix);
            content.push(way);
            let slot = self.new_chains.len();
            self.new_chains.push(Chain::new(name, None));
            let rules = self.build_node_rules(plan, items, axis, axes, then);
            self.new_chains[slot].rules = rules;
        }
        content.extend(self.build_leaf_rules_by_other_axis(rest, items, axis, axes, then));
        content
    }

    /// Rules in order, divided by the other address if that pays off.
    fn build_leaf_rules_by_other_axis(
        &mut self,
        rules: &[u32],
        items: &[RuleWithPrefixesAndBarrier<'_>],
        axis: AddressAxis,
        axes: &[AddressAxis],
        then: Option<&SharedName>,
    ) -> Vec<Rule> {
        let mut own: Vec<RuleWithPrefixesAndBarrier<'_>> =
            rules.iter().map(|&r| items[r as usize]).collect();
        let left: Vec<AddressAxis> = axes.iter().copied().filter(|&a| a != axis).collect();
        self.build_chain_rules(&mut own, &left, then.cloned(), false)
    }
}

/// Leaves the widest prefixes of a run where they are.
fn pin_widest_prefix_rules_in_place(
    items: &mut [RuleWithPrefixesAndBarrier<'_>],
    axis: AddressAxis,
) {
    let widest = items.iter().map(|i| i.prefix(axis).len).min().unwrap_or(0);
    for item in items.iter_mut().filter(|i| i.prefix(axis).len == widest) {
        item.pinned_in_place = true;
    }
}

/// Whether a packet that the rule does not decide continues after it.
fn is_not_return_or_goto(target: &Target) -> bool {
    !matches!(target, Target::Return | Target::Goto(_))
}

fn make_unconditional_goto_rule(chain: SharedName) -> Rule {
    Rule::unconditional(Target::Goto(chain))
}

/// Reorders rules that only count into long runs: those that test a source first, then those that
/// test only a destination. The order of two counting rules does not matter, unless one of them
/// reads a transport header: legacy iptables drops a packet whose header is truncated at the first
/// such test.
fn reorder_count_only_rules(items: &mut [RuleWithPrefixesAndBarrier<'_>], family: Family) {
    for segment in rule_runs::split_at_barriers(items) {
        let BarrierOrFreeSegment::FreeSegment(range) = segment else { continue };
        let mut from = range.start;
        for at in range.start..=range.end {
            let counts = at < range.end && only_counts_and_never_hotdrops(items[at].rule, family);
            if counts {
                continue;
            }
            items[from..at].sort_by_key(|i| {
                match (i.source_prefix.len, i.destination_prefix.len) {
                    (1.., _) => 0,
                    (0, 1..) => 1,
                    (0, 0) => 2,
                }
            });
            from = (at + 1).min(range.end);
        }
    }
}
