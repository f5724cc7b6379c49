//! A folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// An empty folder among the temporary ones, removed with all that is in it.
#[derive(Debug)]
pub struct TempFolder(PathBuf);

impl TempFolder {
    /// For the test of this name; no two tests of a crate may share one.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn new(name: &str) -> TempFolder {
        let path = std::env::temp_dir().join(format!("weir-{name}-{}", process::id()));
        fs::create_dir(&path).unwrap_or_else(|e| panic!("make {}: {e}", path.display()));
        TempFolder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
        path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_is_removed_when_dropped() {
        let folder = TempFolder::new("folder");
        let (path, file) = (folder.path().to_owned(), folder.write_file("a", "text"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        drop(folder);
        assert!(!path.exists());
    }
}
