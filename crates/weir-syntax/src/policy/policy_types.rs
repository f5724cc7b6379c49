//! The values of a policy.

use weir_model::{Family, FieldSet, Hook, Packet, PacketRegion, Span};

/// The tests of a policy, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirewallPolicy {
    /// At least one.
    pub tests: Vec<PolicyTest>,
}

/// A packet or a region, and the verdict that it must have.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyTest {
    /// The name of the group that it is in.
    pub group: Option<String>,
    /// Its own name; its words if it has none.
    pub name: String,
    /// Its words, with single spaces: `drop all iif wan0 tcp dport 22`.
    pub words: String,
    /// The verdict.
    pub expected: ExpectedVerdict,
    /// What is tested.
    pub subject: PolicyTestPackets,
    /// The hook of the filter table on the path, if the test gives it: FORWARD, INPUT or OUTPUT.
    pub via: Option<Hook>,
    /// Results of matches that no packet determines (`limit`, `owner`).
    pub assumed_results: Vec<AssumedMatchResult>,
    /// Modules and targets, as `-m` and `-j` spell them, that are assumed not to drop packets
    /// themselves (`hashlimit` without memory, `TCPMSS` without a route).
    pub assumed_not_to_drop: Vec<String>,
    /// Its bytes in the text.
    pub span: Span,
    /// Its line, from 1.
    pub line: usize,
}

/// The verdict that a test expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// The packet is accepted.
    Accept,
    /// It is dropped without notice.
    Drop,
    /// It is rejected; with this answer, if one is given.
    Reject(Option<&'static str>),
    /// It is dropped or rejected.
    Deny,
    /// It is handed over to a program or a local socket (`NFQUEUE`, `TPROXY`).
    HandedOver,
}

/// The result that a test assumes of all matches of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedMatchResult {
    /// The module, as `-m` spells it.
    pub module: String,
    /// Whether they match.
    pub matches: bool,
}

/// What a test is about.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyTestPackets {
    /// One packet.
    Packet {
        /// The packet.
        packet: Box<Packet>,
        /// The fields that the words give.
        given: FieldSet,
    },
    /// All packets of a region.
    Region {
        /// The packets, without the condition on their family.
        region: PacketRegion,
        /// Their family, if the words determine it; else those of the ruleset.
        family: Option<Family>,
        /// The fields that the words give.
        given: FieldSet,
    },
}
