//! Addresses as numbers, so that prefixes, ranges and masks are arithmetic.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::mask::contiguous_host_mask;

/// Address family of a packet, a ruleset or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4: 32-bit addresses, `iptables`.
    V4,
    /// IPv6: 128-bit addresses, `ip6tables`.
    V6,
}

impl Family {
    /// Bits of an address: 32 or 128.
    pub const fn addr_bits(self) -> u32 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The address with every bit set, also the mask of a host.
    pub const fn max_addr(self) -> u128 {
        match self {
            Family::V4 => u32::MAX as u128,
            Family::V6 => u128::MAX,
        }
    }

    /// The mask of a prefix.
    ///
    /// ```
    /// assert_eq!(weir_packet::Family::V4.netmask(24), 0xffff_ff00);
    /// ```
    ///
    /// # Units and ranges
    /// `len`: 0 to [`addr_bits`](Family::addr_bits); longer is taken as a host.
    pub const fn netmask(self, len: u32) -> u128 {
        if len == 0 {
            return 0;
        }
        if len >= self.addr_bits() {
            return self.max_addr();
        }
        (self.max_addr() << (self.addr_bits() - len)) & self.max_addr()
    }

    /// The prefix length of a mask, or `None` if its ones are not contiguous.
    ///
    /// ```
    /// use weir_packet::Family;
    /// assert_eq!(Family::V4.prefix_len_of_mask(0xffff_0000), Some(16));
    /// assert_eq!(Family::V4.prefix_len_of_mask(0xffff_00ff), None);
    /// ```
    pub const fn prefix_len_of_mask(self, mask: u128) -> Option<u32> {
        match contiguous_host_mask(mask, self.max_addr()) {
            Some(host) if mask <= self.max_addr() => Some(self.addr_bits() - host.count_ones()),
            _ => None,
        }
    }
}

/// An address of either family as a number; its owner knows the family.
///
/// Displayed with [`Addr::display`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Addr(pub u128);

impl Addr {
    /// The address in the standard library's form.
    pub fn to_ip_addr(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from(self.0 as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from(self.0)),
        }
    }

    /// Text of the address as the kernel's tools print it.
    ///
    /// ```
    /// use weir_packet::{Addr, Family};
    /// assert_eq!(Addr(0xc000_0201).display(Family::V4).to_string(), "192.0.2.1");
    /// ```
    pub fn display(self, family: Family) -> impl fmt::Display {
        self.to_ip_addr(family)
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(a: Ipv4Addr) -> Self {
        Addr(u32::from(a).into())
    }
}

impl From<Ipv6Addr> for Addr {
    fn from(a: Ipv6Addr) -> Self {
        Addr(a.into())
    }
}

impl From<IpAddr> for Addr {
    fn from(a: IpAddr) -> Self {
        match a {
            IpAddr::V4(a) => a.into(),
            IpAddr::V6(a) => a.into(),
        }
    }
}
