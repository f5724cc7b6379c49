//! One iptables table as an nft table.
//!
//! The hooks of a table are compiled separately. A hook whose chains contain a rule that nft cannot
//! express stays in iptables, at the same priority as before, so that a packet still traverses the
//! tables in order. So does a hook that enters a chain which another program manages
//! ([`weir_model::programs`]): a copy in nft would be outdated after the program's next change. Two
//! things tie hooks together: the nat table, which only one side may have, and a `limit` in a chain
//! that several hooks reach, because two copies would be two limits.

use std::collections::{HashMap, HashSet};

use weir_artefact::NFT_PREFIX;
use weir_model::effect::named::shares_objects;
use weir_model::effect::needs_conntrack;
use weir_model::effect::{Conntrack, conntrack_of};
use weir_model::nft::{self, BaseChain, ChainKind, Credit, Statement, Verdict, ct_state};
use weir_model::programs::{Program, program_of};
use weir_model::{Chain, ChainGraph, Family, Hook, Name, Policy, Rule, Table, TableName};

use super::emit::{Body, Compiled, Emitter};
use super::item::{Item, LoweredMatch, lower};
use super::names::NftNames;

/// Deepest call that nft takes, the base chain not counted (NFT_JUMP_STACK_SIZE is 16).
pub(super) const DEPTH_MAX: usize = 15;

/// A rule that nft cannot say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RefusedRule {
    pub chain: Name,
    /// From 1.
    pub number: u32,
    pub why: String,
}

