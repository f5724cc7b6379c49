//! Executes steps in the current network namespace.
//!
//! A table of legacy iptables is replaced natively if weir can encode all of its matches and
//! targets, otherwise by the tool; likewise a set is created natively if weir can encode all of its
//! elements. Tables of nft are always changed by `nft`.

use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::nft_objects::read_nft_tables;
use weir_kernel::xtables::{XtablesLock, XtablesSocket};
use weir_model::{Family, IpSet, Table};
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParserSettings};

use crate::apply_steps::ApplyStep;
use crate::ipsets::{check_elements_are_encodable, load_sets};
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, are_texts_equal_except_counters, list_set_names,
    read_legacy_table_text, spare_set_name,
};
use crate::nft_transaction_text::{
    render_accept_policies_then_recreation, render_accept_policies_then_removal, render_copies,
    render_replacement,
};
use crate::rule_counters::{CountersByCounterLocation, map_replaced_counts_by_location};
use crate::tool_execution::run_changing_tool;
use crate::xtables::{KernelTable, SetIndices, encode_table, load_table};
use crate::{ApplyError, ApplyOperationError};

/// How long to wait for the xtables lock.
const XTABLES_LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long to wait for the kernel to release the members of a destroyed list of sets.
const SET_RELEASE_WAIT: Duration = Duration::from_secs(1);
const SET_RELEASE_POLL: Duration = Duration::from_millis(5);

/// How a table of legacy iptables is loaded.
#[derive(Clone, Debug, PartialEq)]
pub enum LegacyLoadMethod {
    /// weir encodes it.
    Native(Box<Table>),
    /// `iptables-legacy-restore` loads it.
    RestoreTool {
        /// What weir cannot encode.
        reason: String,
    },
}

impl LegacyLoadMethod {
    /// Why it is not loaded natively.
    pub fn reason(&self) -> Option<&str> {
        match self {
            LegacyLoadMethod::Native(_) => None,
            LegacyLoadMethod::RestoreTool { reason } => Some(reason),
        }
    }

    /// The tool, unless it is loaded natively.
    pub fn tool(&self, family: Family) -> Option<&'static str> {
        match (self, family) {
            (LegacyLoadMethod::Native(_), _) => None,
            (LegacyLoadMethod::RestoreTool { .. }, Family::V4) => Some("iptables-legacy-restore"),
            (LegacyLoadMethod::RestoreTool { .. }, Family::V6) => Some("ip6tables-legacy-restore"),
        }
    }
}

/// Determines how a table can be loaded. Sets that its rules use need not exist yet.
pub fn choose_legacy_load_method(table: FamilyTable, text: &str) -> LegacyLoadMethod {
    let settings = ParserSettings { family: Some(table.family), ..ParserSettings::default() };
    let tool = |reason: String| LegacyLoadMethod::RestoreTool { reason };
    let mut ruleset = match iptables::parse(text, &settings) {
        Ok(ruleset) => ruleset,
        Err(errors) => return tool(errors.first().map(|e| e.message.clone()).unwrap_or_default()),
    };
    let (Some(parsed), true) = (ruleset.tables.pop(), ruleset.tables.is_empty()) else {
        return tool("the text is not that of one table".to_owned());
    };
    match encode_table(&parsed, table.family, &SetIndices::assuming_all_sets_exist()) {
        Ok(_) => LegacyLoadMethod::Native(Box::new(parsed)),
        Err(error) => tool(error.to_string()),
    }
}

/// How a set is created.
enum SetLoadMethod {
    /// weir encodes it.
    Native(Vec<IpSet>),
    /// `ipset restore` creates it.
    RestoreTool {
        /// What weir cannot encode.
        reason: String,
    },
}

fn choose_set_load_method(text: &str) -> SetLoadMethod {
    let sets = match ipset::parse(text) {
        Ok(sets) => sets,
        Err(errors) => {
            let reason = errors.first().map(|error| error.message.clone()).unwrap_or_default();
            return SetLoadMethod::RestoreTool { reason };
        }
    };
    match sets.iter().find_map(|set| check_elements_are_encodable(set).err()) {
        None => SetLoadMethod::Native(sets),
        Some(error) => SetLoadMethod::RestoreTool { reason: error.to_string() },
    }
}

/// The tool that executes a step, and why it is needed where weir could do without; no tool if weir
/// executes the step itself.
pub(crate) fn tool_of_step(
    step: &ApplyStep,
    wanted: &KernelRulesetTexts,
) -> (Option<&'static str>, Option<String>) {
    match step {
        ApplyStep::ReplaceLegacyTable { table } => {
            let method = choose_legacy_load_method(*table, &wanted.legacy_tables[table]);
            (method.tool(table.family), method.reason().map(str::to_owned))
        }
        ApplyStep::AddNftCopies { .. }
        | ApplyStep::ReplaceNftTables { .. }
        | ApplyStep::RecreateNftTables { .. }
        | ApplyStep::RemoveNftTables { .. }
        | ApplyStep::RemoveNftCopies { .. } => (Some("nft"), None),
        ApplyStep::CreateSet { set } | ApplyStep::FillSpareSet { set } => {
            match choose_set_load_method(&wanted.sets[set]) {
                SetLoadMethod::Native(_) => (None, None),
                SetLoadMethod::RestoreTool { reason } => (Some("ipset"), Some(reason)),
            }
        }
        ApplyStep::DestroySpareSet { .. }
        | ApplyStep::SwapSet { .. }
        | ApplyStep::DestroySet { .. } => (None, None),
    }
}

