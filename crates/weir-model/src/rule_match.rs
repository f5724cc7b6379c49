//! Matches of a rule, as typed values.
//!
//! There are three kinds of match, by what a compiler may do with them. Header matches (each one a
//! variant of [`Match`]) test fields of the field table. [`StatefulMatch`] ones have a limit or a
//! list and must be evaluated exactly as often as before. [`UnmodelledInputMatch`] ones depend on
//! the host or on bytes that the field table does not model. A match of a module that weir does not
//! know is [`Match::Opaque`]: preserved verbatim, and never moved.

use crate::{Addr, Mac, SharedName};
use weir_packet::PktType;

/// The tests that every rule has room for (`struct ipt_ip`), evaluated before all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BaseMatch {
    /// `-s`.
    pub saddr: Option<AddrMatch>,
    /// `-d`.
    pub daddr: Option<AddrMatch>,
    /// `-i`.
    pub iif: Option<IfaceMatch>,
    /// `-o`.
    pub oif: Option<IfaceMatch>,
    /// `-p`.
    pub proto: Option<ProtoMatch>,
    /// `-f`.
    pub fragment: Option<FragmentMatch>,
}

/// `-s 192.0.2.0/24`: the address under the mask. Masks need not be contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddrMatch {
    /// `!`.
    pub negated: bool,
    /// Address, already under the mask.
    pub addr: Addr,
    /// Mask.
    pub mask: Addr,
}

/// `-i eth0`, `-i ppp+`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IfaceMatch {
    /// `!`.
    pub negated: bool,
    /// Name without the `+`.
    pub name: SharedName,
    /// A trailing `+`: any device whose name begins so, the empty name of a missing device
    /// included.
    pub is_prefix: bool,
}

/// `-p tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtoMatch {
    /// `!`.
    pub negated: bool,
    /// Protocol number; never 0, which means no test.
    pub proto: u8,
}

/// `-f`: second and later fragments (IPv4 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentMatch {
    /// `! -f`: heads and whole packets.
    pub negated: bool,
}

/// Ports from `lo` to `hi`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortSpan {
    /// Lowest port.
    pub lo: u16,
    /// Highest port.
    pub hi: u16,
}

/// A value with a `!` before it or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Negatable<T> {
    /// `!`.
    pub negated: bool,
    /// What is tested.
    pub value: T,
}

/// One match of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// `-m tcp`.
    Tcp {
        /// `--sport`.
        sport: Option<Negatable<PortSpan>>,
        /// `--dport`.
        dport: Option<Negatable<PortSpan>>,
        /// `--tcp-flags mask comp` (`--syn` is `FIN,SYN,RST,ACK SYN`).
        flags: Option<Negatable<TcpFlagsMatch>>,
        /// `--tcp-option`.
        option: Option<Negatable<u8>>,
    },
    /// `-m udp` (also for `udplite`).
    Udp {
        /// `--sport`.
        sport: Option<Negatable<PortSpan>>,
        /// `--dport`.
        dport: Option<Negatable<PortSpan>>,
    },
    /// `-m sctp`.
    Sctp {
        /// `--sport`.
        sport: Option<Negatable<PortSpan>>,
        /// `--dport`.
        dport: Option<Negatable<PortSpan>>,
        /// `--chunk-types`, verbatim.
        chunks: Option<Negatable<String>>,
    },
    /// `-m dccp`: ports; types and option verbatim.
    Dccp {
        /// `--sport`.
        sport: Option<Negatable<PortSpan>>,
        /// `--dport`.
        dport: Option<Negatable<PortSpan>>,
        /// `--dccp-types`.
        types: Option<Negatable<String>>,
        /// `--dccp-option`.
        option: Option<Negatable<u8>>,
    },
    /// `-m icmp` (v4) or `-m icmp6` (v6).
    Icmp(Negatable<IcmpTypeMatch>),
    /// `-m multiport`.
    Multiport {
        /// Which port.
        which: MultiportSelector,
        /// At most 15 slots, a range takes two.
        ports: Negatable<Vec<PortSpan>>,
    },
    /// `-m iprange`.
    IpRange {
        /// `--src-range`.
        src: Option<Negatable<(Addr, Addr)>>,
        /// `--dst-range`.
        dst: Option<Negatable<(Addr, Addr)>>,
    },
    /// `-m mac --mac-source`.
    Mac(Negatable<Mac>),
    /// `-m mark --mark value/mask`.
    Mark(Negatable<MaskedValue>),
    /// `-m connmark --mark value/mask`.
    ConnMark(Negatable<MaskedValue>),
    /// `-m state --state`: bits of [`ct_state`].
    State(Negatable<u16>),
    /// `-m conntrack`.
    Conntrack(Box<ConntrackMatch>),
    /// `-m length`.
    Length(Negatable<(u16, u16)>),
    /// `-m ttl` (v4) or `-m hl` (v6).
    Ttl {
        /// Which comparison.
        op: TtlComparison,
        /// Operand.
        value: u8,
    },
    /// `-m dscp`: 0 to 63.
    Dscp(Negatable<u8>),
    /// `-m tos --tos value/mask`.
    Tos(Negatable<(u8, u8)>),
    /// `-m pkttype`: unicast, broadcast or multicast.
    PktType(Negatable<PktType>),
    /// `-m set --match-set`.
    Set(SetMatch),
    /// `-m comment`: always true; a key for other programs.
    Comment(String),
    /// Keeps a budget or a memory.
    Stateful(Box<StatefulMatch>),
    /// Depends on the host, on time, or on bytes that no field models.
    UnmodelledInput(Box<UnmodelledInputMatch>),
    /// A module that weir does not know.
    Opaque(Box<OpaqueExtension>),
}

