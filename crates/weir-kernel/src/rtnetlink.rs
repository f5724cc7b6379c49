//! Links and their addresses, through rtnetlink (include/uapi/linux/rtnetlink.h, if_link.h,
//! if_addr.h).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::str::FromStr;

use weir_packet::Mac;

use crate::netlink::attribute::{AttributeWriter, NetlinkAttribute};
use crate::netlink::{
    DUMP_TIMEOUT, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkError, NetlinkProtocol,
    NetlinkRequest, NetlinkSocket,
};

const IFINFOMSG_BYTES: usize = 16;
const IFADDRMSG_BYTES: usize = 8;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate address detection: an IPv6 address is there at once.
const IFA_F_NODAD: u8 = 2;

const IFF_UP: u32 = libc::IFF_UP as u32;
/// `IFF_LOWER_UP`: there is a carrier.
const IFF_LOWER_UP: u32 = 1 << 16;

/// The links of one network namespace.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    socket: NetlinkSocket,
}

/// A link that is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewLink<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its MAC address; the kernel's random one where absent.
    pub mac: Option<Mac>,
    /// Largest packet in bytes; 0 leaves the kernel's choice.
    pub mtu: u32,
    /// Queues in each direction; 0 leaves the kernel's choice.
    pub queues: u32,
}

/// A link as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkInfo {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address, where it has one.
    pub mac: Option<Mac>,
    /// Whether it is set up.
    pub is_up: bool,
    /// Whether somebody is at the other end.
    pub has_carrier: bool,
    /// Index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// Where it is valid, e.g. `RT_SCOPE_LINK`.
    pub scope: u8,
}

/// How a link is named in a request.
#[derive(Clone, Copy)]
enum LinkRef<'a> {
    Index(u32),
    Name(&'a str),
}

impl LinkSocket {
    /// Those of the current network namespace.
    pub(crate) fn open() -> io::Result<LinkSocket> {
        Ok(LinkSocket { socket: NetlinkSocket::open(NetlinkProtocol::Route)? })
    }

    /// Makes a veth pair: `a` here, `b` in another namespace.
    pub(crate) fn add_veth(
        &mut self,
        a: NewLink<'_>,
        b: NewLink<'_>,
        namespace_of_b: BorrowedFd<'_>,
    ) -> Result<(), NetlinkError> {
        let mut request = NetlinkRequest::new(
            libc::RTM_NEWLINK,
            NLM_F_CREATE | NLM_F_EXCL,
            &ifinfomsg_header(0, 0, 0),
        );
        put_name_mac_mtu_and_queues(&mut request.attributes, a);
        request.attributes.put_nested(IFLA_LINKINFO, |info| {
            info.put(IFLA_INFO_KIND, b"veth");
            info.put_nested(IFLA_INFO_DATA, |data| {
                data.put_nested_with_header(VETH_INFO_PEER, &ifinfomsg_header(0, 0, 0), |peer| {
                    put_name_mac_mtu_and_queues(peer, b);
                    put_net_ns_fd(peer, namespace_of_b);
                });
            });
        });
        self.socket.send_and_check(&[request])
    }

    /// Sets a link up.
    pub(crate) fn set_link_up(&mut self, device: &str) -> Result<(), NetlinkError> {
        let request = link_flags_request(LinkRef::Name(device), IFF_UP, IFF_UP);
        self.socket.send_and_check(&[request])
    }

    /// Renames a link.
    pub(crate) fn rename_link(&mut self, device: &str, name: &str) -> Result<(), NetlinkError> {
        let index = self.link_by_name(device)?.index;
        let mut request = link_flags_request(LinkRef::Index(index), 0, 0);
        request.attributes.put_text(IFLA_IFNAME, name);
        self.socket.send_and_check(&[request])
    }

    /// Moves a link into another namespace, under another name if one is given.
    pub(crate) fn move_to_namespace(
        &mut self,
        device: &str,
        namespace: BorrowedFd<'_>,
        name: Option<&str>,
    ) -> Result<(), NetlinkError> {
        let index = self.link_by_name(device)?.index;
        let mut request = link_flags_request(LinkRef::Index(index), 0, 0);
        put_net_ns_fd(&mut request.attributes, namespace);
        if let Some(name) = name {
            request.attributes.put_text(IFLA_IFNAME, name);
        }
        self.socket.send_and_check(&[request])
    }

    /// A link by its name.
    pub(crate) fn link_by_name(&mut self, device: &str) -> Result<LinkInfo, NetlinkError> {
        self.get_link(LinkRef::Name(device))
    }

    /// The name of a link.
    pub(crate) fn link_name_by_index(&mut self, index: u32) -> Result<String, NetlinkError> {
        Ok(self.get_link(LinkRef::Index(index))?.name)
    }

    fn get_link(&mut self, which: LinkRef<'_>) -> Result<LinkInfo, NetlinkError> {
        self.socket.get_existing_object(&link_request(libc::RTM_GETLINK, which, 0, 0), |message| {
            let [_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] =
                message.fixed_header::<IFINFOMSG_BYTES>()?;
            let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
            let attributes = message.attributes(IFINFOMSG_BYTES)?;
            Ok(LinkInfo {
                index: u32::from_ne_bytes([i0, i1, i2, i3]),
                name: attributes.require(IFLA_IFNAME)?.to_text(),
                // Tunnels have addresses of other lengths there.
                mac: attributes.find(IFLA_ADDRESS).and_then(|mac| mac.fixed_bytes().ok()),
                is_up: flags & IFF_UP != 0,
                has_carrier: flags & IFF_LOWER_UP != 0,
                master: attributes.find(IFLA_MASTER).map(NetlinkAttribute::u32).transpose()?,
            })
        })
    }

