//! Programs on the `PATH`.

use std::path::PathBuf;

/// Where programs are found.
#[derive(Clone, Debug)]
pub struct ProgramSearchPath {
    path_env_folders: Vec<PathBuf>,
}

impl ProgramSearchPath {
    /// Looks in the folders of `path`, as the environment's `PATH` has it.
    pub fn new(path: &std::ffi::OsStr) -> ProgramSearchPath {
        ProgramSearchPath { path_env_folders: std::env::split_paths(path).collect() }
    }

    /// Whether a program of that name is there.
    pub fn has_program(&self, name: &str) -> bool {
        self.path_env_folders.iter().any(|folder| folder.join(name).is_file())
    }
}
