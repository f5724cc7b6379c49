//! Numbers of the messages of ipset: commands, attributes and flags
//! (include/uapi/linux/netfilter/ipset/ip_set.h).
//!
//! The attributes of a set ([`IPSET_ATTR_HASHSIZE`], …) and those of an element
//! ([`IPSET_ATTR_ETHER`], …) have the same numbers; the nesting says which is meant.

/// Version of the protocol that requests have.
pub(crate) const IPSET_PROTOCOL_VERSION: u8 = 6;

pub(crate) const IPSET_CMD_CREATE: u8 = 2;
pub(crate) const IPSET_CMD_DESTROY: u8 = 3;
pub(crate) const IPSET_CMD_FLUSH: u8 = 4;
pub(crate) const IPSET_CMD_RENAME: u8 = 5;
pub(crate) const IPSET_CMD_SWAP: u8 = 6;
pub(crate) const IPSET_CMD_LIST: u8 = 7;
pub(crate) const IPSET_CMD_SAVE: u8 = 8;
pub(crate) const IPSET_CMD_ADD: u8 = 9;
pub(crate) const IPSET_CMD_DEL: u8 = 10;
pub(crate) const IPSET_CMD_TYPE: u8 = 13;

// Attributes of a message.
pub(crate) const IPSET_ATTR_PROTOCOL: u16 = 1;
pub(crate) const IPSET_ATTR_SETNAME: u16 = 2;
pub(crate) const IPSET_ATTR_TYPENAME: u16 = 3;
pub(crate) const IPSET_ATTR_SETNAME2: u16 = 3;
pub(crate) const IPSET_ATTR_REVISION: u16 = 4;
pub(crate) const IPSET_ATTR_FAMILY: u16 = 5;
pub(crate) const IPSET_ATTR_FLAGS: u16 = 6;
pub(crate) const IPSET_ATTR_DATA: u16 = 7;
pub(crate) const IPSET_ATTR_ADT: u16 = 8;
pub(crate) const IPSET_ATTR_LINENO: u16 = 9;
pub(crate) const IPSET_ATTR_REVISION_MIN: u16 = 10;
/// Headers of sets, without their elements.
pub(crate) const IPSET_FLAG_LIST_HEADER: u32 = 1 << 2;

/// Memory of a set.
pub const IPSET_ATTR_MEMSIZE: u16 = 26;
/// Address of an element, or first address of a bitmap.
pub const IPSET_ATTR_IP: u16 = 1;
/// Last address of a bitmap.
pub const IPSET_ATTR_IP_TO: u16 = 2;
/// Length of the prefix of [`IPSET_ATTR_IP`].
pub const IPSET_ATTR_CIDR: u16 = 3;
/// Port of an element, or first port of a bitmap.
pub const IPSET_ATTR_PORT: u16 = 4;
/// Last port of a bitmap.
pub const IPSET_ATTR_PORT_TO: u16 = 5;
/// Timeout in seconds, of an element or by default.
pub const IPSET_ATTR_TIMEOUT: u16 = 6;
/// Protocol of [`IPSET_ATTR_PORT`].
pub const IPSET_ATTR_PROTO: u16 = 7;
/// Flags of a set or an element: `IPSET_FLAG_…`.
pub const IPSET_ATTR_CADT_FLAGS: u16 = 8;
/// Mark of an element.
pub const IPSET_ATTR_MARK: u16 = 10;
/// `markmask` of a set.
pub const IPSET_ATTR_MARKMASK: u16 = 11;

/// `initval` of a hash.
pub const IPSET_ATTR_INITVAL: u16 = 17;
/// `hashsize` of a hash.
pub const IPSET_ATTR_HASHSIZE: u16 = 18;
/// `maxelem` of a hash.
pub const IPSET_ATTR_MAXELEM: u16 = 19;
/// `netmask` of a set.
pub const IPSET_ATTR_NETMASK: u16 = 20;
/// `bucketsize` of a hash.
pub const IPSET_ATTR_BUCKETSIZE: u16 = 21;
/// `size` of a list.
pub const IPSET_ATTR_SIZE: u16 = 23;
/// Number of elements of a set.
pub const IPSET_ATTR_ELEMENTS: u16 = 24;
/// Number of rules and sets that use a set.
pub const IPSET_ATTR_REFERENCES: u16 = 25;

/// MAC address of an element.
pub const IPSET_ATTR_ETHER: u16 = 17;
/// Member of a list.
pub const IPSET_ATTR_NAME: u16 = 18;
/// Second address of an element.
pub const IPSET_ATTR_IP2: u16 = 20;
/// Length of the prefix of [`IPSET_ATTR_IP2`].
pub const IPSET_ATTR_CIDR2: u16 = 21;
/// Device of an element.
pub const IPSET_ATTR_IFACE: u16 = 23;
/// Bytes that an element counted.
pub const IPSET_ATTR_BYTES: u16 = 24;
/// Packets that an element counted.
pub const IPSET_ATTR_PACKETS: u16 = 25;
/// Comment of an element.
pub const IPSET_ATTR_COMMENT: u16 = 26;
/// `skbmark` of an element: mark and mask.
pub const IPSET_ATTR_SKBMARK: u16 = 27;
/// `skbprio` of an element.
pub const IPSET_ATTR_SKBPRIO: u16 = 28;
/// `skbqueue` of an element.
pub const IPSET_ATTR_SKBQUEUE: u16 = 29;

/// IPv4 address, in an attribute of an address.
pub const IPSET_ATTR_IPADDR_IPV4: u16 = 1;
/// IPv6 address, in an attribute of an address.
pub const IPSET_ATTR_IPADDR_IPV6: u16 = 2;

/// `physdev:` before a device.
pub const IPSET_FLAG_PHYSDEV: u32 = 1 << 1;
/// `nomatch` of an element.
pub const IPSET_FLAG_NOMATCH: u32 = 1 << 2;
/// `counters` of a set.
pub const IPSET_FLAG_WITH_COUNTERS: u32 = 1 << 3;
/// `comment` of a set.
pub const IPSET_FLAG_WITH_COMMENT: u32 = 1 << 4;
/// `forceadd` of a set.
pub const IPSET_FLAG_WITH_FORCEADD: u32 = 1 << 5;
/// `skbinfo` of a set.
pub const IPSET_FLAG_WITH_SKBINFO: u32 = 1 << 6;
/// `wildcard` of an element.
pub const IPSET_FLAG_IFACE_WILDCARD: u32 = 1 << 7;
