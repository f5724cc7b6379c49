//! The counters of the generation in force, by original rule.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use weir_model::{Counters, RuleId, Ruleset};

use crate::ApplyOperationError;
use crate::generation_changes::{
    check_nft_tables_unchanged_and_sets_present, check_unchanged_by_others, read_original_rules,
    read_tables_and_sets_in_force,
};
use crate::kernel_ruleset::KernelRulesetTexts;
use crate::rule_counters::{
    OriginalRules, UnchangedLegacyTables, read_counters_in_force, read_set_counters, sum_counters,
};
use crate::state_store::{GenerationRecord, JournalStage, StateStore};

/// How often counters are read again because the ruleset was changed meanwhile.
const COUNTER_READS_DURING_CHANGE_MAX: usize = 5;

/// The original rules of the generation in force, with their counters.
#[derive(Clone, Debug, Serialize)]
pub struct CounterListing {
    /// The generation.
    pub generation: u32,
    /// Its rules and policies, in the order of its files; policies after the rules of a family.
    pub rules: Vec<OriginalRuleCounterRow>,
    /// The rulesets with these counters.
    #[serde(skip)]
    pub rulesets: Vec<Ruleset>,
}

/// The counters of a rule or policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginalRuleCounterRow {
    /// Its place: `iptables/filter/FORWARD/3`.
    #[serde(serialize_with = "serialize_rule_path")]
    pub rule: RuleId,
    /// Its content key, 32 hexadecimal digits or more: it stays if other rules are added or removed.
    /// That of a policy is its path.
    #[serde(skip)]
    pub content_key: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, from the network header on.
    pub bytes: u64,
}

/// Reads the counters of the generation in force in the current network namespace.
///
/// # Errors
/// As [`OriginalCounterReader::read`].
pub fn read_counters_by_original_rule(state: &Path) -> Result<CounterListing, ApplyOperationError> {
    let mut reader = OriginalCounterReader::new(state);
    let rules = reader.read()?;
    let (generation, mut rulesets) = match reader.parsed {
        Some(parsed) => (parsed.record.generation, parsed.originals.rulesets),
        None => unreachable!("the counters were read for a generation"),
    };
    let by_id: HashMap<&RuleId, Counters> = rules
        .iter()
        .map(|rule| (&rule.rule, Counters { packets: rule.packets, bytes: rule.bytes }))
        .collect();
    for ruleset in &mut rulesets {
        let family = ruleset.family;
        ruleset.for_each_rule_mut(|id, rule| rule.counters = by_id.get(&id).copied());
        for table in &mut ruleset.tables {
            for chain in table.chains.iter_mut().filter(|chain| chain.policy.is_some()) {
                let id = RuleId::for_policy(family, table.name, &chain.name);
                chain.counters = by_id.get(&id).copied();
            }
        }
    }
    Ok(CounterListing { generation, rules, rulesets })
}

/// Reads the counters of the generation in force again and again. Its files are parsed once.
#[derive(Debug)]
pub struct OriginalCounterReader {
    state: PathBuf,
    parsed: Option<ParsedGeneration>,
}

/// A generation, and what its files say.
#[derive(Debug)]
struct ParsedGeneration {
    record: GenerationRecord,
    originals: OriginalRules,
    recorded: KernelRulesetTexts,
    /// Its tables of legacy iptables, from the second reading on.
    unchanged_tables: Option<UnchangedLegacyTables>,
}

impl OriginalCounterReader {
    /// A reader of the generations in this folder.
    pub fn new(state: &Path) -> OriginalCounterReader {
        OriginalCounterReader { state: state.to_owned(), parsed: None }
    }

    /// The counters of the rules and policies of the generation that is in force in the current
    /// network namespace.
    ///
    /// # Errors
    /// If no generation is in force, one is being changed, its files are not known, or somebody
    /// else changed what is in force.
    pub fn read(&mut self) -> Result<Vec<OriginalRuleCounterRow>, ApplyOperationError> {
        for _ in 0..COUNTER_READS_DURING_CHANGE_MAX {
            let store = StateStore::find(&self.state)?;
            let record = read_record_in_force(&store)?;
            let parsed = match self.parsed.take().filter(|parsed| parsed.record == record) {
                Some(mut parsed) => {
                    parsed.find_unchanged_tables_once()?;
                    parsed
                }
                None => ParsedGeneration::parse(&store, record)?,
            };
            let parsed = self.parsed.insert(parsed);
            let (counts, rules_differ) = parsed.read_counts_and_check_unchanged()?;
            // A change that began meanwhile has moved counters.
            if read_record_in_force(&store)? != parsed.record {
                continue;
            }
            rules_differ.map_err(|error| {
                explain_unattributable_counters(error, parsed.record.generation)
            })?;
            let listed = parsed.originals.rules.iter().zip(counts).map(|(rule, count)| {
                let (Counters { packets, bytes }, rule_id) = (count, rule.id.clone());
                let content_key = rule.content_key.clone();
                OriginalRuleCounterRow { rule: rule_id, content_key, packets, bytes }
            });
            return Ok(listed.collect());
        }
        Err(ruleset_being_changed_error())
    }
}

