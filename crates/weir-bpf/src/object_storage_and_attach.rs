//! Objects in memory, and programs on devices.

use std::mem::MaybeUninit;

use libbpf_rs::{Link, OpenObject, ProgramMut};
use weir_kernel::Namespace;

use crate::BpfError;

/// Where an object is opened: a few dozen bytes for the life of the process, so that a skeleton
/// borrows nothing.
pub fn leak_object_storage() -> &'static mut MaybeUninit<OpenObject> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// Attaches an XDP program to a device of a namespace; `action` says so in an error.
///
/// # Errors
/// If the kernel refuses.
pub fn attach_xdp(
    program: &ProgramMut<'_>,
    namespace: &Namespace,
    ifindex: u32,
    action: &'static str,
) -> Result<Link, BpfError> {
    namespace
        .call_inside(|| program.attach_xdp(ifindex as i32))?
        .map_err(BpfError::from_libbpf(action))
}
