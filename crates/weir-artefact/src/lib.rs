//! A compiled form of a ruleset as a value, and the folder that holds it.
//!
//! An [`Artefact`] is the result of `compile`: the texts that the tools load ([`Contents`]), and
//! the [`Manifest`], which states the evidence for the form ([`evidence`]), its intended
//! differences ([`Deviation`]) and how to read its counters. Its [`Footprint`] is what loading it
//! replaces. A [`Bundle`] adds the scripts of a back end and is ready for [`write_bundle()`];
//! [`read_artefact`] returns the value again.

#![forbid(unsafe_code)]

mod contents;
mod deviation;
pub mod evidence;
mod folder;
mod footprint;
mod form;
pub mod manifest;

pub use contents::{Contents, FileKind, SetTexts};
pub use deviation::{Deviation, DeviationTrigger};
pub use evidence::{CheckedPass, EqualityCheck, Evidence};
pub use folder::{
    Bundle, MANIFEST_FILE_NAME, ReadError, StoredArtefact, WriteError, read_artefact,
    read_manifest, sha256_hex, write_bundle,
};
pub use footprint::{Footprint, KernelFacility, NFT_TABLE_PREFIX, NftTable};
pub use form::Form;
pub use manifest::Manifest;

/// A compiled form of a ruleset.
#[derive(Clone, Debug, PartialEq)]
pub struct Artefact {
    /// What the tools load.
    pub contents: Contents,
    /// What `manifest.json` says, without the list of files.
    pub manifest: Manifest,
}

impl Artefact {
    /// What loading it replaces.
    pub fn footprint(&self) -> Footprint {
        Footprint::from_contents(&self.contents)
    }
}
