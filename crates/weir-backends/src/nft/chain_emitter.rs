//! Chains of rules, written as nft chains.
//!
//! A [`ChainDraft`] is the chain that is being written. Whatever does not fit into one nft rule
//! gets its own chain. It is called with `jump`, which returns after it, unless the rule leaves its
//! chain (RETURN, goto); in that case it is entered with `goto`, and the rest of the body becomes
//! another chain that it continues with. So RETURN always returns to the same caller as in the
//! original.
//!
//! The kernel limits how deep chains are nested, and counts `goto` as well as `jump`. A rule that
//! leaves its chain is therefore written without a chain of its own where its tests may be
//! evaluated twice.

use std::collections::HashMap;

use weir_model::nft::{
    self, Chain, Comparand, CreditedRuleOrPolicy, LoadExpression, MapKeyExpression, Rule,
    Statement, Verdict, VerdictMap, VerdictMapElement,
};
use weir_model::{Effect, Family, NatTarget};

use super::chain_names::NftChainNames;
use super::lookup_class_rules::{ClassChainSharingKey, SharedAndRemainingClassRules};
use super::lookup_classes::LookupKey;
use super::lookup_run_search::{CachedKeyedRules, ChosenLookupRuleRun, find_best_lookup_run};
use super::lowered_rule::{LoweredRule, NftRuleAction};
use super::nft_condition::NftCondition;

/// Most often that runs split a chain: what follows is written rule by rule where it would split
/// it again.
const MAX_LOOKUP_SPLITS_PER_CHAIN: usize = 3;

/// Writes the chains of one table.
pub(super) struct ChainEmitter {
    pub family: Family,
    pub names: NftChainNames,
    pub chains: Vec<Chain>,
    pub maps: Vec<VerdictMap>,
    /// Fragments are possible: a test of a transport header must be preceded by a test of the
    /// offset.
    pub guard_fragments: bool,
    /// Compile runs.
    pub compile_rule_runs_to_lookups: bool,
    /// The outcome of runs: number of rules, and a sentence.
    pub emitted_rule_runs: Vec<CompiledRuleRunReport>,
}

/// A run that was compiled.
pub(super) struct CompiledRuleRunReport {
    /// The first rule's original.
    pub first_credit: Option<CreditedRuleOrPolicy>,
    pub rule_count: usize,
    pub description: String,
}

/// A chain that is being written.
pub(super) struct ChainDraft {
    name: String,
    rules: Vec<Rule>,
    /// Where to go at its end; `None` is back to the caller.
    exit_chain: Option<String>,
    iptables_name_comment: Option<String>,
    /// How often it was split: each time its end is one call deeper.
    split_count: usize,
}

impl ChainDraft {
    pub fn new(name: String, iptables_name_comment: Option<String>) -> Self {
        ChainDraft {
            name,
            rules: Vec::new(),
            exit_chain: None,
            iptables_name_comment,
            split_count: 0,
        }
    }

    pub fn push_statements_as_rule(&mut self, statements: Vec<Statement>) {
        self.rules.push(Rule { statements, comment: None });
    }

    pub fn into_base_chain_rules(self) -> Vec<Rule> {
        assert!(self.exit_chain.is_none(), "a base chain has no exit");
        self.rules
    }
}

impl ChainEmitter {
    /// Writes items into a body, runs among them as lookups.
    pub fn emit_rules(&mut self, body: &mut ChainDraft, items: &[LoweredRule]) {
        let axes = if self.compile_rule_runs_to_lookups {
            LookupKey::candidate_lookup_keys()
        } else {
            Vec::new()
        };
        let mut extents = vec![CachedKeyedRules::default(); axes.len()];
        let mut at = 0;
        while at < items.len() {
            match find_best_lookup_run(self.family, &axes, &mut extents, items, at) {
                Some(run) => {
                    let of = &items[at..at + run.len];
                    at += run.len;
                    if body.split_count < MAX_LOOKUP_SPLITS_PER_CHAIN || !run.would_split_chain(of)
                    {
                        self.emit_rule_run_as_lookup(body, of, run);
                    } else {
                        of.iter().for_each(|item| self.emit_rule(body, item));
                    }
                }
                None => {
                    self.emit_rule(body, &items[at]);
                    at += 1;
                }
            }
        }
    }

