//! Which order of addresses and ports suits a ruleset: tried on the ruleset thinned out.

use weir_model::{Family, Firewall, Ruleset};

use super::chain::Unknown;
use super::compare::{Identity, Way};
use super::journey::{Side, pieces};
use super::layout::Order;
use super::space::{Space, SpaceOptions};
use super::terminal::Terminals;
use super::then::Meaning;
use super::who::Who;

/// Rules that are left, and memory that one try may take.
const RULES: usize = 1200;
const MEMORY_BYTES: usize = 128 << 20;

/// The orders, the one that makes the smallest diagrams of the thinned ruleset first.
pub(crate) fn orders(family: Family, firewall: &Firewall, ways: &[Way]) -> Vec<Order> {
    let mut orders = Order::ALL.to_vec();
    let Some(ruleset) = firewall.ruleset(family).filter(|r| r.rules().count() > 16) else {
        return orders;
    };
    let thin = thinned(ruleset);
    let (v4, v6) = match family {
        Family::V4 => (Some(thin), None),
        Family::V6 => (None, Some(thin)),
    };
    let thin = Firewall { v4, v6, sets: Vec::new() };
    orders.sort_by_cached_key(|order| nodes(family, *order, &thin, ways).unwrap_or(usize::MAX));
    orders
}

/// The ruleset with all of its jumps and only every so manieth of the other rules.
fn thinned(ruleset: &Ruleset) -> Ruleset {
    let step = ruleset.rules().count().div_ceil(RULES).max(1);
    let mut thin = ruleset.clone();
    for chain in thin.tables.iter_mut().flat_map(|t| &mut t.chains) {
        let mut number = 0;
        chain.rules.retain(|rule| {
            number += 1;
            rule.target.chain().is_some() || number % step == 0
        });
    }
    thin
}

/// Nodes that the tables of all ways take.
fn nodes(
    family: Family,
    order: Order,
    firewall: &Firewall,
    ways: &[Way],
) -> Result<usize, Unknown> {
    let options = SpaceOptions { order, memory_bytes: MEMORY_BYTES };
    let space = Space::with(family, &[firewall], options)?;
    let mut meaning = Meaning { terminals: Terminals::new(space.layout.end), space };
    let from = meaning.space.store.len();
    let side = [Side::new(firewall, family, 0, Who::new(firewall, Identity::Credit), false)];
    let mut keep = Vec::new();
    for way in ways {
        for piece in pieces(*way, &side) {
            let made = meaning.piece(&side[0], piece, &mut keep, from)?;
            keep.push(made);
        }
    }
    Ok(meaning.space.store.nodes_peak)
}
