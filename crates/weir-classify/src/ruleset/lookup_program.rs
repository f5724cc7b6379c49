//! A chain of a ruleset as look-ups: what has to be found, independently of how.

use std::collections::{HashMap, HashSet};

use thiserror::Error;
use weir_model::{Family, Firewall, Policy, RuleId, RulePlaceInTable, Table, TableName};
use weir_partition::{AxislessTest, BoxLowering, HyperRect};

use super::chain_flattener::{ChainFlattener, FlattenLimits, FlattenedChain, FlattenedStretch};
use super::key_layout::KeyLayout;
use super::lookup_entry::{END_OF_CHAIN, EntryContinuation, FoundEntryMeaning, LookupEntry};
use super::lowered_rule::EvaluationReason;
use crate::filter_set::{FilterSet, WordTest};

/// Why a chain has no look-ups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LookupProgramError {
    /// The family's ruleset has no such chain.
    #[error("compile {table}/{chain} to look-ups: there is no such chain")]
    MissingChain {
        /// Table.
        table: TableName,
        /// Chain.
        chain: String,
    },
    /// A chain leads back to itself: the kernel would not load it.
    #[error("compile {table}/{chain} to look-ups: the chain leads back to itself")]
    JumpLoop {
        /// Table.
        table: TableName,
        /// A chain of the loop.
        chain: String,
    },
}

/// A chain as look-ups: stretches, each a set of filters and what follows from those that match.
pub struct LookupProgram<'a> {
    family: Family,
    table: &'a Table,
    start_chain: usize,
    lowering: BoxLowering<'a>,
    /// By their numbers.
    axisless_tests: Vec<AxislessTest>,
    /// The chain itself first, then those that are called.
    chains: Vec<ChainLookups>,
    reachable_rule_count: usize,
}

/// The look-ups of a chain.
#[derive(Clone, Debug)]
pub struct ChainLookups {
    /// Its index in the table.
    pub chain_index: u32,
    /// Its stretches, in order.
    pub stretches: Vec<LookupStretch>,
}

/// What one look-up finds.
#[derive(Clone, Debug)]
pub struct LookupStretch {
    /// How a packet becomes a key.
    pub key_layout: KeyLayout,
    /// Entries by the number that their filters have as rules. The filters of an entry whose
    /// packets an earlier one drops are omitted.
    pub entries: Vec<LookupEntry>,
    /// The filters; the number of a rule is an index into `entries`.
    pub filters: FilterSet,
}

impl<'a> LookupProgram<'a> {
    /// Compiles a chain of a table, with all that it leads to.
    ///
    /// # Errors
    /// There is no such chain, or it leads back to itself.
    pub fn compile(
        firewall: &'a Firewall,
        family: Family,
        (table, chain): (TableName, &str),
        limits: FlattenLimits,
    ) -> Result<LookupProgram<'a>, LookupProgramError> {
        let missing = || LookupProgramError::MissingChain { table, chain: chain.to_owned() };
        let ruleset = firewall.ruleset(family).ok_or_else(missing)?;
        let table = ruleset.table(&table).ok_or_else(missing)?;
        let start = table.chains.iter().position(|c| *c.name == *chain).ok_or_else(missing)?;
        let lowering = BoxLowering::for_table(firewall, ruleset, table).assuming_unchanged_fields();
        let mut flattener = ChainFlattener::new(firewall, table, lowering, limits);
        let mut flat = flattener.flatten_from(start).map_err(|closing| {
            let chain = table.chains[closing].name.to_string();
            LookupProgramError::JumpLoop { table: table.name, chain }
        })?;
        let all_packets = flattener.lowering.all_packets_with_valid_codes();
        let called = list_called_chains(&flat, start);
        let number_by_chain: HashMap<u32, u32> = called.iter().copied().zip(0..).collect();
        let chains = called.iter().map(|&chain| {
            let stretches = std::mem::take(&mut flat[chain as usize]).stretches;
            let build = |s| LookupStretch::new(s, &all_packets, &number_by_chain);
            ChainLookups {
                chain_index: chain,
                stretches: stretches.into_iter().map(build).collect(),
            }
        });
        let chains = chains.collect();
        let mut atoms: Vec<(u32, AxislessTest)> = flattener
            .lowering
            .numbered_axisless_tests()
            .map(|(atom, number)| (number, atom.clone()))
            .collect();
        atoms.sort_unstable_by_key(|a| a.0);
        let reachable = table.chain_graph().reachable_from([start]);
        let rules = table.chains.iter().zip(reachable).filter(|c| c.1).map(|c| c.0.rules.len());
        Ok(LookupProgram {
            family,
            table,
            start_chain: start,
            axisless_tests: atoms.into_iter().map(|a| a.1).collect(),
            lowering: flattener.lowering,
            chains,
            reachable_rule_count: rules.sum(),
        })
    }

    /// The family of the ruleset.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The table.
    pub fn table(&self) -> &'a Table {
        self.table
    }

    /// The policy of the chain, if it is built in.
    pub fn policy(&self) -> Option<Policy> {
        self.table.chains[self.start_chain].policy
    }

    /// The identity of the policy.
    pub fn policy_rule_id(&self) -> RuleId {
        let chain = &self.table.chains[self.start_chain].name;
        RuleId::for_policy(self.family, self.table.name, chain)
    }

    /// The identity of a rule.
    pub fn rule_id(&self, place: RulePlaceInTable) -> RuleId {
        place.to_rule_id(self.family, self.table)
    }

    /// The chain itself, then those that are called; [`EntryContinuation::Call`] counts here.
    pub fn chains(&self) -> &[ChainLookups] {
        &self.chains
    }

    /// How packets and the table's devices become boxes.
    pub fn lowering(&self) -> &BoxLowering<'a> {
        &self.lowering
    }

    /// The tests without an axis, by their numbers.
    pub fn axisless_tests(&self) -> &[AxislessTest] {
        &self.axisless_tests
    }

    /// Rules of the chain and of those that it leads to.
    pub fn reachable_rule_count(&self) -> usize {
        self.reachable_rule_count
    }

    /// The rules that are evaluated after a look-up, with the reason, in the order of the table.
    pub fn rules_evaluated_after_lookup(&self) -> Vec<(RulePlaceInTable, EvaluationReason)> {
        let stretches = self.chains.iter().flat_map(|chain| &chain.stretches);
        let candidates = stretches.flat_map(|stretch| &stretch.entries).filter_map(|entry| {
            let FoundEntryMeaning::Candidate(reason) = entry.meaning_if_found else { return None };
            Some((entry.rule, reason))
        });
        let mut found: Vec<_> = candidates.collect();
        found.sort_unstable_by_key(|rule| rule.0);
        found.dedup_by_key(|rule| rule.0);
        found
    }
}

