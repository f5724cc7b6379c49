//! The boot of the machine, and the time since then.
//!
//! A deadline that is to outlive a process is kept in this time: it goes on while the machine is
//! suspended, nobody sets it, and with the identifier of the boot it means nothing after a reboot.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::KernelError;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// The identifier of this boot.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn read_boot_id() -> Result<String, KernelError> {
    let text = fs::read_to_string(BOOT_ID_FILE).map_err(KernelError::io("read", BOOT_ID_FILE))?;
    Ok(text.trim().to_owned())
}

/// The time since the boot, suspension included (`CLOCK_BOOTTIME`).
pub fn time_since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = Duration::from_secs(now.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(now.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_boot_does_not_go_back() {
        let (boot, before) = (read_boot_id().expect("a boot"), time_since_boot());
        assert_eq!(boot.len(), 36, "{boot}");
        assert!(time_since_boot() >= before && !before.is_zero());
    }
}
