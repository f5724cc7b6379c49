//! One iptables table as an nft table.
//!
//! The hooks of a table are compiled separately. A hook whose chains contain a rule that nft cannot
//! express stays in iptables, at the same priority as before, so that a packet still traverses the
//! tables in order. So does a hook that enters a chain which another program manages
//! ([`weir_model::managing_programs`]): a copy in nft would be outdated after the program's next
//! change. Two things tie hooks together: the nat table, which only one side may have, and a
//! `limit` in a chain that several hooks reach, because two copies would be two limits.

use std::collections::{HashMap, HashSet};

use weir_artefact::NFT_TABLE_PREFIX;
use weir_model::effect::is_conntrack_enabling_rule;
use weir_model::effect::shared_objects::uses_shared_objects;
use weir_model::effect::{ConntrackDemand, rule_conntrack_demand};
use weir_model::managing_programs::{ManagingProgram, find_preserved_program_of_chain};
use weir_model::nft::{
    self, BaseChain, ChainKind, CreditedRuleOrPolicy, Statement, Verdict, ct_state,
};
use weir_model::{Chain, ChainGraph, Family, Hook, Policy, Rule, SharedName, Table, TableName};

use super::chain_emitter::{ChainDraft, ChainEmitter, CompiledRuleRunReport};
use super::chain_names::NftChainNames;
use super::lowered_rule::{LoweredRule, RuleLowering, lower_rule};

/// Deepest call that nft takes, the base chain not counted (NFT_JUMP_STACK_SIZE is 16).
pub(super) const MAX_CALLS_BELOW_BASE_CHAIN: usize = 15;

/// A rule that nft cannot say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RefusedRule {
    pub chain: SharedName,
    /// From 1.
    pub number: u32,
    pub why: String,
}

