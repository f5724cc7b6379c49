//! A compiled form of a ruleset as a value, and the folder that holds it.

#![forbid(unsafe_code)]

pub mod folder;
pub mod manifest;

pub use folder::{Artefact, ArtefactFile, ReadError, WriteError};
