//! Whether the kernel supports BPF programs of a kind: the smallest such program is loaded and, for
//! XDP, run on frames that the kernel generates. Nothing is attached.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 2;

/// Kinds of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BpfProgramKind {
    /// On a link, before the stack.
    Xdp,
    /// At a netfilter hook (Linux 6.4).
    Netfilter,
}

/// The head of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Default)]
struct ProgLoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The head of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct ProgTestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// Loads a program that returns 1: XDP_DROP, or NF_ACCEPT.
pub(crate) fn load_minimal_program(kind: BpfProgramKind) -> io::Result<OwnedFd> {
    // r0 = 1; exit
    let program: [u64; 2] = [0x0000_0001_0000_00b7, 0x0000_0000_0000_0095];
    let (prog_type, expected_attach_type) = match kind {
        BpfProgramKind::Xdp => (6, 0),
        BpfProgramKind::Netfilter => (32, 45),
    };
    let license = c"GPL";
    let attr = ProgLoadAttr {
        prog_type,
        expected_attach_type,
        insn_cnt: 2,
        insns: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..ProgLoadAttr::default()
    };
    // SAFETY: the attribute is the head of bpf_attr and its size is given; the program and the
    // licence outlive the call. The descriptor is checked before it is owned.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_LOAD,
            &raw const attr,
            size_of::<ProgLoadAttr>() as libc::c_uint,
        );
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

/// Runs an XDP program on frames that the kernel makes and treats as received (Linux 5.18).
pub(crate) fn run_live_frames(program: &OwnedFd) -> io::Result<()> {
    let frame = [0u8; 64];
    let attr = ProgTestRunAttr {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: 1,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        ..ProgTestRunAttr::default()
    };
    // SAFETY: the attribute is the head of bpf_attr and its size is given; the frame outlives the
    // call, which only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw const attr,
            size_of::<ProgTestRunAttr>() as libc::c_uint,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
