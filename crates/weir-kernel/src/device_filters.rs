//! Programs and filters of devices in the current network namespace: XDP, tc (clsact, ingress) and
//! tcx. They see packets before netfilter receives them and after it sends them.
//!
//! XDP programs and tc filters are read by rtnetlink, which needs no privileges; tcx programs
//! (Linux 6.6) by `BPF_PROG_QUERY`, which does.

use std::io;
use std::time::Duration;

use crate::KernelError;
use crate::netlink::attribute::MalformedNetlink;
use crate::netlink::{NLM_F_DUMP, NetlinkMessage, NetlinkProtocol, NetlinkRequest, NetlinkSocket};

const RTM_GETLINK: u16 = 18;
const RTM_GETTFILTER: u16 = 46;
const IFINFOMSG_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const TCA_KIND: u16 = 1;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`, and the same of egress.
const TC_PARENT_INGRESS: u32 = 0xffff_fff2;
const TC_PARENT_EGRESS: u32 = 0xffff_fff3;
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const TCX_PROGRAMS_MAX: usize = 64;
/// A dump that takes longer is broken.
const DUMP_TIMEOUT: Duration = Duration::from_secs(20);

/// The direction of packets at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevicePacketDirection {
    /// Received by the device.
    Ingress,
    /// Sent by it.
    Egress,
}

/// What a device does with packets besides netfilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFilters {
    /// Its name.
    pub device: String,
    /// Number of its XDP program in the kernel.
    pub xdp_program_id: Option<u32>,
    /// Kinds of its tc filters (`bpf`, `flower`), in the order of the kernel.
    pub tc_filters: Vec<(DevicePacketDirection, String)>,
    /// Numbers of its tcx programs; `None` where weir may not read them.
    pub tcx_program_ids: Option<Vec<(DevicePacketDirection, u32)>>,
}

/// Reads the filters of all devices of the current network namespace.
///
/// # Errors
/// If the kernel refuses.
pub fn read_filters_of_all_devices() -> Result<Vec<DeviceFilters>, KernelError> {
    let mut socket = NetlinkSocket::open(NetlinkProtocol::Route)
        .map_err(KernelError::io("open", "rtnetlink"))?;
    let request = NetlinkRequest::new(RTM_GETLINK, NLM_F_DUMP, &[0; IFINFOMSG_BYTES]);
    let links = socket
        .fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |links, message| {
            links.push(parse_link_with_xdp_program(&message)?);
            Ok(())
        })
        .map_err(KernelError::netlink("read", "links"))?;
    let mut devices = Vec::new();
    for (index, device, xdp_program_id) in links {
        let mut tc_filters = Vec::new();
        for (direction, parent) in [
            (DevicePacketDirection::Ingress, TC_PARENT_INGRESS),
            (DevicePacketDirection::Egress, TC_PARENT_EGRESS),
        ] {
            let kinds = read_tc_filter_kinds(&mut socket, index, parent)
                .map_err(KernelError::netlink("read tc filters of", &device))?;
            tc_filters.extend(kinds.into_iter().map(|kind| (direction, kind)));
        }
        let tcx_program_ids = read_tcx_program_ids(index).ok();
        devices.push(DeviceFilters { device, xdp_program_id, tc_filters, tcx_program_ids });
    }
    Ok(devices)
}

/// Index, name and XDP program of a link.
fn parse_link_with_xdp_program(
    message: &NetlinkMessage<'_>,
) -> Result<(u32, String, Option<u32>), MalformedNetlink> {
    let header = message.fixed_header::<IFINFOMSG_BYTES>()?;
    let index = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    let link = message.attributes(IFINFOMSG_BYTES)?;
    let xdp = link.find(IFLA_XDP).map(|xdp| xdp.nested_attributes()).transpose()?;
    let program = xdp.and_then(|xdp| xdp.find(IFLA_XDP_PROG_ID)).map(|id| id.u32()).transpose()?;
    Ok((index, link.require(IFLA_IFNAME)?.to_text(), program.filter(|id| *id != 0)))
}

/// The kinds of the filters below a parent. Each priority is told once without a handle.
fn read_tc_filter_kinds(
    socket: &mut NetlinkSocket,
    index: u32,
    parent: u32,
) -> Result<Vec<String>, crate::netlink::NetlinkError> {
    let mut header = [0u8; TCMSG_BYTES];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    let request = NetlinkRequest::new(RTM_GETTFILTER, NLM_F_DUMP, &header);
    socket.fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |kinds, message| {
        let header = message.fixed_header::<TCMSG_BYTES>()?;
        let handle = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
        if handle != 0 {
            kinds.push(message.attributes(TCMSG_BYTES)?.require(TCA_KIND)?.to_text());
        }
        Ok(())
    })
}

/// The head of `union bpf_attr` for `BPF_PROG_QUERY`.
#[repr(C)]
#[derive(Default)]
struct ProgQueryAttr {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

fn read_tcx_program_ids(index: u32) -> io::Result<Vec<(DevicePacketDirection, u32)>> {
    let mut programs = Vec::new();
    for (direction, attach_type) in [
        (DevicePacketDirection::Ingress, BPF_TCX_INGRESS),
        (DevicePacketDirection::Egress, BPF_TCX_EGRESS),
    ] {
        let mut ids = [0u32; TCX_PROGRAMS_MAX];
        let mut attr = ProgQueryAttr {
            target_ifindex: index,
            attach_type,
            prog_ids: ids.as_mut_ptr() as u64,
            prog_cnt: TCX_PROGRAMS_MAX as u32,
            ..ProgQueryAttr::default()
        };
        // SAFETY: the attribute is the head of bpf_attr and its size is given; the kernel writes at
        // most `prog_cnt` numbers to `ids`, which outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_PROG_QUERY,
                &raw mut attr,
                size_of::<ProgQueryAttr>() as libc::c_uint,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let count = (attr.prog_cnt as usize).min(TCX_PROGRAMS_MAX);
        programs.extend(ids[..count].iter().map(|id| (direction, *id)));
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use weir_testkit::{skip_test, skip_without_root};

    use super::*;
    use crate::bpf_probe::{BpfProgramKind, load_minimal_program};
    use crate::{Session, VethOptions};

    const RTM_SETLINK: u16 = 19;
    const IFLA_XDP_FD: u16 = 1;
    const IFLA_XDP_FLAGS: u16 = 3;
    const XDP_FLAGS_SKB_MODE: u32 = 2;

    #[test]
    fn an_xdp_program_and_a_tc_filter_of_a_device_are_listed() {
        if skip_without_root() {
            return;
        }
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace("filters").expect("a namespace");
        session
            .create_veth_pair(&namespace, "a0", &namespace, "a1", &VethOptions::default())
            .expect("links");
        let read = || {
            let devices = namespace.call_inside(read_filters_of_all_devices).expect("inside");
            let devices = devices.expect("filters").into_iter();
            devices.filter(|device| device.device == "a0").collect::<Vec<_>>()
        };
        let [before] = &read()[..] else { panic!("one device") };
        assert_eq!((before.xdp_program_id, &before.tc_filters[..]), (None, &[][..]));
        let Ok(program) = load_minimal_program(BpfProgramKind::Xdp) else {
            return skip_test("XDP programs");
        };
        let index = namespace.ifindex("a0").expect("an index");
        let mut header = [0u8; IFINFOMSG_BYTES];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut request = NetlinkRequest::new(RTM_SETLINK, 0, &header);
        request.attributes.put_nested(IFLA_XDP, |xdp| {
            xdp.put(IFLA_XDP_FD, &program.as_raw_fd().to_ne_bytes());
            xdp.put(IFLA_XDP_FLAGS, &XDP_FLAGS_SKB_MODE.to_ne_bytes());
        });
        let socket = namespace.call_inside(|| NetlinkSocket::open(NetlinkProtocol::Route));
        let mut socket = socket.expect("inside").expect("a socket");
        socket.send_and_check(&[request]).expect("the program is attached");
        namespace
            .run_command(&["tc", "qdisc", "add", "dev", "a0", "clsact"], b"")
            .expect("a qdisc");
        let filter =
            "tc filter add dev a0 egress protocol ip u32 match ip src 192.0.2.1 flowid 1:1";
        let words: Vec<&str> = filter.split(' ').collect();
        namespace.run_command(&words, b"").expect("a filter");
        let [after] = &read()[..] else { panic!("one device") };
        assert!(after.xdp_program_id.is_some());
        let kinds: Vec<_> = after.tc_filters.iter().map(|(d, kind)| (*d, &**kind)).collect();
        assert!(kinds.contains(&(DevicePacketDirection::Egress, "u32")), "{kinds:?}");
        assert!(!kinds.iter().any(|(d, _)| *d == DevicePacketDirection::Ingress), "{kinds:?}");
    }
}
