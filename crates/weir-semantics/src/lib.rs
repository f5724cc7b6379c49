//! The meaning of a ruleset: what becomes of one packet on its journey.
//!
//! [`Interpreter`] is the reference that every other form is compared with; [`Oracle`] tells it
//! what a packet's fields do not say. [`nft`] evaluates the nft form, [`trace`](mod@trace) records
//! the steps of a journey. [`docs/semantics.md`] states the meaning in words.
//!
//! Left out: all packets at once (`weir-diagram`), findings (`weir-lint`), making packets
//! (`weir-traffic`), words (`weir-review`), and any kernel or back end: this crate is the reference
//! of their tests.
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
