//! What a look-up finds: entries in the order of the rules, and what follows from each.

use weir_model::{Policy, RulePlaceInTable};

use super::lowered_rule::EvaluationReason;

/// As a place to resume at: the end of the chain.
pub const END_OF_CHAIN: u32 = u32::MAX;

/// An entry of a stretch. A packet that its filters match has what it says happen to it, unless an
/// earlier entry decided, or skips it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupEntry {
    /// The rule that it comes from.
    pub rule: RulePlaceInTable,
    /// What finding it means.
    pub meaning_if_found: FoundEntryMeaning,
    /// What follows, once the rule matches.
    pub then: EntryContinuation,
}

/// What it means for a packet that a look-up finds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundEntryMeaning {
    /// The rule matches, and counts.
    Match,
    /// The rule may match: it is evaluated.
    Candidate(EvaluationReason),
    /// The rule drops the packet, because it requires a transport header that is truncated. It does
    /// not count.
    DroppedForTruncatedHeader,
    /// The chain to which the rule led by goto has ended.
    GotoChainEnded,
}

/// What follows an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryContinuation {
    /// The next entry.
    NextEntry,
    /// The packet leaves the table.
    Decide(Policy),
    /// The target is applied; then the next entry, unless it decides.
    ApplyTarget,
    /// Entries before that one are skipped: RETURN. [`END_OF_CHAIN`] also skips the stretches that
    /// follow.
    ResumeAt(u32),
    /// Another chain has its own look-ups; entries before `resume_at` are skipped after it (goto).
    Call {
        /// Index of the chain: in the table, or in a [`LookupProgram`](super::LookupProgram).
        chain: u32,
        /// 0 after a jump, [`END_OF_CHAIN`] after a goto.
        resume_at: u32,
    },
}

impl LookupEntry {
    /// Whether no later entry matters to a packet for which this one is found.
    pub fn is_deciding(&self) -> bool {
        match self.meaning_if_found {
            FoundEntryMeaning::Candidate(_) | FoundEntryMeaning::GotoChainEnded => false,
            FoundEntryMeaning::DroppedForTruncatedHeader => true,
            FoundEntryMeaning::Match => matches!(self.then, EntryContinuation::Decide(_)),
        }
    }

    /// The same with another numbering of entries.
    pub(super) fn with_renumbered_resume_entries(self, place: impl Fn(u32) -> u32) -> LookupEntry {
        let then = match self.then {
            EntryContinuation::ResumeAt(at) => EntryContinuation::ResumeAt(place(at)),
            EntryContinuation::Call { chain, resume_at: at @ 1.. } => {
                EntryContinuation::Call { chain, resume_at: place(at) }
            }
            other => other,
        };
        LookupEntry { then, ..self }
    }
}