/// A table, and which of its hooks go to nft.
pub(super) struct TablePlan<'f> {
    pub family: Family,
    pub table: &'f Table,
    items: HashMap<&'f str, Vec<Item>>,
    pub refused: Vec<RefusedRule>,
    /// Chains that other programs keep, and which do.
    pub foreign: Vec<(&'f Name, Program)>,
    /// Hooks that stay in iptables although all of their rules can be expressed, and why.
    pub tied: Vec<(Hook, &'static str)>,
    /// Hooks that go to nft.
    pub moved: Vec<Hook>,
}

impl<'f> TablePlan<'f> {
    /// A plan; chains of `programs` are treated like the user's.
    pub fn new(table: &'f Table, family: Family, programs: &[Program]) -> Self {
        let foreign = |c: &'f Chain| {
            let program = program_of(&c.name).filter(|p| !programs.contains(p))?;
            Some((&c.name, program))
        };
        let mut plan = TablePlan {
            family,
            table,
            items: HashMap::new(),
            refused: Vec::new(),
            foreign: table.chains.iter().filter_map(foreign).collect(),
            tied: Vec::new(),
            moved: Vec::new(),
        };
        for chain in &table.chains {
            let items = plan.lower(chain);
            plan.items.insert(&chain.name, items);
        }
        plan.choose();
        plan
    }

    fn lower(&mut self, chain: &'f Chain) -> Vec<Item> {
        let mut items = Vec::with_capacity(chain.rules.len());
        for (i, rule) in chain.rules.iter().enumerate() {
            match lower(rule, self.family) {
                LoweredMatch::Item(item) => items.push(item),
                LoweredMatch::Never => {}
                LoweredMatch::Refused(why) => {
                    let number = i as u32 + 1;
                    self.refused.push(RefusedRule { chain: chain.name.clone(), number, why });
                }
            }
        }
        items
    }

    fn choose(&mut self) {
        let foreign = self.foreign.iter().map(|(chain, _)| &***chain);
        let bad: HashSet<&str> = self.refused.iter().map(|r| &*r.chain).chain(foreign).collect();
        let hooks: Vec<Hook> =
            self.table.name.hooks().iter().copied().filter(|h| self.base(*h).is_some()).collect();
        let reach: HashMap<Hook, HashSet<&str>> =
            hooks.iter().map(|h| (*h, self.reach(h.chain()))).collect();
        let (stay, mut moved): (Vec<Hook>, Vec<Hook>) =
            hooks.iter().partition(|h| reach[h].iter().any(|c| bad.contains(c)));
        let mut stay = stay;
        if self.table.name == TableName::Nat && !stay.is_empty() {
            let why = "the nat table is not split";
            self.tied.extend(moved.iter().map(|h| (*h, why)));
            moved.clear();
        }
        let budget = |c: &&&str| self.items[**c].iter().any(Item::is_stateful);
        while let Some(at) = moved.iter().position(|h| {
            reach[h].iter().filter(budget).any(|c| stay.iter().any(|s| reach[s].contains(c)))
        }) {
            let hook = moved.remove(at);
            self.tied.push((hook, "it shares a limit with a hook that stays in iptables"));
            stay.push(hook);
        }
        if moved.len() == hooks.len()
            && self.foreign.is_empty()
            && self
                .table
                .chains
                .iter()
                .flat_map(|c| &c.rules)
                .any(|rule| acts_by_being_loaded(rule, self.family))
        {
            // Rules that packets can reach would have kept their hooks in iptables, so no packet
            // reaches this one.
            let why = "a rule that no packet reaches has an effect by being loaded (recent, \
                       hashlimit, socket, …), which nft cannot express";
            self.tied.extend(moved.drain(..).map(|h| (h, why)));
        }
        self.moved = moved;
    }

    pub fn base(&self, hook: Hook) -> Option<&'f Chain> {
        self.table.chains.iter().find(|c| c.policy.is_some() && &*c.name == hook.chain())
    }

    /// The chains that a walk from `start` may enter, itself included.
    fn reach(&self, start: &'f str) -> HashSet<&'f str> {
        self.table.chains_reached_from([start]).into_iter().map(|chain| &*chain.name).collect()
    }

    /// The chains of the nft table: those that a moved hook may enter, and, if nothing stays in
    /// iptables, those that no hook enters but that nft can express completely.
    fn wanted(&self) -> HashSet<&'f str> {
        let bad: HashSet<&str> = self.refused.iter().map(|r| &*r.chain).collect();
        let mut entered: HashSet<&str> = HashSet::new();
        let mut wanted: HashSet<&str> = HashSet::new();
        for hook in self.table.name.hooks().iter().filter(|h| self.base(**h).is_some()) {
            let reach = self.reach(hook.chain());
            entered.extend(&reach);
            if self.moved.contains(hook) {
                wanted.extend(reach);
            }
        }
        if !self.all_moved() {
            return wanted;
        }
        // What no hook enters may still be why conntrack is in use.
        for chain in self.table.chains.iter().filter(|c| !entered.contains(&*c.name)) {
            let reach = self.reach(&chain.name);
            if reach.iter().all(|c| !bad.contains(c)) {
                wanted.extend(reach);
            }
        }
        wanted
    }

    /// Whether a chain that no hook enters and that nft cannot say makes the kernel track
    /// connections.
    fn loses_conntrack(&self, wanted: &HashSet<&'f str>) -> bool {
        let is_lost = |c: &&Chain| c.policy.is_none() && !wanted.contains(&*c.name);
        self.table.chains.iter().filter(is_lost).flat_map(|c| &c.rules).any(needs_conntrack)
    }

    /// Writes the moved hooks; `guard` where fragments may come by.
    pub fn emit(&self, guard: bool, runs: bool) -> (nft::Table, Vec<Compiled>) {
        let wanted = self.wanted();
        let mut e = Emitter {
            family: self.family,
            names: NftNames::new(self.table.chains.iter().map(|c| &c.name)),
            chains: Vec::new(),
            maps: Vec::new(),
            guard,
            runs,
            compiled: Vec::new(),
        };
        for chain in &self.table.chains {
            let is_base = Hook::of_chain(&chain.name).is_some() && chain.policy.is_some();
            if !is_base && wanted.contains(&*chain.name) {
                let name = e.names.chain(&chain.name).to_string();
                let comment = (name != *chain.name).then(|| chain.name.to_string());
                let mut body = Body::new(name, comment);
                e.items(&mut body, &self.items[&*chain.name]);
                e.finish(body);
            }
        }
        if self.all_moved() && self.loses_conntrack(&wanted) {
            // No hook enters it: its test alone makes the kernel track connections.
            let with = nft::With::AnyBit(ct_state::INVALID.into());
            let state = nft::Test { load: nft::Load::CtState, with, negated: false };
            let mut body = Body::new(e.names.fresh("conntrack"), None);
            body.push(vec![Statement::Test(state), Statement::Verdict(Verdict::Return)]);
            e.finish(body);
        }
        for hook in &self.moved {
            let chain = self.base(*hook).expect("moved hooks have a chain");
            let base = self.base_chain(&mut e, *hook, chain);
            e.chains.push(base);
        }
        let table = nft::Table {
            family: self.family,
            name: format!("{NFT_PREFIX}{}", self.table.name),
            stands_for: self.table.name,
            maps: e.maps,
            chains: e.chains,
        };
        (table, e.compiled)
    }

    /// A base chain ends with the policy's counter. If a rule may leave the chain early, its rules
    /// are in a separate chain that the base chain calls, so that every return reaches the policy's
    /// counter.
    fn base_chain(&self, e: &mut Emitter, hook: Hook, chain: &Chain) -> nft::Chain {
        let items = &self.items[&*chain.name];
        let name = e.names.chain(&chain.name).to_string();
        let mut base = Body::new(name.clone(), None);
        if items.iter().any(|i| i.act.leaves()) {
            let own = e.names.fresh(&name);
            let mut body = Body::new(own.clone(), None);
            e.items(&mut body, items);
            e.finish(body);
            base.push(vec![Statement::Verdict(Verdict::Jump(own))]);
        } else {
            e.items(&mut base, items);
        }
        base.push(vec![Statement::Counter(vec![Credit::Policy(hook)])]);
        let table = self.table.name;
        let kind = match (table, hook) {
            (TableName::Nat, _) => ChainKind::Nat,
            (TableName::Mangle, Hook::Output) => ChainKind::Route,
            _ => ChainKind::Filter,
        };
        let policy = chain.policy.unwrap_or(Policy::Accept);
        let base_of = BaseChain { kind, hook, priority: table.priority(hook), policy };
        nft::Chain { name, base: Some(base_of), comment: None, rules: base.into_rules() }
    }

    /// The table with the moved hooks taken out: what stays in iptables.
    pub fn rest(&self) -> Table {
        let mut rest = self.table.clone();
        for chain in &mut rest.chains {
            if self.moved.iter().any(|h| h.chain() == &*chain.name) && chain.policy.is_some() {
                chain.rules.clear();
                chain.policy = Some(Policy::Accept);
                chain.counters = None;
            }
        }
        let stays = |c: &Chain| c.policy.is_some() && !c.rules.is_empty();
        if !rest.chains.iter().any(stays) && self.all_moved() {
            rest.chains.retain(|c| c.policy.is_some());
        }
        rest
    }

    /// True if every hook of the table goes to nft, and no other program has a chain there.
    pub fn all_moved(&self) -> bool {
        let there = self.table.name.hooks().iter().filter(|h| self.base(**h).is_some());
        there.count() == self.moved.len() && self.foreign.is_empty()
    }
}

