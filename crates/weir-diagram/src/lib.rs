//! The meaning of rules for all packets at once: decision diagrams.
//!
//! [`Interpreter`](weir_semantics::Interpreter) evaluates one packet. A diagram represents all of
//! them: it tests one bit of the packet per node, and its terminals are the outcomes. Equal meaning
//! is then equality of diagrams, and a difference is a set of packets from which one can be picked.
//!
//! - [`Space`]: sets of packets as boolean functions. What a rule's tests match, unions, coverage,
//!   sizes, example packets, and regions in words.
//! - [`compare`]: compares two rulesets over the whole journey; they are proven equal, or the
//!   result has a packet that shows the difference.
//! - [`Lookup`]: the outcome of one packet according to the diagram, for comparison with another
//!   source.
//!
//! Modules, bottom up: `store` is the engine, with `operators` and `merging`; `layout` defines the
//! order of bits; `lower` and `members` turn tests and sets into boolean functions; `possible`
//! excludes packets that cannot exist; `encode` converts packets to bits and back. For whole
//! rulesets: `terminal` is a leaf of a diagram, `change` what rules do to a packet; `compose` is
//! sequential composition; `target`, `chain` and `journey` build the parts, and `runs` and
//! `library` save work; `compare` and `replay` compare, and `comparison` is the result.
//!
//! Not part of this crate: single packets and the meaning of a rule (the interpreter), counters
//! (compared packet by packet), and words for people (`weir-review`).
//!
//! ```
//! use weir_model::{Family, Firewall, Rule, Target};
//! use weir_diagram::{At, Space};
//!
//! let firewall = Firewall::default();
//! let mut space = Space::new(Family::V4, &firewall);
//! let mut rule = Rule::new(Target::Drop);
//! rule.base.proto = Some(weir_model::ProtoMatch { negated: false, proto: 17 });
//! let udp = space.of_rule(&rule, At::ANYWHERE)?;
//! let everything = space.of_rule(&Rule::new(Target::Drop), At::ANYWHERE)?;
//! assert!(space.implies(udp, everything)?);
//! assert!(!space.implies(everything, udp)?);
//! let witness = space.witness(udp)?.expect("there are udp packets");
//! assert_eq!(witness.packet.proto, 17);
//! # Ok::<(), weir_diagram::Full>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
mod agreement;
mod assembled;
mod at;
mod chain;
mod change;
mod compare;
mod comparison;
mod compose;
mod corner;
mod difference;
mod encode;
mod fragments;
mod journey;
mod layout;
mod library;
mod lookup;
mod lower;
mod members;
mod merging;
mod operators;
mod order;
mod place;
mod possible;
mod presence;
#[cfg(test)]
mod reference_bdd;
mod region;
mod replay;
mod runs;
mod share;
mod space;
mod stateful_identity;
mod store;
mod target;
mod terminal;
mod variable;
mod witness;
mod words;

pub use self::at::At;
pub use self::compare::{compare, compare_with};
pub use self::comparison::{
    CompareError, CompareLevel, CompareOptions, CompareScope, ComparedPart, ComparedPath,
    Comparison, ComparisonVerdict, CornerCase, EffectChange, Identity, RulesetDifference,
    Statistics, VerdictChange,
};
pub use self::corner::Corner;
pub use self::fragments::Fragments;
pub use self::layout::Order;
pub use self::lookup::{Heard, Lookup, NO_BITS, RecordingOracle, TOO_LARGE, TWO_ANSWERS};
pub use self::region::{ExamplePacket, Region, RegionSize, Values};
pub use self::replay::Replay;
pub use self::space::{PacketSet, Space, SpaceOptions, device_words};
pub use self::store::Full;
pub use self::witness::{Assumption, Witness};
