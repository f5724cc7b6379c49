//! A table of one of two rulesets: its changed rules, and how packets come to them.

use weir_model::{ChainGraph, Family, Field, Hook, Rule, Table, Test, lower_base_to_tests};

/// Regions of a table at a hook, which are bits of a number: with more, all of its rules are kept.
pub(super) const REGIONS_PER_TABLE_AT_HOOK_MAX: usize = 128;
const _: () = assert!(REGIONS_PER_TABLE_AT_HOOK_MAX <= u128::BITS as usize);
/// Jumps to a changed rule: with more, all rules are kept.
const JUMP_DEPTH_MAX: usize = 128;

/// What a packet passes on the way to a changed rule.
pub(super) type RegionTests = Vec<Test>;

/// A table of one ruleset.
pub(super) struct TableSide<'f> {
    pub table: &'f Table,
    pub graph: ChainGraph<'f>,
    /// The indexes of the changed rules of each chain.
    pub changed_rules: Vec<Vec<usize>>,
    /// Those of them that the other side has in the same place with the same tests and another
    /// target, where both targets end the table and no test depends on state: a packet matches both
    /// or none, so no packet continues in the table after it matched one of them.
    pub retargeted_rules: Vec<Vec<usize>>,
    /// Whether a changed rule is in the chain or in one that it leads to.
    pub leads_to_change: Vec<bool>,
    /// Whether a packet may match a changed rule in the chain, or in one that it leads to, and then
    /// continue in the table on either side: one that is not among `retargeted_rules`.
    pub continues_after_change: Vec<bool>,
}

impl<'f> TableSide<'f> {
    /// The indexes of the rules of a chain that the other side has as well.
    pub fn common_rules(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let changed = &self.changed_rules[at];
        (0..self.table.chains[at].rules.len()).filter(|rule| !changed.contains(rule))
    }

    pub fn new(table: &'f Table) -> TableSide<'f> {
        TableSide {
            table,
            graph: table.chain_graph(),
            changed_rules: vec![Vec::new(); table.chains.len()],
            retargeted_rules: vec![Vec::new(); table.chains.len()],
            leads_to_change: vec![false; table.chains.len()],
            continues_after_change: vec![false; table.chains.len()],
        }
    }

    /// `None` if a chain leads back to itself.
    pub fn mark_chains_leading_to_change(&mut self) -> Option<()> {
        if self.graph.has_loop() {
            return None;
        }
        for at in self.graph.all_callees_first() {
            let callees = || self.graph.jumps_from(at).iter().map(|jump| jump.to);
            let (changed, retargeted) = (&self.changed_rules[at], &self.retargeted_rules[at]);
            let leads = !changed.is_empty() || callees().any(|to| self.leads_to_change[to]);
            let continues = changed.len() > retargeted.len()
                || callees().any(|to| self.continues_after_change[to]);
            self.leads_to_change[at] = leads;
            self.continues_after_change[at] = continues;
        }
        Some(())
    }

    /// Adds the changed rules that a chain reaches. `None` if there are too many, or too deep.
    pub fn collect_changed_rules(
        &self,
        side: usize,
        path: &JumpPath,
        family: Family,
        reached: &mut Vec<ReachedChangedRule<'f>>,
    ) -> Option<()> {
        let rules = &self.table.chains[path.chain].rules;
        let changed = self.changed_rules[path.chain].iter().map(|rule| &rules[*rule]);
        reached.extend(changed.map(|rule| ReachedChangedRule {
            side,
            rule,
            passed: path.passed.clone(),
        }));
        if reached.len() > REGIONS_PER_TABLE_AT_HOOK_MAX || path.depth > JUMP_DEPTH_MAX {
            return None;
        }
        for jump in self.graph.jumps_from(path.chain) {
            if self.leads_to_change[jump.to] {
                let (chain, depth) = (jump.to, path.depth + 1);
                let mut below = JumpPath { chain, passed: path.passed.clone(), depth };
                add_base_tests(&mut below.passed, &rules[jump.rule], family);
                self.collect_changed_rules(side, &below, family, reached)?;
            }
        }
        Some(())
    }
}

/// A chain, and how packets come to it.
pub(super) struct JumpPath {
    pub chain: usize,
    pub passed: RegionTests,
    pub depth: usize,
}

/// A changed rule, and the tests of the jumps that lead to it.
pub(super) struct ReachedChangedRule<'f> {
    pub side: usize,
    pub rule: &'f Rule,
    pub passed: RegionTests,
}

impl ReachedChangedRule<'_> {
    pub fn region(&self, family: Family) -> RegionTests {
        let mut region = self.passed.clone();
        add_base_tests(&mut region, self.rule, family);
        region
    }
}

fn add_base_tests(region: &mut RegionTests, rule: &Rule, family: Family) {
    for test in list_base_tests(rule, family) {
        if !region.contains(&test) {
            region.push(test);
        }
    }
}

pub(super) fn find_base_chain(table: &Table, hook: Hook) -> Option<usize> {
    table.chains.iter().position(|c| c.policy.is_some() && &*c.name == hook.chain_name())
}

/// The tests of `-s`, `-d`, `-i`, `-o` and `-p`. ip6tables looks for the protocol behind extension
/// headers, which may be truncated: there, it is not among them.
pub(super) fn list_base_tests(rule: &Rule, family: Family) -> RegionTests {
    let mut tests = lower_base_to_tests(rule);
    tests.retain(|test| match test {
        Test::Field { field: Field::Saddr | Field::Daddr | Field::Iif | Field::Oif, .. } => true,
        Test::Field { field: Field::Proto, .. } => family == Family::V4,
        _ => false,
    });
    tests
}
