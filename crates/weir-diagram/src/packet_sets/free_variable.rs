//! Free variables: one for each question that the packet does not determine.

use std::collections::HashMap;

use weir_model::{Field, FieldSet, Hook, Match};

/// A question whose answer is a separate free variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FreeVariable {
    /// A test of the packet as it is at a hook, after a change: the same content, the same answer.
    StatelessTest {
        /// Digest of the match.
        content_digest: u64,
        /// Where it is evaluated.
        hook: Option<Hook>,
        /// What was done to the packet before, by its number; 0 is nothing.
        change: u32,
    },
    /// A test with a budget or a memory, or whether an unknown target ends the traversal.
    StatefulTest {
        /// Whose it is: the original rule.
        state_id: u64,
        /// Digest of the match or target.
        content_digest: u64,
        /// How often it was evaluated before on this journey.
        nth: u32,
        /// Where it is evaluated, and on which packet.
        state_input: StatefulTestInput,
    },
    /// A bit of what a target writes that depends on more than the packet.
    StatefulTargetBit {
        /// Whose it is: the original rule.
        state_id: u64,
        /// Digest of the target.
        content_digest: u64,
        /// How often the target was reached before on this journey.
        nth: u32,
        /// Where it is reached, and by which packet: a target may leave the old value.
        state_input: StatefulTestInput,
        /// Which bit.
        bit: FieldBit,
    },
    /// A bit of what a target chooses: a translation, or another that writes what the rule does
    /// not say.
    StatelessTargetBit {
        /// Digest of the target.
        content_digest: u64,
        /// Where.
        hook: Hook,
        /// What was done to the packet before.
        change: u32,
        /// Which bit.
        bit: UndeterminedTargetBit,
    },
}

/// What a budget or a memory sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatefulTestInput {
    /// Where.
    pub hook: Option<Hook>,
    /// The fields that it reads.
    pub read_fields: FieldSet,
    /// What was done to these fields before, by its number.
    pub change: u32,
}

/// A bit of a field, counted from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FieldBit(pub Field, pub u8);

/// What a target leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum UndeterminedTargetBit {
    /// A bit of the address, counted from the lowest.
    AddrBit(u8),
    /// A bit of the port.
    PortBit(u8),
    /// Whether a translation changed anything.
    NatChangedPacket,
    /// A bit of a field that another target writes.
    OtherFieldBit(FieldBit),
}

/// All questions, in the order in which they occurred.
#[derive(Debug, Default)]
pub(crate) struct FreeVariableTable {
    number_by_variable: HashMap<FreeVariable, u32>,
    variables: Vec<(FreeVariable, Option<Match>)>,
    /// By digest of the question whether a module or target drops the packet: its name.
    dropping_module_by_question_digest: HashMap<u64, String>,
}

impl FreeVariableTable {
    /// The number of a question; `what` is called if it is new.
    pub fn intern(&mut self, variable: FreeVariable, what: impl FnOnce() -> Option<Match>) -> u32 {
        let all = &mut self.variables;
        *self.number_by_variable.entry(variable).or_insert_with(|| {
            all.push((variable, what()));
            all.len() as u32 - 1
        })
    }

    /// Records that the question with this digest is whether this module or target drops the
    /// packet.
    pub fn record_module_of_drop_question(&mut self, content_digest: u64, name: &str) {
        let names = &mut self.dropping_module_by_question_digest;
        names.entry(content_digest).or_insert_with(|| name.to_owned());
    }

    /// The name of the module or target, if the variable is the question whether it drops the
    /// packet.
    pub fn dropping_module_of_question(&self, variable: &FreeVariable) -> Option<&str> {
        match variable {
            FreeVariable::StatelessTest { content_digest, .. }
            | FreeVariable::StatefulTest { content_digest, .. } => {
                self.dropping_module_by_question_digest.get(content_digest).map(String::as_str)
            }
            _ => None,
        }
    }

    /// The question of a number, and the match where it is one.
    pub fn get(&self, number: u32) -> Option<&(FreeVariable, Option<Match>)> {
        self.variables.get(number as usize)
    }
}
