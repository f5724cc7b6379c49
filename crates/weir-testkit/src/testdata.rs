//! Where tests find their files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository_root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/weir-testkit");
    crates.parent().expect("the root above crates").to_owned()
}

/// A path below `testdata`.
///
/// # Panics
/// Where it is not there: a test that reads nothing proves nothing.
#[track_caller]
pub fn testdata_path(below: &str) -> PathBuf {
    let path = repository_root().join("testdata").join(below);
    assert!(path.exists(), "no testdata/{below}");
    path
}

/// The files of a folder below `testdata` that end in `.extension`, sorted.
///
/// # Panics
/// Where there is none.
#[track_caller]
pub fn testdata_files_with_extension(folder: &str, extension: &str) -> Vec<PathBuf> {
    let found = files_with_extension(&testdata_path(folder), extension);
    assert!(!found.is_empty(), "no *.{extension} in testdata/{folder}");
    found
}

/// The folder of published rulesets that `cargo xtask corpus DIR` names.
///
/// Targets named `corpus` read it; they have `test = false` in their manifest, so that a plain
/// `cargo test` has none of them to skip.
///
/// # Panics
/// Where it is not given.
pub fn corpus_folder_from_env() -> PathBuf {
    let folder = std::env::var_os("WEIR_CORPUS");
    folder.expect("WEIR_CORPUS names a folder: run `make test-corpus DIR=…`").into()
}

/// The files of a folder that end in `.extension`, sorted.
///
/// # Panics
/// Where the folder cannot be read.
#[track_caller]
pub fn files_with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn testdata_is_found_and_missing_paths_panic() {
        assert!(testdata_path("README.md").is_file());
        assert_eq!(testdata_files_with_extension("", "md"), [testdata_path("README.md")]);
        let missing = std::panic::catch_unwind(|| testdata_path("no-such-thing"));
        assert!(missing.is_err());
    }
}
