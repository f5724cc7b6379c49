//! The state of weir on disk: the generations of each network namespace, in one folder each.
//!
//! ```text
//! STATE/generations/host/            net-INODE for other namespaces
//!     lock                           locked while a command runs; contains its process id
//!     current.json                   which generation is in force
//!     journal.json                   the change in progress, or the pending confirmation
//!     0/generation.json              time, command, form and outcome
//!     0/ruleset/iptables-filter      the texts that restore it, with counters
//!     0/source/, 0/artefact/         the original ruleset and its compiled form
//! ```
//!
//! A file is written under another name, flushed to disk and renamed; then its folder is flushed.
//! Everything that a change and its rollback need is on disk before the first step; after it, only
//! small files are written and files are removed. A full disk therefore prevents a change before it
//! begins.
//!
//! Folders and files that are symbolic links, belong to another user or can be written by others
//! are refused, because their contents determine which rules root loads.

mod durable_files;
mod generation_record;
mod journal;
mod state_lock;
mod state_version;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_artefact::sha256_hex;
use weir_kernel::boot_clock::read_boot_id;
use weir_kernel::network_namespace_identity::NetworkNamespaceIdentity;

use self::durable_files::{
    create_private_folder, flush_folder, read_versioned_json, remove_file_if_present,
    write_durably, write_json,
};
use self::generation_record::ABSENT_FILE_DIGEST;
pub use self::generation_record::{
    GenerationKind, GenerationOutcome, GenerationRecord, SourceFile,
};
pub use self::journal::{ConfirmationDeadline, Journal, JournalOperation, JournalStage};
pub use self::state_lock::{NamespaceLockMode, StateLock};
use self::state_version::STATE_VERSION;
use crate::ApplyOperationError;
use crate::kernel_ruleset::{FamilyTable, KernelRulesetTexts};

/// The state folder, unless `--state` or `WEIR_STATE` gives another one.
pub const DEFAULT_STATE_FOLDER: &str = "/var/lib/weir";
const GENERATIONS_FOLDER: &str = "generations";
const CURRENT_FILE: &str = "current.json";
/// Names the generation that a boot restores.
const BOOT_FILE: &str = "boot.json";
const JOURNAL_FILE: &str = "journal.json";
const GENERATION_FILE: &str = "generation.json";
const RULESET_FOLDER: &str = "ruleset";
const SETS_FILE: &str = "sets";
const FOREIGN_SETS_FILE: &str = "foreign-sets";
const NFT_FILE_PREFIX: &str = "nft-";

/// Which generation is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentGeneration {
    version: u32,
    /// Its number; none before the first apply.
    pub generation: Option<u32>,
    /// The snapshot of what was in force before weir, since this boot.
    pub baseline: Option<u32>,
    /// The boot ID.
    pub boot_id: String,
    /// The cookie of the network namespace.
    pub namespace_cookie: Option<u64>,
}

/// Which generation a boot restores.
#[derive(Serialize, Deserialize)]
struct BootGeneration {
    version: u32,
    generation: Option<u32>,
}

/// The state of one network namespace.
#[derive(Debug)]
pub struct StateStore {
    folder: PathBuf,
    boot_id: String,
    namespace_cookie: Option<u64>,
}

impl StateStore {
    /// The state of the current network namespace, below a state folder. Nothing is created yet.
    ///
    /// # Errors
    /// If a folder is not safe, or `/proc` is not mounted.
    pub fn find(state: &Path) -> Result<StateStore, ApplyOperationError> {
        if !state.is_absolute() {
            let path = state.display();
            return Err(ApplyOperationError::Refused(format!(
                "state folder {path} is not an absolute path: write the whole path"
            )));
        }
        // A folder of root alone does not show what is in it.
        let belongs_to_root = fs::symlink_metadata(state).is_ok_and(|found| found.uid() == 0);
        if belongs_to_root && !rustix::process::geteuid().is_root() {
            return Err(ApplyOperationError::Refused(format!(
                "only root can read {}: run weir as root",
                state.display()
            )));
        }
        let identity = NetworkNamespaceIdentity::of_current_thread()?;
        let name = match identity.is_namespace_of_first_process {
            true => "host".to_owned(),
            false => format!("net-{}", identity.inode),
        };
        let folder = state.join(GENERATIONS_FOLDER).join(name);
        for path in [state, &state.join(GENERATIONS_FOLDER), &folder] {
            durable_files::refuse_unsafe_folder(path)?;
        }
        durable_files::refuse_unsafe_entries(&folder)?;
        let boot_id = read_boot_id()?;
        Ok(StateStore { folder, boot_id, namespace_cookie: identity.cookie })
    }

