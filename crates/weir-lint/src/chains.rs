//! What is known of the chains of a table before any packet is looked at: jumps, which chains are
//! reached, and behind which rules no packet goes on.

use std::collections::HashMap;

use weir_model::{Chain, Family, Ruleset, Table, Target, tests_of};

/// The jumps of each chain: which rule, to which chain.
pub(crate) type Jumps = Vec<Vec<(usize, usize)>>;

/// The jumps of each chain of a table.
pub(crate) fn jumps(table: &Table) -> Jumps {
    let by_name: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(i, c)| (&*c.name, i)).collect();
    let to = |(i, target): (usize, &Target)| Some((i, *by_name.get(&**target.chain()?)?));
    let of = |c: &weir_model::Chain| {
        c.rules.iter().map(|r| &r.target).enumerate().filter_map(to).collect()
    };
    table.chains.iter().map(of).collect()
}

/// Which chains a built-in chain leads to.
pub(crate) fn reachable(table: &Table) -> Vec<bool> {
    let jumps = jumps(table);
    let mut open: Vec<usize> =
        (0..table.chains.len()).filter(|i| table.chains[*i].policy.is_some()).collect();
    let mut reached = vec![false; table.chains.len()];
    open.iter().for_each(|i| reached[*i] = true);
    while let Some(from) = open.pop() {
        for (_, to) in &jumps[from] {
            if !std::mem::replace(&mut reached[*to], true) {
                open.push(*to);
            }
        }
    }
    reached
}

/// Chains that no packet leaves undecided, by name.
pub(crate) type Closed<'a> = HashMap<&'a str, bool>;

/// The rule of each chain behind which no packet goes on: it has no tests and decides, or leads
/// into a chain that no packet leaves undecided.
pub(crate) fn catch_alls(ruleset: &Ruleset, table: &Table) -> Vec<Option<usize>> {
    let closed = closed(ruleset.family, table);
    let family = ruleset.family;
    let takes_all = |rule: &weir_model::Rule| {
        let decides =
            rule.target.decides() || matches!(rule.target, Target::Return | Target::Goto(_));
        (decides || jumps_into(rule, &closed)) && tests_of(rule, family).is_empty()
    };
    table.chains.iter().map(|c| c.rules.iter().position(takes_all)).collect()
}

/// True where the rule leads into a chain that no packet leaves undecided.
fn jumps_into(rule: &weir_model::Rule, closed: &Closed<'_>) -> bool {
    rule.target.chain().is_some_and(|to| closed.get(&**to).copied().unwrap_or(false))
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
                let is = closes(chain, family, &closed);
                closed.insert(&chain.name, is);
            }
        }
    }
    closed
}

fn closes(chain: &Chain, family: Family, closed: &Closed<'_>) -> bool {
    for rule in &chain.rules {
        let into = jumps_into(rule, closed);
        match rule.target {
            Target::Return => return false,
            Target::Goto(_) if !into => return false,
            _ if !(into || rule.target.decides()) => {}
            _ if tests_of(rule, family).is_empty() => return true,
            _ => {}
        }
    }
    false
}
