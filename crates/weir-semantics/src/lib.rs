//! The meaning of a ruleset: what becomes of a packet, and what follows from that.
//!
//! [`Interpreter`] is the reference that every other form is compared with; [`Answers`] tells it
//! what a packet's fields do not say. [`docs/semantics.md`] states the meaning in words.
//!
//! [`docs/semantics.md`]: https://github.com/weir-fw/weir/blob/main/docs/semantics.md

#![forbid(unsafe_code)]

pub mod answers;
mod configured;
pub mod diagram;
mod effects;
pub mod interpreter;
pub mod nft;
pub mod outcome;
mod sets;
pub mod trace;
pub mod traffic;

pub use answers::{
    AlwaysFalse, AlwaysTrue, Answers, Fact, Question, Scripted, Seeded, Subject, Translation, Write,
};
pub use interpreter::{Entry, Interpreter, tables_at};
pub use outcome::{Asked, Counted, Credited, Difference, EffectSeen, Hit, Log, Outcome, Verdict};