/// Whether a rule has a lasting effect by being loaded: the first rule that names a table of
/// `recent` or `hashlimit` creates it, with its mask or rate; `socket` and TPROXY cause reassembly
/// of datagrams; RATEEST creates the estimate that others read. Unknown modules may do anything.
/// Conntrack is [`needs_conntrack`].
fn acts_by_being_loaded(rule: &Rule, family: Family) -> bool {
    conntrack_of(rule) == Conntrack::Defragments || shares_objects(rule, family)
}

/// The deepest call from any base chain of a table, and the base chain.
pub(super) fn depth(table: &nft::Table) -> usize {
    let maps: HashMap<&str, &nft::Map> = table.maps.iter().map(|m| (m.name.as_str(), m)).collect();
    let calls = |chain: usize| {
        let statements = table.chains[chain].rules.iter().enumerate();
        let statements = statements.flat_map(|(i, r)| r.statements.iter().map(move |s| (i, s)));
        let mut calls = Vec::new();
        for (rule, statement) in statements {
            match statement {
                Statement::Verdict(v) => calls.extend(v.chain().map(|to| (rule, to))),
                Statement::Vmap { map, .. } => {
                    let elements = maps.get(map.as_str()).into_iter().flat_map(|m| &m.elements);
                    calls.extend(elements.filter_map(|e| Some((rule, e.verdict.chain()?))));
                }
                _ => {}
            }
        }
        calls
    };
    let graph = ChainGraph::from_names(table.chains.iter().map(|c| c.name.as_str()), calls);
    let bases = (0..table.chains.len()).filter(|c| table.chains[*c].base.is_some());
    // A circle would have been refused by iptables; it counts as too deep here.
    bases.map(|base| graph.depth(base).unwrap_or(DEPTH_MAX + 1)).max().unwrap_or(0)
}
