//! A compiled form of a ruleset as a value, and the folder that holds it.
//!
//! An [`Artefact`] is the result of `compile`: the texts that the tools load
//! ([`ArtefactRulesetTexts`]), and the [`Manifest`], which states the evidence for the form
//! ([`evidence`]), its intended differences ([`Deviation`]) and how to read its counters. Its
//! [`LoadFootprint`] is what loading it replaces. A [`FolderContents`] adds the scripts of a back
//! end and is ready for [`write_folder_contents()`]; [`read_artefact`] returns the value again.

#![forbid(unsafe_code)]

pub mod classifier_folder;
mod deviation;
pub mod evidence;
mod folder;
mod form;
mod load_footprint;
pub mod manifest;
mod tool_input_texts;

pub use deviation::{Deviation, DeviationTrigger};
pub use evidence::{CheckedPass, EqualityCheckRecord, PassEqualityEvidence};
pub use folder::{
    FolderContents, MANIFEST_FILE_NAME, ReadError, StoredArtefact, WriteError, read_artefact,
    read_manifest, sha256_hex, write_folder_contents,
};
pub use form::CompiledForm;
pub use load_footprint::{
    KernelRulesetStore, LoadFootprint, NFT_TABLE_PREFIX, NftTableReplacingIptables,
};
pub use manifest::Manifest;
pub use tool_input_texts::{ArtefactFileKind, ArtefactRulesetTexts, IpsetTexts};

/// A compiled form of a ruleset.
#[derive(Clone, Debug, PartialEq)]
pub struct Artefact {
    /// What the tools load.
    pub contents: ArtefactRulesetTexts,
    /// What `manifest.json` says, without the list of files.
    pub manifest: Manifest,
}

impl Artefact {
    /// What loading it replaces.
    pub fn footprint(&self) -> LoadFootprint {
        LoadFootprint::from_texts(&self.contents)
    }
}