    /// The folder of the namespace.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that is locked while a command runs.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// Whether anything was ever applied here.
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    /// Creates missing folders and takes the lock, waiting for at most `wait`.
    ///
    /// # Errors
    /// [`ApplyOperationError::LockHeld`] if another command holds it for longer.
    pub fn lock(
        &self,
        wait: Duration,
        namespace_lock: NamespaceLockMode,
    ) -> Result<StateLock, ApplyOperationError> {
        let generations = self.folder.parent().expect("it has a name");
        let state = generations.parent().expect("it is below a state folder");
        for path in [state, generations, &self.folder] {
            create_private_folder(path)?;
        }
        let lock = StateLock::acquire(&self.lock_path(), wait, namespace_lock)?;
        self.set_aside_state_of_other_namespace()?;
        Ok(lock)
    }

    /// The kernel reuses the inode number of a deleted namespace: state of the old namespace does
    /// not apply to the new one and is moved aside.
    fn set_aside_state_of_other_namespace(&self) -> Result<(), ApplyOperationError> {
        if !self.is_of_other_namespace()? {
            return Ok(());
        }
        let free = (1..).map(|n| self.folder.with_extension(format!("{n}.old")));
        let aside = free.into_iter().find(|path| !path.exists()).expect("numbers do not end");
        create_private_folder(&aside)?;
        for entry in durable_files::list_entries(&self.folder)? {
            if entry.file_name().is_some_and(|name| name != "lock") {
                let to = aside.join(entry.file_name().expect("an entry has a name"));
                fs::rename(&entry, &to).map_err(ApplyOperationError::file("move", &entry))?;
            }
        }
        flush_folder(&self.folder)
    }

    fn is_of_other_namespace(&self) -> Result<bool, ApplyOperationError> {
        let current = self.read_current_file()?;
        let (boot_id, cookie) = (&current.boot_id, current.namespace_cookie);
        let is_other =
            cookie.is_some() && (boot_id, cookie) != (&self.boot_id, self.namespace_cookie);
        let is_host = self.folder.file_name().is_some_and(|name| name == "host");
        Ok(is_other && !is_host)
    }

    fn read_current_file(&self) -> Result<CurrentGeneration, ApplyOperationError> {
        Ok(read_versioned_json(&self.folder.join(CURRENT_FILE))?.unwrap_or_default())
    }

