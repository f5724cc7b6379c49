//! A session: all that one run of weir makes on a machine.
//!
//! Its state is in two parts. The journal ([`crate::session_journal`]) is durable: what is made
//! here is written there first, and the reaper works from it alone. The live part
//! ([`crate::live_session`]) ends with the process.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::live_session::LiveSession;
use crate::namespace::{
    run_to_completion, set_parent_death_signal_unless_forbidden, sysctl_path, write_sysctl,
};
use crate::paths;
use crate::process::PidWithStartTime;
use crate::recorded_process_liveness::PidNamespace;
use crate::session_changes::begin_session_change;
use crate::session_journal::SessionJournal;
use crate::session_record::{self, SavedSysctl, SessionOwner, SessionRecord};
use crate::{KernelError, Namespace, reaper};

static PROCESS_SESSION_COUNT: AtomicU32 = AtomicU32::new(0);

/// Owner of namespaces, processes, pins and changed sysctls; dropping it removes them all.
///
/// Everything is written to `/run/weir/sessions/<run>.json` before it is made, with the process
/// id and the start time of the owner, its PID namespace and the boot. Where the owner is killed,
/// the next [`Session::new`] on the machine does what its drop would have done.
#[derive(Debug)]
pub struct Session {
    journal: SessionJournal,
    live_session: LiveSession,
}

/// Makes a folder that others cannot write to, whatever the umask: `weir reap` believes what is
/// recorded there. One that is there already is closed to others.
fn make_root_only_writable_directory(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let there = fs::symlink_metadata(folder)?;
    if !there.is_dir() || there.uid() != user.as_raw() {
        let what = "it is a symbolic link, or belongs to another user: move it away";
        return Err(io::Error::other(what));
    }
    let mode = there.permissions().mode();
    match mode & 0o022 {
        0 => Ok(()),
        open => fs::set_permissions(folder, fs::Permissions::from_mode(mode & !open)),
    }
}

impl Session {
    /// Begins a session, after removing what dead ones left.
    ///
    /// # Errors
    /// If `/run/weir` cannot be written (not root), or `/proc` is not that of this PID
    /// namespace.
    pub fn new() -> Result<Session, KernelError> {
        let directory = Path::new(paths::SESSION_FILES_DIRECTORY);
        for folder in directory.ancestors().take(2).collect::<Vec<_>>().into_iter().rev() {
            make_root_only_writable_directory(folder)
                .map_err(KernelError::io_at_path("create", folder))?;
        }
        let unclear = |message| KernelError::ForeignProcMount { message };
        let here = PidNamespace::of_this_process().map_err(unclear)?;
        reaper::reap_dead_sessions();
        let _change = begin_session_change();
        let owner = PidWithStartTime::of_this_process();
        let run = session_record::encode_run_name(
            owner,
            &here,
            PROCESS_SESSION_COUNT.fetch_add(1, Ordering::Relaxed),
        );
        let owner = SessionOwner { id: owner, pid_namespace_inode: Some(here.inode()) };
        let journal = SessionJournal::begin(&run, owner, here.boot_id())?;
        Ok(Session { journal, live_session: LiveSession::new(run, here) })
    }

    /// The run's name.
    pub fn run_name(&self) -> &str {
        self.live_session.run_name()
    }

    /// A folder of the session's own, removed with it.
    pub fn session_directory(&self) -> PathBuf {
        SessionRecord::session_directory(self.run_name())
    }

