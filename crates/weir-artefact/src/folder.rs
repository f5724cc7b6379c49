//! The folder that loads a form without weir.
//!
//! A folder is replaced atomically: the new one is written next to it, and one system call
//! exchanges the two. A folder is never touched if it contains anything that weir did not write
//! there, or that was changed since.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Artefact;
use crate::manifest::{self, ArtefactFileDigest, Manifest};
use crate::tool_input_texts::{ArtefactFileKind, ArtefactRulesetTexts};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest as _, Sha256};

/// Name of the description in an artefact's folder.
pub const MANIFEST_FILE_NAME: &str = "manifest.json";

/// What is stored in a folder: the files of an artefact and its manifest, which lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderContents<'a> {
    /// All files but the manifest, in its order.
    pub files: Vec<(ArtefactFileKind, &'a str)>,
    /// What `manifest.json` says.
    pub manifest: Manifest,
}

impl<'a> FolderContents<'a> {
    /// An artefact and the scripts that load and unload it.
    pub fn new(artefact: &'a Artefact, load: &'a str, unload: &'a str) -> FolderContents<'a> {
        let scripts =
            [(ArtefactFileKind::LoadScript, load), (ArtefactFileKind::UnloadScript, unload)];
        let files: Vec<_> = artefact.contents.texts().chain(scripts).collect();
        let mut manifest = artefact.manifest.clone();
        let entry = |(kind, text): &(ArtefactFileKind, &str)| ArtefactFileDigest {
            name: kind.file_name().to_owned(),
            sha256: sha256_hex(text.as_bytes()),
        };
        manifest.files = files.iter().map(entry).collect();
        FolderContents { files, manifest }
    }
}

/// Why an artefact was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder contains something that weir did not write there.
    #[error("{} was not written by weir: choose an empty or new folder", path.display())]
    ForeignFile {
        /// The first such entry.
        path: PathBuf,
    },
    /// The folder must be empty.
    #[error("{} is not empty: choose an empty or new folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the folder is not as weir wrote it.
    #[error("{} was changed since weir wrote it: move it away first", path.display())]
    ChangedFile {
        /// The first such file.
        path: PathBuf,
    },
    /// A process, this one, works in the folder, and would be left in the removed one.
    #[error("{} is the current folder: start weir outside of it", path.display())]
    FolderContainsCurrentDirectory {
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// The parser's message.
        source: io::Error,
    },
}

/// Why an artefact could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The folder has no manifest.
    #[error(
        "{} is no artefact: it has no {MANIFEST_FILE_NAME}; give the folder that weir compile -o \
         wrote",
        dir.display()
    )]
    NoManifest {
        /// Which folder.
        dir: PathBuf,
    },
    /// The path is not a folder.
    #[error(
        "{} is a file, and an artefact is a directory: give the directory that weir compile -o wrote",
        path.display()
    )]
    NotADirectory {
        /// Which path.
        path: PathBuf,
    },
    /// The file is not a text.
    #[error("{} is not UTF-8", path.display())]
    NotUtf8 {
        /// Which file.
        path: PathBuf,
    },
    /// It is not a manifest.
    #[error("{} is not a weir manifest: {source}", path.display())]
    InvalidManifest {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It is the manifest of the classifier form.
    #[error(
        "{} is of the classifier form, which only programs that walk its blocks read: give the \
         ruleset that it was compiled from",
        path.display()
    )]
    ClassifierForm {
        /// Which file.
        path: PathBuf,
    },
    /// A later weir wrote it.
    #[error(
        "{} is a manifest of version {version}, and this weir reads up to {}: use the weir that \
         wrote it",
        path.display(),
        manifest::MANIFEST_VERSION
    )]
    UnsupportedVersion {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

pub(crate) fn wrap_io_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::Io { what, path, source }
}