    /// Gives a link an address.
    pub(crate) fn add_address(
        &mut self,
        device: &str,
        address: InterfaceAddress,
    ) -> Result<(), NetlinkError> {
        let index = self.link_by_name(device)?.index;
        let (family, bytes, flags) = match address.ip {
            IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec(), 0),
            IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec(), IFA_F_NODAD),
        };
        let mut header = vec![family as u8, address.prefix, flags, address.scope];
        header.extend_from_slice(&index.to_ne_bytes());
        let mut request =
            NetlinkRequest::new(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header);
        request.attributes.put(IFA_LOCAL, &bytes);
        request.attributes.put(IFA_ADDRESS, &bytes);
        self.socket.send_and_check(&[request])
    }

    /// The addresses of a link.
    pub(crate) fn interface_addresses(
        &mut self,
        index: u32,
    ) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let request = NetlinkRequest::new(libc::RTM_GETADDR, NLM_F_DUMP, &[0; IFADDRMSG_BYTES]);
        self.socket.fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |addresses, message| {
            let [family, prefix, _, scope, i0, i1, i2, i3] = message.fixed_header()?;
            if u32::from_ne_bytes([i0, i1, i2, i3]) != index {
                return Ok(());
            }
            let attributes = message.attributes(IFADDRMSG_BYTES)?;
            // With a peer, `IFA_ADDRESS` is the peer's.
            let local = attributes.find(IFA_LOCAL).or_else(|| attributes.find(IFA_ADDRESS));
            let ip = match (local, i32::from(family)) {
                (Some(local), libc::AF_INET) => IpAddr::from(local.fixed_bytes::<4>()?),
                (Some(local), libc::AF_INET6) => IpAddr::from(local.fixed_bytes::<16>()?),
                _ => return Ok(()),
            };
            addresses.push(InterfaceAddress { ip, prefix, scope });
            Ok(())
        })
    }
}

impl FromStr for InterfaceAddress {
    type Err = &'static str;

    /// An address with the length of its prefix, `198.51.100.1/24`; without one it is a host's.
    fn from_str(text: &str) -> Result<InterfaceAddress, &'static str> {
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, p)| (ip, Some(p)));
        let ip: IpAddr = ip.parse().map_err(|_| "it is no IPv4 or IPv6 address")?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), str::parse);
        match prefix {
            Ok(prefix) if prefix <= most => {
                let is_host = ip.is_ipv4() && ip.is_loopback();
                let scope = if is_host { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE };
                Ok(InterfaceAddress { ip, prefix, scope })
            }
            _ => Err("its prefix is too long"),
        }
    }
}

/// A request that changes flags of a link.
fn link_flags_request(which: LinkRef<'_>, flags: u32, mask: u32) -> NetlinkRequest {
    link_request(libc::RTM_SETLINK, which, flags, mask)
}

fn link_request(kind: u16, which: LinkRef<'_>, flags: u32, mask: u32) -> NetlinkRequest {
    match which {
        LinkRef::Index(index) => {
            NetlinkRequest::new(kind, 0, &ifinfomsg_header(index, flags, mask))
        }
        LinkRef::Name(name) => {
            let mut request = NetlinkRequest::new(kind, 0, &ifinfomsg_header(0, flags, mask));
            request.attributes.put_text(IFLA_IFNAME, name);
            request
        }
    }
}

/// `struct ifinfomsg` of any family and type.
fn ifinfomsg_header(index: u32, flags: u32, mask: u32) -> [u8; IFINFOMSG_BYTES] {
    let mut header = [0; IFINFOMSG_BYTES];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&mask.to_ne_bytes());
    header
}

fn put_name_mac_mtu_and_queues(attributes: &mut AttributeWriter, link: NewLink<'_>) {
    attributes.put_text(IFLA_IFNAME, link.name);
    if let Some(mac) = link.mac {
        attributes.put(IFLA_ADDRESS, &mac);
    }
    if link.mtu != 0 {
        attributes.put(IFLA_MTU, &link.mtu.to_ne_bytes());
    }
    if link.queues != 0 {
        attributes.put(IFLA_NUM_TX_QUEUES, &link.queues.to_ne_bytes());
        attributes.put(IFLA_NUM_RX_QUEUES, &link.queues.to_ne_bytes());
    }
}

fn put_net_ns_fd(attributes: &mut AttributeWriter, namespace: BorrowedFd<'_>) {
    attributes.put(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_longer_than_its_address_is_refused() {
        let read = |text: &str| InterfaceAddress::from_str(text);
        let address = read("198.51.100.1/24").unwrap();
        assert_eq!((address.prefix, address.scope), (24, libc::RT_SCOPE_UNIVERSE));
        assert_eq!(read("2001:db8::1").unwrap().prefix, 128);
        assert_eq!(read("127.0.0.2/8").unwrap().scope, libc::RT_SCOPE_HOST);
        for bad in ["", "198.51.100.1/33", "2001:db8::/129", "198.51.100.1/", "x/8", "1.2.3.4/-1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