/// The context in which steps are executed.
pub(crate) struct StepExecution<'r> {
    /// The ruleset in force when the steps begin: a table that differs at the time of its step was
    /// changed by another program.
    pub expected: &'r KernelRulesetTexts,
    /// The ruleset to put in force.
    pub wanted: &'r KernelRulesetTexts,
    /// The lock of the state, which tools hold as well.
    pub lock: &'r File,
    /// The final counters of natively replaced tables of legacy iptables.
    pub replaced_counters: RefCell<CountersByCounterLocation>,
}

impl StepExecution<'_> {
    /// Executes a step completely or not at all.
    pub(crate) fn run(&self, step: &ApplyStep) -> Result<(), ApplyOperationError> {
        match step {
            ApplyStep::DestroySpareSet { set } => self.destroy_set(&spare_set_name(set)),
            ApplyStep::CreateSet { set } => self.create_set(&self.wanted.sets[set]),
            ApplyStep::FillSpareSet { set } => {
                self.create_set(&rename_set(&self.wanted.sets[set], &spare_set_name(set)))
            }
            ApplyStep::SwapSet { set } => {
                let spare = spare_set_name(set);
                let mut socket = IpsetSocket::open().map_err(ApplyError::from)?;
                socket.swap_sets(&spare, set).map_err(ApplyError::from)?;
                self.destroy_set(&spare)
            }
            ApplyStep::DestroySet { set } => self.destroy_set(set),
            ApplyStep::ReplaceLegacyTable { table } => self.replace_legacy_table(*table),
            ApplyStep::AddNftCopies { tables } => {
                self.run_nft(&render_copies(&self.nft_texts(tables)))
            }
            ApplyStep::ReplaceNftTables { tables } => {
                let present = read_nft_tables().map_err(ApplyError::from)?;
                self.run_nft(&render_replacement(&present, &self.nft_texts(tables)))
            }
            ApplyStep::RecreateNftTables { tables, removed } => {
                let present = read_nft_tables().map_err(ApplyError::from)?;
                let texts = self.nft_texts(tables);
                for transaction in render_accept_policies_then_recreation(&present, &texts, removed)
                {
                    self.run_nft(&transaction)?;
                }
                Ok(())
            }
            ApplyStep::RemoveNftTables { tables } => self.remove_nft_tables(tables, false),
            ApplyStep::RemoveNftCopies { tables } => self.remove_nft_tables(tables, true),
        }
    }

    fn nft_texts(&self, tables: &[FamilyTable]) -> Vec<(FamilyTable, &str)> {
        tables.iter().map(|table| (*table, self.wanted.nft_tables[table].as_str())).collect()
    }

    fn remove_nft_tables(
        &self,
        tables: &[FamilyTable],
        are_copies: bool,
    ) -> Result<(), ApplyOperationError> {
        let present = read_nft_tables().map_err(ApplyError::from)?;
        for transaction in render_accept_policies_then_removal(&present, tables, are_copies) {
            self.run_nft(&transaction)?;
        }
        Ok(())
    }

    fn run_nft(&self, transaction: &str) -> Result<(), ApplyOperationError> {
        match transaction {
            "" => Ok(()),
            text => run_changing_tool(&["nft", "-f", "-"], text, self.lock),
        }
    }

    /// Creates the set of a text with its elements.
    fn create_set(&self, text: &str) -> Result<(), ApplyOperationError> {
        let SetLoadMethod::Native(sets) = choose_set_load_method(text) else {
            let result = run_changing_tool(&["ipset", "restore"], text, self.lock);
            // A partly filled set must not remain, but one that another program created stays.
            let is_partial = |error: &ApplyOperationError| !error.to_string().contains("exists");
            let name =
                text.lines().find_map(|line| line.strip_prefix("create ")?.split(' ').next());
            if let (true, Some(name)) = (result.as_ref().is_err_and(is_partial), name) {
                let _ = self.destroy_set(name);
            }
            return result;
        };
        let mut socket = IpsetSocket::open().map_err(ApplyError::from)?;
        Ok(load_sets(&mut socket, &sets)?)
    }

    /// Creates missing foreign sets. Returns those that cannot be created, with the error.
    pub(crate) fn create_missing_foreign_sets(
        &self,
    ) -> Result<Vec<(String, ApplyOperationError)>, ApplyOperationError> {
        if self.wanted.foreign_sets.is_empty() {
            return Ok(Vec::new());
        }
        let there = list_set_names()?;
        let mut missing: Vec<(&String, &String)> =
            self.wanted.foreign_sets.iter().filter(|(set, _)| !there.contains(set)).collect();
        missing.sort_by_key(|(_, text)| KernelRulesetTexts::is_list_of_sets(text));
        let mut failed = Vec::new();
        for (set, text) in missing {
            if let Err(error) = self.create_set(text) {
                failed.push((set.clone(), error));
            }
        }
        Ok(failed)
    }

    fn destroy_set(&self, set: &str) -> Result<(), ApplyOperationError> {
        let mut socket = IpsetSocket::open().map_err(ApplyError::from)?;
        // A destroyed list of sets releases its members after a grace period of the kernel.
        let end = Instant::now() + SET_RELEASE_WAIT;
        loop {
            match socket.destroy_set(set) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_set_in_use() && Instant::now() < end => {
                    thread::sleep(SET_RELEASE_POLL);
                }
                Err(error) => return Err(ApplyError::from(error).into()),
            }
        }
    }

    fn replace_legacy_table(&self, table: FamilyTable) -> Result<(), ApplyOperationError> {
        let text = &self.wanted.legacy_tables[&table];
        let path = choose_legacy_load_method(table, text);
        if let Some(tool) = path.tool(table.family) {
            self.refuse_changed_table(table)?;
            return run_changing_tool(
                &[tool, "-c", "-w", "10"],
                &add_missing_counters(text),
                self.lock,
            );
        }
        let LegacyLoadMethod::Native(parsed) = path else { unreachable!("it has no tool") };
        let lock_file = XtablesLock::path_from_environment();
        let _lock =
            XtablesLock::acquire(&lock_file, XTABLES_LOCK_WAIT).map_err(|error| {
                match error.kind() {
                    Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        ApplyOperationError::Refused(format!(
                            "table {table} was not changed: another program has held the lock of \
                             iptables, {1}, for {0} s: wait until it exits, then try again",
                            XTABLES_LOCK_WAIT.as_secs(),
                            lock_file.display()
                        ))
                    }
                    _ => ApplyError::from(error).into(),
                }
            })?;
        self.refuse_changed_table(table)?;
        let socket = XtablesSocket::open(table.family).map_err(ApplyError::from)?;
        let replaced_table = KernelTable::read(&socket, table.table)?;
        let counts = load_table(&socket, &parsed)?;
        let counters = map_replaced_counts_by_location(&replaced_table, &counts);
        self.replaced_counters.borrow_mut().extend(counters);
        Ok(())
    }

    fn refuse_changed_table(&self, table: FamilyTable) -> Result<(), ApplyOperationError> {
        let now = read_legacy_table_text(table)?;
        let is_same = |expected: &String| are_texts_equal_except_counters(expected, &now);
        match self.expected.legacy_tables.get(&table).is_none_or(is_same) {
            true => Ok(()),
            false => Err(ApplyOperationError::TableChangedMeanwhile { table }),
        }
    }
}

