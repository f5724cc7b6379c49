//! The graph of chains against brute force on all small graphs that chance makes, and on a table
//! whose chains nest 100,000 deep.

use proptest::prelude::*;
use weir_model::{Chain, ChainGraph, ChainJump, Rule, Target};

const CHAINS: usize = 6;

/// Chains `0` to `5` with these jumps, and one to a chain that is not there.
fn chains(edges: &[(usize, usize)]) -> Vec<Chain> {
    let mut chains: Vec<Chain> =
        (0..CHAINS).map(|n| Chain::new(n.to_string().as_str(), None)).collect();
    for (at, (from, to)) in edges.iter().enumerate() {
        let target = to.to_string().as_str().into();
        let target = if at % 2 == 0 { Target::Jump(target) } else { Target::Goto(target) };
        chains[*from].rules.push(Rule::unconditional(Target::Accept));
        chains[*from].rules.push(Rule::unconditional(target));
        chains[*from].rules.push(Rule::unconditional(Target::Jump("nowhere".into())));
    }
    chains
}

/// For each chain and number of jumps, the chains that a walk of so many jumps ends in.
fn walks(edges: &[(usize, usize)]) -> Vec<Vec<[bool; CHAINS]>> {
    let walks_of = |start: usize| {
        let mut at = [false; CHAINS];
        at[start] = true;
        let step = |at: &[bool; CHAINS]| {
            let mut next = [false; CHAINS];
            edges.iter().filter(|(from, _)| at[*from]).for_each(|(_, to)| next[*to] = true);
            next
        };
        let walks = std::iter::successors(Some(at), |at| Some(step(at)));
        walks.take(CHAINS + 1).collect()
    };
    (0..CHAINS).map(walks_of).collect()
}

fn edges() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..CHAINS, 0..CHAINS), 0..12)
}

proptest! {
    #[test]
    fn reachability_distance_and_depth_agree_with_enumerated_walks(edges in edges()) {
        let (chains, walks) = (chains(&edges), walks(&edges));
        let graph = ChainGraph::new(&chains);
        for start in 0..CHAINS {
            let after = |jumps: usize, chain: usize| walks[start][jumps][chain];
            let first = |chain: usize| (0..CHAINS).find(|jumps| after(*jumps, chain));
            let reached: Vec<bool> = (0..CHAINS).map(|c| first(c).is_some()).collect();
            prop_assert_eq!(&graph.reachable_from([start]), &reached);

            let distances = graph.chains_by_jump_distance_from(start);
            prop_assert!(distances.is_sorted_by_key(|(_, distance)| *distance));
            prop_assert_eq!(distances.len(), reached.iter().filter(|r| **r).count());
            for (chain, distance) in distances {
                prop_assert_eq!(Some(distance), first(chain));
            }

            // A walk of as many jumps as there are chains visits one chain twice.
            let endless = walks[start][CHAINS].contains(&true);
            let longest = (0..=CHAINS).rev().find(|jumps| walks[start][*jumps].contains(&true));
            match graph.max_jump_or_goto_depth(start) {
                Ok(depth) => prop_assert_eq!((endless, Some(depth)), (false, longest)),
                Err(chain) => {
                    prop_assert!(endless && reached[chain]);
                    prop_assert!((1..=CHAINS).any(|jumps| walks[chain][jumps][chain]));
                }
            }
        }
    }

    #[test]
    fn callees_precede_their_callers_in_the_chain_order(edges in edges()) {
        let (chains, walks) = (chains(&edges), walks(&edges));
        let graph = ChainGraph::new(&chains);
        let place = |order: &[usize], chain: usize| order.iter().position(|c| *c == chain);
        for start in 0..CHAINS {
            let Ok(order) = graph.callees_first_from(start) else { continue };
            prop_assert_eq!(order.last(), Some(&start));
            prop_assert_eq!(order.len(), graph.reachable_from([start]).iter().filter(|r| **r).count());
            for jump in order.iter().flat_map(|c| graph.jumps_from(*c)) {
                prop_assert!(place(&order, jump.to) < place(&order, jump.from));
            }
        }
        let (order, closing) = (graph.all_callees_first(), graph.back_edges());
        prop_assert_eq!(order.len(), CHAINS);
        for jump in graph.all_jumps().filter(|j| !closing.contains(j)) {
            prop_assert!(place(&order, jump.to) < place(&order, jump.from));
        }
        let loops = (0..CHAINS).any(|c| (1..=CHAINS).any(|jumps| walks[c][jumps][c]));
        prop_assert_eq!(graph.has_loop(), loops);
    }

    #[test]
    fn jumps_are_exactly_the_rules_that_enter_chains(edges in edges()) {
        let chains = chains(&edges);
        let graph = ChainGraph::new(&chains);
        let mut all = Vec::new();
        for (from, chain) in chains.iter().enumerate() {
            for (rule, target) in chain.rules.iter().map(|r| &r.target).enumerate() {
                let to = target.jump_target().and_then(|name| name.parse().ok());
                prop_assert_eq!(graph.chain_entered_by_rule(from, rule), to);
                all.extend(to.map(|to| ChainJump { from, rule, to }));
            }
        }
        prop_assert_eq!(all.len(), edges.len());
        prop_assert_eq!(graph.all_jumps().copied().collect::<Vec<_>>(), all.clone());
        for (to, callers) in graph.jumps_by_callee().into_iter().enumerate() {
            prop_assert!(all.iter().filter(|j| j.to == to).eq(&callers));
        }
    }

    #[test]
    fn reachability_ignores_jumps_that_are_not_followed(edges in edges(), left in 0..CHAINS) {
        let all = chains(&edges);
        let graph = ChainGraph::new(&all);
        let kept: Vec<_> = edges.iter().copied().filter(|(from, _)| *from != left).collect();
        let mut reached = vec![false; CHAINS];
        let entered = graph.mark_newly_reachable([0], &mut reached, |jump| jump.from != left);
        let kept = chains(&kept);
        prop_assert_eq!(&reached, &ChainGraph::new(&kept).reachable_from([0]));
        prop_assert_eq!(entered.len(), reached.iter().filter(|r| **r).count());
        prop_assert!(graph.mark_newly_reachable([0], &mut reached, |_| true).is_empty());
    }
}

#[test]
fn chains_may_nest_as_deeply_as_there_are_chains() {
    const DEEP: usize = 100_000;
    let names: Vec<String> = (0..=DEEP).map(|n| n.to_string()).collect();
    let next = |n: usize| names.get(n + 1).map(|name| (0, &**name)).into_iter().collect();
    let graph = ChainGraph::from_names_and_jumps(names.iter().map(|n| &**n), next);
    assert_eq!(graph.max_jump_or_goto_depth(0), Ok(DEEP));
    assert_eq!(graph.callees_first_from(0).map(|order| order[0]), Ok(DEEP));
    assert_eq!(graph.chains_by_jump_distance_from(0).last(), Some(&(DEEP, DEEP)));
    assert!(graph.reachable_from([0]).iter().all(|reached| *reached));
    assert!(!graph.has_loop());

    let back = |n: usize| vec![(0, &*names[(n + 1) % names.len()])];
    let ring = ChainGraph::from_names_and_jumps(names.iter().map(|n| &**n), back);
    assert_eq!(ring.max_jump_or_goto_depth(0), Err(0));
    assert_eq!(ring.back_edges(), [ChainJump { from: DEEP, rule: 0, to: 0 }]);
}