    /// Ends a body.
    pub fn finish_chain(&mut self, mut body: ChainDraft) {
        if let Some(exit) = body.exit_chain.take() {
            body.push_statements_as_rule(vec![Statement::Verdict(Verdict::Goto(exit))]);
        }
        let ChainDraft { name, rules, iptables_name_comment, .. } = body;
        self.chains.push(Chain { name, base: None, iptables_name_comment, rules });
    }

    /// The following rules go into a new chain, which the body's chain continues with. Returns its
    /// name.
    fn split_chain(&mut self, body: &mut ChainDraft) -> String {
        let rest = self.names.fresh_chain_name(&body.name);
        self.continue_in_named_chain(body, rest.clone());
        rest
    }

    /// The following rules go into the chain `rest`, which the body's chain continues with.
    fn continue_in_named_chain(&mut self, body: &mut ChainDraft, rest: String) {
        let exit = body.exit_chain.replace(rest.clone());
        let next = ChainDraft {
            exit_chain: exit,
            split_count: body.split_count + 1,
            ..ChainDraft::new(rest, None)
        };
        let done = std::mem::replace(body, next);
        self.finish_chain(done);
    }

    /// Writes a run: one lookup, and a chain for each class that is no plain verdict.
    fn emit_rule_run_as_lookup(
        &mut self,
        body: &mut ChainDraft,
        items: &[LoweredRule],
        run: ChosenLookupRuleRun,
    ) {
        let ChosenLookupRuleRun { lookup_key: axis, len, classes, port_protocol: proto } = run;
        let stripped: Vec<LoweredRule> = items.iter().map(|i| axis.strip_key_tests(i)).collect();
        let parts: Vec<SharedAndRemainingClassRules<'_>> = classes
            .rule_lists
            .iter()
            .map(|list| SharedAndRemainingClassRules::new(&stripped, list))
            .collect();
        let map = self.map_name(&body.name, &axis);
        let key = classes.nft_key(&axis);
        self.emit_lookup_rule(body, proto, key.clone(), &map);
        let head = body.name.clone();
        let leaves = parts.iter().any(|p| p.needs_exit_goto());
        let rest = if leaves { Some(self.split_chain(body)) } else { None };
        let mut shared: HashMap<ClassChainSharingKey<'_>, Verdict> = HashMap::new();
        let mut elements = Vec::with_capacity(classes.elements.len());
        let mut written = 0;
        for (key, class) in classes.elements {
            let part = &parts[class];
            let verdict = match part.single_verdict() {
                Some(act) => match self.action_statement(act) {
                    Some(Statement::Verdict(v)) => v,
                    _ => Verdict::Continue,
                },
                None => shared
                    .entry(part.chain_sharing_key())
                    .or_insert_with(|| {
                        written += 1;
                        self.emit_class_chain(&head, part, rest.as_ref())
                    })
                    .clone(),
            };
            elements.push(VerdictMapElement {
                key,
                credited_originals: part.shared_credit.clone(),
                verdict,
            });
        }
        self.emitted_rule_runs.push(CompiledRuleRunReport {
            first_credit: items[0].credited_originals.first().copied(),
            rule_count: len,
            description: format!("map {map} of {} elements, {written} chains", elements.len()),
        });
        self.maps.push(VerdictMap {
            name: map,
            key,
            has_intervals: classes.has_interval_keys,
            elements,
        });
    }

    fn map_name(&self, chain: &str, axis: &LookupKey) -> String {
        format!("{chain}-{}{}", axis.short_name(), self.maps.len() + 1)
    }

    fn emit_lookup_rule(
        &self,
        body: &mut ChainDraft,
        proto: Option<u128>,
        key: Vec<MapKeyExpression>,
        map: &str,
    ) {
        let mut statements = Vec::new();
        if let Some(proto) = proto {
            let with = Comparand::InSpans(vec![(proto, proto)]);
            let test =
                nft::Test { expression: LoadExpression::L4proto, comparand: with, negated: false };
            statements.push(Statement::Test(test));
        }
        if self.guard_fragments && key.iter().any(|k| k.expression.is_misread_in_later_fragment()) {
            statements.push(Statement::Test(self.fragment_guard_test()));
        }
        statements.push(Statement::Vmap { key, map: map.to_string() });
        body.push_statements_as_rule(statements);
    }