/// The text of a set with another name.
fn rename_set(text: &str, name: &str) -> String {
    let rename = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (command, _, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
        format!("{} {name} {rest}\n", command.unwrap_or_default())
    };
    text.lines().filter(|line| !line.is_empty()).map(rename).collect()
}

/// `iptables-restore -c` requires counters before every rule.
fn add_missing_counters(text: &str) -> String {
    let add = |line: &str| match line.starts_with("-A ") {
        true => format!("[0:0] {line}\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(add).collect()
}

#[cfg(test)]
mod tests {
    use weir_model::TableName;

    use super::*;

    #[test]
    fn a_table_that_weir_knows_is_loaded_natively_and_another_by_the_tool() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        let text =
            |rule: &str| format!("*filter\n:INPUT DROP [1:2]\n[3:4] -A INPUT {rule}\nCOMMIT\n");
        let known = choose_legacy_load_method(table, &text("-m set --match-set s src -j ACCEPT"));
        assert_eq!(known.tool(Family::V4), None, "{known:?}");
        let unknown = choose_legacy_load_method(table, &text("-m nosuchmatch --x 1 -j ACCEPT"));
        assert_eq!(unknown.tool(Family::V6), Some("ip6tables-legacy-restore"));
        assert!(format!("{unknown:?}").contains("nosuchmatch"), "{unknown:?}");
    }

    #[test]
    fn a_set_is_renamed_in_every_line() {
        let text = "create a hash:ip family inet\nadd a 192.0.2.1 comment \"a b\"\n";
        let expected = "create a~ hash:ip family inet\nadd a~ 192.0.2.1 comment \"a b\"\n";
        assert_eq!(rename_set(text, "a~"), expected);
        assert_eq!(
            add_missing_counters("*raw\n-A OUTPUT\n[1:2] -A OUTPUT\n").lines().nth(1),
            Some("[0:0] -A OUTPUT")
        );
    }
}
