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

mod plan;

use std::ops::Range;

use weir_artefact::manifest::{CompiledRun, Kept};
use weir_model::{Chain, Family, Name, Rule, RuleIds, Ruleset, Table, Target, test};
use weir_partition::only_counts;

use crate::run::{self, Axis, RunItem, Segment};
use crate::{ChainNames, CostModel, Rewritten};
use plan::{Kid, Planner, TooManyCopies, TreePlan};

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
/// `places` are those of the ruleset as read: reports name its rules.
pub fn compile(ruleset: &Ruleset, options: &TreeOptions, places: &RuleIds) -> Rewritten {
    let mut out = Rewritten {
        ruleset: Ruleset { tables: Vec::new(), ..ruleset.clone() },
        sets: Vec::new(),
        compiled: Vec::new(),
        kept: Vec::new(),
        dead: Vec::new(),
    };
    for table in &ruleset.tables {
        let mut trees = Trees {
            family: ruleset.family,
            options,
            places,
            names: ChainNames::new(ruleset.family, table),
            made: Vec::new(),
            compiled: Vec::new(),
            kept: Vec::new(),
        };
        let mut chains: Vec<Chain> = table.chains.iter().map(|c| trees.chain(c)).collect();
        chains.append(&mut trees.made);
        let table = Table { chains, ..shell(table) };
        out.ruleset.tables.push(table);
        out.compiled.append(&mut trees.compiled);
        out.kept.append(&mut trees.kept);
    }
    out
}

/// The table without its chains.
fn shell(table: &Table) -> Table {
    Table {
        name: table.name,
        chains: Vec::new(),
        leading_comments: table.leading_comments.clone(),
        trailing_comments: table.trailing_comments.clone(),
    }
}

/// The trees of one table while they are made.
struct Trees<'a> {
    family: Family,
    options: &'a TreeOptions,
    places: &'a RuleIds,
    names: ChainNames,
    made: Vec<Chain>,
    compiled: Vec<CompiledRun>,
    kept: Vec<Kept>,
}

/// A stretch of rules and the outcome of it.
enum TreeSegment {
    List(Range<usize>),
    Tree(Range<usize>, Axis, TreePlan),
}