    /// Makes a network namespace `weir-<run>-<role>` with its loopback device up.
    ///
    /// # Errors
    /// Roles that are no words of letters, digits and `-`; roles that the session already has;
    /// and what `ip netns add` says.
    pub fn create_namespace(&self, role: &str) -> Result<Namespace, KernelError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let name = format!("weir-{}-{role}", self.run_name());
        if role.is_empty() || !role.bytes().all(plain) {
            let why = "letters, digits, `-` and `_` are allowed";
            return Err(KernelError::InvalidNamespaceOrDeviceName { what: "namespace", name, why });
        }
        let _change = begin_session_change();
        self.journal.update_record(|record| record.namespaces.push(name.clone()))?;
        let mut add = Command::new("ip");
        add.args(["netns", "add", &name]);
        run_to_completion(set_process_group_and_death_signal(add), b"")?;
        let namespace = Namespace::open(&name, role, self.session_directory().join("state"))?;
        self.live_session.keep_namespace_open(namespace.clone());
        namespace.set_device_up("lo")?;
        Ok(namespace)
    }

    /// Names of the namespaces that the session has.
    pub fn namespace_names(&self) -> Vec<String> {
        self.live_session.namespace_names()
    }

    /// Removes one namespace before the session ends, with every process in it.
    ///
    /// # Errors
    /// If the session file cannot be written.
    pub fn remove_namespace(&self, namespace: Namespace) -> Result<(), KernelError> {
        let _change = begin_session_change();
        self.live_session.release_namespace(namespace.name());
        reaper::remove_namespace_listing_removed(namespace.name());
        self.journal.update_record(|record| record.namespaces.retain(|n| n != namespace.name()))
    }

    /// A command outside of any namespace that dies with the session; see
    /// [`Namespace::command`] for what that means.
    pub fn host_command(&self, program: &str) -> Command {
        set_process_group_and_death_signal(Command::new(program))
    }

    /// Writes down a process that runs outside of the session's namespaces, so that it ends with
    /// the session.
    ///
    /// # Errors
    /// If the session file cannot be written.
    pub fn adopt_process(&self, child: &Child) -> Result<(), KernelError> {
        let _change = begin_session_change();
        let Some(id) = PidWithStartTime::from_pid(child.id()) else { return Ok(()) };
        self.journal.update_record(|record| {
            record.children.retain(|c| c.is_alive());
            record.children.push(id);
        })
    }

    /// The session's own folder on the BPF file system, made on first use, removed with it.
    ///
    /// # Errors
    /// If no BPF file system is mounted on `/sys/fs/bpf`.
    pub fn create_pin_directory(&self) -> Result<PathBuf, KernelError> {
        let _change = begin_session_change();
        let path = SessionRecord::pin_directory_path(self.run_name());
        fs::create_dir_all(&path).map_err(KernelError::io_at_path("create", &path))?;
        Ok(path)
    }

    /// Sets a sysctl of the whole machine until the session ends, e.g. `kernel.bpf_stats_enabled`.
    ///
    /// # Errors
    /// If there is no such sysctl, or it refuses the value.
    pub fn set_global_sysctl(&self, key: &str, value: &str) -> Result<(), KernelError> {
        let _change = begin_session_change();
        let path = sysctl_path(key);
        let before =
            fs::read_to_string(&path).map_err(KernelError::io_at_path("read sysctl", &path))?;
        self.journal.update_record(|record| {
            if !record.sysctls.iter().any(|s| s.path == path) {
                let value = before.trim_end().to_owned();
                record.sysctls.push(SavedSysctl { path: path.clone(), value });
            }
        })?;
        write_sysctl(&path, value).map_err(KernelError::io_at_path("set sysctl", &path))
    }

    /// Where what has to outlive the process is written.
    pub(crate) fn journal(&self) -> &SessionJournal {
        &self.journal
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _change = begin_session_change();
        self.live_session.release_all_namespaces();
        reaper::remove_session(
            &self.journal.current_record(),
            self.live_session.owner_pid_namespace(),
        );
    }
}

/// Makes a command die with the thread that starts it, in a process group of its own.
fn set_process_group_and_death_signal(mut command: Command) -> Command {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    command.process_group(0);
    // SAFETY: only async-signal-safe system calls (prctl, getppid) between fork and exec.
    unsafe {
        command.pre_exec(move || set_parent_death_signal_unless_forbidden(parent));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_writable_folder_is_restricted_and_a_symlink_refused() {
        assert!(rustix::process::geteuid().is_root(), "needs root, as sessions do");
        let base = std::env::temp_dir().join(format!("weir-private-{}", std::process::id()));
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        make_root_only_writable_directory(&base).unwrap();
        assert_eq!(mode(&base), 0o755);
        let open = base.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        make_root_only_writable_directory(&open).unwrap();
        assert_eq!(mode(&open), 0o755);
        let link = base.join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(make_root_only_writable_directory(&link).is_err());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_session_file_lists_the_open_namespaces() {
        let session = Session::new().unwrap();
        let a = session.create_namespace("a").unwrap();
        let on_disk = || SessionRecord::read(session.run_name()).unwrap();
        assert_eq!(on_disk(), session.journal.current_record());
        assert_eq!(on_disk().namespaces, session.namespace_names());
        assert_eq!(session.namespace_names(), [a.name()]);
        session.remove_namespace(a).unwrap();
        assert_eq!(on_disk(), session.journal.current_record());
        assert!(on_disk().namespaces.is_empty() && session.namespace_names().is_empty());
    }
}
