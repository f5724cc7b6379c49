//! BPF programs that links attach to netfilter hooks (Linux 6.4). The kernel lists the links of all
//! network namespaces, and does not say of which one a link is.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_int = 31;
const BPF_LINK_TYPE_NETFILTER: u32 = 10;

/// A BPF program at a netfilter hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfNetfilterLink {
    /// Its number in the kernel.
    pub program_id: u32,
    /// `NFPROTO_…`: 2 for IPv4, 10 for IPv6.
    pub family: u32,
    /// Number of the hook.
    pub hook_number: u32,
    /// Priority: lower ones come first.
    pub priority: i32,
}

/// Numbers of objects, for `BPF_LINK_GET_NEXT_ID` and `BPF_LINK_GET_FD_BY_ID`.
#[repr(C)]
#[derive(Default)]
struct ObjectIdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ObjectInfoAttr {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// The head of `struct bpf_link_info`, with its member for netfilter.
#[repr(C)]
#[derive(Default)]
struct LinkInfoHead {
    link_type: u32,
    id: u32,
    prog_id: u32,
    padding: u32,
    family: u32,
    hook_number: u32,
    priority: i32,
    flags: u32,
}

/// Reads the links of all network namespaces.
///
/// # Errors
/// If weir is not root, or the kernel has no BPF.
pub fn read_bpf_netfilter_links() -> io::Result<Vec<BpfNetfilterLink>> {
    let mut links = Vec::new();
    let mut attr = ObjectIdAttr::default();
    loop {
        match call_bpf(BPF_LINK_GET_NEXT_ID, &mut attr) {
            Ok(_) => attr.id = attr.next_id,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(links),
            Err(error) => return Err(error),
        }
        // A link may be gone by now.
        if let Ok(info) = read_link_info(attr.id)
            && info.link_type == BPF_LINK_TYPE_NETFILTER
        {
            links.push(BpfNetfilterLink {
                program_id: info.prog_id,
                family: info.family,
                hook_number: info.hook_number,
                priority: info.priority,
            });
        }
    }
}

fn read_link_info(id: u32) -> io::Result<LinkInfoHead> {
    let fd = call_bpf(BPF_LINK_GET_FD_BY_ID, &mut ObjectIdAttr { id, ..Default::default() })?;
    // SAFETY: the kernel returned a new descriptor, which nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut info = LinkInfoHead::default();
    let mut attr = ObjectInfoAttr {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of::<LinkInfoHead>() as u32,
        info: (&raw mut info) as u64,
    };
    call_bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info)
}

/// The system call with the head of `union bpf_attr`.
fn call_bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the attribute is a head of bpf_attr and its size is given; what it points to is a
    // local value of the caller that outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>() as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

#[cfg(test)]
mod tests {
    use weir_testkit::{skip_test, skip_without_root};

    use super::*;
    use crate::Session;
    use crate::bpf_probe::{BpfProgramKind, load_minimal_program};

    const BPF_LINK_CREATE: libc::c_int = 28;
    const BPF_NETFILTER: u32 = 45;

    #[repr(C)]
    #[derive(Default)]
    struct LinkCreateAttr {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        flags: u32,
        family: u32,
        hook_number: u32,
        priority: i32,
        netfilter_flags: u32,
    }

    #[test]
    fn a_link_is_listed_with_its_hook_while_it_exists() {
        if skip_without_root() {
            return;
        }
        let Ok(program) = load_minimal_program(BpfProgramKind::Netfilter) else {
            return skip_test("BPF on a netfilter hook (Linux 6.4)");
        };
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace("bpf-link").expect("a namespace");
        // Links of other tests and programs are there as well.
        let priority = -77_000 - (std::process::id() as i32 % 1000);
        let is_ours = |link: &BpfNetfilterLink| {
            (link.family, link.hook_number, link.priority) == (2, 1, priority)
        };
        let count = || {
            let links = read_bpf_netfilter_links().expect("links");
            links.into_iter().filter(is_ours).count()
        };
        assert_eq!(count(), 0);
        let mut attr = LinkCreateAttr {
            prog_fd: program.as_raw_fd() as u32,
            attach_type: BPF_NETFILTER,
            family: 2,
            hook_number: 1,
            priority,
            ..LinkCreateAttr::default()
        };
        let link = namespace.call_inside(|| call_bpf(BPF_LINK_CREATE, &mut attr));
        let link = link.expect("inside").expect("a link");
        // SAFETY: the kernel returned a new descriptor, which nothing else owns.
        let link = unsafe { OwnedFd::from_raw_fd(link) };
        assert_eq!(count(), 1);
        drop(link);
        assert_eq!(count(), 0);
    }
}
