//! The rules that a journey reaches, and the jumps to them.

use std::collections::HashMap;

use weir_model::{Hook, Rule, Ruleset, Table, TableName, Target};
use weir_random::Rng;
use weir_semantics::{JourneyKind, tables_at_hook};

/// A rule that a journey may reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReachableRule<'r> {
    /// Which table at which hook, an index into [`RulePaths::table_hook_paths`].
    pub table_hook_index: usize,
    /// Chain, an index into the table's chains.
    pub chain_index: usize,
    pub rule: &'r Rule,
    /// Number from 1.
    pub rulenum_from_1: u32,
}

/// One table at one hook, and how its chains are reached.
#[derive(Debug)]
pub(crate) struct TableHookPaths<'r> {
    pub hook: Hook,
    pub table: TableName,
    /// For each chain the jumps to it from chains that are fewer jumps away; none for the base.
    jumps_to_chain: Vec<Vec<(usize, &'r Rule)>>,
    /// The rules of each user chain that return to its caller.
    return_rules: HashMap<&'r str, Vec<&'r Rule>>,
}

/// All that a journey may reach.
#[derive(Debug)]
pub(crate) struct RulePaths<'r> {
    pub table_hook_paths: Vec<TableHookPaths<'r>>,
    /// Rules in the order of the journey.
    pub rules: Vec<ReachableRule<'r>>,
}

impl<'r> RulePaths<'r> {
    /// Follows every jump from the built-in chains of the entry.
    pub fn new(ruleset: &'r Ruleset, entry: JourneyKind) -> Self {
        let mut paths = RulePaths { table_hook_paths: Vec::new(), rules: Vec::new() };
        for hook in entry.hooks() {
            for name in tables_at_hook(*hook) {
                if let Some(table) = ruleset.table(name) {
                    paths.add_table_at_hook(table, *hook);
                }
            }
        }
        paths
    }

    fn add_table_at_hook(&mut self, table: &'r Table, hook: Hook) {
        let graph = table.chain_graph();
        let Some(base) = graph.chain_index(hook.chain_name()) else { return };
        let order = graph.chains_by_jump_distance_from(base);
        let depth: HashMap<usize, usize> = order.iter().copied().collect();
        let mut jumps = vec![Vec::new(); table.chains.len()];
        for jump in order.iter().flat_map(|(chain, _)| graph.jumps_from(*chain)) {
            if depth[&jump.from] < depth[&jump.to] {
                jumps[jump.to].push((jump.from, &table.chains[jump.from].rules[jump.rule]));
            }
        }
        let walk = self.table_hook_paths.len();
        let users = table.chains.iter().filter(|c| c.policy.is_none());
        let returns = users
            .map(|c| (&*c.name, c.rules.iter().filter(|r| r.target == Target::Return).collect()))
            .collect();
        for (chain, _) in order {
            let rules = table.chains[chain].rules.iter().zip(1..);
            self.rules.extend(rules.map(|(rule, number_in_chain)| ReachableRule {
                table_hook_index: walk,
                chain_index: chain,
                rule,
                rulenum_from_1: number_in_chain,
            }));
        }
        self.table_hook_paths.push(TableHookPaths {
            hook,
            table: table.name,
            jumps_to_chain: jumps,
            return_rules: returns,
        });
    }

    /// The rules by which a packet returns from a user chain.
    pub fn return_rules_of_chain(&self, walk: usize, chain: &str) -> &[&'r Rule] {
        self.table_hook_paths[walk].return_rules.get(chain).map_or(&[], |r| r)
    }

    /// The jumps that lead to a chain, nearest first; if there are several paths, one of them.
    pub fn pick_jump_path_nearest_first(
        &self,
        reached: &ReachableRule<'r>,
        rng: &mut Rng,
    ) -> Vec<&'r Rule> {
        let jumps = &self.table_hook_paths[reached.table_hook_index].jumps_to_chain;
        let mut way = Vec::new();
        let mut chain = reached.chain_index;
        while let Some((from, rule)) = rng.pick_if_any(&jumps[chain]) {
            way.push(*rule);
            chain = *from;
        }
        way
    }
}
