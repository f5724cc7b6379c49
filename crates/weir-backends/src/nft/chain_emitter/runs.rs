//! Runs of rules among the rules of a chain: found, and written as lookups.

use std::collections::HashMap;

use weir_model::nft::{
    self, Comparand, LoadExpression, MapKeyExpression, Rule, Statement, Verdict, VerdictMap,
    VerdictMapElement,
};

use super::super::class_body::{ClassChainSharingKey, SplitLookupClassBody};
use super::super::lookup_classes::{
    LookupClasses, LookupKey, MIN_RUN_RULES, RuleLookupKey, divide_run_into_classes,
};
use super::super::lowered_rule::LoweredRule;
use super::{ChainDraft, ChainEmitter, EmittedRun};

/// A run that was chosen.
pub(super) struct ChosenRun {
    lookup_key: LookupKey,
    pub len: usize,
    classes: LookupClasses,
    proto: Option<u128>,
}

impl ChosenRun {
    /// True where writing it splits its chain.
    pub fn would_split_chain(&self, items: &[LoweredRule]) -> bool {
        let stripped: Vec<LoweredRule> =
            items.iter().map(|i| self.lookup_key.strip_key_tests(i)).collect();
        self.classes
            .rule_lists
            .iter()
            .any(|list| SplitLookupClassBody::new(&stripped, list).needs_exit_goto())
    }
}

/// How far the items from here lie on an axis.
#[derive(Clone, Default)]
pub(super) struct KeyedRuleStretch {
    end_index: usize,
    keyed_rules: Vec<RuleLookupKey>,
    start_index: usize,
    /// No run on this axis needs to be tried before this position.
    retry_from: usize,
}

impl KeyedRuleStretch {
    fn keyed_rules_from(
        &mut self,
        axis: &LookupKey,
        items: &[LoweredRule],
        at: usize,
    ) -> &[RuleLookupKey] {
        if at >= self.end_index {
            self.keyed_rules.clear();
            self.start_index = at;
            self.end_index = at;
            for item in &items[at..] {
                let Some(place) = axis.key_values_of_rule(item) else { break };
                if self.keyed_rules.first().is_some_and(|p| p.proto != place.proto) {
                    break;
                }
                self.keyed_rules.push(place);
                self.end_index += 1;
            }
            if self.end_index == at {
                self.end_index = at + 1;
            }
        }
        &self.keyed_rules[(at - self.start_index).min(self.keyed_rules.len())..]
    }
}

impl ChainEmitter {
    /// The run that saves most from `at` on, if any is worth a lookup.
    pub(super) fn find_best_run(
        &self,
        axes: &[LookupKey],
        extents: &mut [KeyedRuleStretch],
        items: &[LoweredRule],
        at: usize,
    ) -> Option<ChosenRun> {
        let mut best: Option<(f64, ChosenRun)> = None;
        for (axis, extent) in axes.iter().zip(extents) {
            if at < extent.retry_from {
                continue;
            }
            let places = extent.keyed_rules_from(axis, items, at);
            let whole = places.len();
            let mut len = whole;
            while len >= MIN_RUN_RULES && best.as_ref().is_none_or(|(gain, _)| *gain < len as f64) {
                if let Some((gain, run)) =
                    self.build_run_and_estimate_savings(axis, &items[at..at + len], &places[..len])
                {
                    if best.as_ref().is_none_or(|(other, _)| gain > *other) {
                        best = Some((gain, run));
                    }
                    break;
                }
                len = if len < 2 * MIN_RUN_RULES { MIN_RUN_RULES - 1 } else { len / 2 };
            }
            // Looking again one rule later would cost the square of a stretch without gain.
            if len < MIN_RUN_RULES {
                extent.retry_from = at + whole.div_ceil(4);
            }
        }
        best.map(|(_, run)| run)
    }

    /// The run, and how many rules it saves on average; `None` if its classes grow too long.
    fn build_run_and_estimate_savings(
        &self,
        axis: &LookupKey,
        items: &[LoweredRule],
        places: &[RuleLookupKey],
    ) -> Option<(f64, ChosenRun)> {
        let decides: Vec<bool> = items
            .iter()
            .map(|i| i.action.is_end_of_chain_traversal() && axis.covers_all_tests(i))
            .collect();
        let refs: Vec<&RuleLookupKey> = places.iter().collect();
        let classes = divide_run_into_classes(&refs, &decides, self.family)?;
        let lookup = if classes.interval { 4.0 } else { 3.0 };
        let gain = items.len() as f64 - classes.mean_rules_per_element() - lookup;
        let proto = places[0].proto;
        let run = ChosenRun { lookup_key: axis.clone(), len: items.len(), classes, proto };
        (gain > 0.0).then_some((gain, run))
    }

    /// Writes a run: one lookup, and a chain for each class that is no plain verdict.
    pub(super) fn emit_run(
        &mut self,
        body: &mut ChainDraft,
        items: &[LoweredRule],
        run: ChosenRun,
    ) {
        let ChosenRun { lookup_key: axis, len, classes, proto } = run;
        let stripped: Vec<LoweredRule> = items.iter().map(|i| axis.strip_key_tests(i)).collect();
        let parts: Vec<SplitLookupClassBody<'_>> = classes
            .rule_lists
            .iter()
            .map(|list| SplitLookupClassBody::new(&stripped, list))
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
            elements.push(VerdictMapElement { key, credit: part.shared_credit.clone(), verdict });
        }
        self.emitted_runs.push(EmittedRun {
            first_credit: items[0].credit.first().copied(),
            rule_count: len,
            description: format!("map {map} of {} elements, {written} chains", elements.len()),
        });
        self.maps.push(VerdictMap { name: map, key, has_intervals: classes.interval, elements });
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
        part: &SplitLookupClassBody<'_>,
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
}
