//! Predicates as sets of packets: intersect, subtract, cover, disjoint.
//!
//! The linter asks which packets are left for a rule, a pass whether two rules may change places, a
//! back end which rules can match a value. All of them reason about sets of packets, and this crate
//! is where they do. It has four levels, each built on the one before.
//!
//! **Values of one field.** Rules test a number by intervals ([`IntervalSet`]), by bits under a
//! mask ([`BitPattern`]), or, addresses mostly, by a [`Prefix`], which is both. Devices are names
//! and prefixes of names. [`predicate`] answers for any two tests of a field whether they exclude
//! or imply each other.
//!
//! **Rules by their tests.** [`TestAlgebra`] answers for two rules what it can tell from their
//! tests alone: are they disjoint, does one cover the other, may they change places? It takes no
//! memory and is cautious; it serves passes that compare neighbours.
//!
//! **Rules as boxes.** A [`HyperRect`] has an interval, or a set of codes, on each axis. The axis
//! of the transport header keeps ports three-valued: they are there, or absent in a later fragment,
//! or the header is cut short and the packet dropped. [`Lowering`] turns a rule into boxes
//! ([`MatchSpace`]): what it matches, what it drops by looking at it, and whether that is exact.
//! What a table changes while a packet walks it is never taken for known.
//!
//! **Runs of rules.** [`partition`] cuts all packets into boxes over which a run does the same: a
//! deciding rule and the rules credited before it. [`stretches()`] does that for one field, in the
//! time of sorting. Both have a budget, because the boxes can be exponentially many. A run ends at
//! a [`Barrier`]: a rule of which no set of packets says what it matches, or that must stand
//! exactly as often as before.
//!
//! Boxes suit rules; they do not suit sets that many rules make together. Those are the diagrams of
//! `weir-diagram`, which see every packet and cost more.
//!
//! ```
//! use weir_model::{Family, Field};
//! use weir_partition::HyperRect;
//! let all = HyperRect::all(Family::V4);
//! let web = all.within(Field::Dport, (80, 80)).unwrap();
//! let site = all.within(Field::Saddr, (0x0a00_0000, 0x0aff_ffff)).unwrap();
//! let mut left = Vec::new();
//! web.minus(&site, &mut left);
//! assert_eq!(left.len(), 2, "port 80 from below and from above 10.0.0.0/8");
//! assert!(left.iter().all(|rest| web.holds(rest) && !rest.meets(&site)));
//! ```

#![forbid(unsafe_code)]

mod algebra;
mod barrier;
mod boxes;
pub mod interval;
mod match_space;
mod pattern;
mod point;
pub mod predicate;
mod prefix;
pub mod rect;
mod stretches;

pub use self::algebra::{TestAlgebra, approach, other_device};
pub use self::barrier::{Barrier, barrier, keeps_state, looks_at_transport, may_drop, only_counts};
pub use self::boxes::{BoxBudget, Decision, NotPartitioned, RunBox, partition};
pub use self::interval::{Interval, IntervalSet};
pub use self::match_space::{Atom, Lowering, MatchSpace};
pub use self::pattern::BitPattern;
pub use self::prefix::Prefix;
pub use self::rect::{CodeAxis, CodeSet, HyperRect};
pub use self::stretches::{ListsTooLong, RuleLists, Stretches, stretches};
