//! Foreign changes: changes of weir's rulesets by other programs. They are saved as a generation of
//! their own; rules that were only added to a table that is restored are kept.

use super::LockedGenerations;
use crate::ApplyOperationError;
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, are_texts_equal_except_counters, find_artefact_mark,
    read_foreign_sets, remove_changing_numbers,
};
use crate::state_store::{GenerationKind, GenerationOutcome, GenerationRecord};

/// Adds the foreign sets that the rules of a ruleset in force use.
pub(super) fn add_foreign_sets(
    mut ruleset: KernelRulesetTexts,
) -> Result<KernelRulesetTexts, ApplyOperationError> {
    ruleset.foreign_sets = read_foreign_sets(&ruleset)?;
    Ok(ruleset)
}

impl LockedGenerations {
    /// Saves a generation that another program changed as a generation of its own, and returns its
    /// number. A retried change reuses the generation that it saved before.
    pub(super) fn save_changes_by_others(
        &self,
        changed: u32,
        present: KernelRulesetTexts,
        command: &[String],
    ) -> Result<u32, ApplyOperationError> {
        if let Some(newest) = self.store.list_generations()?.last().copied() {
            let record = self.store.read_generation_record(newest)?;
            let is_of_changed =
                record.kind == GenerationKind::Snapshot && record.previous == Some(changed);
            if is_of_changed
                && self
                    .store
                    .read_ruleset(newest)
                    .is_ok_and(|saved| are_rulesets_equal_except_counters(&saved, &present))
            {
                return Ok(newest);
            }
        }
        let generation = self.store.create_generation_folder()?;
        let kind = GenerationKind::Snapshot;
        let mut record = GenerationRecord::new(generation, kind, Some(changed), command);
        record.outcome = GenerationOutcome::Applied;
        self.store.write_ruleset(generation, &add_foreign_sets(present)?)?;
        self.store.write_generation_record(&record)?;
        Ok(generation)
    }
}

/// Whether two rulesets differ in nothing but counters.
fn are_rulesets_equal_except_counters(a: &KernelRulesetTexts, b: &KernelRulesetTexts) -> bool {
    let units = |ruleset: &KernelRulesetTexts| -> Vec<(String, String)> {
        let legacy = ruleset.legacy_tables.iter().map(|(table, text)| (table.to_string(), text));
        let nft = ruleset.nft_tables.iter().map(|(table, text)| (format!("nft {table}"), text));
        let sets = ruleset.sets.iter().map(|(set, text)| (format!("set {set}"), text));
        legacy.chain(nft).chain(sets).map(|(name, text)| (name, text.clone())).collect()
    };
    let (a, b) = (units(a), units(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && are_texts_equal_except_counters(&a.1, &b.1))
}

/// Tables that another program changed during an interrupted change between two rulesets.
#[derive(Debug, Default)]
pub(super) struct ForeignTableChanges {
    /// Tables that differ from the ruleset before the change only by added rules: they are kept.
    pub tables_with_added_rules: Vec<FamilyTable>,
    /// Other tables that match neither ruleset: they are overwritten.
    pub tables_to_overwrite: Vec<FamilyTable>,
}

/// Finds tables that match neither of two generations. The kernel's listing of a table may differ
/// from the text of its artefact: such a table is recognized by its artefact mark.
pub(super) fn find_foreign_table_changes(
    [wanted, other]: [&KernelRulesetTexts; 2],
    other_artefact_id: Option<&str>,
    present: &KernelRulesetTexts,
) -> ForeignTableChanges {
    let mut found = ForeignTableChanges::default();
    for (table, text) in &present.legacy_tables {
        let [wanted, other] = [wanted, other].map(|ruleset| {
            ruleset.legacy_tables.get(table).map(String::as_str).unwrap_or_default()
        });
        if are_texts_equal_except_counters(wanted, text)
            || are_texts_equal_except_counters(other, text)
        {
            continue;
        }
        let id = find_artefact_mark(text);
        let is_of_other = id.is_some() && id == other_artefact_id;
        if is_of_other && !has_only_added_lines(other, text) {
            // The kernel's listing of what the change loaded.
            continue;
        }
        let is_nearer_to_other =
            has_only_added_lines(other, text) && other.lines().count() > wanted.lines().count();
        if !is_of_other && has_only_added_lines(wanted, text) && !is_nearer_to_other {
            found.tables_with_added_rules.push(*table);
        } else {
            found.tables_to_overwrite.push(*table);
        }
    }
    found
}

/// Whether a text has all lines of `base` in the same order, and more lines.
fn has_only_added_lines(base: &str, text: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.lines().map(remove_changing_numbers).collect() };
    let (base, text) = (lines(base), lines(text));
    let mut rest = text.iter();
    base.len() < text.len() && base.iter().all(|line| rest.any(|other| other == line))
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;

    #[test]
    fn a_table_with_added_rules_stays_only_if_it_was_not_replaced_yet() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        let ruleset = |rules: &[&str]| {
            let rules: String = rules.iter().map(|rule| format!("-A INPUT {rule}\n")).collect();
            let text = format!("*filter\n:INPUT ACCEPT [1:2]\n{rules}COMMIT\n");
            let legacy_tables = [(table, text)].into();
            KernelRulesetTexts { legacy_tables, ..KernelRulesetTexts::default() }
        };
        let find = |wanted: &[&str], other: &[&str], present: &[&str]| {
            let (wanted, other) = (ruleset(wanted), ruleset(other));
            let found = find_foreign_table_changes([&wanted, &other], None, &ruleset(present));
            (found.tables_with_added_rules.len(), found.tables_to_overwrite.len())
        };
        assert_eq!(find(&["-j a"], &[], &["-j a"]), (0, 0));
        assert_eq!(find(&["-j a"], &[], &[]), (0, 0));
        assert_eq!(find(&["-j a"], &[], &["-j x", "-j a"]), (1, 0));
        assert_eq!(find(&["-j a"], &[], &["-j x"]), (0, 1), "it was emptied before");
        assert_eq!(find(&[], &["-j a"], &["-j a", "-j x"]), (0, 1), "it was loaded before");
        assert_eq!(find(&["-j a", "-j b"], &[], &["-j b"]), (0, 1), "a rule was removed");
    }
}
