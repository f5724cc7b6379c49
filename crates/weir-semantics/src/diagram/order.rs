//! Which order of addresses and ports suits a ruleset: tried on a sample of its rules.

use weir_model::{Family, Firewall, Rule};

use super::layout::Order;
use super::lower::At;
use super::space::{Space, SpaceOptions};
use super::store::{Full, Over, Ref};

/// Rules of a sample, and memory that it may take.
const RULES: usize = 400;
const MEMORY_BYTES: usize = 64 << 20;

/// The orders, the one that makes the smallest diagram of a sample of rules first.
pub(crate) fn orders(family: Family, firewalls: &[&Firewall]) -> Vec<Order> {
    let rules: Vec<&Rule> = firewalls
        .iter()
        .take(1)
        .filter_map(|f| f.ruleset(family))
        .flat_map(|r| r.rules().map(|(_, _, rule)| rule))
        .collect();
    let step = rules.len().div_ceil(RULES).max(1);
    let sample: Vec<&Rule> = rules.into_iter().step_by(step).collect();
    let mut orders = Order::ALL.to_vec();
    if sample.len() > 8 {
        orders.sort_by_key(|order| size(family, *order, &sample).unwrap_or(usize::MAX));
    }
    orders
}

/// Nodes of the diagram that tells the rules of a sample apart.
fn size(family: Family, order: Order, sample: &[&Rule]) -> Result<usize, Full> {
    // Sets are left out: which of them a packet is in is the same in every order.
    let nobody = Firewall::default();
    let options = SpaceOptions { order, memory_bytes: MEMORY_BYTES };
    let mut space = Space::with(family, &[&nobody], options)?;
    let from = space.store.len();
    let mut sets = Vec::with_capacity(sample.len());
    for rule in sample {
        let set = space.of_rule(rule, At::ANYWHERE)?.0;
        sets.push(set);
    }
    let merged = space
        .store
        .merge(Over, sets.len(), |store, i| store.and(sets[i], Ref::leaf(i as u32 + 2)))?;
    space.store.sweep(from, &mut [merged]);
    Ok(space.store.len())
}