/// The chains that have stretches of their own: the first, and those that are called.
fn list_called_chains(flat: &[FlattenedChain], start: usize) -> Vec<u32> {
    let mut listed = vec![start as u32];
    let mut known = HashSet::from([start as u32]);
    let mut next = 0;
    while let Some(&chain) = listed.get(next) {
        next += 1;
        for entry in flat[chain as usize].stretches.iter().flat_map(|s| &s.entries) {
            if let EntryContinuation::Call { chain, .. } = entry.entry.then
                && known.insert(chain)
            {
                listed.push(chain);
            }
        }
    }
    listed
}

impl LookupStretch {
    fn new(
        flat: FlattenedStretch,
        all_packets: &HyperRect,
        number_by_chain: &HashMap<u32, u32>,
    ) -> LookupStretch {
        let boxes = flat.entries.iter().flat_map(|entry| &entry.boxes);
        let key_layout = KeyLayout::for_boxes(all_packets, boxes);
        let mut filters = FilterSet::new(key_layout.schema().clone());
        let mut entries = Vec::with_capacity(flat.entries.len());
        let mut dropped = TruncatedHeaderDropFilters::default();
        for (number, entry) in (0..).zip(flat.entries) {
            let mut tests: Vec<Vec<WordTest>> =
                entry.boxes.iter().flat_map(|b| key_layout.filters_of_box(b)).collect();
            let mut seen = HashSet::new();
            tests.retain(|tests| seen.insert(tests.clone()));
            if entry.entry.meaning_if_found == FoundEntryMeaning::DroppedForTruncatedHeader {
                tests.retain(|tests| dropped.insert_unless_dropped_before(tests, number));
            }
            let mut entry = entry.entry;
            if let EntryContinuation::Call { chain, .. } = &mut entry.then {
                *chain = number_by_chain[&*chain];
            }
            dropped.record_resume_entry(&entry);
            for (index, tests) in tests.iter().enumerate() {
                match index {
                    0 => filters.push_rule(number, entry.is_deciding(), tests),
                    _ => filters.push_filter_of_last_rule(tests),
                }
            }
            entries.push(entry);
        }
        LookupStretch { key_layout, entries, filters }
    }

    /// Whether the first deciding entry that matches decides: no entry skips others, is evaluated,
    /// or does something that may decide.
    pub fn is_decided_by_first_deciding_match(&self) -> bool {
        self.entries.iter().all(|entry| {
            let simple =
                matches!(entry.then, EntryContinuation::NextEntry | EntryContinuation::Decide(_));
            simple && !matches!(entry.meaning_if_found, FoundEntryMeaning::Candidate(_))
        })
    }
}

/// Filters of packets with truncated headers that were dropped already: each rule that requires a
/// transport header drops them, so that most of these filters come many times.
#[derive(Default)]
struct TruncatedHeaderDropFilters {
    /// By filter: the entry that drops its packets, and the first entry at which packets resume
    /// that skipped that one.
    valid_until_entry_by_tests: HashMap<Vec<WordTest>, u32>,
    /// Where packets resume that skip entries from here on.
    resume_entries: std::collections::BTreeSet<u32>,
}

impl TruncatedHeaderDropFilters {
    /// Whether a filter is needed: no earlier one drops its packets whenever they reach this entry.
    fn insert_unless_dropped_before(&mut self, tests: &[WordTest], number: u32) -> bool {
        let next_end =
            self.resume_entries.range(number + 1..).next().copied().unwrap_or(END_OF_CHAIN);
        match self.valid_until_entry_by_tests.get_mut(tests) {
            Some(valid_before) if number < *valid_before => false,
            Some(valid_before) => {
                *valid_before = next_end;
                true
            }
            None => {
                self.valid_until_entry_by_tests.insert(tests.to_vec(), next_end);
                true
            }
        }
    }

    fn record_resume_entry(&mut self, entry: &LookupEntry) {
        match entry.then {
            EntryContinuation::ResumeAt(at)
            | EntryContinuation::Call { resume_at: at @ 1.., .. } => {
                self.resume_entries.insert(at);
            }
            _ => {}
        }
    }
}