    /// Which generation is in force according to the records of this boot.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_current_of_this_boot(&self) -> Result<CurrentGeneration, ApplyOperationError> {
        let current = self.read_current_file()?;
        let is_ours = current.boot_id == self.boot_id && !self.is_of_other_namespace()?;
        Ok(if is_ours { current } else { CurrentGeneration::default() })
    }

    /// Records which generation is in force.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_current(&self, generation: u32, baseline: u32) -> Result<(), ApplyOperationError> {
        let current = CurrentGeneration {
            version: STATE_VERSION,
            generation: Some(generation),
            baseline: Some(baseline),
            boot_id: self.boot_id.clone(),
            namespace_cookie: self.namespace_cookie,
        };
        write_json(&self.folder.join(CURRENT_FILE), &current)
    }

    /// The generation that a boot restores. `None`: none was recorded; `Some(None)`: the ruleset from
    /// before weir was restored last, so that a boot restores nothing.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_boot_generation(&self) -> Result<Option<Option<u32>>, ApplyOperationError> {
        let recorded: Option<BootGeneration> = read_versioned_json(&self.boot_file())?;
        Ok(recorded.map(|recorded| recorded.generation))
    }

    /// Records which generation a boot restores; `None` is none.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_boot_generation(
        &self,
        generation: Option<u32>,
    ) -> Result<(), ApplyOperationError> {
        write_json(&self.boot_file(), &BootGeneration { version: STATE_VERSION, generation })
    }

    /// The file that names the generation that a boot restores.
    pub(crate) fn boot_file(&self) -> PathBuf {
        self.folder.join(BOOT_FILE)
    }

    /// The change in progress or the pending confirmation.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_journal(&self) -> Result<Option<Journal>, ApplyOperationError> {
        match self.is_of_other_namespace()? {
            true => Ok(None),
            false => read_versioned_json(&self.folder.join(JOURNAL_FILE)),
        }
    }

    /// Records a change before it begins.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), ApplyOperationError> {
        write_json(&self.folder.join(JOURNAL_FILE), journal)
    }

    /// Removes the journal: nothing is in progress any more.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove_journal(&self) -> Result<(), ApplyOperationError> {
        remove_file_if_present(&self.folder.join(JOURNAL_FILE))?;
        flush_folder(&self.folder)
    }

    /// The numbers of all generations, in order.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list_generations(&self) -> Result<Vec<u32>, ApplyOperationError> {
        if !self.exists() || self.is_of_other_namespace()? {
            return Ok(Vec::new());
        }
        let entries = durable_files::list_entries(&self.folder)?;
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
        let mut numbers: Vec<u32> = entries.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.retain(|number| self.generation_folder(*number).join(GENERATION_FILE).exists());
        Ok(numbers)
    }

    /// The folder of a generation.
    pub fn generation_folder(&self, generation: u32) -> PathBuf {
        self.folder.join(generation.to_string())
    }

    /// The record of a generation.
    ///
    /// # Errors
    /// [`ApplyOperationError::NoSuchGeneration`].
    pub fn read_generation_record(
        &self,
        generation: u32,
    ) -> Result<GenerationRecord, ApplyOperationError> {
        let path = self.generation_folder(generation).join(GENERATION_FILE);
        read_versioned_json(&path)?.ok_or(ApplyOperationError::NoSuchGeneration { generation })
    }

    /// Replaces the record of a generation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_generation_record(
        &self,
        record: &GenerationRecord,
    ) -> Result<(), ApplyOperationError> {
        let folder = self.generation_folder(record.generation);
        let mut record = record.clone();
        if record.ruleset_sha256.is_empty() {
            for path in durable_files::list_entries(&folder.join(RULESET_FOLDER))? {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let text = fs::read(&path).map_err(ApplyOperationError::file("read", &path))?;
                record.ruleset_sha256.insert(name, vec![sha256_hex(&text)]);
            }
        }
        write_json(&folder.join(GENERATION_FILE), &record)
    }

    /// Creates the folder of the next generation; one that was never completed is replaced.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create_generation_folder(&self) -> Result<u32, ApplyOperationError> {
        let number = match self.list_generations()?.last() {
            None => 0,
            Some(last) => last.checked_add(1).ok_or_else(|| {
                ApplyOperationError::Refused(format!(
                    "generation {last} has the highest possible number: move its folder away: {}",
                    self.generation_folder(*last).display()
                ))
            })?,
        };
        let folder = self.generation_folder(number);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(ApplyOperationError::file("remove", &folder))?;
        }
        create_private_folder(&folder)?;
        create_private_folder(&folder.join(RULESET_FOLDER))?;
        Ok(number)
    }

    /// Removes a generation that was never in force.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_generation(&self, generation: u32) -> Result<(), ApplyOperationError> {
        let folder = self.generation_folder(generation);
        fs::remove_dir_all(&folder).map_err(ApplyOperationError::file("remove", &folder))
    }

    /// Writes a file in a subfolder of a generation, which is created.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_generation_file(
        &self,
        generation: u32,
        folder: &str,
        name: &str,
        text: &str,
    ) -> Result<(), ApplyOperationError> {
        let folder = self.generation_folder(generation).join(folder);
        create_private_folder(&folder)?;
        write_durably(&folder.join(name), text.as_bytes())
    }

    /// Writes the texts that restore a generation, and removes other texts of it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_ruleset(
        &self,
        generation: u32,
        ruleset: &KernelRulesetTexts,
    ) -> Result<(), ApplyOperationError> {
        let folder = self.generation_folder(generation).join(RULESET_FOLDER);
        let files = ruleset_files(ruleset);
        let digests: BTreeMap<String, Vec<String>> = files
            .iter()
            .map(|(name, text)| (name.clone(), vec![sha256_hex(text.as_bytes())]))
            .collect();
        let record_path = self.generation_folder(generation).join(GENERATION_FILE);
        let mut record: Option<GenerationRecord> = read_versioned_json(&record_path)?;
        if let Some(record) = &mut record {
            // If weir is killed in between, each file is the old or the new one.
            record.accept_new_digests(&digests);
            self.write_generation_record(record)?;
        }
        for (name, text) in &files {
            write_durably(&folder.join(name), text.as_bytes())?;
        }
        for entry in durable_files::list_entries(&folder)? {
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !files.contains_key(name) {
                remove_file_if_present(&entry)?;
            }
        }
        flush_folder(&folder)?;
        if let Some(mut record) = record {
            record.ruleset_sha256 = digests;
            self.write_generation_record(&record)?;
        }
        Ok(())
    }

    /// The tables that a generation has texts for, without reading these.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn list_ruleset_tables(
        &self,
        generation: u32,
    ) -> Result<Vec<FamilyTable>, ApplyOperationError> {
        let names = self.read_generation_record(generation)?.ruleset_sha256.into_keys();
        let table = |name: String| {
            FamilyTable::from_file_name(name.strip_prefix(NFT_FILE_PREFIX).unwrap_or(&name))
        };
        Ok(names.filter_map(table).collect())
    }

    /// The texts that put a generation in force again.
    ///
    /// # Errors
    /// [`ApplyOperationError::DamagedGeneration`] if one is gone or is not as it was written.
    pub fn read_ruleset(&self, generation: u32) -> Result<KernelRulesetTexts, ApplyOperationError> {
        let folder = self.generation_folder(generation).join(RULESET_FOLDER);
        let mut ruleset = KernelRulesetTexts::default();
        let digests = self.read_generation_record(generation)?.ruleset_sha256;
        if digests.is_empty() {
            return Err(ApplyOperationError::UnreadableState {
                path: self.generation_folder(generation).join(GENERATION_FILE),
                message: "it has no checksums: choose another generation".to_owned(),
            });
        }
        for (name, accepted) in &digests {
            let path = folder.join(name);
            let Some(text) = read_checked_text(&path, accepted)? else { continue };
            let name = name.as_str();
            if name == SETS_FILE {
                ruleset.sets = split_sets(&text);
            } else if name == FOREIGN_SETS_FILE {
                ruleset.foreign_sets = split_sets(&text);
            } else if let Some(table) =
                name.strip_prefix(NFT_FILE_PREFIX).and_then(FamilyTable::from_file_name)
            {
                ruleset.nft_tables.insert(table, text);
            } else if let Some(table) = FamilyTable::from_file_name(name) {
                ruleset.legacy_tables.insert(table, text);
            }
        }
        Ok(ruleset)
    }
}

