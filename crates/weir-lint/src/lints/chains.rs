//! Unreachable chains, jumps to empty chains, loops.

use weir_model::programs::owner_of;
use weir_model::{Family, Target};

use crate::context::{LintContext, TableContext};
use crate::family::LintFamily;
use crate::finding::{Edit, Finding};
use crate::lint::define;
use crate::root_cause::RootCause;

define!(UNREACHABLE_CHAIN, "unreachable-chain", Note, fix);
define!(JUMP_TO_EMPTY_CHAIN, "jump-to-empty-chain", Note, fix);
define!(JUMP_LOOP, "jump-loop", Error);

pub(crate) static FAMILY: LintFamily =
    LintFamily { lints: &[&UNREACHABLE_CHAIN, &JUMP_TO_EMPTY_CHAIN, &JUMP_LOOP], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        unreachable(table, out);
        empty(table, out);
        loops(table, out);
    }
}

/// Chains that no rule leads to, and those that only such chains lead to.
fn unreachable(table: &TableContext<'_>, out: &mut Vec<Finding>) {
    let graph = table.flow.graph();
    let is_lost = |c: usize| !table.reachable[c] && table.cut_off[c].is_none();
    let lost: Vec<usize> = (0..graph.len()).filter(|c| is_lost(*c)).collect();
    let mut root: Vec<Option<usize>> = vec![None; graph.len()];
    let mut rooted = vec![false; graph.len()];
    // Chains in a circle have no first one: any of them will do.
    let first = lost.iter().filter(|c| table.flow.callers(**c).is_empty()).chain(&lost);
    for start in first {
        for chain in graph.spread([*start], &mut rooted, |jump| is_lost(jump.to)) {
            root[chain] = Some(*start);
        }
    }
    for at in lost {
        let from = root[at].unwrap_or(at);
        let name = &table.chain(from).name;
        let one = format!("no rule jumps to chain {name}");
        let many = format!("{one}: {{n}} chains are unreachable");
        let message = match from == at {
            true => one.clone(),
            false => format!("only unreachable chains jump to chain {}", table.chain(at).name),
        };
        let cause = RootCause::new(table.key(from, None), many, "entered only from there").help(
            match owner_of(name) {
                Some(_) => "leave it: its program may jump to it later".to_owned(),
                None => format!("remove it (`-F {name}`, `-X {name}`), or jump to it"),
            },
        );
        let found = table
            .of_chain(&UNREACHABLE_CHAIN, at, message)
            .by(table.keeper(from))
            .caused(cause.blames(table.at(from, None), one));
        out.push(if owner_of(&table.chain(at).name).is_some() {
            found.help("leave it: its program may jump to it later")
        } else {
            let (table, chain) = (table.table.name, table.chain(at).name.clone());
            let help = format!("remove it (`-F {chain}`, `-X {chain}`), or jump to it");
            let family = found.family.unwrap_or(Family::V4);
            found.help(help).fix(vec![Edit::RemoveChain { family, table, chain }])
        });
    }
}

/// Jumps to chains without rules: the chain is to blame.
fn empty(table: &TableContext<'_>, out: &mut Vec<Finding>) {
    for jump in table.flow.graph().all_jumps() {
        let (at, rule, to) = (jump.from, jump.rule, jump.to);
        let chain = table.chain(to);
        if chain.rules.is_empty() {
            let name = &chain.name;
            let one = format!("chain {name} is empty, and a rule jumps to it");
            let many = format!("chain {name} is empty, and {{n}} rules jump to it");
            let cause = RootCause::new(table.key(to, None), many, "jumps to it");
            let found = table
                .rule(&JUMP_TO_EMPTY_CHAIN, at, rule, format!("chain {name} is empty"))
                .by(table.keeper(to))
                .help("remove the jump and the chain, unless a program fills the chain")
                .caused(cause.blames(table.at(to, None), one))
                .tried(1);
            // A goto leaves the caller, and a rule may drop what it cannot read.
            let plain = matches!(table.chain(at).rules[rule].target, Target::Jump(_)) && {
                let reach = table.flow.reach((at, rule));
                reach.hot.is_empty() && reach.asks.is_empty()
            };
            out.push(match plain && owner_of(name).is_none() {
                true => found.fix_with_counters(vec![table.removal(at, rule)]),
                false => found,
            });
        }
    }
}

/// The jumps that close a circle.
fn loops(table: &TableContext<'_>, out: &mut Vec<Finding>) {
    for jump in table.flow.graph().closing_jumps() {
        let message = format!("this jump leads back to chain {}", table.chain(jump.to).name);
        let help = "remove one of the jumps: the kernel refuses to load a loop";
        out.push(table.rule(&JUMP_LOOP, jump.from, jump.rule, message).help(help));
    }
}
