//! Predicates as sets of packets: intersect, subtract, cover, disjoint.
//!
//! The linter needs the packets that are left for a rule, a pass needs to know whether two rules
//! may be exchanged, a back end needs the rules that can match a value. All of them use sets of
//! packets, which this crate provides. It has four levels, each built on the previous one.
//!
//! **Values of one field.** Rules test a number by intervals ([`IntervalSet`]), by bits under a
//! mask ([`BitPattern`]), or, mostly for addresses, by a [`Prefix`], which is both. Devices are
//! names and prefixes of names. [`predicate_relations`] decides for any two tests of a field
//! whether they exclude or imply each other.
//!
//! **Rules by their tests.** [`TestAlgebra`] decides from the tests of two rules alone: are they
//! disjoint, does one cover the other, may they be exchanged? It needs no memory and is
//! conservative; it serves passes that compare adjacent rules.
//!
//! **Rules as boxes.** A [`HyperRect`] has an interval, or a set of codes, on each axis. The axis
//! of the transport header keeps ports three-valued: they are present, or absent in a later
//! fragment, or the header is truncated and the packet dropped. [`BoxLowering`] turns a rule into
//! boxes ([`RulePacketBoxes`]): what it matches, what it drops by its evaluation, and whether that
//! is exact. Fields that a table changes during the traversal are never assumed to be known.
//!
//! **Runs of rules.** [`partition_run`] divides all packets into boxes on which a run behaves
//! uniformly: a deciding rule and the rules credited before it. [`split_elementary_intervals()`]
//! does that for one field, in the time of sorting. Both have a budget, because there can be
//! exponentially many boxes. A run ends at a [`BarrierReason`]: a rule whose packets cannot be
//! described as a set, or that must be evaluated exactly as often as before.
//!
//! Boxes suit single rules; they do not suit sets that many rules form together. For those, the
//! diagrams of `weir-diagram` cover every packet, at a higher cost.
//!
//! ```
//! use weir_model::{Family, Field};
//! use weir_partition::HyperRect;
//! let all = HyperRect::all_packets(Family::V4);
//! let web = all.restrict_to_interval(Field::Dport, (80, 80)).unwrap();
//! let site = all.restrict_to_interval(Field::Saddr, (0x0a00_0000, 0x0aff_ffff)).unwrap();
//! let mut left = Vec::new();
//! web.minus(&site, &mut left);
//! assert_eq!(left.len(), 2, "port 80 from below and from above 10.0.0.0/8");
//! assert!(left.iter().all(|rest| web.covers(rest) && !rest.intersects(&site)));
//! ```

#![forbid(unsafe_code)]

mod bit_pattern;
mod box_lowering;
mod box_partition;
mod elementary_intervals;
pub mod hyper_rect;
pub mod interval;
mod packet_box;
pub mod predicate_relations;
mod prefix;
mod rule_barrier;
mod test_algebra;

pub use self::bit_pattern::BitPattern;
pub use self::box_lowering::{AxislessTest, BOXES_PER_RULE_MAX, BoxLowering, RulePacketBoxes};
pub use self::box_partition::{BoxBudget, BoxDecision, PartitionError, RunBox, partition_run};
pub use self::elementary_intervals::{
    ElementaryIntervals, RuleListInterner, RuleListsTooLong, split_elementary_intervals,
};
pub use self::hyper_rect::{CodeAxis, CodeSet, HyperRect};
pub use self::interval::{Interval, IntervalSet};
pub use self::prefix::Prefix;
pub use self::rule_barrier::{
    BarrierReason, TableBarriers, can_drop_truncated, find_barrier_reason, is_stateful_rule,
    is_transport_header_or_hotdrop_test, only_counts_and_never_hotdrops,
};
pub use self::test_algebra::{
    TestAlgebra, is_disjoint_unnegated_device, take_tests_before_transport,
};
