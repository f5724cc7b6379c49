//! Files that are replaced as a whole.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;
use std::process;

/// Writes a file that is there with its old or with all of its new content at any moment, also if
/// the process is killed. A link to a file is preserved, and so are owner and permissions. What is
/// no regular file (`/dev/stdout`, a pipe), or of an owner that the process may not give a file to,
/// is written directly.
///
/// # Errors
/// As of [`fs::write`]; the old content is preserved.
pub fn replace_file_atomically_if_possible(path: &Path, content: &[u8]) -> io::Result<()> {
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|found| !found.is_file()) {
        return fs::write(path, content);
    }
    let Some(name) = path.file_name() else { return fs::write(path, content) };
    let fresh = path.with_file_name(fresh_file_name(name));
    let written = write_then_rename_if_owner_kept(&fresh, path, content, existing.as_ref());
    if written.is_err() {
        // The error to report is the first one.
        let _ = fs::remove_file(&fresh);
    }
    match written {
        Ok(true) => Ok(()),
        Ok(false) => {
            fs::remove_file(&fresh)?;
            fs::write(path, content)
        }
        Err(error) => Err(error),
    }
}

/// Replaces whatever has this name in a directory by a file with this content, readable by everybody.
/// A link of that name is replaced, not followed: others may have write access to the directory.
///
/// # Errors
/// As of [`fs::write`]; the old content is preserved.
pub fn replace_without_following_link(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let fresh = path.with_file_name(fresh_file_name(name));
    let write = || {
        let mut file = File::create_new(&fresh)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(content)?;
        fs::rename(&fresh, path)
    };
    let written = write();
    if written.is_err() {
        // The error to report is the first one.
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// A name next to that of a file, which nobody can predict and create as a link before.
fn fresh_file_name(name: &OsStr) -> String {
    let random = RandomState::new().build_hasher().finish();
    format!(".{}.weir-{}-{random:016x}", name.to_string_lossy(), process::id())
}

/// False, and nothing is renamed, if the fresh file cannot have the owner of the existing one.
fn write_then_rename_if_owner_kept(
    fresh: &Path,
    path: &Path,
    content: &[u8],
    existing: Option<&fs::Metadata>,
) -> io::Result<bool> {
    let mut file = File::create_new(fresh)?;
    if let Some(existing) = existing {
        if fchown(&file, Some(existing.uid()), Some(existing.gid())).is_err() {
            return Ok(false);
        }
        file.set_permissions(existing.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use weir_testkit::TempFolder;

    use super::*;

    #[test]
    fn symlink_owner_and_permissions_are_preserved() {
        let folder = TempFolder::new("replaced-file");
        let file = folder.write_file("rules", "old");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a file");
        // Only root can change the owner of a file; for other users the owner stays the same.
        let owner = |path: &Path| fs::metadata(path).map(|m| (m.uid(), m.gid())).expect("a file");
        let _ = chown(&file, Some(1), Some(1));
        let owner_before = owner(&file);
        let link = folder.path().join("link");
        symlink(&file, &link).expect("a link");
        replace_file_atomically_if_possible(&link, b"new").expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(owner(&file), owner_before);
        assert_eq!(fs::read(&file).expect("a file"), b"new");
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "no other file");
    }

    #[test]
    fn a_link_that_others_made_is_replaced_and_not_followed() {
        let folder = TempFolder::new("replaced-entry");
        let victim = folder.write_file("victim", "secret");
        let link = folder.path().join("weir.prom");
        symlink(&victim, &link).expect("a link");
        replace_without_following_link(&link, b"new").expect("it can be written");
        assert_eq!(fs::read(&victim).expect("a file"), b"secret");
        assert!(!link.is_symlink() && fs::read(&link).expect("a file") == b"new");
        let mode = fs::metadata(&link).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        replace_without_following_link(&folder.path().join("absent/a"), b"new").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "no other file");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = TempFolder::new("replaced-file-error");
        let missing = folder.path().join("no-such-folder/rules");
        assert!(replace_file_atomically_if_possible(&missing, b"new").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let there = folder.path().join("rules");
        assert!(replace_file_atomically_if_possible(&there, b"new").is_ok());
    }
}
