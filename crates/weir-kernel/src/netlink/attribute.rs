//! Attributes of netlink messages: length, type and value, aligned to four bytes.
//!
//! They are built by [`AttributeWriter`] and read by [`NetlinkAttributes`], nowhere else. A list is
//! checked once, when it is parsed; a value is checked when it is taken as a number. Source:
//! include/uapi/linux/netlink.h (`struct nlattr`), lib/nlattr.c.

const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_ALIGNMENT_BYTES: usize = 4;
const NESTED_FLAG: u16 = 0x8000;
/// The value is a number in network byte order, and says so (`NLA_F_NET_BYTEORDER`); ipset wants
/// it.
const NLA_F_NET_BYTEORDER: u16 = 0x4000;
/// A type without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// Bytes that are not what the kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedNetlink {
    /// A message.
    #[error("a netlink message gives a length of {length} bytes where {left} are left")]
    MessageLength {
        /// The length that it gives.
        length: usize,
        /// The bytes that are there.
        left: usize,
    },
    /// The fixed header of a message, or of an attribute.
    #[error("a netlink header is cut short: {left} bytes of {expected}")]
    ShortHeader {
        /// Its length.
        expected: usize,
        /// The bytes that are there.
        left: usize,
    },
    /// The length of an attribute.
    #[error("netlink attribute {kind} gives a length of {length} bytes where {left} are left")]
    AttributeLength {
        /// Its type.
        kind: u16,
        /// The length that it gives, header included.
        length: usize,
        /// The bytes that are there.
        left: usize,
    },
    /// The value of an attribute.
    #[error("netlink attribute {kind} has {length} bytes, expected {expected}")]
    ValueLength {
        /// Its type.
        kind: u16,
        /// Bytes of the value.
        length: usize,
        /// Bytes that a value of its type has.
        expected: usize,
    },
    /// An attribute that every such message has.
    #[error("netlink attribute {kind} is missing")]
    MissingAttribute {
        /// Its type.
        kind: u16,
    },
}

/// A list of attributes whose lengths are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkAttributes<'a> {
    bytes: &'a [u8],
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkAttribute<'a> {
    /// Its type, without flags.
    pub kind: u16,
    /// Its value, without padding.
    pub value: &'a [u8],
}

impl<'a> NetlinkAttributes<'a> {
    /// Checks that bytes are a list of attributes.
    ///
    /// # Errors
    /// If an attribute is longer than what holds it, or shorter than its header.
    pub fn parse(bytes: &'a [u8]) -> Result<NetlinkAttributes<'a>, MalformedNetlink> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = split_attribute(rest)?;
        }
        Ok(NetlinkAttributes { bytes })
    }

    /// All attributes in their order.
    pub fn iter(self) -> impl Iterator<Item = NetlinkAttribute<'a>> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (attribute, after) = split_attribute(rest).ok()?;
            rest = after;
            Some(attribute)
        })
    }

    /// The first attribute of a type.
    pub fn find(self, kind: u16) -> Option<NetlinkAttribute<'a>> {
        self.iter().find(|attribute| attribute.kind == kind)
    }

    /// The first attribute of a type that has to be there.
    ///
    /// # Errors
    /// [`MalformedNetlink::MissingAttribute`].
    pub fn require(self, kind: u16) -> Result<NetlinkAttribute<'a>, MalformedNetlink> {
        self.find(kind).ok_or(MalformedNetlink::MissingAttribute { kind })
    }
}

/// The first attribute, and what follows it. The last one may lack its padding.
fn split_attribute(bytes: &[u8]) -> Result<(NetlinkAttribute<'_>, &[u8]), MalformedNetlink> {
    let Some((&[l0, l1, k0, k1], _)) = bytes.split_first_chunk::<ATTRIBUTE_HEADER_BYTES>() else {
        return Err(MalformedNetlink::ShortHeader {
            expected: ATTRIBUTE_HEADER_BYTES,
            left: bytes.len(),
        });
    };
    let length = usize::from(u16::from_ne_bytes([l0, l1]));
    let kind = u16::from_ne_bytes([k0, k1]) & ATTRIBUTE_TYPE_MASK;
    let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length);
    let value =
        value.ok_or(MalformedNetlink::AttributeLength { kind, length, left: bytes.len() })?;
    let after = bytes.get(length.next_multiple_of(ATTRIBUTE_ALIGNMENT_BYTES)..).unwrap_or(&[]);
    Ok((NetlinkAttribute { kind, value }, after))
}

