//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process;

/// Writes a file that is there with its old or with all of its new content at any moment, also if
/// the process is killed. A link to a file is preserved, and so are the permissions. What is no
/// regular file (`/dev/stdout`, a pipe) is written directly.
///
/// # Errors
/// As of [`fs::write`]; the old content is preserved.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|found| !found.is_file()) {
        return fs::write(path, content);
    }
    let Some(name) = path.file_name() else { return fs::write(path, content) };
    let fresh = format!(".{}.weir-{}", name.to_string_lossy(), process::id());
    let fresh = path.with_file_name(fresh);
    let written =
        write_then_rename(&fresh, path, content, existing.map(|found| found.permissions()));
    if written.is_err() {
        // The error to report is the first one.
        let _ = fs::remove_file(&fresh);
    }
    written
}

fn write_then_rename(
    fresh: &Path,
    path: &Path,
    content: &[u8],
    permissions: Option<fs::Permissions>,
) -> io::Result<()> {
    let mut file = File::create(fresh)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use weir_testkit::TempFolder;

    use super::*;

    #[test]
    fn a_link_and_the_permissions_of_its_file_are_preserved() {
        let folder = TempFolder::new("replaced-file");
        let file = folder.write_file("rules", "old");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a file");
        let link = folder.path().join("link");
        symlink(&file, &link).expect("a link");
        replace_file(&link, b"new").expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).expect("a file"), b"new");
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "no other file");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = TempFolder::new("replaced-file-error");
        let missing = folder.path().join("no-such-folder/rules");
        assert!(replace_file(&missing, b"new").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let there = folder.path().join("rules");
        assert!(replace_file(&there, b"new").is_ok());
    }
}