/// `--tcp-flags mask comp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpFlagsMatch {
    /// Bits that are tested.
    pub mask: u8,
    /// Of those, the bits that must be set.
    pub comp: u8,
}

/// `--icmp-type`: a type and a range of codes. Type 255 of IPv4 is any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IcmpTypeMatch {
    /// Type.
    pub kind: u8,
    /// Codes, both ends included.
    pub codes: (u8, u8),
}

/// Which of the two ports a test reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MultiportSelector {
    /// `--sports`.
    Source,
    /// `--dports`.
    Destination,
    /// `--ports`: one of the two.
    Either,
}

/// A value under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskedValue {
    /// Wanted bits.
    pub value: u32,
    /// Bits that are tested.
    pub mask: u32,
}

/// Bits of a conntrack state set, in the order `iptables-save` prints them.
pub mod ct_state {
    /// No entry.
    pub const INVALID: u16 = 1;
    /// Not answered yet.
    pub const NEW: u16 = 2;
    /// Part of another connection.
    pub const RELATED: u16 = 4;
    /// Answered.
    pub const ESTABLISHED: u16 = 8;
    /// `NOTRACK`.
    pub const UNTRACKED: u16 = 16;
    /// Source translated (only `-m conntrack`).
    pub const SNAT: u16 = 32;
    /// Destination translated (only `-m conntrack`).
    pub const DNAT: u16 = 64;
}

/// `-m conntrack` with all of its options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConntrackMatch {
    /// `--ctstate`: bits of [`ct_state`].
    pub state: Option<Negatable<u16>>,
    /// `--ctproto`.
    pub proto: Option<Negatable<u8>>,
    /// `--ctorigsrc`, as address and mask.
    pub orig_src: Option<AddrMatch>,
    /// `--ctorigdst`.
    pub orig_dst: Option<AddrMatch>,
    /// `--ctreplsrc`.
    pub repl_src: Option<AddrMatch>,
    /// `--ctrepldst`.
    pub repl_dst: Option<AddrMatch>,
    /// `--ctorigsrcport`.
    pub orig_sport: Option<Negatable<PortSpan>>,
    /// `--ctorigdstport`.
    pub orig_dport: Option<Negatable<PortSpan>>,
    /// `--ctreplsrcport`.
    pub repl_sport: Option<Negatable<PortSpan>>,
    /// `--ctrepldstport`.
    pub repl_dport: Option<Negatable<PortSpan>>,
    /// `--ctstatus`: bits of `IPS_*`; 0 is `NONE`.
    pub status: Option<Negatable<u32>>,
    /// `--ctexpire`, seconds.
    pub expire: Option<Negatable<(u32, u32)>>,
    /// `--ctdir`: true is ORIGINAL.
    pub original_dir: Option<bool>,
}

impl ConntrackMatch {
    /// The state set, where the match tests nothing else.
    pub fn sole_state_test(&self) -> Option<&Negatable<u16>> {
        let ConntrackMatch {
            state,
            proto: None,
            orig_src: None,
            orig_dst: None,
            repl_src: None,
            repl_dst: None,
            orig_sport: None,
            orig_dport: None,
            repl_sport: None,
            repl_dport: None,
            status: None,
            expire: None,
            original_dir: None,
        } = self
        else {
            return None;
        };
        state.as_ref()
    }
}

