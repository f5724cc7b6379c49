//! Look-ups of many keys with the best instructions that the processor has.

use super::batch_walk::{MatchSink, walk_keys};
use super::block::ClassifierBlock;
use super::bucket_rows::{ConstFiveTupleRowCounts, WordCountsByComparison};
use super::lane_comparisons::{LaneInstructions, PortableLanes};

/// Sets of instructions with their own walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// What every processor has.
    Portable,
    /// x86-64 with AVX2 and BMI2.
    Avx2,
    /// x86-64 with AVX-512 F, BW and VL.
    Avx512,
}

impl InstructionSet {
    /// Those that this processor has, the slowest first.
    pub fn available() -> Vec<InstructionSet> {
        let all = [InstructionSet::Portable, InstructionSet::Avx2, InstructionSet::Avx512];
        all.into_iter().filter(|instructions| instructions.is_available()).collect()
    }

    /// Whether this processor has them.
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        use std::is_x86_feature_detected as has;
        let has_avx2 = || has!("avx2") && has!("popcnt") && has!("bmi1") && has!("bmi2");
        match self {
            InstructionSet::Portable => true,
            InstructionSet::Avx2 => has_avx2(),
            InstructionSet::Avx512 => {
                has_avx2() && has!("avx512f") && has!("avx512bw") && has!("avx512vl")
            }
        }
    }

    /// Whether this processor has them.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_available(self) -> bool {
        self == InstructionSet::Portable
    }
}

/// Walks keys, row after row.
///
/// # Panics
/// If they are not whole rows, or the processor lacks the instructions.
pub(super) fn walk_keys_with_instructions<S: MatchSink>(
    instructions: InstructionSet,
    block: &ClassifierBlock,
    keys: &[u32],
    sink: &mut S,
) {
    assert!(keys.len().is_multiple_of(block.word_test_methods.len()), "whole keys");
    assert!(instructions.is_available(), "{instructions:?} on this processor");
    match instructions {
        InstructionSet::Portable => walk_with_lanes::<PortableLanes, S>(block, keys, sink),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has what the function enables, as `is_available` found.
        InstructionSet::Avx2 => unsafe { walk_with_avx2(block, keys, sink) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        InstructionSet::Avx512 => unsafe { walk_with_avx512(block, keys, sink) },
        #[cfg(not(target_arch = "x86_64"))]
        InstructionSet::Avx2 | InstructionSet::Avx512 => unreachable!("not available"),
    }
}

#[inline(always)]
fn walk_with_lanes<L: LaneInstructions, S: MatchSink>(
    block: &ClassifierBlock,
    keys: &[u32],
    sink: &mut S,
) {
    match block.rows.counts {
        WordCountsByComparison::FIVE_TUPLE => {
            walk_keys::<L, ConstFiveTupleRowCounts, S>(block, ConstFiveTupleRowCounts, keys, sink)
        }
        counts => walk_keys::<L, WordCountsByComparison, S>(block, counts, keys, sink),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn walk_with_avx2<S: MatchSink>(block: &ClassifierBlock, keys: &[u32], sink: &mut S) {
    walk_with_lanes::<super::avx2::Avx2Lanes, S>(block, keys, sink);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,popcnt,bmi1,bmi2")]
fn walk_with_avx512<S: MatchSink>(block: &ClassifierBlock, keys: &[u32], sink: &mut S) {
    walk_with_lanes::<super::avx512::Avx512Lanes, S>(block, keys, sink);
}
