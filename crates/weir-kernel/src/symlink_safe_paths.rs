//! Files below a folder, opened without following links.
//!
//! A session file can be wrong, or written by somebody else. Each path in it is checked as text
//! when it is read, and again by the kernel when it is used.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Whether a path is written in full, names something beneath `root`, and leads nowhere else: no
/// `.`, no `..`, no empty component.
pub(crate) fn is_plain_path_below(root: &Path, path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(root) else { return false };
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let whole = root.join(rest);
    is_plain && rest != Path::new("") && whole.as_os_str().as_bytes() == path.as_os_str().as_bytes()
}

/// Opens a file beneath `root`.
///
/// # Errors
/// Paths that are not below it, links in the path, and errors of the kernel.
pub(crate) fn open_below(root: &Path, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let at = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let rest = strip_root(root, path)?;
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
    Ok(openat2(at, rest, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

/// Removes a file, or a folder with all that is in it; a link is removed, not what it names.
///
/// # Errors
/// As [`open_below`].
pub(crate) fn remove_below(root: &Path, path: &Path) -> io::Result<()> {
    let (parent, name) = split_parent_path_below_root(root, path)?;
    let folder = open_below(root, parent, OFlags::PATH | OFlags::DIRECTORY)?;
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    if fs::symlink_metadata(&path)?.is_dir() {
        fs::remove_dir_all(&path)
    } else {
        fs::remove_file(&path)
    }
}

fn strip_root<'a>(root: &Path, path: &'a Path) -> io::Result<&'a Path> {
    if path == root {
        return Ok(Path::new(""));
    }
    let refused = || io::Error::from(io::ErrorKind::InvalidInput);
    let rest = path.strip_prefix(root).map_err(|_| refused())?;
    is_plain_path_below(root, path).then_some(rest).ok_or_else(refused)
}

fn split_parent_path_below_root<'a>(
    root: &Path,
    path: &'a Path,
) -> io::Result<(&'a Path, &'a OsStr)> {
    strip_root(root, path)?;
    path.parent().zip(path.file_name()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn create_folder_with_in_and_out(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("root/in")).unwrap();
        fs::create_dir_all(folder.join("out")).unwrap();
        for file in ["root/in/file", "out/file"] {
            fs::write(folder.join(file), file).unwrap();
        }
        folder
    }

    #[test]
    fn only_absolute_plain_paths_below_the_root_are_accepted() {
        let root = Path::new("/sys/fs/bpf");
        for path in ["/sys/fs/bpf/a", "/sys/fs/bpf/weir/1.2.3", "/sys/fs/bpf/..a"] {
            assert!(is_plain_path_below(root, Path::new(path)), "{path}");
        }
        for path in [
            "",
            "/sys/fs/bpf",
            "/sys/fs/bpf/",
            "/sys/fs/bpfx/a",
            "sys/fs/bpf/a",
            "/sys/fs/bpf/..",
            "/sys/fs/bpf/../../../etc",
            "/sys/fs/bpf/a/../../b",
            "/sys/fs/bpf/./a",
            "/sys/fs/bpf//a",
            "/sys/fs/bpf/a/",
            "/sys/../sys/fs/bpf/a",
        ] {
            assert!(!is_plain_path_below(root, Path::new(path)), "{path}");
        }
    }

    #[test]
    fn files_below_the_root_are_opened_and_symlinks_are_refused() {
        let folder = create_folder_with_in_and_out("beneath");
        let root = folder.join("root");
        let mut text = String::new();
        let file = open_below(&root, &root.join("in/file"), OFlags::RDONLY).unwrap();
        fs::File::from(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "root/in/file");
        symlink(folder.join("out"), root.join("link")).unwrap();
        symlink(folder.join("out/file"), root.join("in/link")).unwrap();
        for path in ["link/file", "in/link", "../out/file", "in/../../out/file"] {
            let path = root.join(path);
            assert!(open_below(&root, &path, OFlags::RDONLY).is_err(), "{}", path.display());
        }
        assert!(remove_below(&root, &root.join("link/file")).is_err());
        assert!(remove_below(&root, &root.join("../out")).is_err());
        // A link itself is removed, alone or in a folder.
        remove_below(&root, &root.join("link")).unwrap();
        remove_below(&root, &root.join("in")).unwrap();
        assert!(!root.join("in").exists() && fs::symlink_metadata(root.join("link")).is_err());
        assert_eq!(fs::read_to_string(folder.join("out/file")).unwrap(), "out/file");
        fs::remove_dir_all(&folder).unwrap();
    }
}