/// A table, and which of its hooks go to nft.
pub(super) struct TableMovePlan<'f> {
    pub family: Family,
    pub table: &'f Table,
    chain_graph: ChainGraph<'f>,
    lowered_rules: HashMap<&'f str, Vec<LoweredRule>>,
    pub refused_rules: Vec<RefusedRule>,
    /// Chains that other programs keep, and which do.
    pub chains_of_managing_programs: Vec<(&'f SharedName, ManagingProgram)>,
    /// Hooks that stay in iptables although all of their rules can be expressed, and why.
    pub expressible_hooks_kept_in_iptables: Vec<(Hook, &'static str)>,
    /// Hooks that go to nft.
    pub moved_hooks: Vec<Hook>,
}

impl<'f> TableMovePlan<'f> {
    /// A plan; chains of `programs` are treated like the user's.
    pub fn new(table: &'f Table, family: Family, programs: &[ManagingProgram]) -> Self {
        let foreign = |c: &'f Chain| {
            let program =
                find_preserved_program_of_chain(&c.name).filter(|p| !programs.contains(p))?;
            Some((&c.name, program))
        };
        let mut plan = TableMovePlan {
            family,
            table,
            chain_graph: table.chain_graph(),
            lowered_rules: HashMap::new(),
            refused_rules: Vec::new(),
            chains_of_managing_programs: table.chains.iter().filter_map(foreign).collect(),
            expressible_hooks_kept_in_iptables: Vec::new(),
            moved_hooks: Vec::new(),
        };
        for chain in &table.chains {
            let items = plan.lower_chain(chain);
            plan.lowered_rules.insert(&chain.name, items);
        }
        plan.choose_moved_hooks();
        plan
    }

    fn lower_chain(&mut self, chain: &'f Chain) -> Vec<LoweredRule> {
        let mut items = Vec::with_capacity(chain.rules.len());
        for (i, rule) in chain.rules.iter().enumerate() {
            match lower_rule(rule, self.family) {
                RuleLowering::Lowered(item) => items.push(item),
                RuleLowering::NeverMatches => {}
                RuleLowering::Unsupported(why) => {
                    let number = i as u32 + 1;
                    self.refused_rules.push(RefusedRule { chain: chain.name.clone(), number, why });
                }
            }
        }
        items
    }

    fn choose_moved_hooks(&mut self) {
        let foreign = self.chains_of_managing_programs.iter().map(|(chain, _)| &***chain);
        let bad: HashSet<&str> =
            self.refused_rules.iter().map(|r| &*r.chain).chain(foreign).collect();
        let hooks: Vec<Hook> = self
            .table
            .name
            .hooks()
            .iter()
            .copied()
            .filter(|h| self.built_in_chain(*h).is_some())
            .collect();
        let reach: HashMap<Hook, HashSet<&str>> =
            hooks.iter().map(|h| (*h, self.reachable_chains(h.chain_name()))).collect();
        let (stay, mut moved): (Vec<Hook>, Vec<Hook>) =
            hooks.iter().partition(|h| reach[h].iter().any(|c| bad.contains(c)));
        let mut stay = stay;
        if self.table.name == TableName::Nat && !stay.is_empty() {
            let why = "the nat table is not split";
            self.expressible_hooks_kept_in_iptables.extend(moved.iter().map(|h| (*h, why)));
            moved.clear();
        }
        let budget = |c: &&&str| self.lowered_rules[**c].iter().any(LoweredRule::is_stateful);
        while let Some(at) = moved.iter().position(|h| {
            reach[h].iter().filter(budget).any(|c| stay.iter().any(|s| reach[s].contains(c)))
        }) {
            let hook = moved.remove(at);
            self.expressible_hooks_kept_in_iptables
                .push((hook, "it shares a limit with a hook that stays in iptables"));
            stay.push(hook);
        }
        if moved.len() == hooks.len()
            && self.chains_of_managing_programs.is_empty()
            && self
                .table
                .chains
                .iter()
                .flat_map(|c| &c.rules)
                .any(|rule| has_load_side_effect_besides_conntrack(rule, self.family))
        {
            // Rules that packets can reach would have kept their hooks in iptables, so no packet
            // reaches this one.
            let why = "a rule that no packet reaches has an effect by being loaded (recent, \
                       hashlimit, socket, …), which nft cannot express";
            self.expressible_hooks_kept_in_iptables.extend(moved.drain(..).map(|h| (h, why)));
        }
        self.moved_hooks = moved;
    }

    pub fn built_in_chain(&self, hook: Hook) -> Option<&'f Chain> {
        self.table.chains.iter().find(|c| c.policy.is_some() && &*c.name == hook.chain_name())
    }

    /// The chain of that name.
    pub fn chain(&self, name: &str) -> Option<&'f Chain> {
        self.chain_graph.chain_index(name).map(|at| &self.table.chains[at])
    }

    /// The chains that a walk from `start` may enter, itself included.
    fn reachable_chains(&self, start: &'f str) -> HashSet<&'f str> {
        let entered = self.chain_graph.reachable_from(self.chain_graph.chain_index(start));
        let chains = self.table.chains.iter().zip(entered);
        chains.filter(|(_, is)| *is).map(|(chain, _)| &*chain.name).collect()
    }

    /// The chains of the nft table: those that a moved hook may enter, and, if nothing stays in
    /// iptables, those that no hook enters but that nft can express completely.
    fn chains_of_nft_table(&self) -> HashSet<&'f str> {
        let bad: HashSet<&str> = self.refused_rules.iter().map(|r| &*r.chain).collect();
        let mut entered: HashSet<&str> = HashSet::new();
        let mut wanted: HashSet<&str> = HashSet::new();
        for hook in self.table.name.hooks().iter().filter(|h| self.built_in_chain(**h).is_some()) {
            let reach = self.reachable_chains(hook.chain_name());
            entered.extend(&reach);
            if self.moved_hooks.contains(hook) {
                wanted.extend(reach);
            }
        }
        if !self.leaves_nothing_in_iptables() {
            return wanted;
        }
        // What no hook enters may still be why conntrack is in use. A chain that leads to one that
        // nft cannot express is not wanted.
        let chains = &self.table.chains;
        let mut leads_to_bad: Vec<bool> = chains.iter().map(|c| bad.contains(&*c.name)).collect();
        for chain in self.chain_graph.all_callees_first() {
            let jumps = self.chain_graph.jumps_from(chain);
            leads_to_bad[chain] |= jumps.iter().any(|jump| leads_to_bad[jump.to]);
        }
        let unentered = (0..chains.len())
            .filter(|at| !entered.contains(&*chains[*at].name) && !leads_to_bad[*at]);
        let reached = self.chain_graph.reachable_from(unentered);
        wanted.extend(chains.iter().zip(reached).filter(|(_, is)| *is).map(|(c, _)| &*c.name));
        wanted
    }

    /// Whether a chain that no hook enters and that nft cannot say makes the kernel track
    /// connections.
    fn has_lost_chain_needing_conntrack(&self, wanted: &HashSet<&'f str>) -> bool {
        let is_lost = |c: &&Chain| c.policy.is_none() && !wanted.contains(&*c.name);
        self.table
            .chains
            .iter()
            .filter(is_lost)
            .flat_map(|c| &c.rules)
            .any(is_conntrack_enabling_rule)
    }

    /// Writes the moved hooks; `guard` where fragments may come by.
    pub fn emit_table(&self, guard: bool, runs: bool) -> (nft::Table, Vec<CompiledRuleRunReport>) {
        let wanted = self.chains_of_nft_table();
        let mut e = ChainEmitter {
            family: self.family,
            names: NftChainNames::new(self.table.chains.iter().map(|c| &c.name)),
            chains: Vec::new(),
            maps: Vec::new(),
            guard_fragments: guard,
            compile_rule_runs_to_lookups: runs,
            emitted_rule_runs: Vec::new(),
        };
        for chain in &self.table.chains {
            let is_base = Hook::from_chain_name(&chain.name).is_some() && chain.policy.is_some();
            if !is_base && wanted.contains(&*chain.name) {
                let name = e.names.nft_chain_name(&chain.name).to_string();
                let comment = (name != *chain.name).then(|| chain.name.to_string());
                let mut body = ChainDraft::new(name, comment);
                e.emit_rules(&mut body, &self.lowered_rules[&*chain.name]);
                e.finish_chain(body);
            }
        }
        if self.leaves_nothing_in_iptables() && self.has_lost_chain_needing_conntrack(&wanted) {
            // No hook enters it: its test alone makes the kernel track connections.
            let with = nft::Comparand::AnyBit(ct_state::INVALID.into());
            let state = nft::Test {
                expression: nft::LoadExpression::CtState,
                comparand: with,
                negated: false,
            };
            let mut body = ChainDraft::new(e.names.fresh_chain_name("conntrack"), None);
            body.push_statements_as_rule(vec![
                Statement::Test(state),
                Statement::Verdict(Verdict::Return),
            ]);
            e.finish_chain(body);
        }
        for hook in &self.moved_hooks {
            let chain = self.built_in_chain(*hook).expect("moved hooks have a chain");
            let base = self.emit_base_chain(&mut e, *hook, chain);
            e.chains.push(base);
        }
        let table = nft::Table {
            family: self.family,
            name: format!("{NFT_TABLE_PREFIX}{}", self.table.name),
            iptables_table: self.table.name,
            maps: e.maps,
            chains: e.chains,
        };
        (table, e.emitted_rule_runs)
    }

    /// A base chain ends with the policy's counter. If a rule may leave the chain early, its rules
    /// are in a separate chain that the base chain calls, so that every return reaches the policy's
    /// counter.
    fn emit_base_chain(&self, e: &mut ChainEmitter, hook: Hook, chain: &Chain) -> nft::Chain {
        let items = &self.lowered_rules[&*chain.name];
        let name = e.names.nft_chain_name(&chain.name).to_string();
        let mut base = ChainDraft::new(name.clone(), None);
        if items.iter().any(|i| i.action.is_return_or_goto()) {
            let own = e.names.fresh_chain_name(&name);
            let mut body = ChainDraft::new(own.clone(), None);
            e.emit_rules(&mut body, items);
            e.finish_chain(body);
            base.push_statements_as_rule(vec![Statement::Verdict(Verdict::Jump(own))]);
        } else {
            e.emit_rules(&mut base, items);
        }
        base.push_statements_as_rule(vec![Statement::Counter(vec![CreditedRuleOrPolicy::Policy(
            hook,
        )])]);
        let table = self.table.name;
        let kind = ChainKind::for_table_at_hook(table, hook);
        let policy = chain.policy.unwrap_or(Policy::Accept);
        let base_of = BaseChain { kind, hook, priority: table.priority(hook), policy };
        nft::Chain {
            name,
            base: Some(base_of),
            iptables_name_comment: None,
            rules: base.into_base_chain_rules(),
        }
    }

    /// The table with the moved hooks taken out: what stays in iptables.
    pub fn iptables_table_rest(&self) -> Table {
        let mut rest = self.table.clone();
        for chain in &mut rest.chains {
            if self.moved_hooks.iter().any(|h| h.chain_name() == &*chain.name)
                && chain.policy.is_some()
            {
                chain.rules.clear();
                chain.policy = Some(Policy::Accept);
                chain.counters = None;
            }
        }
        let stays = |c: &Chain| c.policy.is_some() && !c.rules.is_empty();
        if !rest.chains.iter().any(stays) && self.leaves_nothing_in_iptables() {
            rest.chains.retain(|c| c.policy.is_some());
        }
        rest
    }

    /// True if every hook of the table goes to nft, and no other program has a chain there.
    pub fn leaves_nothing_in_iptables(&self) -> bool {
        let there = self.table.name.hooks().iter().filter(|h| self.built_in_chain(**h).is_some());
        there.count() == self.moved_hooks.len() && self.chains_of_managing_programs.is_empty()
    }
}

