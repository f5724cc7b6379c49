//! The folder of the classifier form: blocks of look-ups, and a manifest that says what to do with
//! what they find.
//!
//! Nothing loads it: it is for programs that walk the blocks themselves. A packet starts with the
//! first chain of its table. The key of a stretch is built of its [`ClassifierKeyPart`]s and looked
//! up in its block; the rules that match are indexes into its entries, followed in ascending order.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::folder::{MANIFEST_FILE_NAME, WriteError, sha256_hex, wrap_io_error};
use crate::manifest::ArtefactFileDigest;

/// Version of [`ClassifierManifest`].
pub const CLASSIFIER_MANIFEST_VERSION: u32 = 1;

/// `manifest.json` of the classifier form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassifierManifest {
    /// Version of this description.
    pub version: u32,
    /// Version of weir that wrote it.
    pub weir: String,
    /// `classifier`.
    pub form: String,
    /// The blocks with their SHA-256.
    pub files: Vec<ArtefactFileDigest>,
    /// The built-in chains that were compiled.
    pub tables: Vec<ClassifierBuiltInChain>,
}

/// A built-in chain as look-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierBuiltInChain {
    /// Its path: `iptables/filter/FORWARD`.
    pub chain: String,
    /// What becomes of packets that no rule decided: `accept` or `drop`; counted by
    /// `CHAIN/policy`.
    pub policy: String,
    /// How many rules it has with all that it leads to.
    pub rules: usize,
    /// Device names in the order of their codes, prefixes with a `+`. The next code is the missing
    /// device, the one after it any other. A name is closer than a prefix, a longer prefix closer
    /// than a shorter one.
    #[serde(rename = "devices")]
    pub device_names_by_code: Vec<String>,
    /// The chain itself first, then those that are called.
    pub chains: Vec<ClassifierChain>,
    /// With how many packets it was compared before it was written.
    pub checked_packets: usize,
}

/// A chain: stretches in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierChain {
    /// Its name.
    pub name: String,
    /// Its stretches.
    pub stretches: Vec<ClassifierLookupStretch>,
}

/// What one look-up finds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierLookupStretch {
    /// The file of its block; none if no entry has a filter.
    pub block: Option<String>,
    /// The words of a key, in order.
    pub key: Vec<ClassifierKeyPart>,
    /// Entries by number.
    pub entries: Vec<ClassifierEntry>,
}

/// Some words of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum ClassifierKeyPart {
    /// A field, the most significant word first.
    Number {
        /// Its name in `--packet`.
        field: String,
        /// How many words.
        words: u32,
    },
    /// The class of a code: with `bits` the bit of that number is set, else it is the word.
    Classes {
        /// `header`, `iif`, `oif`, `ct state`, `flags` or `pkttype`.
        axis: String,
        /// Whether the word has a bit for each class.
        bits: bool,
        /// Classes by code, up to the last code that is not in the class of code 255.
        class_by_code: Vec<u8>,
    },
    /// A bit for each test, from the lowest.
    Tests {
        /// The tests in words.
        tests: Vec<String>,
    },
}

/// What finding an entry means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassifierEntry {
    /// The rule: `iptables/filter/FORWARD/3`.
    pub rule: String,
    /// Whether the rule counts.
    #[serde(rename = "counts")]
    pub counts_packet: bool,
    /// `next`, `accept`, `drop`, `reject TYPE`, `resume` (entries before `resume_at` are skipped)
    /// or `call` (the chain `call` is traversed first).
    pub then: String,
    /// Entries before that one are skipped; 2^32 - 1 leaves the chain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resume_at: Option<u32>,
    /// Index into the chains.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<u32>,
}

/// Writes the folder, which must not exist or be empty, as a whole, and returns its manifest, which
/// lists the blocks.
///
/// # Errors
/// [`WriteError::NotEmpty`] if the folder holds anything, [`WriteError::Io`] if the system
/// refuses; then nothing is written.
pub fn create_classifier_folder(
    manifest: &ClassifierManifest,
    blocks: &[(String, Vec<u8>)],
    dir: &Path,
) -> Result<ClassifierManifest, WriteError> {
    let mut manifest = manifest.clone();
    manifest.files = blocks
        .iter()
        .map(|(name, bytes)| ArtefactFileDigest { name: name.clone(), sha256: sha256_hex(bytes) })
        .collect();
    let mut json =
        serde_json::to_string_pretty(&manifest).expect("a manifest is made of strings and numbers");
    json.push('\n');
    if let Ok(mut entries) = fs::read_dir(dir)
        && entries.next().is_some()
    {
        return Err(WriteError::NotEmpty { path: dir.to_owned() });
    }
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(wrap_io_error("make", parent))?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let fresh = parent.join(format!(".{name}.weir-{}", std::process::id()));
    fs::create_dir(&fresh).map_err(wrap_io_error("make", &fresh))?;
    let files = blocks.iter().map(|(name, bytes)| (&**name, &bytes[..]));
    let write_all = || {
        for (name, bytes) in files.chain([(MANIFEST_FILE_NAME, json.as_bytes())]) {
            let path = fresh.join(name);
            fs::write(&path, bytes).map_err(wrap_io_error("write", &path))?;
        }
        // Renaming onto a folder succeeds only if that is empty.
        fs::rename(&fresh, dir).map_err(wrap_io_error("put in place", dir))
    };
    let written = write_all();
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(wrap_io_error("remove", &fresh))?;
    }
    written.map(|()| manifest)
}
