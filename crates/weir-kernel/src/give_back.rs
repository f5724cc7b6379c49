//! Returns the devices that a session borrowed, during the session or after it.

use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::ioctl::{Feature, set_feature};
use crate::record::{self, Borrowed, SessionRecord};
use crate::{KernelError, Namespace};

/// Where the namespace that devices were borrowed from is mounted during a run.
pub(crate) fn home(run: &str) -> PathBuf {
    SessionRecord::directory(run).join("home")
}

/// Moves what a session borrowed back; a line for each device.
pub(crate) fn give_back(record: &SessionRecord, namespaces: &[String]) -> Vec<String> {
    if record.borrowed.is_empty() {
        return Vec::new();
    }
    let home = home(&record.run);
    let own = namespaces.iter().filter(|name| record::run_of(name) == Some(&record.run));
    let own: Vec<&String> = own.collect();
    let is_back = |borrowed: &&Borrowed| own.iter().any(|name| back(borrowed, name, &home).is_ok());
    let back = record.borrowed.iter().filter(is_back);
    let lines = back.map(|borrowed| format!("loan of device {}", borrowed.device)).collect();
    let _ = unmount(&home, UnmountFlags::DETACH);
    lines
}

/// Moves a device back from a namespace of ours, if it is there.
fn back(borrowed: &Borrowed, namespace: &str, home: &Path) -> Result<(), KernelError> {
    let Borrowed { device, name, .. } = borrowed;
    let from = Namespace::open(namespace, "", PathBuf::new())?;
    // A path of its own stands for a name.
    let home = Namespace::open(&home.display().to_string(), "home", PathBuf::new())?;
    from.move_device(name, &home, Some(device))?;
    if borrowed.is_up {
        home.set_up(device)?;
    }
    // Its other features were never changed.
    home.enter(|| set_feature(device, Feature::Gro, borrowed.has_gro))?
        .map_err(KernelError::io("set feature of", device))
}