/// Writes a bundle into a folder, which is made or replaced.
///
/// # Errors
/// [`WriteError::ForeignFile`] and [`WriteError::ChangedFile`] if the folder holds what weir did
/// not write, or not so; then nothing is changed. [`WriteError::Io`] if the system refuses; then
/// the folder is as it was.
pub fn write_folder_contents(bundle: &FolderContents<'_>, dir: &Path) -> Result<(), WriteError> {
    let real = fs::canonicalize(dir).ok();
    if let (Some(real), Ok(current)) = (&real, std::env::current_dir())
        && current.starts_with(real)
    {
        return Err(WriteError::FolderContainsCurrentDirectory { path: dir.to_owned() });
    }
    // A link to a folder is preserved; the folder that it points to is replaced.
    let dir = real.as_deref().filter(|_| dir.is_symlink()).unwrap_or(dir);
    let exists = is_replaceable_folder_present(dir)?;
    let parent = match dir.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(wrap_io_error("make", parent))?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let fresh = parent.join(format!(".{name}.weir-{}", std::process::id()));
    remove_leftover_temp_folders(parent, &format!(".{name}.weir-"));
    let written = write_files(bundle, &fresh).and_then(|()| {
        let flags = if exists { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, &fresh, CWD, dir, flags)
            .map_err(|e| wrap_io_error("put in place", dir)(e.into()))
    });
    // `fresh` has the old folder after an exchange, or an incomplete new one after an error.
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(wrap_io_error("remove", &fresh))?;
    }
    written
}

/// Removes the folders of processes that were killed while they wrote.
fn remove_leftover_temp_folders(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(prefix)).map(str::parse::<u32>);
        let is_dead = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(|pid| pid.is_ok_and(is_dead)) {
            // A leftover that cannot be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the folder is there; an error where it must not be replaced.
fn is_replaceable_folder_present(dir: &Path) -> Result<bool, WriteError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(WriteError::ForeignFile { path: dir.to_owned() });
        }
        Err(e) => return Err(wrap_io_error("read", dir)(e)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(wrap_io_error("read", dir))?.path());
    }
    if paths.is_empty() {
        return Ok(true);
    }
    paths.sort();
    let manifest = read_manifest(dir);
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(manifest) = &manifest else { return Err(WriteError::ForeignFile { path }) };
        if name == MANIFEST_FILE_NAME {
            continue;
        }
        let Some(entry) = manifest.files.iter().find(|f| f.name == name) else {
            return Err(WriteError::ForeignFile { path });
        };
        let bytes = fs::read(&path).map_err(wrap_io_error("read", &path))?;
        if sha256_hex(&bytes) != entry.sha256 {
            return Err(WriteError::ChangedFile { path });
        }
    }
    Ok(true)
}

fn write_files(bundle: &FolderContents<'_>, dir: &Path) -> Result<(), WriteError> {
    fs::create_dir(dir).map_err(wrap_io_error("make", dir))?;
    let mut json = serde_json::to_string_pretty(&bundle.manifest)
        .expect("a manifest is made of strings and numbers");
    json.push('\n');
    let files = bundle.files.iter().map(|(kind, text)| (kind.file_name(), *text, kind.is_script()));
    for (name, text, is_script) in files.chain([(MANIFEST_FILE_NAME, json.as_str(), false)]) {
        let path = dir.join(name);
        let put = || -> io::Result<()> {
            let mut f = fs::File::create_new(&path)?;
            f.write_all(text.as_bytes())?;
            let mode = if is_script { 0o755 } else { 0o644 };
            f.set_permissions(fs::Permissions::from_mode(mode))?;
            f.sync_all()
        };
        put().map_err(wrap_io_error("write", &path))?;
    }
    Ok(())
}

/// An artefact read from a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredArtefact {
    /// The folder.
    pub dir: PathBuf,
    /// The current texts, and the manifest.
    pub artefact: Artefact,
    /// Names of files that were changed since weir wrote them.
    pub edited_files: Vec<String>,
}

impl StoredArtefact {
    /// The path of a file.
    pub fn file_path(&self, kind: ArtefactFileKind) -> PathBuf {
        self.dir.join(kind.file_name())
    }
}

