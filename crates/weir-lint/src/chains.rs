//! What is known of the chains of a table before any packet is looked at: jumps, which chains are
//! reached, and behind which rules no packet goes on.

use std::collections::HashMap;

use weir_model::{Chain, Family, Rule, Ruleset, Table, Target, tests_of};

/// The jumps of each chain: which rule, to which chain.
pub(crate) type Jumps = Vec<Vec<(usize, usize)>>;

/// The jumps of each chain of a table.
pub(crate) fn jumps(table: &Table) -> Jumps {
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let to = |(i, target): (usize, &Target)| Some((i, *by_name.get(&**target.chain()?)?));
    let of = |c: &Chain| c.rules.iter().map(|r| &r.target).enumerate().filter_map(to).collect();
    table.chains.iter().map(of).collect()
}

/// Which chains a packet may enter: built-in chains, and those that rules of such chains lead to
/// which do not stand behind a catch-all.
pub(crate) fn reachable(table: &Table, catch_all: &[Option<CatchAll>]) -> Vec<bool> {
    let built_in = (0..table.chains.len()).filter(|i| table.chains[*i].policy.is_some());
    let mut reached = vec![false; table.chains.len()];
    spread(&jumps(table), built_in.collect(), &mut reached, &|chain, rule| {
        catch_all[chain].is_none_or(|by| rule <= by.rule)
    });
    reached
}

/// The chains that only rules behind the catch-all of a reachable chain lead to, with that chain.
pub(crate) fn cut_off(
    table: &Table,
    catch_all: &[Option<CatchAll>],
    reachable: &[bool],
) -> Vec<Option<usize>> {
    let jumps = jumps(table);
    let mut by = vec![None; table.chains.len()];
    let mut reached = reachable.to_vec();
    for chain in (0..table.chains.len()).filter(|c| reachable[*c]) {
        let Some(catch) = catch_all[chain] else { continue };
        let behind = jumps[chain].iter().filter(|(rule, _)| *rule > catch.rule);
        let first: Vec<usize> = behind.map(|(_, to)| *to).filter(|to| !reached[*to]).collect();
        if first.is_empty() {
            continue;
        }
        let before = reached.clone();
        spread(&jumps, first, &mut reached, &|_, _| true);
        for to in (0..by.len()).filter(|c| reached[*c] && !before[*c]) {
            by[to] = Some(chain);
        }
    }
    by
}

/// Marks chains, and those that they lead to by jumps that count.
fn spread(
    jumps: &Jumps,
    mut open: Vec<usize>,
    reached: &mut [bool],
    counts: &dyn Fn(usize, usize) -> bool,
) {
    open.iter().for_each(|i| reached[*i] = true);
    while let Some(from) = open.pop() {
        for (_, to) in jumps[from].iter().filter(|(rule, _)| counts(from, *rule)) {
            if !std::mem::replace(&mut reached[*to], true) {
                open.push(*to);
            }
        }
    }
}

/// A rule behind which no packet goes on in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatchAll {
    /// Its index in its chain.
    pub rule: usize,
    /// The rule that decides: itself, or one of a chain that it leads to (chain and index).
    pub decides: (usize, usize),
}

/// Chains that no packet leaves undecided, by name, with the rule that decides what others leave.
pub(crate) type Closed<'a> = HashMap<&'a str, Option<(usize, usize)>>;

/// The rule of each chain behind which no packet goes on: it has no tests and decides, or leads
/// into a chain that no packet leaves undecided.
pub(crate) fn catch_alls(ruleset: &Ruleset, table: &Table) -> Vec<Option<CatchAll>> {
    let closed = closed(ruleset.family, table);
    let family = ruleset.family;
    let takes_all = |rule: &Rule| {
        let leaves = rule.target.leaves_chain();
        (leaves || jumps_into(rule, &closed).is_some()) && tests_of(rule, family).is_empty()
    };
    let of = |(chain, c): (usize, &Chain)| {
        let rule = c.rules.iter().position(takes_all)?;
        let decides = jumps_into(&c.rules[rule], &closed).unwrap_or((chain, rule));
        Some(CatchAll { rule, decides })
    };
    table.chains.iter().enumerate().map(of).collect()
}

/// The rule that decides, where the rule leads into a chain that no packet leaves undecided.
fn jumps_into(rule: &Rule, closed: &Closed<'_>) -> Option<(usize, usize)> {
    *closed.get(&**rule.target.chain()?)?
}

/// Which chains no packet leaves undecided: a rule without tests decides or leads into such a
/// chain, and no rule before it returns. Callees first, without recursion.
pub(crate) fn closed(family: Family, table: &Table) -> Closed<'_> {
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let mut closed: Closed<'_> = HashMap::new();
    let mut begun = vec![false; table.chains.len()];
    for start in 0..table.chains.len() {
        let mut stack = vec![start];
        while let Some(&at) = stack.last() {
            let chain = &table.chains[at];
            let callees = chain.rules.iter().filter_map(|r| by_name.get(&**r.target.chain()?));
            let open: Vec<usize> = callees.copied().filter(|to| !begun[*to]).collect();
            if !std::mem::replace(&mut begun[at], true) && !open.is_empty() {
                stack.extend(open);
                continue;
            }
            stack.pop();
            if !closed.contains_key(&*chain.name) {
                let is = closes(chain, at, family, &closed);
                closed.insert(&chain.name, is);
            }
        }
    }
    closed
}

fn closes(chain: &Chain, at: usize, family: Family, closed: &Closed<'_>) -> Option<(usize, usize)> {
    for (i, rule) in chain.rules.iter().enumerate() {
        let into = jumps_into(rule, closed);
        match rule.target {
            Target::Return => return None,
            Target::Goto(_) if into.is_none() => return None,
            _ if !(into.is_some() || rule.target.decides()) => {}
            _ if tests_of(rule, family).is_empty() => return Some(into.unwrap_or((at, i))),
            _ => {}
        }
    }
    None
}
