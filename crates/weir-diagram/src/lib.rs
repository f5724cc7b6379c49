//! The meaning of rules for all packets at once: decision diagrams.
//!
//! [`Interpreter`](weir_semantics::Interpreter) evaluates one packet. A diagram represents all of
//! them: it tests one bit of the packet per node, and its terminals are the outcomes. Equal meaning
//! is then equality of diagrams, and a difference is a set of packets from which one can be picked.
//!
//! - [`PacketSpace`]: sets of packets as boolean functions. What a rule's tests match, unions,
//!   coverage, sizes, example packets, and regions in words.
//! - [`compare`]: compares two rulesets over the whole journey; they are proven equal, or the
//!   result has a packet that shows the difference.
//! - [`JourneyVerdicts`]: decides whether all packets of a region have the expected verdict.
//! - [`DiagramLookup`]: the outcome of one packet according to the diagram, for comparison with
//!   another source.
//!
//! Modules, bottom up:
//!
//! - `bdd`: the nodes of diagrams (`node_store`), and how diagrams are combined (`operators`,
//!   `balanced_merge`);
//! - `packet_sets`: `variable_layout` is the order of bits, `free_variable` what packets do not
//!   determine; `test_lowering`, `presence_and_field_predicates` and `ipset_membership` turn tests
//!   and sets into boolean functions; `possible_packets` excludes packets that cannot exist;
//!   `packet_bit_codec` converts packets to bits and back; `packet_space` is what the other modules
//!   use; `region` and `witness` describe sets of packets;
//! - `rule_diagrams`: `terminal` is what a diagram of rules ends in, `packet_change` what rules do
//!   to a packet, `compose` is sequential composition; `target`, `rule_and_chain_diagrams` and
//!   `journey` build rules, chains, and the tables of a path; `chain_cache` finds what was built
//!   before;
//! - `compare` compares two rulesets: `difference_slice` leaves out what cannot matter, `lockstep`,
//!   `common_chains` and `sequence_comparison` prove equality, `compared_pair` decides with whole
//!   diagrams; `outcome_changes` and `difference` describe what differs, as `comparison_types`;
//! - `region_decision` compares the verdicts of one ruleset with expected ones.
//!
//! Not part of this crate: single packets and the meaning of a rule (the interpreter), counters
//! (compared packet by packet), and words for people (`weir-review`).
//!
//! ```
//! use weir_model::{Family, Firewall, Rule, Target};
//! use weir_diagram::{HookContext, PacketSpace};
//!
//! let firewall = Firewall::default();
//! let mut space = PacketSpace::new(Family::V4, &firewall);
//! let mut rule = Rule::unconditional(Target::Drop);
//! rule.base.proto = Some(weir_model::ProtoMatch { negated: false, proto: 17 });
//! let udp = space.packets_matching_rule(&rule, HookContext::EVERYTHING_KNOWN)?;
//! let everything = space.packets_matching_rule(&Rule::unconditional(Target::Drop), HookContext::EVERYTHING_KNOWN)?;
//! assert!(space.is_subset(udp, everything)?);
//! assert!(!space.is_subset(everything, udp)?);
//! let witness = space.witness(udp)?.expect("there are udp packets");
//! assert_eq!(witness.packet.proto, 17);
//! # Ok::<(), weir_diagram::LimitReached>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
mod agreement_tests;
mod bdd;
mod common_chains;
mod compare;
mod compared_pair;
mod compared_ruleset;
mod comparison_types;
mod diagram_lookup;
mod difference;
mod difference_slice;
mod ipv4_fragment_drops;
mod lockstep;
mod outcome_changes;
mod packet_sets;
mod paired_oracle;
mod proof_budget;
mod reassembly_difference;
mod region_decision;
mod rule_diagrams;
mod rule_field_use;
mod ruleset_slice;
mod same_rule_tests;
mod sequence_comparison;
mod stateful_test_id;
mod variable_order_search;
mod witness_oracle;

pub use self::bdd::node_store::LimitReached;
pub use self::compare::{compare_firewalls, compare_with_progress};
pub use self::comparison_types::{
    CompareError, CompareLevel, CompareOptions, CompareScope, ComparedPath, Comparison,
    ComparisonVerdict, CornerCaseDifference, DiagramSizeAndSteps, EffectChange,
    FamilyPathComparison, RulesetDifference, StatefulTestPairing, VerdictChange,
};
pub use self::diagram_lookup::{
    CONTRADICTORY_ANSWERS_REASON, DIAGRAM_TOO_LARGE_REASON, DiagramLookup, RecordedAnswers,
    RecordingOracle, UNREPRESENTABLE_PACKET_REASON,
};
pub use self::packet_sets::corner_case::CornerCaseKind;
pub use self::packet_sets::device_name_classes::DeviceNameClasses;
pub use self::packet_sets::hook_context::HookContext;
pub use self::packet_sets::packet_space::{PacketSet, PacketSpace, PacketSpaceOptions};
pub use self::packet_sets::region::{ComparedExamplePacket, FieldValues, Region, RegionFieldSize};
pub use self::packet_sets::variable_layout::VariableOrder;
pub use self::packet_sets::witness::{Assumption, Witness};
pub use self::paired_oracle::PairedSeededOracle;
pub use self::proof_budget::ProofBudget;
pub use self::reassembly_difference::ReassemblyDifference;
pub use self::region_decision::assumed_answers::RegionAssumptions;
pub use self::region_decision::{
    FailingPackets, JourneyVerdicts, RegionDecision, RegionDecisionError, RegionDecisionLimits,
    UndecidedPackets,
};
pub use self::stateful_test_id::{
    StatefulTestIdResolver, have_same_stateful_rule_counts_by_credit,
};
pub use self::witness_oracle::WitnessOracle;
