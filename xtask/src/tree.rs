//! The files of the repository as values, so that each house rule is a function of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The text files that git knows or would add, by path from the root with `/`.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the checkout that this program was built from.
    ///
    /// # Errors
    /// Where there is no git, or a file cannot be read.
    pub fn of_repository() -> Result<Tree> {
        let root = root();
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .context("list files with git")?;
        ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr).trim());
        let mut files = BTreeMap::new();
        for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            let on_disk = root.join(path);
            // Deleted, but the deletion is not committed yet; or a link, which is listed itself.
            if !on_disk.is_file() || on_disk.is_symlink() {
                continue;
            }
            let bytes = std::fs::read(&on_disk).with_context(|| format!("read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Tree { files })
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a folder of that path is there.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// All files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends so, sorted by path.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of the given files, for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|&(p, t)| (p.to_owned(), t.to_owned())).collect();
        Tree { files }
    }
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.to_owned(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/guide/a.md", ""), ("docs-old.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/guide/") && tree.has("docs/guide/a.md"));
        assert!(!tree.has("doc") && !tree.has("docs/b"));
    }

    #[test]
    fn this_repository_is_read() {
        let tree = Tree::of_repository().expect("a git checkout");
        assert!(tree.has("Cargo.toml") && tree.text("xtask/src/tree.rs").is_some());
    }
}