    /// A class's chain, and how it is entered.
    fn emit_class_chain(
        &mut self,
        head: &str,
        part: &SharedAndRemainingClassRules<'_>,
        rest: Option<&String>,
    ) -> Verdict {
        let name = self.names.fresh_chain_name(head);
        let mut body = ChainDraft::new(name.clone(), None);
        let leaves = part.needs_exit_goto();
        if leaves {
            body.exit_chain = rest.cloned();
        }
        for act in &part.shared_actions {
            let statement = self.action_statement(act);
            body.rules.extend(statement.map(|s| Rule { statements: vec![s], comment: None }));
        }
        let remaining: Vec<LoweredRule> =
            part.remaining_rules.iter().map(|i| (*i).clone()).collect();
        self.emit_rules(&mut body, &remaining);
        self.finish_chain(body);
        if leaves { Verdict::Goto(name) } else { Verdict::Jump(name) }
    }

    fn action_statement(&self, act: &NftRuleAction) -> Option<Statement> {
        Some(Statement::Verdict(match act {
            NftRuleAction::CountOnly => return None,
            NftRuleAction::Accept => Verdict::Accept,
            NftRuleAction::Drop => Verdict::Drop,
            NftRuleAction::Return => Verdict::Return,
            NftRuleAction::Jump(c) => Verdict::Jump(self.names.nft_chain_name(c).into()),
            NftRuleAction::Goto(c) => Verdict::Goto(self.names.nft_chain_name(c).into()),
            NftRuleAction::RejectWithIptablesType(word) => return Some(Statement::Reject(word)),
            NftRuleAction::Nat(target) => return Some(Statement::Nat(NatTarget::clone(target))),
            NftRuleAction::Effect(e) => return Some(Statement::Effect(Effect::clone(e))),
        }))
    }

    /// Writes one item.
    fn emit_rule(&mut self, body: &mut ChainDraft, item: &LoweredRule) {
        let conds = self.add_fragment_guard(&item.conditions);
        self.emit_rule_with_conditions(body, &conds, item);
    }

    fn emit_rule_with_conditions(
        &mut self,
        body: &mut ChainDraft,
        conds: &[NftCondition],
        item: &LoweredRule,
    ) {
        let leaves_chain = item.action.is_return_or_goto();
        let mut statements = Vec::with_capacity(conds.len() + 2);
        for (i, cond) in conds.iter().enumerate() {
            match cond {
                NftCondition::Test(t) => statements.push(Statement::Test(t.clone())),
                NftCondition::Opaque(o) => statements.push(Statement::OpaqueTest(o.clone())),
                NftCondition::AnyTest(tests) if leaves_chain && !item.is_stateful() => {
                    return self.emit_rule_for_each_test(body, conds, i, tests, item);
                }
                NftCondition::UnlessStatement(statement)
                    if leaves_chain && !conds[..i].iter().any(NftCondition::is_stateful) =>
                {
                    statements.push((**statement).clone());
                    return self.emit_goto_rest_then_rule(body, statements, conds, i, item);
                }
                NftCondition::UnlessStatement(_) | NftCondition::AnyTest(_) => {
                    return self.emit_rule_rest_in_own_chain(
                        body,
                        statements,
                        cond,
                        &conds[i + 1..],
                        item,
                    );
                }
            }
        }
        statements.push(Statement::Counter(item.credited_originals.clone()));
        statements.extend(self.action_statement(&item.action));
        body.rules.push(Rule { statements, comment: item.comment.clone() });
    }

    /// A rule that leaves its chain, once for each test of the alternative at `index`. The packet
    /// leaves with the first that holds, so only one of them counts it.
    fn emit_rule_for_each_test(
        &mut self,
        body: &mut ChainDraft,
        conds: &[NftCondition],
        index: usize,
        tests: &[nft::Test],
        item: &LoweredRule,
    ) {
        let mut conds = conds.to_vec();
        for test in tests {
            conds[index] = NftCondition::Test(test.clone());
            self.emit_rule_with_conditions(body, &conds, item);
        }
    }