/// Whether a rule has a lasting effect by being loaded: the first rule that names a table of
/// `recent` or `hashlimit` creates it, with its mask or rate; `socket` and TPROXY cause reassembly
/// of datagrams; RATEEST creates the estimate that others read. Unknown modules may do anything.
/// Conntrack is [`is_conntrack_enabling_rule`].
fn has_load_side_effect_besides_conntrack(rule: &Rule, family: Family) -> bool {
    rule_conntrack_demand(rule) == ConntrackDemand::Defragmentation
        || uses_shared_objects(rule, family)
}

/// The greatest depth of jumps and gotos below any base chain of a table; 0 without any.
pub(super) fn find_max_call_depth_of_table(table: &nft::Table) -> usize {
    let maps: HashMap<&str, &nft::VerdictMap> =
        table.maps.iter().map(|m| (m.name.as_str(), m)).collect();
    let calls = |chain: usize| {
        let statements = table.chains[chain].rules.iter().enumerate();
        let statements = statements.flat_map(|(i, r)| r.statements.iter().map(move |s| (i, s)));
        let mut calls = Vec::new();
        for (rule, statement) in statements {
            match statement {
                Statement::Verdict(v) => calls.extend(v.jump_target().map(|to| (rule, to))),
                Statement::Vmap { map, .. } => {
                    let elements = maps.get(map.as_str()).into_iter().flat_map(|m| &m.elements);
                    calls.extend(elements.filter_map(|e| Some((rule, e.verdict.jump_target()?))));
                }
                _ => {}
            }
        }
        calls
    };
    let chain_graph =
        ChainGraph::from_names_and_jumps(table.chains.iter().map(|c| c.name.as_str()), calls);
    let bases = (0..table.chains.len()).filter(|c| table.chains[*c].base.is_some());
    // iptables refuses loops of chains; one that is here all the same counts as too deep.
    bases
        .map(|base| {
            chain_graph.max_jump_or_goto_depth(base).unwrap_or(MAX_CALLS_BELOW_BASE_CHAIN + 1)
        })
        .max()
        .unwrap_or(0)
}
