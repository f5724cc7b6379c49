//! How nft loads and compares a value.
//!
//! A row for each [`LoadExpression`]: the expression that loads it, the number of its data type in
//! nft (`enum datatypes` in nftables include/datatype.h), its byte order in the register, and how
//! nft writes down what the key of an unnamed set is (`typeof`), which `nft list` needs to print
//! elements. Values were taken from what nft 1.0.6 loads.

use weir_model::Family;
use weir_model::nft::LoadExpression;

use super::expression_list::{ExpressionList, PayloadBase, PayloadPlace};
use super::userdata::UserdataWriter;

/// `TYPE_INTEGER`: a number without a type of its own.
const TYPE_INTEGER: u32 = 4;
const TYPE_IPADDR: u32 = 7;
const TYPE_IP6ADDR: u32 = 8;
const TYPE_ETHERADDR: u32 = 9;
const TYPE_INET_PROTOCOL: u32 = 12;
const TYPE_INET_SERVICE: u32 = 13;
const TYPE_ICMP_TYPE: u32 = 14;
const TYPE_TCP_FLAG: u32 = 15;
const TYPE_MARK: u32 = 19;
const TYPE_CT_STATE: u32 = 26;
const TYPE_CT_STATUS: u32 = 28;
const TYPE_ICMP6_TYPE: u32 = 29;
const TYPE_PKTTYPE: u32 = 31;
const TYPE_FIB_ADDR: u32 = 38;
const TYPE_IFNAME: u32 = 41;

/// `enum nft_fib_result`.
pub(super) const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;

// `enum nft_meta_keys`.
const NFT_META_LEN: u32 = 0;
pub(super) const NFT_META_PRIORITY: u32 = 2;
pub(super) const NFT_META_MARK: u32 = 3;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
pub(super) const NFT_META_IIFTYPE: u32 = 8;
pub(super) const NFT_META_L4PROTO: u32 = 16;
const NFT_META_PKTTYPE: u32 = 19;

// `enum nft_ct_keys`.
const NFT_CT_STATE: u32 = 0;
pub(super) const NFT_CT_STATUS: u32 = 2;
pub(super) const NFT_CT_MARK: u32 = 3;

/// Bytes of a device name in a register.
pub(super) const DEVICE_NAME_BYTES: usize = 16;

/// The order of a number's bytes in its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterByteOrder {
    Host,
    Network,
}

/// What loads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSource {
    Meta(u32),
    Ct { key: u32, direction: Option<u8> },
    Payload(PayloadPlace),
}

/// A condition for loading a value; nft inserts its test if the rule has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadDependency {
    /// The transport protocol.
    L4Proto(u8),
    /// The packet came from an Ethernet device.
    EthernetLink,
}

/// How a value is loaded and compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedValue {
    pub source: ValueSource,
    /// Bytes.
    pub len: usize,
    pub byte_order: RegisterByteOrder,
    /// nft's number of its data type.
    pub data_type: u32,
    pub dependency: Option<LoadDependency>,
    /// Mask applied after loading, if any.
    pub mask: Option<u128>,
    typeof_description: TypeofDescription,
}

/// The description of a value in `typeof`.
#[derive(Clone, Copy, Debug)]
enum TypeofDescription {
    /// A field of a header, by nft's numbers of both; `len_bits` if it has no data type of its own.
    HeaderField {
        header: u32,
        field: u32,
        len_bits: Option<u32>,
    },
    /// `@th,0,24`.
    RawPayload(PayloadPlace),
    Meta(u32),
    Ct(u32),
    /// The type of the route selected by these flags.
    RouteType(u32),
    /// No `typeof`: an expression with an operator.
    Unnamed,
}

