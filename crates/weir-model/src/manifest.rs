//! The description of an artefact: what is in its folder, and how to read its counters.
//!
//! `manifest.json` is this, as JSON. A program that knows nothing of weir can account for every
//! original rule with it: read the counters it names, add them up.

use serde::{Deserialize, Serialize};

use crate::CreditMap;

/// An artefact's `manifest.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of weir that wrote it.
    pub weir: String,
    /// `linear`, `tree`, `ipset` or `nft`.
    pub form: String,
    /// Identity of the artefact: eight hexadecimal digits that its sets and its saved state carry.
    #[serde(default)]
    pub id: String,
    /// The tools that the artefact is for, e.g. `iptables-legacy-restore`.
    pub tools: Vec<String>,
    /// Files of the artefact with their SHA-256, so that a later run knows what it wrote.
    pub files: Vec<FileEntry>,
    /// Estimated kernel memory of the form once loaded, in bytes.
    pub memory_bytes: u64,
    /// Runs that were compiled.
    pub compiled: Vec<CompiledRun>,
    /// Rules that stay as they are although they lie between compiled ones, and why.
    pub barriers: Vec<Kept>,
    /// What the form does differently by its nature, in words of `docs/semantics.md`.
    pub deviations: Vec<String>,
    /// What the equality check did before the artefact was written.
    pub checked: Checked,
    /// Counters by original rule.
    pub counters: CreditMap,
}

/// A file of an artefact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name inside the folder.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// A stretch of rules that was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompiledRun {
    /// First rule, `iptables/filter/FORWARD/3`.
    pub first: String,
    /// How many rules from there.
    pub rules: u32,
    /// What became of them, in a sentence.
    pub into: String,
}

/// A rule (or stretch) that was left as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The rule.
    pub rule: String,
    /// Why.
    pub why: String,
}

/// What the check before writing did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Packets put through the interpreter before and after.
    pub packets: u64,
    /// Seed of the random ones.
    pub seed: u64,
}
