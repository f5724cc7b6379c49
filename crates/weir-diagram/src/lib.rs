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
//! - `node_store` has the nodes, `operators` and `balanced_merge` combine diagrams;
//!   `variable_layout` is the order of bits, `free_variable` what packets do not determine;
//! - `test_lowering`, `presence` and `ipset_membership` turn tests and sets into boolean functions;
//!   `possible_packets` excludes packets that cannot exist; `encode` converts packets to bits and
//!   back; all of it is used through `packet_space`;
//! - `terminal` is what a diagram of rules ends in, `packet_change` what rules do to a packet,
//!   `compose` is sequential composition; `target`, `rule_and_chain_diagrams` and `journey` build
//!   rules, chains, and the tables of a path; `chain_cache` finds what was built before;
//! - `compare` compares two rulesets: `difference_slice` leaves out what cannot matter, `lockstep`,
//!   `common_chains` and `sequence_comparison` prove equality, `compared_pair` decides with whole
//!   diagrams; `difference`, `region` and `witness` describe what differs, as `comparison_types`;
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
mod aligned_rules;
mod altered_packets;
mod assumed_answers;
mod balanced_merge;
mod cell_ipsets;
mod cell_tests;
mod chain_cache;
mod changed_rule_witness;
mod common_chains;
mod compare;
mod compared_pair;
mod compared_ruleset;
mod comparison_types;
mod compose;
mod corner_case;
mod device_name_classes;
mod diagram_lookup;
mod difference;
mod difference_slice;
mod effects_after_opaque_tests_bound;
mod encode;
mod free_variable;
mod guarded_sequence;
mod hook_context;
mod ipset_element_bits;
mod ipset_membership;
mod ipv4_fragment_drops;
mod journey;
mod lockstep;
#[cfg(test)]
mod lockstep_agreement_tests;
#[cfg(test)]
mod lockstep_ipset_agreement_tests;
mod lockstep_proof;
mod lockstep_rules;
mod lockstep_section_diagrams;
mod match_and_field_descriptions;
mod merge_order;
mod node_store;
mod operators;
mod packet_cell;
mod packet_change;
mod packet_share;
mod packet_space;
mod paired_oracle;
mod possible_packets;
mod presence;
mod proof_budget;
mod proof_diagrams;
mod reassembly_difference;
#[cfg(test)]
mod reference_bdd;
mod region;
mod region_decision;
mod remaining_rules;
mod rule_and_chain_diagrams;
mod rule_field_use;
mod ruleset_slice;
mod same_rule_tests;
#[cfg(test)]
mod sequence_agreement_tests;
mod sequence_build;
mod sequence_comparison;
mod set_match_options;
#[cfg(test)]
mod slice_agreement_tests;
mod sorted_ipset_elements;
mod stateful_branches;
mod stateful_test_id;
mod table_evaluation_point;
mod target;
mod terminal;
mod test_lowering;
mod variable_layout;
mod variable_order_search;
mod witness;
mod witness_oracle;

pub use self::assumed_answers::RegionAssumptions;
pub use self::compare::{compare_firewalls, compare_with_progress};
pub use self::comparison_types::{
    CompareError, CompareLevel, CompareOptions, CompareScope, ComparedPath, Comparison,
    ComparisonVerdict, CornerCaseDifference, DiagramSizeAndSteps, EffectChange,
    FamilyPathComparison, RulesetDifference, StatefulTestPairing, VerdictChange,
};
pub use self::corner_case::CornerCaseKind;
pub use self::device_name_classes::DeviceNameClasses;
pub use self::diagram_lookup::{
    CONTRADICTORY_ANSWERS_REASON, DIAGRAM_TOO_LARGE_REASON, DiagramLookup, RecordedAnswers,
    RecordingOracle, UNREPRESENTABLE_PACKET_REASON,
};
pub use self::hook_context::HookContext;
pub use self::node_store::LimitReached;
pub use self::packet_space::{PacketSet, PacketSpace, PacketSpaceOptions};
pub use self::paired_oracle::PairedSeededOracle;
pub use self::proof_budget::ProofBudget;
pub use self::reassembly_difference::ReassemblyDifference;
pub use self::region::{ComparedExamplePacket, FieldValues, Region, RegionFieldSize};
pub use self::region_decision::{
    FailingPackets, JourneyVerdicts, RegionDecision, RegionDecisionError, RegionDecisionLimits,
    UndecidedPackets,
};
pub use self::stateful_test_id::{StatefulTestIdResolver, have_same_stateful_rule_counts};
pub use self::variable_layout::VariableOrder;
pub use self::witness::{Assumption, Witness};
pub use self::witness_oracle::WitnessOracle;
