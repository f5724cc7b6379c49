//! The meaning of rules for all packets at once: decision diagrams.
//!
//! [`Interpreter`](weir_semantics::Interpreter) answers for one packet. A diagram answers for all
//! of them: it asks one bit of the packet after the other and ends in what becomes of those
//! packets. Equal meaning is then equality of diagrams, and a difference is a set of packets to
//! pick one from.
//!
//! - [`Space`]: sets of packets as booleans. What a rule's tests hold for, unions, what is covered
//!   by what, how large it is, an example packet, and regions in words.
//! - [`compare`]: two rulesets over the whole journey, proven equal or with a packet that shows the
//!   difference.
//! - [`Lookup`]: what the diagram says of one packet, to be held against another witness.
//!
//! Inside, from the bottom up: `store` is the engine, with `operators` and `merging`; `layout` says
//! which bit stands where; `lower` and `members` turn tests and sets into booleans; `possible`
//! leaves out what no packet is; `encode` goes from packets to bits and back. For whole rulesets:
//! `terminal` is what a diagram ends in, `change` what rules do to a packet; `compose` puts one
//! piece of rules after another; `target`, `chain` and `journey` build those pieces, `runs` and
//! `library` save work at it; `compare` and `replay` compare, and `comparison` is what that says.
//!
//! Left out: single packets and the meaning of a rule, which are the interpreter's; what becomes of
//! the counters, which are compared packet by packet; words for people (`weir-review`).
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
