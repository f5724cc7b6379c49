//! Properties of a whole table: jumps without loops, and extensions only where a hook that allows
//! them leads to them.
//!
//! The kernel follows jumps from each hook (`mark_source_chains` in net/ipv4/netfilter/ip_tables.c)
//! and passes the hooks that reach a rule to its extensions. A rule after one that always ends the
//! chain is not reachable.

use weir_model::effect::verdict_or_extension_name;
use weir_model::{BaseMatch, Chain, ChainGraph, Hook, Rule, Span, TableName, Target};

use super::scan::hook_bit;
use crate::diagnostic::Diagnostic;

/// The hooks that a rule's extensions require: allowed bits, and the extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookRestriction {
    pub allowed_hooks: u8,
    pub extension_name: &'static str,
}

/// A table, and which hooks lead to its chains.
struct JumpAndHookChecker<'t> {
    chains: &'t [Chain],
    chain_graph: ChainGraph<'t>,
    hook_restrictions: &'t [Vec<HookRestriction>],
    /// Of each chain, the hooks that lead to it.
    reaching_hooks: Vec<u8>,
    errors: Vec<Diagnostic>,
}

/// Checks a table whose rules are all read; `narrowings` are next to each chain's rules.
pub(super) fn check_jumps_and_hooks(
    table: TableName,
    chains: &[Chain],
    narrowings: &[Vec<HookRestriction>],
) -> Vec<Diagnostic> {
    let chain_graph = ChainGraph::new(chains);
    let mut walk = JumpAndHookChecker {
        chains,
        chain_graph,
        hook_restrictions: narrowings,
        reaching_hooks: vec![0; chains.len()],
        errors: Vec::new(),
    };
    walk.refuse_loops();
    walk.refuse_targets_named_like_chains();
    if walk.errors.is_empty() && narrowings.iter().flatten().any(|n| n.allowed_hooks != u8::MAX) {
        for hook in table.hooks() {
            walk.mark_chains_reachable_from_hook(*hook);
        }
        walk.refuse_rules_at_wrong_hooks();
    }
    walk.errors
}

impl JumpAndHookChecker<'_> {
    fn refuse_loops(&mut self) {
        for jump in self.chain_graph.back_edges() {
            let (from, to) = (&self.chains[jump.from], &self.chains[jump.to]);
            let message = format!("jump from {} to {} closes a loop", from.name, to.name);
            let rule = &from.rules[jump.rule];
            let span = rule.match_and_target_spans.last().copied().unwrap_or(rule.span);
            let help = "the kernel refuses loops of chains";
            self.errors.push(Diagnostic::new(message, span).with_help(help));
        }
    }

    /// A chain that is declared after a rule with a target of its name: printed, the chain would
    /// come first, and the rule would jump to it.
    ///
    /// `iptables-restore` 1.8.9 takes such a text. What `iptables-save` prints then is another
    /// ruleset, or is refused if the target has options.
    fn refuse_targets_named_like_chains(&mut self) {
        for rule in self.chains.iter().flat_map(|c| &c.rules) {
            let Some(name) = verdict_or_extension_name(&rule.target) else { continue };
            if self.chain_graph.chain_index(name).is_some() {
                let message = format!("{name} is a target here, and a chain that follows");
                let span = rule.match_and_target_spans.last().copied().unwrap_or(rule.span);
                let help = "rename the chain: iptables-restore jumps to a chain that has the name of \
                            a target";
                self.errors.push(Diagnostic::new(message, span).with_help(help));
            }
        }
    }

    /// Marks all chains that a hook leads to.
    fn mark_chains_reachable_from_hook(&mut self, hook: Hook) {
        let ends: Vec<usize> = self
            .chains
            .iter()
            .map(|c| c.rules.iter().position(always_ends_chain).unwrap_or(c.rules.len()))
            .collect();
        let mut reached = vec![false; self.chains.len()];
        let root = self.chain_graph.chain_index(hook.chain_name());
        for chain in self
            .chain_graph
            .mark_newly_reachable(root, &mut reached, |jump| jump.rule < ends[jump.from])
        {
            self.reaching_hooks[chain] |= hook_bit(hook);
        }
    }

    fn refuse_rules_at_wrong_hooks(&mut self) {
        for (i, chain) in self.chains.iter().enumerate() {
            let reached = self.reaching_hooks[i];
            for (rule, narrowing) in chain.rules.iter().zip(&self.hook_restrictions[i]) {
                let wrong = reached & !narrowing.allowed_hooks;
                if wrong != 0 {
                    self.errors.push(wrong_hook_error(chain, rule, *narrowing, wrong));
                }
                if always_ends_chain(rule) {
                    break;
                }
            }
        }
    }
}

/// A rule that every packet ends at.
fn always_ends_chain(rule: &Rule) -> bool {
    matches!(rule.target, Target::Accept | Target::Drop | Target::Return)
        && rule.matches.is_empty()
        && rule.base == BaseMatch::default()
}

fn wrong_hook_error(
    chain: &Chain,
    rule: &Rule,
    narrowing: HookRestriction,
    wrong: u8,
) -> Diagnostic {
    let names = |bits: u8| {
        let set = Hook::ALL.into_iter().filter(|h| bits & hook_bit(*h) != 0);
        set.map(Hook::chain_name).collect::<Vec<_>>().join(", ")
    };
    let where_from = if Hook::from_chain_name(&chain.name).is_some() {
        format!("{} in {}", narrowing.extension_name, chain.name)
    } else {
        format!("{} in {}, which {} leads to", narrowing.extension_name, chain.name, names(wrong))
    };
    let span = rule_span(rule, narrowing.extension_name);
    Diagnostic::new(where_from, span).with_help(match narrowing.allowed_hooks & 0x1f {
        0 => "this rule is not allowed in any chain".to_owned(),
        hooks => format!("the kernel accepts it only from {}", names(hooks)),
    })
}

fn rule_span(rule: &Rule, _by: &str) -> Span {
    rule.span
}
