//! Properties of a whole table: jumps without loops, and extensions only where a hook that allows
//! them leads to them.
//!
//! The kernel follows jumps from each hook (`mark_source_chains` in net/ipv4/netfilter/ip_tables.c)
//! and passes the hooks that reach a rule to its extensions. A rule after one that always ends the
//! chain is not reachable.

use weir_model::{Base, Chain, ChainGraph, Hook, Rule, Span, TableName, Target};

use super::scan::hook_bit;
use crate::diagnostic::Diagnostic;

/// The hooks that a rule's extensions require: allowed bits, and the extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrowing {
    pub hooks: u8,
    pub by: &'static str,
}

/// A table, and which hooks lead to its chains.
struct HookWalk<'t> {
    chains: &'t [Chain],
    graph: ChainGraph<'t>,
    narrowings: &'t [Vec<Narrowing>],
    /// Of each chain, the hooks that lead to it.
    reached: Vec<u8>,
    errors: Vec<Diagnostic>,
}

/// Checks a table whose rules are all read; `narrowings` are next to each chain's rules.
pub(super) fn check(
    table: TableName,
    chains: &[Chain],
    narrowings: &[Vec<Narrowing>],
) -> Vec<Diagnostic> {
    let graph = ChainGraph::new(chains);
    let mut walk =
        HookWalk { chains, graph, narrowings, reached: vec![0; chains.len()], errors: Vec::new() };
    walk.refuse_loops();
    if walk.errors.is_empty() && narrowings.iter().flatten().any(|n| n.hooks != u8::MAX) {
        for hook in table.hooks() {
            walk.mark(*hook);
        }
        walk.refuse_misplaced();
    }
    walk.errors
}

impl HookWalk<'_> {
    fn refuse_loops(&mut self) {
        for jump in self.graph.closing_jumps() {
            let (from, to) = (&self.chains[jump.from], &self.chains[jump.to]);
            let message = format!("jump from {} to {} closes a loop", from.name, to.name);
            let rule = &from.rules[jump.rule];
            let span = rule.spans.last().copied().unwrap_or(rule.span);
            let help = "the kernel refuses loops of chains";
            self.errors.push(Diagnostic::new(message, span).help(help));
        }
    }

    /// Marks all chains that a hook leads to.
    fn mark(&mut self, hook: Hook) {
        let ends: Vec<usize> = self
            .chains
            .iter()
            .map(|c| c.rules.iter().position(always_ends).unwrap_or(c.rules.len()))
            .collect();
        let mut reached = vec![false; self.chains.len()];
        let root = self.graph.chain(hook.chain());
        for chain in self.graph.spread(root, &mut reached, |jump| jump.rule < ends[jump.from]) {
            self.reached[chain] |= hook_bit(hook);
        }
    }

    fn refuse_misplaced(&mut self) {
        for (i, chain) in self.chains.iter().enumerate() {
            let reached = self.reached[i];
            for (rule, narrowing) in chain.rules.iter().zip(&self.narrowings[i]) {
                let wrong = reached & !narrowing.hooks;
                if wrong != 0 {
                    self.errors.push(misplaced(chain, rule, *narrowing, wrong));
                }
                if always_ends(rule) {
                    break;
                }
            }
        }
    }
}

/// A rule that every packet ends at.
fn always_ends(rule: &Rule) -> bool {
    matches!(rule.target, Target::Accept | Target::Drop | Target::Return)
        && rule.matches.is_empty()
        && rule.base == Base::default()
}

fn misplaced(chain: &Chain, rule: &Rule, narrowing: Narrowing, wrong: u8) -> Diagnostic {
    let names = |bits: u8| {
        let hooks = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
        let set = hooks.into_iter().filter(|h| bits & hook_bit(*h) != 0);
        set.map(Hook::chain).collect::<Vec<_>>().join(", ")
    };
    let where_from = if Hook::of_chain(&chain.name).is_some() {
        format!("{} in {}", narrowing.by, chain.name)
    } else {
        format!("{} in {}, which {} leads to", narrowing.by, chain.name, names(wrong))
    };
    let span = place_of(rule, narrowing.by);
    Diagnostic::new(where_from, span).help(match narrowing.hooks & 0x1f {
        0 => "this rule is not allowed in any chain".to_owned(),
        hooks => format!("the kernel accepts it only from {}", names(hooks)),
    })
}

fn place_of(rule: &Rule, _by: &str) -> Span {
    rule.span
}
