//! The rules that a journey reaches, and the jumps to them.

use std::collections::HashMap;

use weir_model::{Hook, Rule, Ruleset, Table, TableName, Target};
use weir_random::Rng;
use weir_semantics::{Entry, tables_at};

/// A rule that a journey may reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached<'r> {
    /// Which table at which hook, an index into [`Paths::walks`].
    pub walk: usize,
    /// Chain, an index into the table's chains.
    pub chain: usize,
    pub rule: &'r Rule,
    /// Number from 1.
    pub number: u32,
}

/// One table at one hook, and how its chains are reached.
#[derive(Debug)]
pub(crate) struct WalkPaths<'r> {
    pub hook: Hook,
    pub table: TableName,
    /// For each chain the jumps to it from chains that are fewer jumps away; none for the base.
    jumps: Vec<Vec<(usize, &'r Rule)>>,
    /// The rules of each user chain that return to its caller.
    returns: HashMap<&'r str, Vec<&'r Rule>>,
}

/// All that a journey may reach.
#[derive(Debug)]
pub(crate) struct Paths<'r> {
    pub walks: Vec<WalkPaths<'r>>,
    /// Rules in the order of the journey.
    pub rules: Vec<Reached<'r>>,
}

impl<'r> Paths<'r> {
    /// Follows every jump from the built-in chains of the entry.
    pub fn new(ruleset: &'r Ruleset, entry: Entry) -> Self {
        let mut paths = Paths { walks: Vec::new(), rules: Vec::new() };
        for hook in entry.hooks() {
            for name in tables_at(*hook) {
                if let Some(table) = ruleset.table(name) {
                    paths.follow(table, *hook);
                }
            }
        }
        paths
    }

    fn follow(&mut self, table: &'r Table, hook: Hook) {
        let graph = table.graph();
        let Some(base) = graph.chain(hook.chain()) else { return };
        let order = graph.distances(base);
        let depth: HashMap<usize, usize> = order.iter().copied().collect();
        let mut jumps = vec![Vec::new(); table.chains.len()];
        for jump in order.iter().flat_map(|(chain, _)| graph.jumps(*chain)) {
            if depth[&jump.from] < depth[&jump.to] {
                jumps[jump.to].push((jump.from, &table.chains[jump.from].rules[jump.rule]));
            }
        }
        let walk = self.walks.len();
        let users = table.chains.iter().filter(|c| c.policy.is_none());
        let returns = users
            .map(|c| (&*c.name, c.rules.iter().filter(|r| r.target == Target::Return).collect()))
            .collect();
        for (chain, _) in order {
            let rules = table.chains[chain].rules.iter().zip(1..);
            self.rules.extend(rules.map(|(rule, number)| Reached { walk, chain, rule, number }));
        }
        self.walks.push(WalkPaths { hook, table: table.name, jumps, returns });
    }

    /// The rules by which a packet returns from a user chain.
    pub fn returns(&self, walk: usize, chain: &str) -> &[&'r Rule] {
        self.walks[walk].returns.get(chain).map_or(&[], |r| r)
    }

    /// The jumps that lead to a chain, nearest first; if there are several paths, one of them.
    pub fn way(&self, reached: &Reached<'r>, rng: &mut Rng) -> Vec<&'r Rule> {
        let jumps = &self.walks[reached.walk].jumps;
        let mut way = Vec::new();
        let mut chain = reached.chain;
        while let Some((from, rule)) = rng.choose(&jumps[chain]) {
            way.push(*rule);
            chain = *from;
        }
        way
    }
}
