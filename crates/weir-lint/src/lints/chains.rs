//! Chains that no packet reaches, jumps into nothing, jumps in a circle.

use weir_model::Target;

use crate::chains::{Jumps, jumps};
use crate::context::{Context, TableContext};
use crate::edit::is_foreign;
use crate::family::LintFamily;
use crate::finding::{Edit, Finding};
use crate::lint::define;

define!(UNREACHABLE_CHAIN, "unreachable-chain", Note, fix);
define!(JUMP_TO_EMPTY_CHAIN, "jump-to-empty-chain", Note, fix);
define!(JUMP_LOOP, "jump-loop", Error);

pub(crate) static FAMILY: LintFamily =
    LintFamily { lints: &[&UNREACHABLE_CHAIN, &JUMP_TO_EMPTY_CHAIN, &JUMP_LOOP], look };

fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        let jumps = jumps(table.table);
        unreachable(table, &jumps, out);
        empty(table, &jumps, out);
        loops(table, &jumps, out);
    }
}

fn unreachable(table: &TableContext<'_>, jumps: &Jumps, out: &mut Vec<Finding>) {
    let mut named = vec![false; table.table.chains.len()];
    jumps.iter().flatten().for_each(|(_, to)| named[*to] = true);
    for at in (0..table.reachable.len()).filter(|i| !table.reachable[*i]) {
        let chain = table.chain(at);
        let by = if named[at] { "only chains that are unreachable jump" } else { "no rule jumps" };
        let message = format!("{by} to chain {} ({} rules)", chain.name, chain.rules.len());
        let found = table.of_chain(&UNREACHABLE_CHAIN, at, message);
        out.push(if is_foreign(&chain.name) {
            found.help("another program made it, and may jump to it later")
        } else {
            let (table, chain) = (table.table.name, chain.name.clone());
            let help = format!("remove it (`-F {chain}`, `-X {chain}`), or jump to it");
            let family = found.family.unwrap_or(weir_model::Family::V4);
            found.help(help).fix(vec![Edit::RemoveChain { family, table, chain }])
        });
    }
}

fn empty(table: &TableContext<'_>, jumps: &Jumps, out: &mut Vec<Finding>) {
    for (at, jumps) in jumps.iter().enumerate() {
        for (rule, to) in jumps {
            let chain = table.chain(*to);
            if !chain.rules.is_empty() {
                continue;
            }
            let message = format!("the rule jumps to chain {}, which is empty", chain.name);
            let found = table
                .rule(&JUMP_TO_EMPTY_CHAIN, at, *rule, message)
                .help("other programs may fill it; if none does, remove both")
                .tried(1);
            // A goto leaves the caller, and a rule may drop what it cannot read.
            let plain = matches!(table.chain(at).rules[*rule].target, Target::Jump(_)) && {
                let reach = table.flow.reach((at, *rule));
                reach.hot.is_empty() && reach.asks.is_empty()
            };
            out.push(match plain && !is_foreign(&chain.name) {
                true => found.fix_with_counters(vec![table.removal(at, *rule)]),
                false => found,
            });
        }
    }
}

/// The first jump of each chain that closes a circle; without recursion.
fn loops(table: &TableContext<'_>, jumps: &Jumps, out: &mut Vec<Finding>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; jumps.len()];
    for start in 0..jumps.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        let mut stack = vec![(start, 0)];
        while let Some((chain, next)) = stack.last_mut() {
            let Some((rule, to)) = jumps[*chain].get(*next).copied() else {
                marks[*chain] = Mark::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            let from = *chain;
            match marks[to] {
                Mark::New => {
                    marks[to] = Mark::Open;
                    stack.push((to, 0));
                }
                Mark::Open => {
                    let message = format!("the jump leads back to chain {}", table.chain(to).name);
                    let help = "the kernel refuses to load a loop: remove one of its jumps";
                    out.push(table.rule(&JUMP_LOOP, from, rule, message).help(help));
                }
                Mark::Done => {}
            }
        }
    }
}
