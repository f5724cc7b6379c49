//! The scripts that load an artefact and restore the previous ruleset.
//!
//! They are POSIX shell, the same text for every artefact, after a header with a few variables.
//! weir sets these to values that it generates: table names, a hexadecimal identity. No name,
//! comment or address of a ruleset is ever part of a script; data is passed in files next to it.
//!
//! After a kill at any point the old ruleset, the new one, or both are in force, and a later run of
//! either script completes or undoes what was begun. This rests on three rules. The ruleset in
//! force is saved, and the save is verified and written to disk, before the first change. No rule
//! is removed before its replacement is in force. The state changes only by renames
//! (`load/state.sh`). `tests/faults` kills the scripts at every command, makes every write fail,
//! and runs the scripts against each other.

use std::path::Path;

use weir_artefact::{
    Artefact, FolderContents, LoadFootprint, NftTableReplacingIptables, WriteError,
};
use weir_model::{Family, TableName};

const COMMON_SCRIPT: &str = include_str!("load/common.sh");
const SAVED_RULESETS_SCRIPT: &str = include_str!("load/state.sh");
const KERNEL_RULESET_ACCESS_SCRIPT: &str = include_str!("load/kernel.sh");
const PRELOAD_CHECK_SCRIPT: &str = include_str!("load/check.sh");
const SAVE_RULESET_IN_FORCE_SCRIPT: &str = include_str!("load/save.sh");
const LOAD_SCRIPT: &str = include_str!("load/load.sh");
const UNLOAD_SCRIPT: &str = include_str!("load/unload.sh");

/// Programs that the scripts run in addition to those that load and save a form, the shell's own,
/// coreutils, grep and sed.
const SCRIPT_PROGRAMS_NOT_ASSUMED: [&str; 4] = ["awk", "cmp", "find", "flock"];

/// Programs that the scripts of a form run, apart from the shell's own, coreutils, grep and sed.
pub(crate) fn list_required_tools(footprint: &LoadFootprint) -> Vec<String> {
    let loaders = footprint.kernel_ruleset_stores();
    let programs = loaders.iter().flat_map(|loader| loader.save_and_load_tools().iter().copied());
    SCRIPT_PROGRAMS_NOT_ASSUMED.into_iter().chain(programs).map(str::to_owned).collect()
}

/// Writes an artefact into a folder, with the scripts that load and unload it.
///
/// # Errors
/// As [`weir_artefact::write_folder_contents`].
pub fn write_artefact(artefact: &Artefact, dir: &Path) -> Result<(), WriteError> {
    let scripts = LoadScripts::generate_for_artefact(artefact);
    weir_artefact::write_folder_contents(&scripts.to_folder_contents_with_artefact(artefact), dir)
}

/// The scripts of an artefact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadScripts {
    /// `load.sh`.
    pub load: String,
    /// `unload.sh`.
    pub unload: String,
}

impl LoadScripts {
    /// Prints them.
    ///
    /// # Panics
    /// Where the identity is not hexadecimal: it is weir's own.
    pub fn generate_for_artefact(artefact: &Artefact) -> LoadScripts {
        let (form, id) = (artefact.manifest.form, &artefact.manifest.id);
        assert!(id.bytes().all(|b| b.is_ascii_hexdigit()), "an identity is hexadecimal");
        let touched = artefact.footprint();
        let head = |what: &str| {
            format!(
                "#!/bin/sh\n# {what}\nset -eu\n\nid={id}\nform={form}\nv4_tables='{}'\n\
                 v6_tables='{}'\nv4_emptied='{}'\nv6_emptied='{}'\nsets={}\nnft_tables='{}'\n\n\
                 {COMMON_SCRIPT}\n{SAVED_RULESETS_SCRIPT}\n{KERNEL_RULESET_ACCESS_SCRIPT}\n",
                join_table_names(touched.replaced_tables(Family::V4)),
                join_table_names(touched.replaced_tables(Family::V6)),
                join_table_names(&touched.tables_wholly_moved_to_nft(Family::V4)),
                join_table_names(&touched.tables_wholly_moved_to_nft(Family::V6)),
                if touched.uses_sets { "yes" } else { "" },
                touched
                    .nft_tables
                    .iter()
                    .map(NftTableReplacingIptables::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        let load = head("Loads the ruleset beside it into this network namespace, all or nothing.")
            + PRELOAD_CHECK_SCRIPT
            + "\n"
            + SAVE_RULESET_IN_FORCE_SCRIPT
            + "\n"
            + LOAD_SCRIPT;
        let unload = head("Puts back what was in force before load.sh.") + UNLOAD_SCRIPT;
        LoadScripts { load, unload }
    }

    /// An artefact together with them.
    pub fn to_folder_contents_with_artefact<'a>(
        &'a self,
        artefact: &'a Artefact,
    ) -> FolderContents<'a> {
        FolderContents::new(artefact, &self.load, &self.unload)
    }
}

fn join_table_names(names: &[TableName]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}
