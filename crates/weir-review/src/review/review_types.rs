//! The values of a review. They serialise to JSON directly: docs/guide/json.md documents these
//! members.

use serde::Serialize;
use weir_model::{Family, Firewall, Packet, Rule, Span};

use crate::explain::TraceStepRow;

/// What a comparison says.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// The first ruleset, as it was named.
    pub before: String,
    /// The second one.
    pub after: String,
    /// `verdict`, or `effects` (the verdict and all effects).
    pub compared: &'static str,
    /// True where every part is proven equal, and no counter was seen to differ.
    #[serde(rename = "equal")]
    pub proven_equal: bool,
    /// What changed, the most important first.
    pub changes: Vec<TreatmentChange>,
    /// One for each family and path.
    pub parts: Vec<FamilyPathReview>,
    /// The counters as tested on packets, if requested.
    pub counters: Option<CounterComparison>,
    /// What is not part of the comparison, in sentences.
    pub not_compared: Vec<String>,
}

/// What kind of change it is; in the order of their importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreatmentChangeKind {
    /// What was not accepted and is now.
    NewlyAllowed,
    /// What was accepted and is no longer.
    NewlyDenied,
    /// Denied in another way than before.
    DeniedOtherwise,
    /// The same verdict, but other effects.
    Effects,
}

impl TreatmentChangeKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            TreatmentChangeKind::NewlyAllowed => "newly allowed",
            TreatmentChangeKind::NewlyDenied => "newly denied",
            TreatmentChangeKind::DeniedOtherwise => "denied otherwise",
            TreatmentChangeKind::Effects => "same verdict, other effects",
        }
    }
}

/// Packets of one family and path whose treatment changed in one way.
#[derive(Clone, Debug, Serialize)]
pub struct TreatmentChange {
    /// What changed.
    pub kind: TreatmentChangeKind,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// `forward`, `input`, `output`; a hook's name.
    pub path: String,
    /// Their verdict before; `None` for effects.
    #[serde(rename = "before")]
    pub verdict_before: Option<String>,
    /// Their verdict after.
    #[serde(rename = "after")]
    pub verdict_after: Option<String>,
    /// Which part of all packets they are; `None` if not all were found.
    pub share: Option<f64>,
    /// How many headers (addresses, protocol, ports) that is.
    pub headers: Option<f64>,
    /// Where they lie, the biggest first.
    pub regions: Vec<RegionReview>,
    /// Corner cases that are changed, too, and that regions omit.
    pub corner_cases: Vec<CornerCaseReview>,
}

/// Packets that do not differ in any tested field.
#[derive(Clone, Debug, Serialize)]
pub struct RegionReview {
    /// In words.
    pub packets: String,
    /// The same, field by field.
    pub fields: Vec<RegionFieldReview>,
    /// The number of addresses and ports, in words; empty if it is all of them.
    pub size: String,
    /// Which part of all packets they are.
    pub share: f64,
    /// How many headers that is.
    pub headers: f64,
    /// The rules that decide: of the example first, then of other packets that were tried.
    pub decided_by: Vec<DecisionsBeforeAndAfter>,
    /// One of the packets.
    pub example: Option<ExamplePacketReview>,
}

/// What the packets of a region have in one field.
#[derive(Clone, Debug, Serialize)]
pub struct RegionFieldReview {
    /// The field in the words of `--packet`, or a match as `iptables-save` prints it.
    pub name: String,
    /// Values, prefixes and ranges; empty where the name says it all.
    pub values: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// What decides a packet on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionsBeforeAndAfter {
    /// In the first ruleset.
    pub before: RulesetDecision,
    /// In the second one.
    pub after: RulesetDecision,
}

/// What decides a packet in one ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RulesetDecision {
    /// The outcome of the packet.
    pub verdict: String,
    /// The rule or policy; `None` if no rule does anything of what differs.
    pub rule: Option<LocatedRuleOrPolicy>,
    /// The rules that jumped there, the first one first.
    pub reached_by: Vec<LocatedRuleOrPolicy>,
}

impl RulesetDecision {
    pub(super) fn from_jumps_and_decider(
        verdict: String,
        mut rules: Vec<LocatedRuleOrPolicy>,
    ) -> RulesetDecision {
        let rule = rules.pop();
        RulesetDecision { verdict, rule, reached_by: rules }
    }
}

/// A rule or policy and its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocatedRuleOrPolicy {
    /// `iptables/filter/FORWARD/3`; of a rule that weir made, the original.
    pub place: String,
    /// The file, or the command that printed it.
    pub file: Option<String>,
    /// The line there, from 1.
    pub line: Option<usize>,
    /// The rule as `iptables-save` prints it.
    pub text: String,
}