/// Comparison of `-m ttl` and `-m hl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TtlComparison {
    /// `--ttl-eq`.
    Eq,
    /// `! --ttl-eq`.
    Ne,
    /// `--ttl-lt`.
    Lt,
    /// `--ttl-gt`.
    Gt,
}

/// `-m set --match-set name dirs`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SetMatch {
    /// `!`.
    pub negated: bool,
    /// Name of the set.
    pub name: SharedName,
    /// One direction for each dimension: true is `src`.
    pub src_directions: Vec<bool>,
    /// Further options verbatim (`--return-nomatch`, `--packets-gt 5`, …).
    pub options: Vec<String>,
}

/// A stateful match: never moved, copied or merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatefulMatch {
    /// Module name, as in `-m limit`.
    pub module: &'static str,
    /// Its options with typed values, in the order `iptables-save` prints them.
    pub options: Vec<TypedExtensionOption>,
}

/// A match whose answer the packet's modelled fields do not give.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnmodelledInputMatch {
    /// Module name, as in `-m owner`.
    pub module: &'static str,
    /// Its options with typed values, in the order `iptables-save` prints them.
    pub options: Vec<TypedExtensionOption>,
}

/// One option of an extension with its typed value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypedExtensionOption {
    /// `!`.
    pub negated: bool,
    /// Name without dashes, as `iptables-save` prints it.
    pub name: &'static str,
    /// What follows it.
    pub value: ExtensionValue,
}

/// Address types of `-m addrtype`: route types (`RTN_*`), each at the bit that it has in the
/// kernel's match (xt_addrtype.h), which is the order in which iptables prints them.
pub const ADDRTYPE_NAMES: [&str; 12] = [
    "UNSPEC",
    "UNICAST",
    "LOCAL",
    "BROADCAST",
    "ANYCAST",
    "MULTICAST",
    "BLACKHOLE",
    "UNREACHABLE",
    "PROHIBIT",
    "THROW",
    "NAT",
    "XRESOLVE",
];

/// Value of an extension's option.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionValue {
    /// A flag: nothing follows.
    Flag,
    /// A number, printed in decimal.
    Number(u64),
    /// A number, printed in hexadecimal.
    Hex(u64),
    /// `lo:hi`, printed as one number where both are equal.
    Range(u64, u64),
    /// A value under a mask, printed as `0x…/0x…`.
    Masked(u64, u64),
    /// `10/sec`: a count, and a unit in milliseconds (1000, 60000, 3600000, 86400000).
    RateCountPerMilliseconds(u64, u64),
    /// A probability in units of 2^-31.
    Probability(u32),
    /// An address.
    Addr(Addr),
    /// An address and a mask.
    AddrAndMask(Addr, Addr),
    /// A word out of the module's own list.
    Keyword(&'static str),
    /// Words out of the module's own list, joined by commas.
    KeywordList(Vec<&'static str>),
    /// Any text, quoted where it needs it.
    Text(String),
    /// Bytes, printed as the string match does (`|6162|` if not printable).
    ByteString(Vec<u8>),
    /// A span of time as the module writes it, in the module's unit.
    DurationInModuleUnit(u64),
}

/// A match or target that weir does not know, preserved verbatim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueExtension {
    /// Module name.
    pub name: String,
    /// The words after it, unquoted, `!` included.
    pub words: Vec<String>,
}

/// An option whose argument is checked and left as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenOption {
    /// `!`.
    pub negated: bool,
    /// Name without dashes.
    pub name: &'static str,
    /// The word after it; none for a flag.
    pub argument: Option<String>,
}

impl From<WrittenOption> for TypedExtensionOption {
    fn from(written: WrittenOption) -> TypedExtensionOption {
        let value = written.argument.map_or(ExtensionValue::Flag, ExtensionValue::Text);
        TypedExtensionOption { negated: written.negated, name: written.name, value }
    }
}

impl OpaqueExtension {
    /// The words of options.
    pub fn from_written_options(module: &str, options: Vec<WrittenOption>) -> OpaqueExtension {
        let mut words = Vec::new();
        for option in options {
            if option.negated {
                words.push("!".to_owned());
            }
            words.push(format!("--{}", option.name));
            words.extend(option.argument);
        }
        OpaqueExtension { name: module.to_owned(), words }
    }
}
