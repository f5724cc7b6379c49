//! The meaning of a ruleset: the outcome of one packet's journey.
//!
//! [`Interpreter`] is the reference with which every form is compared; [`Oracle`] gives it the
//! answers that a packet's fields do not determine. [`nft`] evaluates the nft form,
//! [`trace`](mod@trace) records the steps of a journey. [`docs/semantics.md`] states the meaning in
//! words.
//!
//! Not part of this crate: all packets at once (`weir-diagram`), findings (`weir-lint`), generating
//! packets (`weir-traffic`), explanations (`weir-review`), and any kernel or back end: this crate
//! is the reference for their tests.
//!
//! [`docs/semantics.md`]: https://github.com/weir-fw/weir/blob/main/docs/semantics.md

#![forbid(unsafe_code)]

pub mod connmark;
mod effects;
mod entered_chains_limit;
pub mod interpreter;
pub mod ipset_definition_digests;
mod journey_kind;
pub mod nft;
pub mod oracle;
pub mod outcome;
pub mod question_digest;
mod set_membership;
pub mod shared_object_config_digests;
pub mod trace;

pub use interpreter::{Interpreter, SingleRuleOutcome};
pub use journey_kind::{JourneyKind, tables_at_hook};
pub use oracle::{
    AlwaysFalseOracle, ConnectionFactOfHost, NatQuestion, Oracle, OracleQuestion,
    PerRuleAnswerOracle, QuestionSubject, RuleAnswersTrueOracle, SeededOracle, UnknownWrite,
};
pub use outcome::{
    AnsweredQuestion, AppliedTarget, CountedObject, CounterHitWithCredit, CreditedCounter, Outcome,
    OutcomeDifference, TraversalLog, Verdict,
};
