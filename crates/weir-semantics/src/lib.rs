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

pub mod configured;
pub mod connmark;
pub mod digest;
mod effects;
mod entry;
pub mod interpreter;
pub mod nft;
pub mod oracle;
pub mod outcome;
mod sets;
pub mod trace;

pub use entry::{Entry, tables_at};
pub use interpreter::Interpreter;
pub use oracle::{
    AlwaysFalse, AlwaysTrue, Fact, Oracle, Question, QuestionSubject, Scripted, Seeded,
    Translation, Write,
};
pub use outcome::{
    Asked, Counted, Credited, EffectSeen, Hit, Log, Outcome, OutcomeDifference, Verdict,
};
