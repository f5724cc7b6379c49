//! Options and results of a comparison.

use std::fmt;

use weir_model::{Family, Hook, Packet};
use weir_semantics::JourneyKind;
use weir_semantics::{OutcomeDifference, Verdict};

use crate::packet_sets::corner_case::CornerCaseKind;
use crate::packet_sets::region::{ComparedExamplePacket, Region};
use crate::packet_sets::variable_layout::VariableOrder;
use crate::packet_sets::witness::Witness;
use crate::reassembly_difference::ReassemblyDifference;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CompareLevel {
    /// The outcome of the packet.
    Verdict,
    /// In addition, the effects in order, the outgoing packet, and which stateful tests are
    /// evaluated in which order.
    #[default]
    Effects,
}

/// How much of the journey is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CompareScope {
    /// The whole journey, for each of the three kinds of journey.
    #[default]
    Journey,
    /// One hook alone.
    OneHook(Hook),
}

/// Which stateful tests of the two rulesets are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum StatefulTestPairing {
    /// Those of rules that credit the same original rules: of a ruleset and what passes made of
    /// it. Rules without credit are known by their text.
    #[default]
    ByCredit,
    /// Those of rules that say the same in the same table, the first of one the first of the
    /// other: of two texts.
    ByRuleText,
}

/// How to compare.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What is compared.
    pub level: CompareLevel,
    /// How far packets go.
    pub scope: CompareScope,
    /// Which stateful tests are the same.
    pub stateful_pairing: StatefulTestPairing,
    /// Memory for the diagrams of one family and path, in bytes.
    pub memory_bytes: usize,
    /// Steps for the whole comparison, over all families, paths and orders that are tried:
    /// requested nodes and, as far as lists take longer, elements of the lists in terminals. Steps
    /// are counted rather than time, so that the answer is the same on every machine. An eighth is
    /// for choosing the order; paths share the rest as [`ProofBudget`](crate::ProofBudget) states.
    pub steps_max: u64,
    /// How many regions of a difference are made.
    pub regions_max: usize,
    /// Conntrack is in use by other programs, whatever the rulesets require.
    pub conntrack_in_use: bool,
    /// Leave out packets whose transport header is truncated and TCP fragments at offset 1: forms
    /// that are no iptables treat them otherwise inherently.
    pub exclude_unreadable_headers: bool,
    /// Only this family; else those of which a ruleset is there.
    pub family: Option<Family>,
    /// Only this kind of journey; else all three.
    pub journey_kind: Option<JourneyKind>,
}

impl Default for CompareOptions {
    /// Effects of the journey, original rules, 2 GiB, 200 million steps, 10 regions.
    fn default() -> Self {
        CompareOptions {
            level: CompareLevel::default(),
            scope: CompareScope::default(),
            stateful_pairing: StatefulTestPairing::default(),
            memory_bytes: 2 << 30,
            steps_max: 200_000_000,
            regions_max: 10,
            conntrack_in_use: false,
            exclude_unreadable_headers: false,
            family: None,
            journey_kind: None,
        }
    }
}

/// The path that packets of a [`FamilyPathComparison`] take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparedPath {
    /// A journey.
    WholeJourney(JourneyKind),
    /// One hook.
    Hook(Hook),
    /// An IPv4 datagram to this host that arrived in fragments, from INPUT on: the fragments
    /// traversed PREROUTING, each with its own length, and left their mark.
    ReassembledInput,
}

impl fmt::Display for ComparedPath {
    /// `forward`, `FORWARD` for the hook alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ComparedPath::WholeJourney(JourneyKind::Forward) => "forward",
            ComparedPath::WholeJourney(JourneyKind::Input) => "input",
            ComparedPath::WholeJourney(JourneyKind::Output) => "output",
            ComparedPath::Hook(hook) => hook.chain_name(),
            ComparedPath::ReassembledInput => "input, reassembled from fragments",
        })
    }
}

/// What a comparison says, for each family and path.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// IPv4 first, then forward, input, output.
    pub parts: Vec<FamilyPathComparison>,
    /// Steps of all parts, and of choosing the order.
    pub steps: u64,
}

impl Comparison {
    /// Whether all parts are proven equal.
    pub fn is_equal(&self) -> bool {
        self.parts.iter().all(|p| matches!(p.verdict, ComparisonVerdict::Equal))
    }

    /// The parts that differ.
    pub fn differences(&self) -> impl Iterator<Item = (&FamilyPathComparison, &RulesetDifference)> {
        self.parts.iter().filter_map(|p| match &p.verdict {
            ComparisonVerdict::Differs(d) => Some((p, &**d)),
            _ => None,
        })
    }

    /// The parts that differ only in the outcome of fragments.
    pub fn reassembly_differences(
        &self,
    ) -> impl Iterator<Item = (&FamilyPathComparison, &ReassemblyDifference)> {
        self.parts.iter().filter_map(|p| match &p.verdict {
            ComparisonVerdict::ReassemblyDiffers(f) => Some((p, &**f)),
            _ => None,
        })
    }

    /// The parts of which only one packet is known to differ.
    pub fn differences_known_by_one_packet(
        &self,
    ) -> impl Iterator<Item = (&FamilyPathComparison, &ComparedExamplePacket)> {
        self.parts.iter().filter_map(|p| match &p.verdict {
            ComparisonVerdict::DiffersOnPacket { example, .. } => Some((p, &**example)),
            _ => None,
        })
    }

    /// The parts that could not be decided, and why.
    pub fn undecided_comparisons(&self) -> impl Iterator<Item = (&FamilyPathComparison, &str)> {
        self.parts.iter().filter_map(|p| match &p.verdict {
            ComparisonVerdict::Undecided { why } => Some((p, why.as_str())),
            _ => None,
        })
    }
}