impl ParsedGeneration {
    fn parse(
        store: &StateStore,
        record: GenerationRecord,
    ) -> Result<ParsedGeneration, ApplyOperationError> {
        let generation = record.generation;
        let originals = read_original_rules(store, generation)?;
        if originals.rulesets.is_empty() {
            return Err(ApplyOperationError::Refused(format!(
                "the files of generation {generation} are unknown because it was applied from a \
                 compiled directory: its manifest.json lists the counters of each rule"
            )));
        }
        let recorded = store.read_ruleset(generation)?;
        Ok(ParsedGeneration { record, originals, recorded, unchanged_tables: None })
    }

    fn find_unchanged_tables_once(&mut self) -> Result<(), ApplyOperationError> {
        if self.unchanged_tables.is_none() {
            self.unchanged_tables =
                UnchangedLegacyTables::read_if_unchanged(&self.recorded, &self.originals)?;
        }
        Ok(())
    }

    /// The counters of the original rules, and the error if others changed the ruleset in force.
    fn read_counts_and_check_unchanged(
        &mut self,
    ) -> Result<(Vec<Counters>, Result<(), ApplyOperationError>), ApplyOperationError> {
        let recorded = &self.recorded;
        let generation = self.record.generation;
        if let Some(tables) = &self.unchanged_tables {
            // Tables of nft and missing sets are changes by others, too.
            let present = read_tables_and_sets_in_force(&[], &[recorded])?.ruleset;
            if let Some(counts) = tables.read_counters(&read_set_counters(&present.sets))? {
                let check =
                    check_nft_tables_unchanged_and_sets_present(recorded, &present, generation);
                return Ok((counts, check));
            }
            self.unchanged_tables = None;
        }
        let present = read_tables_and_sets_in_force(&recorded.tables(), &[recorded])?.ruleset;
        let counters = read_counters_in_force(&present)?;
        let rules = self.originals.rules.iter();
        let counts = rules.map(|rule| sum_counters(&rule.locations, &counters)).collect();
        Ok((counts, check_unchanged_by_others(recorded, &present, generation)))
    }
}

/// The record of the generation in force, if it is not being changed.
fn read_record_in_force(store: &StateStore) -> Result<GenerationRecord, ApplyOperationError> {
    let Some(generation) = store.read_current_of_this_boot()?.generation else {
        return Err(ApplyOperationError::Refused(
            "no generation is in force: use iptables-save -c to print counters".to_owned(),
        ));
    };
    if store.read_journal()?.is_some_and(|journal| journal.stage == JournalStage::Changing) {
        return Err(ruleset_being_changed_error());
    }
    store.read_generation_record(generation)
}

/// The error with what can be done about it here: counters are only read.
fn explain_unattributable_counters(
    error: ApplyOperationError,
    generation: u32,
) -> ApplyOperationError {
    let (change, cure, difference) = match error {
        ApplyOperationError::ChangedByOthers { unit, since, difference } => (
            format!("{unit} was changed by another program since {since}"),
            "undo the change, or add it to the ruleset and apply that with weir apply --force",
            format!("; the difference:{difference}"),
        ),
        ApplyOperationError::LoadedByScript { artefact } => (
            format!("{artefact} is in force and was not loaded by weir apply"),
            "run unload.sh of its folder",
            String::new(),
        ),
        other => return other,
    };
    let cure = cure.to_owned();
    ApplyOperationError::CountersOfOtherRuleset { change, generation, cure, difference }
}

fn ruleset_being_changed_error() -> ApplyOperationError {
    ApplyOperationError::Refused("the ruleset is being changed: try again later".to_owned())
}

/// Serialises a rule as its path, `iptables/filter/FORWARD/3`.
fn serialize_rule_path<S: Serializer>(id: &RuleId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

impl CounterListing {
    /// The rulesets as `iptables-save -c` prints them, IPv4 first.
    pub fn render_iptables_text(&self) -> String {
        let printed = self.rulesets.iter().map(|rules| weir_syntax::iptables::print(rules, true));
        printed.collect()
    }

    /// One line per rule: place, packets, bytes.
    pub fn render_csv(&self) -> String {
        let lines = self.rules.iter().map(|rule| {
            // Names of chains may have commas and quotes.
            let place = rule.rule.to_string().replace('"', "\"\"");
            format!("\"{place}\",{},{}\n", rule.packets, rule.bytes)
        });
        "rule,packets,bytes\n".to_owned() + &lines.collect::<String>()
    }
}
