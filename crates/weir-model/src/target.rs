//! Targets of a rule.

use crate::rule_match::{OpaqueExtension, TypedExtensionOption};
use crate::shared_name::SharedName;

/// The events of `-j CT --ctevents`, by the bit that they have (enum ip_conntrack_events of
/// include/uapi/linux/netfilter/nf_conntrack_common.h).
pub const CT_EVENT_NAMES: [&str; 10] = [
    "new",
    "related",
    "destroy",
    "reply",
    "assured",
    "protoinfo",
    "helper",
    "mark",
    "natseqinfo",
    "secmark",
];

/// Target of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// No target: the rule only counts.
    None,
    /// `-j ACCEPT`: ends this table at this hook.
    Accept,
    /// `-j DROP`.
    Drop,
    /// `-j RETURN`: back to the caller, or the policy in a built-in chain.
    Return,
    /// `-j chain`.
    Jump(SharedName),
    /// `-g chain`: as a jump, but what the chain does not decide returns to the caller's caller.
    Goto(SharedName),
    /// `-j REJECT --reject-with WORD`: drops, and answers.
    Reject(&'static str),
    /// Hands the packet to user space or a local socket (`NFQUEUE`, `QUEUE`, `TPROXY`, `SYNPROXY`),
    /// from where it may return to the next table (`SYNPROXY`: the next rule): module and options.
    Divert(Box<ExtensionTarget>),
    /// Address translation: ends the nat table.
    Nat(Box<NatTarget>),
    /// Does something, and the traversal continues with the next rule.
    Effect(Box<Effect>),
    /// A target that weir does not know; whether it ends the traversal is not known either.
    Opaque(Box<OpaqueExtension>),
}

/// An extension target by name and typed options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtensionTarget {
    /// Name, as in `-j LOG`.
    pub module: &'static str,
    /// Options with typed values, in the order `iptables-save` prints them.
    pub options: Vec<TypedExtensionOption>,
}

/// Targets of the nat table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NatTarget {
    /// `DNAT --to-destination`.
    Dnat(NatRange),
    /// `SNAT --to-source`.
    Snat(NatRange),
    /// `MASQUERADE`, with ports where given.
    Masquerade(NatRange),
    /// `REDIRECT`, with ports where given.
    Redirect(NatRange),
    /// `NETMAP --to net`: address and mask.
    Netmap(crate::Addr, crate::Addr),
}

/// What an address translation may choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NatRange {
    /// Lowest and highest address.
    pub addrs: Option<(crate::Addr, crate::Addr)>,
    /// Lowest and highest port.
    pub ports: Option<(u16, u16)>,
    /// Base port of a shifted range (`1000-2000/80`).
    pub base_port: Option<u16>,
    /// `--random`.
    pub random: bool,
    /// `--random-fully`.
    pub random_fully: bool,
    /// `--persistent`.
    pub persistent: bool,
}

/// A target after which the traversal continues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// `MARK`: `mark = (mark & !mask) ^ value` (`--set-xmark`; the other forms are spelled so).
    Mark {
        /// Bits to flip in after clearing.
        xor_value: u32,
        /// Bits to clear.
        clear_mask: u32,
    },
    /// `NOTRACK`: the packet becomes UNTRACKED where it has no entry yet.
    Notrack,
    /// `CT --notrack`: the same by another spelling, which `iptables-save` keeps.
    CtNotrack {
        /// The other options of the rule. `xt_ct_tg_check` (net/netfilter/xt_CT.c) does not
        /// evaluate them: no template is made, and connection tracking is not enabled.
        ignored_options: Vec<TypedExtensionOption>,
    },
    /// `CLASSIFY --set-class major:minor`.
    Classify {
        /// Major and minor number.
        class: (u16, u16),
    },
    /// `TOS --set-tos value/mask`: `tos = (tos & !mask) ^ value`.
    Tos {
        /// Bits to flip in.
        xor_value: u8,
        /// Bits to clear.
        clear_mask: u8,
    },
    /// `DSCP --set-dscp`: 0 to 63.
    Dscp(u8),
    /// `TTL`/`HL`.
    Ttl {
        /// How.
        op: TtlOperation,
        /// By or to how much.
        value: u8,
    },
    /// Any other: `LOG`, `NFLOG`, `CONNMARK`, `CT`, `TCPMSS`, `CHECKSUM`, `SET`, `TEE`, `AUDIT`,
    /// `TRACE`, … Its module and options; nothing later in the walk depends on it except through
    /// conntrack, sets and the connection's mark.
    Other(ExtensionTarget),
}

/// What `TTL` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TtlOperation {
    /// `--ttl-set`.
    Set,
    /// `--ttl-inc`.
    Inc,
    /// `--ttl-dec`.
    Dec,
}

impl Target {
    /// True where the traversal continues with the next rule whatever the packet is.
    pub fn falls_through(&self) -> bool {
        matches!(self, Target::None | Target::Effect(_))
    }

    /// The chain that a jump or goto names.
    pub fn jump_target(&self) -> Option<&SharedName> {
        match self {
            Target::Jump(c) | Target::Goto(c) => Some(c),
            _ => None,
        }
    }
}