/// The result for one family and path.
#[derive(Clone, Debug)]
pub struct FamilyPathComparison {
    /// The family.
    pub family: Family,
    /// The path.
    pub path: ComparedPath,
    /// Equal, different, or unknown.
    pub verdict: ComparisonVerdict,
    /// What it took.
    pub statistics: DiagramSizeAndSteps,
}

/// Whether two rulesets mean the same.
#[derive(Clone, Debug)]
pub enum ComparisonVerdict {
    /// For every packet and whatever is answered.
    Equal,
    /// There are packets for which they do not.
    Differs(Box<RulesetDifference>),
    /// Each packet is treated alike in both, but only one of them has fragments reassembled first.
    ReassemblyDiffers(Box<ReassemblyDifference>),
    /// There is a packet for which they do not; for which others was not found out.
    DiffersOnPacket {
        /// The packet.
        example: Box<ComparedExamplePacket>,
        /// Why no more was found out, in words.
        why: String,
    },
    /// It could not be decided.
    Undecided {
        /// The reason, in words.
        why: String,
    },
}

/// How two rulesets differ.
#[derive(Clone, Debug)]
pub struct RulesetDifference {
    /// Which part of all packets it is about, from 0 to 1.
    pub share: f64,
    /// How many headers (addresses, protocol, ports) that is.
    pub packet_count: f64,
    /// The regions, the largest first; at most as many as requested.
    pub regions: Vec<Region>,
    /// One of them, with the answers that its difference needs. It was sent through both rulesets.
    pub witness: Witness,
    /// What differs for the witness.
    pub difference: OutcomeDifference,
    /// The verdicts for the witness, before and after.
    pub verdicts: (Verdict, Verdict),
    /// Where the verdict itself changed, by what it was and what it is: the biggest first. Empty
    /// where only effects differ.
    pub verdict_changes: Vec<VerdictChange>,
    /// If the verdict is the same, but the effects are not.
    pub effect_change: Option<EffectChange>,
}

/// Packets whose verdict changed in one way.
#[derive(Clone, Debug)]
pub struct VerdictChange {
    /// Their verdict before.
    pub before: Verdict,
    /// Their verdict after.
    pub after: Verdict,
    /// Which part of all packets they are, from 0 to 1.
    pub share: f64,
    /// How many headers that is.
    pub packet_count: f64,
    /// Where they lie, the biggest first: without corner cases, unless there is nothing else.
    pub regions: Vec<Region>,
    /// What the regions omit.
    pub corner_cases: Vec<CornerCaseDifference>,
}

/// Packets with the same verdict, but other effects.
#[derive(Clone, Debug)]
pub struct EffectChange {
    /// Which part of all packets they are, from 0 to 1.
    pub share: f64,
    /// How many headers that is.
    pub packet_count: f64,
    /// Where they lie, the biggest first: without corner cases, unless there is nothing else.
    pub regions: Vec<Region>,
    /// What the regions omit.
    pub corner_cases: Vec<CornerCaseDifference>,
}

/// Packets of a difference that are distinguished from ordinary ones.
#[derive(Clone, Debug)]
pub struct CornerCaseDifference {
    /// Which packets.
    pub corner_case_kind: CornerCaseKind,
    /// Which part of all packets they are, from 0 to 1.
    pub share: f64,
    /// One of them; none where its difference hangs on a test that answers twice for one packet.
    pub example: Option<ComparedExamplePacket>,
}

impl VerdictChange {
    /// What was not accepted and is now.
    pub fn is_newly_allowed(&self) -> bool {
        self.before != Verdict::Accept && self.after == Verdict::Accept
    }

    /// What was accepted and is no longer.
    pub fn is_newly_denied(&self) -> bool {
        self.before == Verdict::Accept && self.after != Verdict::Accept
    }
}

/// What a part of a comparison took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiagramSizeAndSteps {
    /// Nodes of both diagrams at the end, shared ones once.
    pub nodes: usize,
    /// Most nodes at one time.
    pub nodes_peak: usize,
    /// Memory of the diagrams, in bytes.
    pub memory_bytes: usize,
    /// Steps, over all orders that were tried: see [`CompareOptions::steps_max`].
    pub steps: u64,
    /// Outcomes distinguished.
    pub outcomes: usize,
    /// The order of addresses and ports that was taken.
    pub order: VariableOrder,
}

/// Why a comparison failed. What could not be decided is not a failure:
/// [`ComparisonVerdict::Undecided`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The diagrams differ at a packet for which the interpreter sees no difference: a mistake of
    /// weir's.
    #[error("the diagrams differ at a packet for which the interpreter sees no difference: {0:?}")]
    WitnessNotReproduced(Box<Packet>),
    /// One of the two has a rule that the kernel refuses, as no rule before it makes what it needs.
    #[error(
        "the {refused_ruleset} ruleset does not load, the other does: no {tool} rule creates the {missing_object} \
         before the first rule that needs it"
    )]
    OneRulesetRefusedByKernel {
        /// `first` or `second`.
        refused_ruleset: &'static str,
        /// `iptables` or `ip6tables`.
        tool: &'static str,
        /// What is missing.
        missing_object: String,
    },
    /// Rules of one of the two configure an object in ways of which the kernel accepts only one.
    #[error(
        "rules of the {which} ruleset configure the {object} differently ({configurations}): the \
         kernel refuses the second of them; the other ruleset has no such rules"
    )]
    SharedObjectConflict {
        /// `first` or `second`.
        which: &'static str,
        /// The object.
        object: String,
        /// Its configurations as text.
        configurations: String,
    },
}
