//! From a real ruleset: a chain as look-ups that answer as the interpreter does.
//!
//! A classifier finds the filters that a packet matches. A chain of iptables is more than filters:
//! rules jump, return, change the packet, keep a state, and drop truncated packets that they do not
//! match. A [`LookupProgram`] divides a chain into what look-ups find and what has to be done with
//! it.
//!
//! **Boxes.** `weir-partition` describes the packets of a rule as boxes; a box becomes one or
//! several filters over the words that the rules of a stretch test ([`KeyLayout`]). Fields of few
//! values become classes ([`AxisClasses`]), tests without an axis (masks with holes, sets) a bit
//! each.
//!
//! **Entries.** A look-up finds all entries that match, in the order of the rules
//! ([`LookupEntry`]). A rule whose tests are boxes has an entry that means that it matches. A rule
//! that keeps a state, or tests what no field says, has an entry for the packets that pass its
//! tests before that one: it is a candidate, evaluated at its place and exactly as often as in the
//! chain. So such a rule does not end the look-up; only a rule that tests a field which an earlier
//! one writes does ([`chain_flattener`]).
//!
//! **Structures.** [`LookupStructures`] has a structure of an [`Engine`](crate::Engine) for each
//! stretch. [`LookupStructures::traverse`] gives a packet's verdict and the rules that count it.
//! What it does not know itself (the target MARK, the match `limit`) it asks a [`RuleEvaluator`],
//! which is the interpreter; this crate does not define the meaning of a rule a second time.

mod axis_classes;
mod chain_flattener;
mod key_layout;
mod lookup_entry;
mod lookup_program;
mod lookup_structures;
mod lowered_rule;
mod multi_word_numbers;

pub use self::axis_classes::AxisClasses;
pub use self::chain_flattener::FlattenLimits;
pub use self::key_layout::{KeyLayout, KeyPart};
pub use self::lookup_entry::{END_OF_CHAIN, EntryContinuation, FoundEntryMeaning, LookupEntry};
pub use self::lookup_program::{ChainLookups, LookupProgram, LookupProgramError, LookupStretch};
pub use self::lookup_structures::{
    LookupBuildError, LookupOutcome, LookupStructures, LookupVerdict, RuleEvaluation, RuleEvaluator,
};
pub use self::lowered_rule::EvaluationReason;
