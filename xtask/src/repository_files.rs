//! The files of the repository as values, so that each house rule is a function of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The files that git knows or would add, by path from the root with `/`.
#[derive(Debug, Default)]
pub struct WorkingTreeFiles {
    /// Those that hold text.
    texts: BTreeMap<String, String>,
    /// Sizes of all, bytes.
    sizes: BTreeMap<String, u64>,
}

impl WorkingTreeFiles {
    /// Reads the checkout that this program was built from.
    ///
    /// # Errors
    /// If there is no git, or a file cannot be read.
    pub fn read_nonignored_files() -> Result<WorkingTreeFiles> {
        let root = repository_root();
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .context("list files with git")?;
        ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr).trim());
        let mut tree = WorkingTreeFiles::default();
        for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            let on_disk = root.join(path);
            // Deleted, but the deletion is not committed yet; or a link, which is listed itself.
            if !on_disk.is_file() || on_disk.is_symlink() {
                continue;
            }
            let bytes = std::fs::read(&on_disk).with_context(|| format!("read {path}"))?;
            tree.sizes.insert(path.to_owned(), bytes.len() as u64);
            if let Ok(text) = String::from_utf8(bytes) {
                tree.texts.insert(path.to_owned(), text);
            }
        }
        Ok(tree)
    }

    /// The text of a file.
    pub fn file_text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Whether a file or a folder of that path is there.
    pub fn contains_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.sizes.contains_key(path)
            || self
                .sizes
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// All files with their sizes in bytes, also those that hold no text, sorted by path.
    pub fn file_sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sizes.iter().map(|(path, bytes)| (path.as_str(), *bytes))
    }

    /// All files of text, sorted by path.
    pub fn text_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files of text whose name ends so, sorted by path.
    pub fn files_with_suffix<'a>(
        &'a self,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.text_files().filter(move |(path, _)| path.ends_with(end))
    }
}

#[cfg(test)]
impl WorkingTreeFiles {
    /// A tree of the given files, for tests.
    pub fn from_texts(files: &[(&str, &str)]) -> WorkingTreeFiles {
        let sizes = files.iter().map(|&(p, t)| (p.to_owned(), t.len() as u64)).collect();
        let files = files.iter().map(|&(p, t)| (p.to_owned(), t.to_owned())).collect();
        WorkingTreeFiles { texts: files, sizes }
    }
}

/// The root of the checkout.
pub fn repository_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.to_owned(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_if_it_contains_a_file() {
        let tree = WorkingTreeFiles::from_texts(&[("docs/guide/a.md", ""), ("docs-old.md", "")]);
        assert!(
            tree.contains_path("docs")
                && tree.contains_path("docs/guide/")
                && tree.contains_path("docs/guide/a.md")
        );
        assert!(!tree.contains_path("doc") && !tree.contains_path("docs/b"));
    }

    #[test]
    fn this_repository_is_read() {
        let tree = WorkingTreeFiles::read_nonignored_files().expect("a git checkout");
        assert!(
            tree.contains_path("Cargo.toml")
                && tree.file_text("xtask/src/repository_files.rs").is_some()
        );
    }
}
