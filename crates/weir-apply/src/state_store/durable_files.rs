//! Files that are on disk when a function returns, in folders that only their owner can write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::state_version::STATE_VERSION;
use crate::ApplyOperationError;

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;

/// Refuses a folder that is a symbolic link, belongs to another user or can be written by others.
/// A missing one is created later.
pub(super) fn refuse_unsafe_folder(path: &Path) -> Result<(), ApplyOperationError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ApplyOperationError::file("read", path)(error)),
    };
    if !metadata.is_symlink() && !metadata.is_dir() {
        return Err(unsafe_path_error(
            path,
            "is not a folder",
            "move it away, or choose another --state",
        ));
    }
    refuse_unsafe_metadata(path, &metadata)
}

/// The same for all entries of a folder, at any depth.
pub(super) fn refuse_unsafe_entries(folder: &Path) -> Result<(), ApplyOperationError> {
    if !folder.is_dir() {
        return Ok(());
    }
    for path in list_entries(folder)? {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            // Another command removed or renamed it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ApplyOperationError::file("read", &path)(error)),
        };
        refuse_unsafe_metadata(&path, &metadata)?;
        if metadata.is_dir() {
            refuse_unsafe_entries(&path)?;
        } else if !metadata.is_file() {
            return Err(unsafe_path_error(&path, "is not a regular file", "move it away"));
        }
    }
    Ok(())
}

fn refuse_unsafe_metadata(path: &Path, metadata: &fs::Metadata) -> Result<(), ApplyOperationError> {
    let owner = rustix::process::geteuid().as_raw();
    if metadata.is_symlink() {
        return Err(unsafe_path_error(
            path,
            "is a symbolic link",
            "remove it, or choose another --state",
        ));
    }
    if metadata.uid() != owner {
        let cure = format!("chown {owner} {}", path.display());
        return Err(unsafe_path_error(path, "belongs to another user", &cure));
    }
    if metadata.mode() & GROUP_OR_OTHERS_WRITE != 0 {
        let cure = format!("chmod go-w {}", path.display());
        return Err(unsafe_path_error(path, "can be written by other users", &cure));
    }
    Ok(())
}

fn unsafe_path_error(path: &Path, problem: &'static str, cure: &str) -> ApplyOperationError {
    ApplyOperationError::UnsafeStatePath { path: path.to_owned(), problem, cure: cure.to_owned() }
}

/// Creates a folder that only its owner can access, unless it exists.
pub(super) fn create_private_folder(path: &Path) -> Result<(), ApplyOperationError> {
    let error = || ApplyOperationError::file("create", path);
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return refuse_unsafe_folder(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(error())?;
        }
        Err(e) => return Err(error()(e)),
    }
    path.parent().map_or(Ok(()), flush_folder)
}

/// The entries of a folder, sorted.
pub(super) fn list_entries(folder: &Path) -> Result<Vec<PathBuf>, ApplyOperationError> {
    let error = || ApplyOperationError::file("read", folder);
    let entries = fs::read_dir(folder).map_err(error())?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.map_err(error())?;
    paths.sort();
    Ok(paths)
}

/// Replaces a file atomically.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), ApplyOperationError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}.new"));
    let written = write_new_file(&fresh, bytes).and_then(|()| fs::rename(&fresh, path));
    if let Err(error) = written {
        // The partial file takes up space on a disk that may be full.
        let _ = fs::remove_file(&fresh);
        return Err(ApplyOperationError::file("write", path)(error));
    }
    path.parent().map_or(Ok(()), flush_folder)
}

fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    remove_if_present(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes a file.
pub(super) fn remove_file_if_present(path: &Path) -> Result<(), ApplyOperationError> {
    remove_if_present(path).map_err(ApplyOperationError::file("remove", path))
}

/// Names that were created, renamed or removed in a folder are on the disk afterwards.
pub(super) fn flush_folder(folder: &Path) -> Result<(), ApplyOperationError> {
    let flushed = File::open(folder).and_then(|file| file.sync_all());
    flushed.map_err(ApplyOperationError::file("flush", folder))
}

/// Writes a value as JSON.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ApplyOperationError> {
    let mut text = serde_json::to_string_pretty(value).expect("it is made of texts and numbers");
    text.push('\n');
    write_durably(path, text.as_bytes())
}

/// Reads a value; none if the file is not there.
pub(super) fn read_versioned_json<T: DeserializeOwned>(
    path: &Path,
) -> Result<Option<T>, ApplyOperationError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ApplyOperationError::file("read", path)(error)),
    };
    let unreadable =
        |message: String| ApplyOperationError::UnreadableState { path: path.to_owned(), message };
    let without_sense = |error: serde_json::Error| {
        let folder = path.parent().unwrap_or(path).display();
        unreadable(format!(
            "{error}: restore it from a backup, or move folder {folder} away; what is in force stays \
             in force"
        ))
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(without_sense)?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(STATE_VERSION) => {}
        version => {
            let version = version.map_or("none".to_owned(), |n| n.to_string());
            return Err(unreadable(format!(
                "it has version {version}, and this weir reads {STATE_VERSION}: use the weir that \
                 wrote it"
            )));
        }
    }
    serde_json::from_value(value).map(Some).map_err(without_sense)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use weir_testkit::TempFolder;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let folder = TempFolder::new("durable");
        let path = folder.path().join("file");
        for text in ["first", "second"] {
            write_durably(&path, text.as_bytes()).expect("it is written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        assert_eq!(list_entries(folder.path()).expect("a folder"), [path]);
    }

    #[test]
    fn links_and_what_others_can_write_are_refused() {
        let folder = TempFolder::new("unsafe");
        let state = folder.path().join("state");
        create_private_folder(&state).expect("it is created");
        refuse_unsafe_folder(&state).expect("it is private");
        refuse_unsafe_entries(&state).expect("it is empty");
        write_durably(&state.join("file"), b"x").expect("it is written");
        refuse_unsafe_entries(&state).expect("a file of its owner");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o770)).expect("its mode is set");
        let error = refuse_unsafe_folder(&state).expect_err("others can write").to_string();
        assert!(error.contains("can be written by other users") && error.contains("chmod go-w"));
        let link = folder.path().join("link");
        symlink(&state, &link).expect("a link");
        let error = refuse_unsafe_folder(&link).expect_err("a link").to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        symlink("/etc/passwd", state.join("passwd")).expect("a link");
        assert!(refuse_unsafe_entries(&state).is_err());
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        let folder = TempFolder::new("state-version");
        let path = folder.write_file("a.json", "{\"version\": 2}");
        let error = read_versioned_json::<serde_json::Value>(&path)
            .expect_err("another version")
            .to_string();
        assert!(error.contains("version 2, and this weir reads 1"), "{error}");
        fs::write(&path, "{\"version\": 1}").expect("it is written");
        assert!(read_versioned_json::<serde_json::Value>(&path).expect("it is read").is_some());
        assert_eq!(
            read_versioned_json::<serde_json::Value>(&folder.path().join("b")).expect("none"),
            None
        );
    }
}
