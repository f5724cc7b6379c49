//! A network namespace of weir's: entering it, running commands in it, configuring it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::KernelError;
use crate::ethtool::{OffloadFeature, has_gro, set_offload_feature};
use crate::rtnetlink::LinkSocket;
use crate::session_changes::refuse_process_if_forbidden;

/// A network namespace that a [`Session`](crate::Session) made and will remove.
#[derive(Clone, Debug)]
pub struct Namespace {
    inner: Arc<NamespaceInner>,
}

#[derive(Debug)]
struct NamespaceInner {
    name: String,
    role: String,
    file: File,
    inode: u64,
    session_state_directory: PathBuf,
}

/// While it exists, the current thread is inside a namespace; it leaves on drop.
///
/// Not [`Send`]: a thread's namespace is the thread's.
#[derive(Debug)]
pub struct NamespaceGuard {
    previous_namespace: File,
    not_send_marker: PhantomData<*const ()>,
}

impl Drop for NamespaceGuard {
    fn drop(&mut self) {
        let back = move_into_link_name_space(
            self.previous_namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        );
        if let Err(e) = back {
            // Anything that follows would act on the wrong network.
            eprintln!("weir: cannot leave a network namespace: {e}");
            std::process::abort();
        }
    }
}

/// Calls `f` with a new thread inside the network namespace of a name, as `ip netns` lists it.
///
/// # Errors
/// If there is no such namespace, or weir is not root.
pub fn call_inside_named_namespace<T: Send>(
    name: &str,
    f: impl FnOnce() -> T + Send,
) -> Result<T, KernelError> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(KernelError::InvalidNamespaceOrDeviceName {
            what: "namespace",
            name: name.to_owned(),
            why: "`ip netns` lists no such name",
        });
    }
    let path = Path::new(crate::paths::NETNS_DIRECTORY).join(name);
    let file = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KernelError::InvalidNamespaceOrDeviceName {
            what: "namespace",
            name: name.to_owned(),
            why: "there is none of this name; `ip netns` lists them",
        },
        _ => KernelError::io_at_path("open", &path)(error),
    })?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| KernelError::io("enter namespace", name)(e.into()))?;
            Ok(f())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Namespace {
    /// Opens a namespace that exists by name.
    pub(crate) fn open(name: &str, role: &str, state: PathBuf) -> Result<Namespace, KernelError> {
        let path = Path::new(crate::paths::NETNS_DIRECTORY).join(name);
        let file = File::open(&path).map_err(KernelError::io_at_path("open", &path))?;
        let inode = file.metadata().map_err(KernelError::io_at_path("read", &path))?.ino();
        let inner = NamespaceInner {
            name: name.to_owned(),
            role: role.to_owned(),
            file,
            inode,
            session_state_directory: state,
        };
        Ok(Namespace { inner: Arc::new(inner) })
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its role in the session: the last part of its name.
    pub fn role(&self) -> &str {
        &self.inner.role
    }

    /// The inode that identifies it (`stat -L /proc/self/ns/net`).
    pub fn inode(&self) -> u64 {
        self.inner.inode
    }

    /// Moves the current thread into the namespace until the guard is dropped.
    ///
    /// # Errors
    /// If the system refuses (not root).
    pub fn enter_guarded(&self) -> Result<NamespaceGuard, KernelError> {
        let own = "/proc/thread-self/ns/net";
        let before = File::open(own).map_err(KernelError::io("open", own))?;
        move_into_link_name_space(self.inner.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| KernelError::io("enter namespace", self.name())(e.into()))?;
        Ok(NamespaceGuard { previous_namespace: before, not_send_marker: PhantomData })
    }

    /// Calls `f` with the current thread inside the namespace.
    ///
    /// Sockets made inside stay in the namespace after `f` returned. Threads started inside stay
    /// there; processes started inside too (prefer [`command`](Namespace::command) for those).
    ///
    /// # Errors
    /// If the system refuses (not root).
    pub fn call_inside<T>(&self, f: impl FnOnce() -> T) -> Result<T, KernelError> {
        let _guard = self.enter_guarded()?;
        Ok(f())
    }

    /// A command that will run inside the namespace.
    ///
    /// The process dies when the *thread* that starts it ends (`PR_SET_PDEATHSIG`), so start
    /// long-lived ones from a thread that lives as long. It is in its own process group: Ctrl-C on
    /// a terminal reaches only weir. Its child processes end with the session, which kills every
    /// process that is still inside its namespaces.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let inner = Arc::clone(&self.inner);
        let parent = rustix::process::getpid();
        command.process_group(0).env("WEIR_STATE", &self.inner.session_state_directory);
        // SAFETY: between fork and exec only system calls are made (prctl, getppid, setns), all
        // async-signal-safe; nothing allocates. The Arc keeps the descriptor open.
        unsafe {
            command.pre_exec(move || {
                set_parent_death_signal_unless_forbidden(parent)?;
                move_into_link_name_space(inner.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(())
            });
        }
        command
    }

    /// Runs a command inside to its end, with `input` on its standard input.
    ///
    /// # Errors
    /// [`KernelError::ToolFailed`] if it ends with an error, [`KernelError::Io`] if it cannot be
    /// started.
    pub fn run_command(&self, argv: &[&str], input: &[u8]) -> Result<Vec<u8>, KernelError> {
        let (program, args) = argv.split_first().expect("a command has a name");
        let mut command = self.command(program);
        command.args(args);
        run_to_completion(command, input)
    }

    /// Runs lines of `ip -batch` inside: one process for all of them.
    ///
    /// # Errors
    /// [`KernelError::ToolFailed`] with the output of `ip`, including the line number.
    pub fn run_ip_batch<S: AsRef<str>>(&self, lines: &[S]) -> Result<(), KernelError> {
        let mut text = String::new();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        self.run_command(&["ip", "-batch", "-"], text.as_bytes()).map(drop)
    }

    /// Its links.
    pub(crate) fn open_link_socket(&self) -> Result<LinkSocket, KernelError> {
        self.call_inside(LinkSocket::open)?.map_err(KernelError::io("open links of", self.name()))
    }

    /// The descriptor that stands for it.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }

    /// A device of it, as errors name it.
    pub(crate) fn qualified_device_name(&self, device: &str) -> String {
        format!("{device} in {}", self.name())
    }

    /// Sets a device of the namespace up.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn set_device_up(&self, device: &str) -> Result<(), KernelError> {
        self.open_link_socket()?
            .set_link_up(device)
            .map_err(KernelError::netlink("set up device", self.qualified_device_name(device)))
    }

    /// Moves a device into another namespace, under another name if one is given. It is down there,
    /// without addresses and routes.
    pub(crate) fn move_device(
        &self,
        device: &str,
        to: &Namespace,
        name: Option<&str>,
    ) -> Result<(), KernelError> {
        self.open_link_socket()?
            .move_to_namespace(device, to.fd(), name)
            .map_err(KernelError::netlink("move device", self.qualified_device_name(device)))
    }

    /// Sets a sysctl of the namespace, e.g. `net.ipv4.ip_forward`. A slash in place of a dot
    /// keeps a dot in a device name: `net/ipv4/conf/eth0.100/rp_filter`.
    ///
    /// # Errors
    /// If there is no such sysctl, or it refuses the value.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), KernelError> {
        let path = sysctl_path(key);
        self.call_inside(|| write_sysctl(&path, value))?
            .map_err(KernelError::io_at_path("set sysctl", &path))
    }

    /// Reads a sysctl of the namespace.
    ///
    /// # Errors
    /// If there is no such sysctl.
    pub fn read_sysctl(&self, key: &str) -> Result<String, KernelError> {
        let path = sysctl_path(key);
        let text = self
            .call_inside(|| fs::read_to_string(&path))?
            .map_err(KernelError::io_at_path("read sysctl", &path))?;
        Ok(text.trim_end().to_owned())
    }

    /// Switches generic receive offload of a device. On a veth it gives the device its NAPI
    /// context, without which frames redirected to its peer vanish; set it after the link is up.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn set_gro(&self, device: &str, on: bool) -> Result<(), KernelError> {
        self.set_offload_feature(device, OffloadFeature::Gro, on)
    }

    /// Whether generic receive offload of a device is on.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn has_gro(&self, device: &str) -> Result<bool, KernelError> {
        self.call_inside(|| has_gro(device))?
            .map_err(KernelError::io("read feature of", self.qualified_device_name(device)))
    }

    /// Disables segmentation and checksum offloads, so that a device sees only single packets with
    /// complete checksums.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn disable_non_gro_offloads(&self, device: &str) -> Result<(), KernelError> {
        for feature in [OffloadFeature::Tso, OffloadFeature::Gso, OffloadFeature::TxChecksum] {
            self.set_offload_feature(device, feature, false)?;
        }
        // A veth need not have it.
        let _ = self.set_offload_feature(device, OffloadFeature::RxChecksum, false);
        Ok(())
    }

    fn set_offload_feature(
        &self,
        device: &str,
        feature: OffloadFeature,
        on: bool,
    ) -> Result<(), KernelError> {
        self.call_inside(|| set_offload_feature(device, feature, on))?
            .map_err(KernelError::io("set feature of", self.qualified_device_name(device)))
    }

    /// Renames a device of the namespace, which may be up (Linux 6.2).
    ///
    /// # Errors
    /// If there is no such device, the name is taken, or the kernel refuses it.
    pub fn rename_device(&self, device: &str, name: &str) -> Result<(), KernelError> {
        self.open_link_socket()?
            .rename_link(device, name)
            .map_err(KernelError::netlink("rename device", format!("{device} to {name}")))
    }

    /// The index of a device of the namespace.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn ifindex(&self, device: &str) -> Result<u32, KernelError> {
        let look = || -> io::Result<u32> {
            let socket = rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::DGRAM,
                None,
            )?;
            Ok(rustix::net::netdevice::name_to_index(&socket, device)?)
        };
        self.call_inside(look)?
            .map_err(KernelError::io("find device", self.qualified_device_name(device)))
    }
}

/// Makes the calling process end with its parent. Called between fork and exec.
pub(crate) fn set_parent_death_signal_unless_forbidden(parent: Pid) -> io::Result<()> {
    refuse_process_if_forbidden()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the call above.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Runs a command with `input`, and returns its standard output.
pub(crate) fn run_to_completion(
    mut command: Command,
    input: &[u8],
) -> Result<Vec<u8>, KernelError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(KernelError::io("start", &tool))?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let output = std::thread::scope(|scope| {
        // A command that ends without reading its input is judged by its status.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output()
    })
    .map_err(KernelError::io("run", &tool))?;
    KernelError::check_exit_status(&tool, &output)?;
    Ok(output.stdout)
}

/// The file of a sysctl.
pub(crate) fn sysctl_path(key: &str) -> PathBuf {
    let file = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
    Path::new("/proc/sys").join(file)
}

pub(crate) fn write_sysctl(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}