impl LocatedRuleOrPolicy {
    pub(super) fn new(
        place: String,
        line: Option<(String, usize)>,
        text: String,
    ) -> LocatedRuleOrPolicy {
        let (file, line) = line.unzip();
        LocatedRuleOrPolicy { place, file, line, text }
    }
}

/// A corner case that a change also has.
#[derive(Clone, Debug, Serialize)]
pub struct CornerCaseReview {
    /// `truncated headers`, `later fragments`, `invalid packets`, `repeated first
    /// packets of translated connections`.
    pub packets: &'static str,
    /// Which part of all packets they are.
    pub share: f64,
    /// The rules that decide the example.
    pub decided_by: Option<DecisionsBeforeAndAfter>,
    /// One of them.
    pub example: Option<ExamplePacketReview>,
}

/// A packet that differs.
#[derive(Clone, Debug, Serialize)]
pub struct ExamplePacketReview {
    /// Its words, as `--packet` reads them.
    pub packet: String,
    /// Devices in it that represent others: `eth0 stands for any other device`.
    pub stands_for: Vec<String>,
    /// What is taken for granted of matches that the packet does not answer.
    pub given: Vec<String>,
    /// In what the two differ: `verdict`, `effects`, `packet`, `stateful`.
    pub differs_in: String,
    /// The packet itself.
    #[serde(skip)]
    pub witness_packet: Packet,
}

/// The result for one family and path.
#[derive(Clone, Debug, Serialize)]
pub struct FamilyPathReview {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// `forward`, `input`, `output`; a hook's name.
    pub path: String,
    /// `equal`, `differs` or `unknown`.
    pub answer: &'static str,
    /// Why it could not be decided; why fragments may differ, where no whole packet does; or the
    /// packet that differs, where none was found by proof.
    #[serde(rename = "why")]
    pub explanation: Option<String>,
    /// Which part of all packets differs, from 0 to 1; `None` if not all of them are known.
    pub share: Option<f64>,
    /// How many headers (addresses, protocol, ports) that is.
    pub headers: Option<f64>,
    /// How many packets were treated alike, where it could not be proven.
    pub packets_agreed: Option<u64>,
    /// The most important packet that differs, and its path through both.
    pub example: Option<PathsBeforeAndAfter>,
}

/// A packet's path through both rulesets.
#[derive(Clone, Debug, Serialize)]
pub struct PathsBeforeAndAfter {
    /// The packet.
    #[serde(flatten)]
    pub example: ExamplePacketReview,
    /// Its path through the first ruleset.
    pub before: PathThroughRuleset,
    /// Its path through the second one.
    pub after: PathThroughRuleset,
}

/// A packet's way through one ruleset.
#[derive(Clone, Debug, Serialize)]
pub struct PathThroughRuleset {
    /// The outcome of it.
    pub verdict: String,
    /// How many rules were tried.
    pub tried: u32,
    /// Every rule that was tried, every verdict of a table.
    pub steps: Vec<TraceStepRow>,
    /// The same for people: what matched, in lines.
    #[serde(skip)]
    pub text_lines: Vec<String>,
}

/// The counters as tested on packets: not proven.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CounterComparison {
    /// Packets sent through both.
    pub packets: u64,
    /// Seed of the random ones.
    pub seed: u64,
    /// Rules and policies that counted at least one of them.
    #[serde(rename = "counted")]
    pub counters_hit: usize,
    /// Rules and policies that counted otherwise, the largest difference first.
    pub differ: Vec<CounterDifference>,
}

/// A rule or policy that counted otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct CounterDifference {
    /// `iptables/filter/FORWARD/3`.
    #[serde(rename = "rule")]
    pub rule_place: String,
    /// Packets counted by the first ruleset.
    pub before: u64,
    /// And by the second.
    pub after: u64,
    /// One packet that only one of them counted.
    pub packet: String,
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct ReviewedRuleset<'a> {
    /// As it was named.
    pub name: &'a str,
    /// Its rules.
    pub firewall: &'a Firewall,
    /// The file and line of a rule or chain of a family; `None` for what weir made.
    pub locate_line: &'a dyn Fn(Span, Family) -> Option<(String, usize)>,
    /// The position of the original that a rule of weir's represents, if it is known.
    pub original_place: &'a dyn Fn(&Rule) -> Option<String>,
}

impl Review {
    /// Whether something could not be decided.
    pub fn has_undecided_parts(&self) -> bool {
        self.parts.iter().any(|p| p.answer == "unknown")
    }

    /// Whether something differs.
    pub fn has_differences(&self) -> bool {
        let counters = self.counters.as_ref().is_some_and(|c| !c.differ.is_empty());
        counters || self.parts.iter().any(|p| p.answer == "differs")
    }
}