impl Trees<'_> {
    fn chain(&mut self, chain: &Chain) -> Chain {
        let mut items: Vec<RunItem<'_>> =
            chain.rules.iter().map(|r| RunItem::of(r, self.family)).collect();
        order_counting_rules(&mut items, self.family);
        let compiled_before = self.compiled.len();
        let rules = self.sequence(&mut items, &Axis::BOTH, None, true);
        if self.compiled.len() == compiled_before {
            return chain.clone();
        }
        // Runs are compiled from the last to the first.
        self.compiled[compiled_before..].reverse();
        self.report_kept(&items);
        Chain { rules, ..chain.clone() }
    }

    fn report_kept(&mut self, items: &[RunItem<'_>]) {
        for item in items {
            let why = match item.barrier {
                Some(b) => b.to_string(),
                None if item.pinned => "its prefix covers so many others that copies of it would \
                                        cost more than they gain"
                    .to_owned(),
                None => continue,
            };
            if let Some(rule) = self.places.of_rule(item.rule) {
                self.kept.push(Kept { rule, why });
            }
        }
    }

    /// The content of a chain that tries the rules in order and then continues with `then`.
    fn sequence(
        &mut self,
        items: &mut [RunItem<'_>],
        axes: &[Axis],
        then: Option<Name>,
        report: bool,
    ) -> Vec<Rule> {
        let parts = self.parts(items, axes);
        let mut content: Vec<Rule> = Vec::new();
        let mut then = then;
        let mut open = true;
        for part in parts.into_iter().rev() {
            match part {
                TreeSegment::List(range) => {
                    let list = items[range].iter().map(|i| i.rule.clone());
                    if open {
                        content = list.chain(then.take().map(goto)).collect();
                        open = false;
                    } else {
                        content.splice(0..0, list);
                    }
                }
                TreeSegment::Tree(range, axis, plan) => {
                    let run = &items[range];
                    let comes_back = !open && run.iter().all(|i| stays(&i.rule.target));
                    if !open && !comes_back {
                        then = Some(self.rest_chain(std::mem::take(&mut content)));
                    }
                    let before = self.made.len();
                    let behind = then.as_ref().filter(|_| !comes_back).cloned();
                    let mut at_root = self.node(&plan, run, axis, axes, behind.as_ref());
                    if report {
                        self.report(run, axis, before, at_root.len());
                    }
                    if comes_back {
                        let top = self.names.top();
                        self.made.push(Chain { rules: at_root, ..Chain::new(top.clone(), None) });
                        at_root = vec![Rule::new(Target::Jump(top))];
                    }
                    content.splice(0..0, at_root);
                    open = false;
                }
            }
        }
        if open { then.map(goto).into_iter().collect() } else { content }
    }

    /// A chain for what is after a run; an old one where there is nothing but a goto.
    fn rest_chain(&mut self, content: Vec<Rule>) -> Name {
        if let [only] = &content[..]
            && let Target::Goto(name) = &only.target
            && test::tests_of(only, self.family).is_empty()
            && only.credit.is_empty()
        {
            return name.clone();
        }
        let name = self.names.rest();
        self.made.push(Chain { rules: content, ..Chain::new(name.clone(), None) });
        name
    }

    fn report(&mut self, items: &[RunItem<'_>], axis: Axis, before: usize, at_root: usize) {
        // Rules that a pass made have no place.
        let first = items.iter().find_map(|i| self.places.of_rule(i.rule)).unwrap_or_default();
        let made = &self.made[before..];
        let rules = made.iter().map(|c| c.rules.len()).sum::<usize>() + at_root;
        let into = format!("tree by {axis}: {} chains, {rules} rules", made.len());
        self.compiled.push(CompiledRun { first, rules: items.len() as u32, into });
    }

    /// Cuts rules into lists and trees.
    fn parts(&self, items: &mut [RunItem<'_>], axes: &[Axis]) -> Vec<TreeSegment> {
        let mut parts = Vec::new();
        let mut list_from = 0;
        let mut at = 0;
        // A suffix of a run that was better left a list is one, too.
        let mut hopeless = [0; 2];
        let mut extents = run::extents(items);
        while at < items.len() {
            let mut best: Option<(f64, Range<usize>, Axis, TreePlan)> = None;
            let mut copied = None;
            for &axis in axes {
                let a = axis as usize;
                let range = at..at + extents[at][a];
                if range.len() < 2 || at < hopeless[a] {
                    continue;
                }
                match self.plan(&items[range.clone()], axis) {
                    Ok(Some((plan, cost_ns))) => {
                        let gain = self.options.cost.linear_ns(range.len()) - cost_ns;
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
                    parts.push(TreeSegment::List(list_from..at));
                }
                at = range.end;
                list_from = at;
                parts.push(TreeSegment::Tree(range, axis, plan));
            } else if let Some((range, axis)) = copied {
                pin_widest(&mut items[range], axis);
                extents = run::extents(items);
            } else {
                at += 1;
            }
        }
        if list_from < at {
            parts.push(TreeSegment::List(list_from..at));
        }
        parts
    }

    fn plan(
        &self,
        items: &[RunItem<'_>],
        axis: Axis,
    ) -> Result<Option<(TreePlan, f64)>, TooManyCopies> {
        let cost = &self.options.cost;
        let budget = (items.len() as f64 * cost.copies_ratio_max) as usize + 64;
        let levels = self.options.levels.as_deref();
        Planner { family: self.family, cost, levels, items, axis, budget }.root()
    }

    /// The content of a node's chain, which ends by going on with `then`.
    fn node(
        &mut self,
        plan: &TreePlan,
        items: &[RunItem<'_>],
        axis: Axis,
        axes: &[Axis],
        then: Option<&Name>,
    ) -> Vec<Rule> {
        let (kids, rest) = match plan {
            TreePlan::Leaf(rules) => return self.leaf(rules, items, axis, axes, then),
            TreePlan::Node { kids, rest } => (kids, rest),
        };
        let mut content = Vec::new();
        for Kid { prefix, inline, plan } in kids {
            if let (true, TreePlan::Leaf(rules)) = (inline, plan) {
                content.extend(rules.iter().map(|&r| items[r as usize].rule.clone()));
                continue;
            }
            let name = self.names.node(axis, *prefix);
            let mut way = goto(name.clone());
            axis.set_prefix(&mut way, self.family, *prefix);
            content.push(way);
            let slot = self.made.len();
            self.made.push(Chain::new(name, None));
            let rules = self.node(plan, items, axis, axes, then);
            self.made[slot].rules = rules;
        }
        content.extend(self.leaf(rest, items, axis, axes, then));
        content
    }

    /// Rules in order, divided by the other address if that pays off.
    fn leaf(
        &mut self,
        rules: &[u32],
        items: &[RunItem<'_>],
        axis: Axis,
        axes: &[Axis],
        then: Option<&Name>,
    ) -> Vec<Rule> {
        let mut own: Vec<RunItem<'_>> = rules.iter().map(|&r| items[r as usize]).collect();
        let left: Vec<Axis> = axes.iter().copied().filter(|&a| a != axis).collect();
        self.sequence(&mut own, &left, then.cloned(), false)
    }
}

/// Leaves the widest prefixes of a run where they are.
fn pin_widest(items: &mut [RunItem<'_>], axis: Axis) {
    let widest = items.iter().map(|i| i.prefix(axis).len).min().unwrap_or(0);
    for item in items.iter_mut().filter(|i| i.prefix(axis).len == widest) {
        item.pinned = true;
    }
}

/// Whether a packet that the rule does not decide continues after it.
fn stays(target: &Target) -> bool {
    !matches!(target, Target::Return | Target::Goto(_))
}

fn goto(chain: Name) -> Rule {
    Rule::new(Target::Goto(chain))
}

/// Reorders rules that only count into long runs: those that test a source first, then those that
/// test only a destination. The order of two counting rules does not matter, unless one of them
/// reads a transport header: legacy iptables drops a packet whose header is truncated at the first
/// such test.
fn order_counting_rules(items: &mut [RunItem<'_>], family: Family) {
    for segment in run::segments(items) {
        let Segment::Between(range) = segment else { continue };
        let mut from = range.start;
        for at in range.start..=range.end {
            let counts = at < range.end && only_counts(items[at].rule, family);
            if counts {
                continue;
            }
            items[from..at].sort_by_key(|i| match (i.source.len, i.destination.len) {
                (1.., _) => 0,
                (0, 1..) => 1,
                (0, 0) => 2,
            });
            from = (at + 1).min(range.end);
        }
    }
}
