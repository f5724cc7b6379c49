//! A compiled form of a ruleset as a value, and the folder that holds it.
//!
//! An [`Artefact`] is the result of `compile`: the texts that the tools load ([`ArtefactTexts`]),
//! and the [`Manifest`], which states the evidence for the form ([`evidence`]), its intended
//! differences ([`Deviation`]) and how to read its counters. Its [`Footprint`] is what loading it
//! replaces. A [`FolderContents`] adds the scripts of a back end and is ready for
//! [`write_folder_contents()`]; [`read_artefact`] returns the value again.

#![forbid(unsafe_code)]

mod artefact_texts;
mod deviation;
pub mod evidence;
mod folder;
mod footprint;
mod form;
pub mod manifest;

pub use artefact_texts::{ArtefactTexts, FileKind, IpsetTexts};
pub use deviation::{Deviation, DeviationTrigger};
pub use evidence::{CheckedPass, EqualityCheckRecord, Evidence};
pub use folder::{
    FolderContents, MANIFEST_FILE_NAME, ReadError, StoredArtefact, WriteError, read_artefact,
    read_manifest, sha256_hex, write_folder_contents,
};
pub use footprint::{Footprint, KernelFacility, NFT_TABLE_PREFIX, NftTable};
pub use form::Form;
pub use manifest::Manifest;

/// A compiled form of a ruleset.
#[derive(Clone, Debug, PartialEq)]
pub struct Artefact {
    /// What the tools load.
    pub contents: ArtefactTexts,
    /// What `manifest.json` says, without the list of files.
    pub manifest: Manifest,
}

impl Artefact {
    /// What loading it replaces.
    pub fn footprint(&self) -> Footprint {
        Footprint::from_texts(&self.contents)
    }
}
