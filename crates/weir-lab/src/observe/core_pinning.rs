//! The cores on which the threads of a trial run, and their priorities.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::LabError;

/// Longest trial with real-time priority: the kernel throttles such threads after 0.95 s of a
/// second, and a burst must not starve what else the machine does.
pub const MAX_REALTIME_TRIAL: Duration = Duration::from_millis(600);

/// While it lives, the current thread runs on one core only, before everything else where that
/// was allowed.
pub(crate) struct CorePinGuard {
    previous_affinity: CpuSet,
    realtime: bool,
}

impl CorePinGuard {
    /// Pins the current thread.
    pub(crate) fn pin_to_core(core: u32, realtime: bool) -> Result<CorePinGuard, LabError> {
        let failed = |source: rustix::io::Errno| LabError::SystemCall {
            action: "pin the generator to a core",
            source: source.into(),
        };
        let before = sched_getaffinity(None).map_err(failed)?;
        let mut only = CpuSet::new();
        only.set(core as usize);
        sched_setaffinity(None, &only).map_err(failed)?;
        Ok(CorePinGuard { previous_affinity: before, realtime: realtime && set_fifo_priority(1) })
    }

    /// Whether it runs before everything else.
    pub(crate) fn is_realtime(&self) -> bool {
        self.realtime
    }
}

impl Drop for CorePinGuard {
    fn drop(&mut self) {
        if self.realtime {
            set_scheduling_policy(libc::SCHED_OTHER, 0);
        }
        // The mask was the thread's own a moment ago.
        let _ = sched_setaffinity(None, &self.previous_affinity);
    }
}

/// Puts the current thread before everything else; false where the system does not allow it.
pub(crate) fn set_fifo_priority(priority: libc::c_int) -> bool {
    set_scheduling_policy(libc::SCHED_FIFO, priority)
}

/// Puts a thread that ends the generator's calls before the generator.
pub(crate) fn raise_priority_above_generator() {
    set_fifo_priority(2);
}

/// Sets the policy of the current thread; false where the system does not allow it.
fn set_scheduling_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: a plain C struct, read by the call only; 0 is the current thread.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &parameters) == 0
    }
}

/// The last core that this process may use: the first ones do more of the system's work.
///
/// # Errors
/// If the system does not say.
pub fn last_allowed_core() -> Result<u32, LabError> {
    let allowed = sched_getaffinity(None).map_err(|source| LabError::SystemCall {
        action: "read the allowed cores",
        source: source.into(),
    })?;
    let is_set = |core: &u32| allowed.is_set(*core as usize);
    Ok((0..CpuSet::MAX_CPU as u32).rfind(is_set).unwrap_or(0))
}

/// A core that this process may use and that is not `core`; `core` if there is no other.
pub(crate) fn pick_other_core_or_same(core: u32) -> u32 {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let is_other = |other: &u32| *other != core && allowed.is_set(*other as usize);
    (0..CpuSet::MAX_CPU as u32).find(is_other).unwrap_or(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_guard_pins_the_thread_and_restores_its_affinity() {
        let before = sched_getaffinity(None).unwrap();
        let core = last_allowed_core().unwrap();
        {
            let _pinned = CorePinGuard::pin_to_core(core, false).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap().count(), before.count());
    }
}
