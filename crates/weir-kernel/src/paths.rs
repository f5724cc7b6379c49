//! Paths of whatever outlives a process: session files, named namespaces, pins, sysctls.

/// Where session files are.
pub(crate) const SESSIONS: &str = "/run/weir/sessions";
/// Where named network namespaces are (iproute2's folder).
pub(crate) const NETNS: &str = "/run/netns";
/// The BPF file system.
pub(crate) const BPF: &str = "/sys/fs/bpf";
/// Where pins are, one folder a session.
pub(crate) const PINS: &str = "/sys/fs/bpf/weir";
/// Where sysctls are.
pub(crate) const SYSCTLS: &str = "/proc/sys";
