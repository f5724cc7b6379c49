//! Returns the devices that a session borrowed, during the session or after it.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::ethtool::{OffloadFeature, set_offload_feature};
use crate::session_record::{self, BorrowedDevice, SessionRecord};
use crate::{KernelError, Namespace};

/// Where the namespace that devices were borrowed from is mounted during a run.
pub(crate) fn starting_netns_mount_path(run: &str) -> PathBuf {
    SessionRecord::session_directory(run).join("home")
}

/// Moves what a session borrowed back; a line for each device.
pub(crate) fn return_borrowed_devices_listing_returned(
    record: &SessionRecord,
    namespaces: &[String],
) -> Vec<String> {
    if record.borrowed.is_empty() {
        return Vec::new();
    }
    let home = starting_netns_mount_path(&record.run);
    let own = namespaces
        .iter()
        .filter(|name| session_record::parse_namespace_run(name) == Some(&record.run));
    let own: Vec<&String> = own.collect();
    let is_back = |borrowed: &&BorrowedDevice| {
        own.iter().any(|name| return_device(borrowed, name, &home).is_ok())
    };
    let back = record.borrowed.iter().filter(is_back);
    let lines = back.map(|borrowed| format!("loan of device {}", borrowed.device)).collect();
    let _ = unmount(&home, UnmountFlags::DETACH);
    lines
}

/// Moves a device back from a namespace of ours, if it is there.
fn return_device(
    borrowed: &BorrowedDevice,
    namespace: &str,
    home: &Path,
) -> Result<(), KernelError> {
    let BorrowedDevice { device, name, .. } = borrowed;
    let from = Namespace::open(namespace, "", PathBuf::new())?;
    // A path of its own stands for a name.
    let home = Namespace::open(&home.display().to_string(), "home", PathBuf::new())?;
    from.move_device(name, &home, Some(device))?;
    if borrowed.is_up {
        home.set_device_up(device)?;
    }
    // Its other features were never changed.
    home.call_inside(|| set_offload_feature(device, OffloadFeature::Gro, borrowed.has_gro))?
        .map_err(KernelError::io("set feature of", device))
}