/// The text of a file if it has one of these checksums; `None` if it is missing and may be.
fn read_checked_text(
    path: &Path,
    accepted: &[String],
) -> Result<Option<String>, ApplyOperationError> {
    let damaged =
        |problem| ApplyOperationError::DamagedGeneration { path: path.to_owned(), problem };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let may_be_missing = accepted.iter().any(|digest| digest == ABSENT_FILE_DIGEST);
            return if may_be_missing { Ok(None) } else { Err(damaged("is missing")) };
        }
        Err(error) => return Err(ApplyOperationError::file("read", path)(error)),
    };
    if !accepted.contains(&sha256_hex(&bytes)) {
        return Err(damaged("was changed since it was saved"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| damaged("was changed since it was saved"))
}

fn ruleset_files(ruleset: &KernelRulesetTexts) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for (table, text) in &ruleset.legacy_tables {
        files.insert(table.file_name(), text.clone());
    }
    for (table, text) in &ruleset.nft_tables {
        files.insert(format!("{NFT_FILE_PREFIX}{}", table.file_name()), text.clone());
    }
    let sets: String = ruleset.sets.values().map(String::as_str).collect();
    files.insert(SETS_FILE.to_owned(), sets);
    if !ruleset.foreign_sets.is_empty() {
        let sets: String = ruleset.foreign_sets.values().map(String::as_str).collect();
        files.insert(FOREIGN_SETS_FILE.to_owned(), sets);
    }
    files
}

/// Splits a text of `ipset save` into its sets.
pub fn split_sets(text: &str) -> BTreeMap<String, String> {
    let mut sets: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.split(' ').nth(1).filter(|_| !line.starts_with('#')) {
            let lines = sets.entry(name.to_owned()).or_default();
            lines.push_str(line);
            lines.push('\n');
        }
    }
    sets
}