    /// A rule that leaves its chain unless the last of `skip_statements` holds (the condition at
    /// `negated_cond_index`).
    /// Such packets go to the rest of the chain first.
    fn emit_goto_rest_then_rule(
        &mut self,
        body: &mut ChainDraft,
        mut skip_statements: Vec<Statement>,
        conds: &[NftCondition],
        negated_cond_index: usize,
        item: &LoweredRule,
    ) {
        let rest = self.names.fresh_chain_name(&body.name);
        skip_statements.push(Statement::Verdict(Verdict::Goto(rest.clone())));
        body.push_statements_as_rule(skip_statements);
        let others = [&conds[..negated_cond_index], &conds[negated_cond_index + 1..]].concat();
        self.emit_rule_with_conditions(body, &others, item);
        self.continue_in_named_chain(body, rest);
    }

    /// A test that is no single nft test: the rest of the rule in its own chain.
    fn emit_rule_rest_in_own_chain(
        &mut self,
        body: &mut ChainDraft,
        mut before: Vec<Statement>,
        cond: &NftCondition,
        after: &[NftCondition],
        item: &LoweredRule,
    ) {
        let mut own = ChainDraft::new(self.names.fresh_chain_name(&body.name), None);
        let enter = if item.action.is_return_or_goto() {
            before.push(Statement::Verdict(Verdict::Goto(own.name.clone())));
            body.push_statements_as_rule(before);
            own.exit_chain = Some(self.split_chain(body));
            true
        } else {
            before.push(Statement::Verdict(Verdict::Jump(own.name.clone())));
            body.push_statements_as_rule(before);
            false
        };
        match cond {
            NftCondition::UnlessStatement(statement) => {
                let back = match &own.exit_chain {
                    Some(rest) if enter => Verdict::Goto(rest.clone()),
                    _ => Verdict::Return,
                };
                own.push_statements_as_rule(vec![(**statement).clone(), Statement::Verdict(back)]);
                self.emit_rule_with_conditions(&mut own, after, item);
            }
            NftCondition::AnyTest(tests) => {
                let mut inner = ChainDraft::new(self.names.fresh_chain_name(&body.name), None);
                inner.exit_chain = own.exit_chain.clone();
                for test in tests {
                    let goto = Statement::Verdict(Verdict::Goto(inner.name.clone()));
                    own.push_statements_as_rule(vec![Statement::Test(test.clone()), goto]);
                }
                self.emit_rule_with_conditions(&mut inner, after, item);
                self.finish_chain(inner);
            }
            NftCondition::Test(_) | NftCondition::Opaque(_) => unreachable!("one nft test"),
        }
        self.finish_chain(own);
    }

    /// Puts the test of the fragment offset before the first test of a transport header.
    fn add_fragment_guard(&self, conds: &[NftCondition]) -> Vec<NftCondition> {
        let looks = |c: &NftCondition| match c {
            NftCondition::Test(t) => t.expression.is_misread_in_later_fragment(),
            NftCondition::AnyTest(tests) => {
                tests.iter().any(|t| t.expression.is_misread_in_later_fragment())
            }
            NftCondition::Opaque(_) | NftCondition::UnlessStatement(_) => false,
        };
        let mut out = conds.to_vec();
        if let Some(first) = conds.iter().position(looks).filter(|_| self.guard_fragments) {
            out.insert(first, NftCondition::Test(self.fragment_guard_test()));
        }
        out
    }

    /// Holds for all but later fragments.
    fn fragment_guard_test(&self) -> nft::Test {
        let (load, last) = match self.family {
            Family::V4 => (LoadExpression::Ipv4FragmentOffset, 0),
            // An IPv6 packet has an offset only where it is a piece, and a test of what is not
            // there does not hold.
            Family::V6 => (LoadExpression::TransportFirstThreeBytes, 0xff_ffff),
        };
        nft::Test {
            expression: load,
            comparand: Comparand::InSpans(vec![(0, last)]),
            negated: false,
        }
    }
}