impl LoadedValue {
    pub(super) fn of(load: LoadExpression, family: Family) -> LoadedValue {
        let v4 = family == Family::V4;
        let link = |offset, len| PayloadPlace { base: PayloadBase::Link, offset, len };
        let network = |offset, len| PayloadPlace { base: PayloadBase::Network, offset, len };
        let transport = |offset, len| PayloadPlace { base: PayloadBase::Transport, offset, len };
        // nft's numbers of headers (`enum proto_desc_id`) and their fields.
        const HEADER_ICMP: u32 = 4;
        const HEADER_TCP: u32 = 8;
        const HEADER_TH: u32 = 11;
        const HEADER_IP: u32 = 12;
        const HEADER_IP6: u32 = 13;
        const HEADER_ICMP6: u32 = 14;
        const HEADER_ETHER: u32 = 17;
        let address = |v4_offset, v4_field, v6_offset, v6_field| match family {
            Family::V4 => field(network(v4_offset, 4), TYPE_IPADDR, HEADER_IP, v4_field),
            Family::V6 => field(network(v6_offset, 16), TYPE_IP6ADDR, HEADER_IP6, v6_field),
        };
        match load {
            LoadExpression::Iifname => meta(NFT_META_IIFNAME, DEVICE_NAME_BYTES, TYPE_IFNAME),
            LoadExpression::Oifname => meta(NFT_META_OIFNAME, DEVICE_NAME_BYTES, TYPE_IFNAME),
            LoadExpression::L4proto => meta(NFT_META_L4PROTO, 1, TYPE_INET_PROTOCOL),
            LoadExpression::Mark => meta(NFT_META_MARK, 4, TYPE_MARK),
            LoadExpression::MetaLength => meta(NFT_META_LEN, 4, TYPE_INTEGER),
            LoadExpression::PktType => meta(NFT_META_PKTTYPE, 1, TYPE_PKTTYPE),
            LoadExpression::CtState => ct(NFT_CT_STATE, TYPE_CT_STATE),
            LoadExpression::CtStatus => ct(NFT_CT_STATUS, TYPE_CT_STATUS),
            LoadExpression::CtMark => ct(NFT_CT_MARK, TYPE_MARK),
            LoadExpression::Saddr => address(12, 11, 8, 8),
            LoadExpression::Daddr => address(16, 12, 24, 9),
            LoadExpression::Sport => field(transport(0, 2), TYPE_INET_SERVICE, HEADER_TH, 1),
            LoadExpression::Dport => field(transport(2, 2), TYPE_INET_SERVICE, HEADER_TH, 2),
            // nft lists the first two bytes as a source port.
            LoadExpression::IcmpTypeCode => field(transport(0, 2), TYPE_INET_SERVICE, HEADER_TH, 1),
            LoadExpression::TcpFlags => field(transport(13, 1), TYPE_TCP_FLAG, HEADER_TCP, 7)
                .with_dependency(LoadDependency::L4Proto(6)),
            LoadExpression::IcmpType if v4 => {
                field(transport(0, 1), TYPE_ICMP_TYPE, HEADER_ICMP, 1)
                    .with_dependency(LoadDependency::L4Proto(1))
            }
            LoadExpression::IcmpType => field(transport(0, 1), TYPE_ICMP6_TYPE, HEADER_ICMP6, 1)
                .with_dependency(LoadDependency::L4Proto(58)),
            LoadExpression::EtherSaddr => field(link(6, 6), TYPE_ETHERADDR, HEADER_ETHER, 2)
                .with_dependency(LoadDependency::EthernetLink),
            LoadExpression::Ttl if v4 => number(network(8, 1), HEADER_IP, 8),
            LoadExpression::Ttl => number(network(7, 1), HEADER_IP6, 7),
            LoadExpression::TransportFirstThreeBytes => raw(transport(0, 3)),
            LoadExpression::Tos if v4 => raw(network(1, 1)),
            LoadExpression::Tos => raw(network(0, 2)),
            LoadExpression::Ipv4FragmentOffset => LoadedValue {
                mask: Some(0x1fff),
                typeof_description: TypeofDescription::Unnamed,
                ..raw(network(6, 2))
            },
        }
    }

    /// The user or group of the socket, by its key of `meta`.
    pub(super) fn socket_owner(key: u32) -> LoadedValue {
        meta(key, 4, TYPE_INTEGER)
    }

    /// A part of the connection's addresses, by its key of `ct`.
    pub(super) fn ct_tuple(key: u32, direction: u8, len: usize) -> LoadedValue {
        LoadedValue {
            source: ValueSource::Ct { key, direction: Some(direction) },
            len,
            byte_order: RegisterByteOrder::Network,
            typeof_description: TypeofDescription::Unnamed,
            ..meta(key, len, TYPE_INTEGER)
        }
    }

    /// The type of the route that `fib` finds; its expression loads it.
    pub(super) fn fib_type(flags: u32) -> LoadedValue {
        LoadedValue {
            typeof_description: TypeofDescription::RouteType(flags),
            ..meta(0, 4, TYPE_FIB_ADDR)
        }
    }

    fn with_dependency(self, dependency: LoadDependency) -> LoadedValue {
        LoadedValue { dependency: Some(dependency), ..self }
    }

    /// Bytes of a value in the register.
    pub(super) fn bytes_of(&self, value: u128) -> Vec<u8> {
        match self.byte_order {
            RegisterByteOrder::Host => host_order_bytes(value, self.len),
            RegisterByteOrder::Network => self.network_bytes_of(value),
        }
    }

    /// Bytes of a value in network byte order, in which ranges are compared.
    pub(super) fn network_bytes_of(&self, value: u128) -> Vec<u8> {
        value.to_be_bytes()[16 - self.len..].to_vec()
    }

    /// Whether ranges are compared only after the register was converted to network byte order.
    pub(super) fn is_converted_for_ranges(&self) -> bool {
        self.byte_order == RegisterByteOrder::Host && self.len == 4
    }