/// Reads an artefact from its folder.
///
/// # Errors
/// [`ReadError`] if the folder has no manifest, or a file that the manifest lists cannot be read.
pub fn read_artefact(dir: &Path) -> Result<StoredArtefact, ReadError> {
    let manifest = read_manifest(dir)?;
    let (mut contents, mut edited) = (ArtefactRulesetTexts::default(), Vec::new());
    for ArtefactFileDigest { name, sha256: expected } in &manifest.files {
        let path = dir.join(name);
        let bytes =
            fs::read(&path).map_err(|source| ReadError::Io { path: path.clone(), source })?;
        if sha256_hex(&bytes) != *expected {
            edited.push(name.clone());
        }
        if let Some(kind) = ArtefactFileKind::from_file_name(name) {
            contents.store_text(
                kind,
                String::from_utf8(bytes).map_err(|_| ReadError::NotUtf8 { path })?,
            );
        }
    }
    Ok(StoredArtefact {
        dir: dir.to_owned(),
        artefact: Artefact { contents, manifest },
        edited_files: edited,
    })
}

/// The description of an artefact's folder.
///
/// # Errors
/// [`ReadError`] if the folder has no manifest, or it cannot be read as one.
pub fn read_manifest(dir: &Path) -> Result<Manifest, ReadError> {
    let path = dir.join(MANIFEST_FILE_NAME);
    let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ReadError::NoManifest { dir: dir.to_owned() },
        io::ErrorKind::NotADirectory => ReadError::NotADirectory { path: dir.to_owned() },
        _ => ReadError::Io { path: path.clone(), source },
    })?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|source| {
        let other: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        match other["form"].as_str() {
            Some("classifier") => ReadError::ClassifierForm { path: path.clone() },
            _ => ReadError::InvalidManifest { path: path.clone(), source },
        }
    })?;
    match manifest.version {
        0..=manifest::MANIFEST_VERSION => Ok(manifest),
        version => Err(ReadError::UnsupportedVersion { path, version }),
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use weir_testkit::TempFolder;

    use super::*;
    use crate::tool_input_texts::IpsetTexts;

    #[test]
    fn later_manifest_versions_are_refused_and_the_first_is_read() {
        let folder = TempFolder::new("manifest-version");
        let text = |version: &str| {
            let mut value = serde_json::to_value(Manifest::default()).unwrap();
            let object = value.as_object_mut().unwrap();
            match version.parse::<u32>() {
                Ok(version) => drop(object.insert("version".to_owned(), version.into())),
                Err(_) => {
                    object.remove("version");
                    object.remove("share");
                }
            }
            value.to_string()
        };
        let missing = read_manifest(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("is no artefact: it has no manifest.json; give the"), "{missing}");
        for (version, expected) in [("none", 1), ("2", manifest::MANIFEST_VERSION)] {
            fs::write(folder.path().join(MANIFEST_FILE_NAME), text(version)).unwrap();
            assert_eq!(read_manifest(folder.path()).unwrap().version, expected);
        }
        fs::write(folder.path().join(MANIFEST_FILE_NAME), text("3")).unwrap();
        let said = read_manifest(folder.path()).unwrap_err().to_string();
        assert!(said.contains("version 3, and this weir reads up to 2"), "{said}");
    }

    fn artefact(text: &str) -> Artefact {
        let contents =
            ArtefactRulesetTexts { v4: Some(text.to_owned()), ..ArtefactRulesetTexts::default() };
        Artefact { contents, manifest: Manifest::default() }
    }

    fn put(text: &str, dir: &Path) -> Result<(), WriteError> {
        write_folder_contents(&FolderContents::new(&artefact(text), "exit 0\n", "exit 1\n"), dir)
    }

    #[test]
    fn an_artefact_reads_back_as_it_was_written() {
        let folder = TempFolder::new("read-back");
        let dir = folder.path().join("out");
        let sets = IpsetTexts { user: "u".into(), generated: "o".into(), names: "n".into() };
        let nft = Some("table ip weir_filter".to_owned());
        let contents =
            ArtefactRulesetTexts { nft, v6: Some(String::new()), sets: Some(sets), v4: None };
        let made = Artefact { contents, manifest: Manifest::default() };
        let bundle = FolderContents::new(&made, "exit 0\n", "exit 1\n");
        write_folder_contents(&bundle, &dir).unwrap();
        let mut stored = read_artefact(&dir).unwrap();
        assert_eq!(stored.edited_files, [] as [&str; 0]);
        assert_eq!(stored.artefact.manifest, bundle.manifest);
        stored.artefact.manifest.files.clear();
        assert_eq!(stored.artefact, made);
        fs::write(stored.file_path(ArtefactFileKind::GeneratedSets), "other").unwrap();
        let edited = read_artefact(&dir).unwrap();
        assert_eq!(edited.edited_files, [ArtefactFileKind::GeneratedSets.file_name()]);
        assert_eq!(
            edited.artefact.contents.text_of_file(ArtefactFileKind::GeneratedSets),
            Some("other")
        );
        fs::remove_file(stored.file_path(ArtefactFileKind::UnloadScript)).unwrap();
        assert!(
            matches!(read_artefact(&dir), Err(ReadError::Io { path, .. }) if path.ends_with("unload.sh"))
        );
    }

    #[test]
    fn an_artefact_written_by_weir_is_replaced() {
        let folder = TempFolder::new("replaced");
        let dir = folder.path().join("out");
        put("one", &dir).unwrap();
        put("two", &dir).unwrap();
        assert_eq!(fs::read_to_string(dir.join("iptables.rules")).unwrap(), "two");
        assert_eq!(read_manifest(&dir).unwrap().files.len(), 3);
        let mode = fs::metadata(dir.join("load.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no leftovers next to the artefact"
        );
    }

    #[test]
    fn writing_through_a_symlink_preserves_the_symlink() {
        let folder = TempFolder::new("linked");
        let (dir, link) = (folder.path().join("out"), folder.path().join("current"));
        put("one", &dir).unwrap();
        std::os::unix::fs::symlink("out", &link).unwrap();
        put("two", &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.join("iptables.rules")).unwrap(), "two");
    }

    #[test]
    fn the_current_folder_is_refused() {
        let here = std::env::current_dir().unwrap();
        for dir in [Path::new("."), &here, here.parent().unwrap()] {
            let refused = put("one", dir).unwrap_err();
            assert!(
                matches!(refused, WriteError::FolderContainsCurrentDirectory { .. }),
                "{refused}"
            );
        }
    }

    #[test]
    fn leftovers_of_a_killed_process_are_removed() {
        let folder = TempFolder::new("killed");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = ended.id();
        ended.wait().unwrap();
        let left = folder.path().join(format!(".out.weir-{pid}"));
        let others = [".out.weir-1", ".out.weir-x", ".other.weir-2"].map(|n| folder.path().join(n));
        for dir in others.iter().chain([&left]) {
            fs::create_dir(dir).unwrap();
        }
        put("one", &folder.path().join("out")).unwrap();
        assert!(!left.exists());
        assert!(others.iter().all(|dir| dir.exists()), "process 1 is alive, the rest is not ours");
    }

    #[test]
    fn an_empty_folder_is_used_and_foreign_files_are_refused() {
        let folder = TempFolder::new("foreign");
        let dir = folder.path().join("out");
        fs::create_dir(&dir).unwrap();
        put("one", &dir).unwrap();
        fs::write(dir.join("notes"), "mine").unwrap();
        let refused = put("two", &dir).unwrap_err();
        assert!(matches!(refused, WriteError::ForeignFile { ref path } if path.ends_with("notes")));
        assert_eq!(fs::read_to_string(dir.join("iptables.rules")).unwrap(), "one");
    }

    #[test]
    fn a_changed_file_is_not_overwritten() {
        let folder = TempFolder::new("changed");
        let dir = folder.path().join("out");
        put("one", &dir).unwrap();
        fs::write(dir.join("iptables.rules"), "edited").unwrap();
        let refused = put("two", &dir).unwrap_err();
        assert!(
            matches!(refused, WriteError::ChangedFile { ref path } if path.ends_with("iptables.rules"))
        );
        assert_eq!(fs::read_to_string(dir.join("iptables.rules")).unwrap(), "edited");
    }

    #[test]
    fn a_nonempty_folder_without_a_manifest_is_refused() {
        let folder = TempFolder::new("undescribed");
        fs::write(folder.path().join("file"), "").unwrap();
        let refused = put("one", folder.path()).unwrap_err();
        assert!(matches!(refused, WriteError::ForeignFile { .. }), "{refused}");
    }
}
