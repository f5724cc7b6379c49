//! Paths of whatever outlives a process: session files, named namespaces, pins, sysctls.

/// Where session files are.
pub(crate) const SESSION_FILES_DIRECTORY: &str = "/run/weir/sessions";
/// Where named network namespaces are (iproute2's folder).
pub(crate) const NETNS_DIRECTORY: &str = "/run/netns";
/// The BPF file system.
pub(crate) const BPFFS_MOUNT: &str = "/sys/fs/bpf";
/// Where pins are, one folder a session.
pub(crate) const BPF_PIN_DIRECTORY: &str = "/sys/fs/bpf/weir";
/// Where sysctls are.
pub(crate) const SYSCTL_DIRECTORY: &str = "/proc/sys";
