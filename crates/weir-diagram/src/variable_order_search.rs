//! Chooses the order of addresses and ports for a ruleset by trying orders on a reduced ruleset.
//!
//! The cost of an order shows where chains interact: for example a list of customers by source before
//! one by destination. So chains are retained with their rules, except that long chains are thinned
//! to every n-th rule, and chains that only removed rules lead to are emptied.

use weir_model::{Chain, ChainGraph, Family, Firewall, Rule, Ruleset, Table};

use crate::compared_ruleset::{ComparedRuleset, list_journey_stages};
use crate::comparison_types::{ComparedPath, StatefulTestPairing};
use crate::packet_sets::packet_space::{PacketSpace, PacketSpaceOptions};
use crate::packet_sets::variable_layout::VariableOrder;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::stateful_test_id::StatefulTestIdResolver;

/// Rules that are left, about, and the fewest that a chain is thinned to.
const THINNED_RULES_MAX: usize = 1200;
const THINNED_CHAIN_RULES_MIN: usize = 8;
/// What one try may take.
const PER_ORDER_MEMORY_BYTES_MAX: usize = 128 << 20;
const PER_ORDER_STEPS_MAX: u64 = 3_000_000;

/// Orders, and what it took to rank them.
pub(crate) struct RankedOrders {
    /// The best one first.
    pub orders: Vec<VariableOrder>,
    /// Steps of all tries.
    pub steps: u64,
}

/// The orders, the one that takes the fewest steps for the thinned ruleset first. All tries
/// together take at most `steps_max`.
pub(crate) fn rank_variable_orders(
    family: Family,
    ruleset: Option<&Ruleset>,
    paths: &[ComparedPath],
    steps_max: u64,
) -> RankedOrders {
    let mut orders = VariableOrder::ALL.to_vec();
    let Some(ruleset) = ruleset.filter(|r| r.rules_with_table_and_chain().count() > 16) else {
        return RankedOrders { orders, steps: 0 };
    };
    let thin = thin_ruleset(ruleset);
    let (v4, v6) = match family {
        Family::V4 => (Some(thin), None),
        Family::V6 => (None, Some(thin)),
    };
    let thin = Firewall { v4, v6, sets: Vec::new() };
    // By how much an order is worse than the best one does not matter.
    let mut fewest = (steps_max / VariableOrder::ALL.len() as u64).min(PER_ORDER_STEPS_MAX);
    let mut total = 0;
    orders.sort_by_cached_key(|order| {
        let (result, steps) = count_build_steps(family, *order, &thin, paths, fewest);
        total += steps;
        if result.is_err() {
            return u64::MAX;
        }
        fewest = fewest.min(steps);
        steps
    });
    RankedOrders { orders, steps: total }
}

/// The ruleset with chains cut to a length at which about [`THINNED_RULES_MAX`] of its rules can be
/// reached.
fn thin_ruleset(ruleset: &Ruleset) -> Ruleset {
    let mut thin = Ruleset::new(ruleset.family);
    let mut length = THINNED_RULES_MAX;
    loop {
        thin.tables =
            ruleset.tables.iter().map(|t| thin_table_to_reachable_chains(t, length)).collect();
        if thin.rules_with_table_and_chain().count() <= THINNED_RULES_MAX
            || length <= THINNED_CHAIN_RULES_MIN
        {
            return thin;
        }
        length /= 2;
    }
}

/// The table with what its built-in chains reach when all chains are sliced.
fn thin_table_to_reachable_chains(table: &Table, length: usize) -> Table {
    let cut = |chain: &Chain| {
        let mut cut = Chain::new(chain.name.clone(), chain.policy);
        cut.rules = pick_evenly_spaced_rules(&chain.rules, length).cloned().collect();
        cut
    };
    let mut cut: Vec<Chain> = table.chains.iter().map(cut).collect();
    let graph = ChainGraph::new(&cut);
    let built_in = (0..cut.len()).filter(|c| cut[*c].policy.is_some());
    let entered = graph.mark_newly_reachable(built_in, &mut vec![false; cut.len()], |_| true);
    let none = || Chain::new("", None);
    let chains = entered.into_iter().map(|c| std::mem::replace(&mut cut[c], none())).collect();
    let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
    Table { name: table.name, chains, leading_comments, trailing_comments }
}

/// At most so many of the rules, evenly spread.
fn pick_evenly_spaced_rules(rules: &[Rule], length: usize) -> impl Iterator<Item = &Rule> {
    let count = rules.len().min(length);
    (0..count).map(move |i| &rules[i * rules.len() / count])
}

/// Whether the tables of all journeys could be built, and the steps that were used.
fn count_build_steps(
    family: Family,
    order: VariableOrder,
    firewall: &Firewall,
    paths: &[ComparedPath],
    steps_max: u64,
) -> (Result<(), BuildError>, u64) {
    let options = PacketSpaceOptions { order, memory_bytes: PER_ORDER_MEMORY_BYTES_MAX };
    let mut context = match PacketSpace::for_firewalls(family, &[firewall], options) {
        Ok(space) => DiagramContext::new(space),
        Err(limit) => return (Err(limit.into()), 0),
    };
    context.space.store.steps_max = steps_max;
    let result = build_tables_of_paths(&mut context, family, firewall, paths);
    (result, context.space.store.steps)
}

fn build_tables_of_paths<'f>(
    context: &mut DiagramContext<'f>,
    family: Family,
    firewall: &'f Firewall,
    paths: &[ComparedPath],
) -> Result<(), BuildError> {
    let from = context.space.store.node_count();
    let side = [ComparedRuleset::new(
        firewall,
        family,
        0,
        StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByCredit),
        false,
    )];
    let mut live_diagrams = Vec::new();
    for path in paths {
        for piece in list_journey_stages(*path, &side) {
            let made = context.build_stage(&side[0], piece, &mut live_diagrams, from)?;
            live_diagrams.push(made);
        }
    }
    Ok(())
}
