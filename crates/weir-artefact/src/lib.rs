//! A compiled form of a ruleset as a value, and the folder that holds it.
//!
//! An [`Artefact`] is the result of `compile`: the texts that the tools load
//! ([`ArtefactRulesetTexts`]), and the [`Manifest`], which states the evidence for the form
//! ([`evidence`]), its intended differences ([`Deviation`]) and how to read its counters. Its
//! [`Footprint`] is what loading it replaces. A [`FolderContents`] adds the scripts of a back end
//! and is ready for [`write_folder_contents()`]; [`read_artefact`] returns the value again.

#![forbid(unsafe_code)]

pub mod classifier_folder;
mod deviation;
pub mod evidence;
mod folder;
mod footprint;
mod form;
pub mod manifest;
mod tool_input_texts;

pub use deviation::{Deviation, DeviationTrigger};
pub use evidence::{CheckedPass, EqualityCheckRecord, Evidence};
pub use folder::{
    FolderContents, MANIFEST_FILE_NAME, ReadError, StoredArtefact, WriteError, read_artefact,
    read_manifest, sha256_hex, write_folder_contents,
};
pub use footprint::{Footprint, KernelFacility, NFT_TABLE_PREFIX, NftReplacementTable};
pub use form::Form;
pub use manifest::Manifest;
pub use tool_input_texts::{ArtefactRulesetTexts, FileKind, IpsetTexts};

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
    pub fn footprint(&self) -> Footprint {
        Footprint::from_texts(&self.contents)
    }
}
