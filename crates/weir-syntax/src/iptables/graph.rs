//! What the rules of a table say together: jumps without loops, and extensions only where a hook
//! that they allow leads to them.
//!
//! The kernel walks from each hook through jumps (`mark_source_chains` in
//! net/ipv4/netfilter/ip_tables.c) and hands each rule's extensions the hooks that reach it. A rule
//! behind one that always ends the chain is not reached.

use std::collections::HashMap;

use weir_model::{Base, Chain, Hook, Name, Rule, Span, TableName, Target};

use super::scan::hook_bit;
use crate::diagnostic::Diagnostic;

/// What a rule's extensions ask of the hooks: allowed bits, and who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrowing {
    pub hooks: u8,
    pub by: &'static str,
}

/// Deepest nesting of jumps that is followed; a chain can be entered once on a way.
struct HookWalk<'t> {
    chains: &'t [Chain],
    index: HashMap<&'t Name, usize>,
    narrowings: &'t [Vec<Narrowing>],
    /// Of each chain, the hooks that lead to it.
    reached: Vec<u8>,
    errors: Vec<Diagnostic>,
}

/// Checks a table whose rules are all read; `narrowings` stand beside each chain's rules.
pub(super) fn check(
    table: TableName,
    chains: &[Chain],
    narrowings: &[Vec<Narrowing>],
) -> Vec<Diagnostic> {
    let index = chains.iter().enumerate().map(|(i, c)| (&c.name, i)).collect();
    let mut walk =
        HookWalk { chains, index, narrowings, reached: vec![0; chains.len()], errors: Vec::new() };
    walk.refuse_loops();
    if walk.errors.is_empty() && narrowings.iter().flatten().any(|n| n.hooks != u8::MAX) {
        for hook in table.hooks() {
            walk.mark(*hook);
        }
        walk.refuse_misplaced();
    }
    walk.errors
}

impl<'t> HookWalk<'t> {
    fn target_of(&self, rule: &Rule) -> Option<usize> {
        rule.target.chain().and_then(|name| self.index.get(name).copied())
    }

    /// Depth first over jumps; an edge to a chain that is still open closes a loop.
    fn refuse_loops(&mut self) {
        let mut state = vec![0u8; self.chains.len()];
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for root in 0..self.chains.len() {
            if state[root] != 0 {
                continue;
            }
            stack.push((root, 0));
            state[root] = 1;
            while let Some((chain, at)) = stack.last_mut() {
                let rules = &self.chains[*chain].rules;
                let Some(rule) = rules.get(*at) else {
                    state[*chain] = 2;
                    stack.pop();
                    continue;
                };
                *at += 1;
                let from = *chain;
                let Some(to) = self.target_of(rule) else { continue };
                match state[to] {
                    0 => {
                        state[to] = 1;
                        stack.push((to, 0));
                    }
                    1 => {
                        let (from, to) = (&self.chains[from].name, &self.chains[to].name);
                        let message = format!("jump from {from} to {to} closes a loop");
                        let span = rule.spans.last().copied().unwrap_or(rule.span);
                        self.errors.push(
                            Diagnostic::new(message, span)
                                .help("the kernel refuses loops of chains"),
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    /// Marks all chains that a hook leads to.
    fn mark(&mut self, hook: Hook) {
        let bit = hook_bit(hook);
        let Some(root) = self.chains.iter().position(|c| &*c.name == hook.chain()) else { return };
        let mut open = vec![root];
        while let Some(chain) = open.pop() {
            if self.reached[chain] & bit != 0 {
                continue;
            }
            self.reached[chain] |= bit;
            for rule in &self.chains[chain].rules {
                open.extend(self.target_of(rule));
                if always_ends(rule) {
                    break;
                }
            }
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
        0 => "no chain can hold this rule".to_owned(),
        hooks => format!("the kernel takes it only from {}", names(hooks)),
    })
}

fn place_of(rule: &Rule, _by: &str) -> Span {
    rule.span
}