impl<'a> NetlinkAttribute<'a> {
    /// The attributes that it holds.
    ///
    /// # Errors
    /// As [`NetlinkAttributes::parse`].
    pub fn nested_attributes(self) -> Result<NetlinkAttributes<'a>, MalformedNetlink> {
        NetlinkAttributes::parse(self.value)
    }

    /// Its value as a number in host byte order.
    ///
    /// # Errors
    /// If it does not have four bytes.
    pub fn u32(self) -> Result<u32, MalformedNetlink> {
        self.fixed_bytes().map(u32::from_ne_bytes)
    }

    /// Its value as a number in network byte order.
    ///
    /// # Errors
    /// If it does not have two bytes.
    pub fn be16(self) -> Result<u16, MalformedNetlink> {
        self.fixed_bytes().map(u16::from_be_bytes)
    }

    /// Its value as a number of one byte.
    ///
    /// # Errors
    /// If it does not have one byte.
    pub fn u8(self) -> Result<u8, MalformedNetlink> {
        self.fixed_bytes().map(|[byte]| byte)
    }

    /// Its value as a number in network byte order.
    ///
    /// # Errors
    /// If it does not have four bytes.
    pub fn be32(self) -> Result<u32, MalformedNetlink> {
        self.fixed_bytes().map(u32::from_be_bytes)
    }

    /// Its value as a number in network byte order.
    ///
    /// # Errors
    /// If it does not have eight bytes.
    pub fn be64(self) -> Result<u64, MalformedNetlink> {
        self.fixed_bytes().map(u64::from_be_bytes)
    }

    /// Its value as bytes of a known number.
    ///
    /// # Errors
    /// If it has another number of bytes.
    pub fn fixed_bytes<const N: usize>(self) -> Result<[u8; N], MalformedNetlink> {
        let NetlinkAttribute { kind, value } = self;
        let wrong = MalformedNetlink::ValueLength { kind, length: value.len(), expected: N };
        value.try_into().map_err(|_| wrong)
    }

    /// Its value as text: up to its first NUL, bytes that are not UTF-8 replaced.
    pub fn to_text(self) -> String {
        let text = self.value.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Attributes under construction, after the fixed header of their message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeWriter {
    bytes: Vec<u8>,
    /// An attribute whose length does not fit in its 16 bits.
    too_long_type: Option<u16>,
}

impl AttributeWriter {
    /// Attributes after a fixed header.
    pub(super) fn after_header(header: &[u8]) -> AttributeWriter {
        let mut bytes = header.to_vec();
        bytes.resize(bytes.len().next_multiple_of(ATTRIBUTE_ALIGNMENT_BYTES), 0);
        AttributeWriter { bytes, too_long_type: None }
    }

    /// The header and the attributes, or the type of an attribute that is too long.
    pub(super) fn bytes_unless_too_long(&self) -> Result<&[u8], u16> {
        self.too_long_type.map_or(Ok(&self.bytes), Err)
    }

    /// Adds an attribute.
    pub fn put(&mut self, kind: u16, value: &[u8]) {
        let at = self.begin_attribute(kind);
        self.bytes.extend_from_slice(value);
        self.end_attribute(at);
    }

    /// Adds a number in network byte order.
    pub fn put_be32(&mut self, kind: u16, number: u32) {
        self.put(kind, &number.to_be_bytes());
    }

    /// Adds a number in network byte order.
    pub fn put_be64(&mut self, kind: u16, number: u64) {
        self.put(kind, &number.to_be_bytes());
    }

    /// Adds bytes of a number in network byte order, and marks them as such.
    pub fn put_with_network_order_flag(&mut self, kind: u16, number: &[u8]) {
        self.put(kind | NLA_F_NET_BYTEORDER, number);
    }

    /// Adds an attribute that holds text, with a NUL at its end.
    pub fn put_text(&mut self, kind: u16, text: &str) {
        let at = self.begin_attribute(kind);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.end_attribute(at);
    }

    /// Adds an attribute that holds attributes.
    pub fn put_nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        self.put_nested_with_header(kind, &[], fill);
    }

    /// Adds an attribute that holds a fixed header and attributes.
    pub fn put_nested_with_header(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Self),
    ) {
        let at = self.begin_attribute(kind | NESTED_FLAG);
        self.bytes.extend_from_slice(header);
        self.pad_to_alignment();
        fill(self);
        self.end_attribute(at);
    }

    /// Bytes of the fixed header and the attributes so far.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    fn begin_attribute(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    fn end_attribute(&mut self, at: usize) {
        match u16::try_from(self.bytes.len() - at) {
            Ok(length) => self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => {
                let kind = u16::from_ne_bytes([self.bytes[at + 2], self.bytes[at + 3]]);
                self.too_long_type.get_or_insert(kind & ATTRIBUTE_TYPE_MASK);
            }
        }
        self.pad_to_alignment();
    }

    fn pad_to_alignment(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ATTRIBUTE_ALIGNMENT_BYTES), 0);
    }
}

#[cfg(test)]
mod tests;