    /// Loads the value, with its mask.
    pub(super) fn push_load(&self, expressions: &mut ExpressionList<'_>, register: u32) {
        match self.source {
            ValueSource::Meta(key) => expressions.push_meta_load(key, register),
            ValueSource::Ct { key, direction } => {
                expressions.push_ct_load(key, direction, register);
            }
            ValueSource::Payload(place) => expressions.push_payload_load(place, register),
        }
        if let Some(mask) = self.mask {
            let mask = self.bytes_of(mask);
            expressions.push_bitwise(register, &mask, &vec![0; mask.len()]);
        }
    }

    /// Writes what nft calls the value (`NFTNL_UDATA_SET_KEY_TYPEOF`): a kind of expression, and
    /// its own description.
    pub(super) fn put_typeof(&self, userdata: &mut UserdataWriter) {
        const NFTNL_UDATA_SET_KEY_TYPEOF: u8 = 3;
        const NFTNL_UDATA_SET_TYPEOF_EXPR: u8 = 0;
        const NFTNL_UDATA_SET_TYPEOF_DATA: u8 = 1;
        const KIND_PAYLOAD: u32 = 7;
        const KIND_META: u32 = 9;
        const KIND_CT: u32 = 12;
        const KIND_FIB: u32 = 26;
        let mut description = UserdataWriter::default();
        let kind = match self.typeof_description {
            TypeofDescription::Unnamed => return,
            TypeofDescription::Meta(key) => {
                description.put_number(0, key);
                KIND_META
            }
            TypeofDescription::Ct(key) => {
                const NO_DIRECTION: u32 = u32::MAX;
                description.put_number(0, key);
                description.put_number(1, NO_DIRECTION);
                KIND_CT
            }
            TypeofDescription::RouteType(flags) => {
                description.put_number(0, NFT_FIB_RESULT_ADDRTYPE);
                description.put_number(1, flags);
                KIND_FIB
            }
            TypeofDescription::HeaderField { header, field, len_bits } => {
                description.put_number(0, header);
                description.put_number(1, field);
                if let Some(len_bits) = len_bits {
                    description.put_number(4, len_bits);
                }
                KIND_PAYLOAD
            }
            TypeofDescription::RawPayload(place) => {
                // Headers are counted from 1 here; offset and length in bits.
                description.put_number(0, 0);
                description.put_number(1, 0);
                description.put_number(2, place.base as u32 + 1);
                description.put_number(3, place.offset * 8);
                description.put_number(4, place.len * 8);
                KIND_PAYLOAD
            }
        };
        let mut expression = UserdataWriter::default();
        expression.put_number(NFTNL_UDATA_SET_TYPEOF_EXPR, kind);
        expression.put_nested(NFTNL_UDATA_SET_TYPEOF_DATA, &description);
        userdata.put_nested(NFTNL_UDATA_SET_KEY_TYPEOF, &expression);
    }
}

/// The last bytes of a number, in the byte order of the host.
pub(super) fn host_order_bytes(value: u128, len: usize) -> Vec<u8> {
    match cfg!(target_endian = "little") {
        true => value.to_le_bytes()[..len].to_vec(),
        false => value.to_be_bytes()[16 - len..].to_vec(),
    }
}

fn meta(key: u32, len: usize, data_type: u32) -> LoadedValue {
    LoadedValue {
        source: ValueSource::Meta(key),
        len,
        byte_order: RegisterByteOrder::Host,
        data_type,
        dependency: None,
        mask: None,
        typeof_description: TypeofDescription::Meta(key),
    }
}

fn ct(key: u32, data_type: u32) -> LoadedValue {
    let (source, typeof_description) =
        (ValueSource::Ct { key, direction: None }, TypeofDescription::Ct(key));
    LoadedValue { source, typeof_description, ..meta(key, 4, data_type) }
}

fn field(place: PayloadPlace, data_type: u32, header: u32, field: u32) -> LoadedValue {
    LoadedValue {
        source: ValueSource::Payload(place),
        len: place.len as usize,
        byte_order: RegisterByteOrder::Network,
        data_type,
        dependency: None,
        mask: None,
        typeof_description: TypeofDescription::HeaderField { header, field, len_bits: None },
    }
}

/// A field that has no data type of its own.
fn number(place: PayloadPlace, header: u32, header_field: u32) -> LoadedValue {
    let len_bits = Some(place.len * 8);
    let typeof_description =
        TypeofDescription::HeaderField { header, field: header_field, len_bits };
    LoadedValue { typeof_description, ..field(place, TYPE_INTEGER, header, header_field) }
}

fn raw(place: PayloadPlace) -> LoadedValue {
    LoadedValue {
        typeof_description: TypeofDescription::RawPayload(place),
        ..field(place, TYPE_INTEGER, 0, 0)
    }
}
