//! The terminals of a diagram of rules.
//!
//! A terminal says how the rules are left (continue with the next rule, return to the caller, a
//! verdict), the effects in order, the stateful tests that were evaluated, in order, and the
//! changes of the fields. Its number is that of the diagram's leaf: 0 continues without any effect,
//! which the engine treats as neutral.

use std::collections::HashMap;

use weir_model::field::FIELDS;
use weir_model::{Field, FieldSet, Hook, TableName, Target};
use weir_semantics::Verdict;
use weir_semantics::question_digest::digest_debug_text;

use crate::bdd::node_store::{DiagramRef, NonNodeWork};
use crate::packet_sets::free_variable::{FreeVariable, FreeVariableTable, StatefulTestInput};
use crate::packet_sets::variable_layout::{LevelRange, VariableLayout};
use crate::rule_diagrams::packet_change::{PacketChange, TtlTransform, ValueInterner};

/// How rules are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RuleExit {
    /// On with the next rule.
    Continue,
    /// Back after the jump.
    Return,
    /// The table is decided.
    Verdict(Verdict),
    /// Nothing is said: a place that another diagram fills.
    PlaceholderForDiagram,
    /// Both rulesets that are compared do the same.
    SameInBoth,
}

/// Lists and the change are numbers of [`TerminalTable`]; 0 is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terminal {
    pub exit: RuleExit,
    /// Effects in their order.
    pub effects: u32,
    /// Stateful tests that were evaluated, in order.
    pub stateful_questions: u32,
    pub change: u32,
}

impl Terminal {
    pub const fn from_exit(exit: RuleExit) -> Terminal {
        Terminal { exit, effects: 0, stateful_questions: 0, change: 0 }
    }

    /// Whether later rules see something else than without it.
    pub const fn continues_with_change_or_question(&self) -> bool {
        matches!(self.exit, RuleExit::Continue)
            && (self.change != 0 || self.stateful_questions != 0)
    }
}

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StatefulQuestion {
    /// Whose it is.
    pub state_id: u64,
    /// Digest of the match or target.
    pub content_digest: u64,
    /// Of which packet.
    pub state_input: StatefulTestInput,
}

/// All terminals that occurred.
#[derive(Debug)]
pub(crate) struct TerminalTable {
    terminals: ValueInterner<Terminal>,
    /// Hook, table, and the target's digest.
    effects: ValueInterner<(Hook, TableName, u64)>,
    effect_lists: ValueInterner<Vec<u32>>,
    question_lists: ValueInterner<Vec<StatefulQuestion>>,
    changes: ValueInterner<PacketChange>,
    /// The level of the first question.
    fields_end: u32,
    /// The positions of the fields.
    field_levels: Vec<(Field, LevelRange)>,
    /// Pairs that were composed before.
    composed_pairs: HashMap<(u32, u32), u32>,
    /// Results of [`TerminalTable::free_variable_after_change`].
    renamed_variables: HashMap<(u32, u32, u32), u32>,
    /// What composing took since it was last counted.
    uncounted_non_node_work: NonNodeWork,
    /// Some terminal continues with a change or a question.
    pub has_change_or_question_terminals: bool,
    /// Effects are distinguished; else there are none.
    pub distinguishes_effects: bool,
}

/// Steps that composing a pair of terminals takes, and elements of lists per further step: lists
/// are copied and hashed.
const WORK_STEPS_PER_COMPOSED_PAIR: u64 = 4;
const COMPOSED_LIST_ELEMENTS_PER_WORK_STEP: usize = 2;
/// Memory of a kept value without its elements, and of what is known about a pair: values are kept
/// twice, as keys and by number.
const INTERNED_VALUE_OVERHEAD_BYTES: usize = 128;
const COMPOSED_PAIR_BYTES: usize = 32;
/// A written bit: a node of a tree, and a list of levels.
const BIT_SOURCE_BYTES: usize = 64;

/// A leaf that another diagram replaces.
pub(crate) const PLACEHOLDER_LEAF: DiagramRef = DiagramRef::ONE;

impl TerminalTable {
    pub fn new(layout: &VariableLayout) -> TerminalTable {
        let mut all = ValueInterner::with_first_value(Terminal::from_exit(RuleExit::Continue));
        all.intern(&Terminal::from_exit(RuleExit::PlaceholderForDiagram));
        TerminalTable {
            terminals: all,
            effects: ValueInterner::with_first_value((Hook::Prerouting, TableName::Raw, 0)),
            effect_lists: ValueInterner::with_first_value(Vec::new()),
            question_lists: ValueInterner::with_first_value(Vec::new()),
            changes: ValueInterner::with_first_value(PacketChange::default()),
            fields_end: layout.fields_end,
            field_levels: FIELDS
                .iter()
                .map(|row| (row.field, layout.field_levels(row.field)))
                .collect(),
            composed_pairs: HashMap::new(),
            renamed_variables: HashMap::new(),
            uncounted_non_node_work: NonNodeWork::default(),
            has_change_or_question_terminals: false,
            distinguishes_effects: true,
        }
    }

    pub fn intern_leaf(&mut self, terminal: Terminal) -> DiagramRef {
        self.has_change_or_question_terminals |= terminal.continues_with_change_or_question();
        DiagramRef::leaf(self.terminals.intern(&terminal))
    }

    pub fn exit_leaf(&mut self, exit: RuleExit) -> DiagramRef {
        self.intern_leaf(Terminal::from_exit(exit))
    }

    /// The terminal of a leaf.
    pub fn terminal_of_leaf(&self, leaf: DiagramRef) -> Terminal {
        *self.terminals.get(leaf.terminal_number().unwrap_or(0))
    }

    pub fn get_change(&self, number: u32) -> &PacketChange {
        self.changes.get(number)
    }

    pub fn intern_change(&mut self, change: &PacketChange) -> u32 {
        self.changes.intern(change)
    }

    /// The list of one effect.
    pub fn intern_single_effect_list(
        &mut self,
        hook: Hook,
        table: TableName,
        target: &Target,
    ) -> u32 {
        if !self.distinguishes_effects {
            return 0;
        }
        self.intern_digested_effect_list(hook, table, digest_debug_text(target))
    }

    /// The list of one effect that its digest identifies.
    pub fn intern_digested_effect_list(
        &mut self,
        hook: Hook,
        table: TableName,
        digest: u64,
    ) -> u32 {
        let effect = self.effects.intern(&(hook, table, digest));
        self.effect_lists.intern(&vec![effect])
    }

    /// The list of one question.
    pub fn intern_single_question_list(&mut self, ask: StatefulQuestion) -> u32 {
        self.question_lists.intern(&vec![ask])
    }

    /// The effects of a list: hook, table, and the target's digest.
    pub fn list_effects(&self, list: u32) -> Vec<(Hook, TableName, u64)> {
        self.effect_lists.get(list).iter().map(|e| *self.effects.get(*e)).collect()
    }

    /// The questions, in order.
    pub fn list_questions(&self, list: u32) -> &[StatefulQuestion] {
        self.question_lists.get(list)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.terminals.len()
    }

    /// The result of two terminals in sequence. `questions` may get new ones.
    pub fn compose_sequential(
        &mut self,
        first: DiagramRef,
        second: DiagramRef,
        questions: &mut FreeVariableTable,
    ) -> DiagramRef {
        let pair = (first.terminal_number().unwrap_or(0), second.terminal_number().unwrap_or(0));
        if let Some(both) = self.composed_pairs.get(&pair) {
            return DiagramRef::leaf(*both);
        }
        let known = (self.effect_lists.len(), self.question_lists.len());
        let (a, b) = (self.terminal_of_leaf(first), self.terminal_of_leaf(second));
        let mut effects = self.effect_lists.get(a.effects).clone();
        effects.extend_from_slice(self.effect_lists.get(b.effects));
        let mut asked = self.question_lists.get(a.stateful_questions).clone();
        for ask in self.question_lists.get(b.stateful_questions).clone() {
            let state_input = self.state_input_after_change(
                ask.state_input,
                a.change,
                a.stateful_questions,
                questions,
            );
            asked.push(StatefulQuestion { state_input, ..ask });
        }
        let both = Terminal {
            exit: b.exit,
            effects: self.effect_lists.intern(&effects),
            stateful_questions: self.question_lists.intern(&asked),
            change: self.compose_changes(a.change, b.change, a.stateful_questions, questions),
        };
        let leaf = self.intern_leaf(both);
        let effects_bytes = size_of_val(&effects[..]);
        let has_new_effects = self.effect_lists.len() > known.0;
        self.add_work_of_composed_pair(effects.len(), has_new_effects.then_some(effects_bytes));
        let questions_bytes = size_of_val(&asked[..]);
        let has_new_questions = self.question_lists.len() > known.1;
        self.add_work_of_composed_pair(asked.len(), has_new_questions.then_some(questions_bytes));
        self.composed_pairs.insert(pair, leaf.terminal_number().unwrap_or(0));
        leaf
    }

    /// What was done since the last call.
    pub fn take_non_node_work(&mut self) -> NonNodeWork {
        std::mem::take(&mut self.uncounted_non_node_work)
    }

    /// A pair was composed to lists or a change of so many elements; a new value of so many bytes
    /// is kept, or none.
    fn add_work_of_composed_pair(&mut self, elements: usize, kept_bytes: Option<usize>) {
        self.uncounted_non_node_work.steps +=
            WORK_STEPS_PER_COMPOSED_PAIR + (elements / COMPOSED_LIST_ELEMENTS_PER_WORK_STEP) as u64;
        let kept = kept_bytes.map_or(0, |bytes| INTERNED_VALUE_OVERHEAD_BYTES + 2 * bytes);
        self.uncounted_non_node_work.bytes += COMPOSED_PAIR_BYTES + kept;
    }

    /// Sequential composition of changes. `asked` is the list of questions up to the end of the
    /// first.
    pub fn compose_changes(
        &mut self,
        first: u32,
        second: u32,
        asked: u32,
        questions: &mut FreeVariableTable,
    ) -> u32 {
        if second == 0 || first == 0 && asked == 0 {
            return first.max(second);
        }
        let (a, b) = (self.changes.get(first).clone(), self.changes.get(second).clone());
        let end = self.fields_end;
        let both = a.followed_by(&b, end, &mut |level| {
            end + self.free_variable_after_change(level - end, first, asked, questions)
        });
        let known = self.changes.len();
        let number = self.changes.intern(&both);
        let bits = both.bit_sources.values().map(|source| 1 + source.xor_levels.len());
        let elements = bits.sum::<usize>() + both.unmodelled_targets.len();
        let bytes = elements * BIT_SOURCE_BYTES;
        self.add_work_of_composed_pair(elements, (self.changes.len() > known).then_some(bytes));
        number
    }

    /// Whether a change takes bits from what the packet does not say.
    pub fn does_change_use_free_variables(&self, change: u32) -> bool {
        let sources = self.changes.get(change).bit_sources.values();
        sources.flat_map(|s| &s.xor_levels).any(|level| *level >= self.fields_end)
    }

    /// The number of a question after a change and some questions.
    pub fn free_variable_after_change(
        &mut self,
        question: u32,
        change: u32,
        asked: u32,
        questions: &mut FreeVariableTable,
    ) -> u32 {
        // A change may take bits from values that were written to a packet after another change,
        // and so on: each is renamed once.
        if let Some(known) = self.renamed_variables.get(&(question, change, asked)) {
            return *known;
        }
        let Some((variable, what)) = questions.get(question).cloned() else { return question };
        let renamed = match variable {
            FreeVariable::StatelessTest { content_digest, hook, change: later } => {
                let change = self.compose_changes(change, later, asked, questions);
                FreeVariable::StatelessTest { content_digest, hook, change }
            }
            FreeVariable::StatelessTargetBit { content_digest, hook, change: later, bit } => {
                let change = self.compose_changes(change, later, asked, questions);
                FreeVariable::StatelessTargetBit { content_digest, hook, change, bit }
            }
            FreeVariable::StatefulTest { state_id, content_digest, nth, state_input } => {
                let nth = nth + self.count_question_in_list(asked, state_id, content_digest);
                let state_input =
                    self.state_input_after_change(state_input, change, asked, questions);
                FreeVariable::StatefulTest { state_id, content_digest, nth, state_input }
            }
            FreeVariable::StatefulTargetBit { state_id, content_digest, nth, state_input, bit } => {
                let nth = nth + self.count_question_in_list(asked, state_id, content_digest);
                let state_input =
                    self.state_input_after_change(state_input, change, asked, questions);
                FreeVariable::StatefulTargetBit { state_id, content_digest, nth, state_input, bit }
            }
        };
        let number = questions.intern(renamed, || what);
        self.renamed_variables.insert((question, change, asked), number);
        number
    }

    /// How often an element occurs in a list of questions.
    fn count_question_in_list(&self, asked: u32, state_id: u64, content_digest: u64) -> u32 {
        let same =
            |a: &&StatefulQuestion| (a.state_id, a.content_digest) == (state_id, content_digest);
        self.question_lists.get(asked).iter().filter(same).count() as u32
    }

    /// What a stateful match sees of a packet after a change and some questions.
    fn state_input_after_change(
        &mut self,
        state_input: StatefulTestInput,
        change: u32,
        asked: u32,
        questions: &mut FreeVariableTable,
    ) -> StatefulTestInput {
        if state_input.read_fields == FieldSet::NONE {
            return state_input;
        }
        let both = self.compose_changes(change, state_input.change, asked, questions);
        StatefulTestInput {
            change: self.restrict_change_to_fields(both, state_input.read_fields),
            ..state_input
        }
    }

    /// What a change does to some fields.
    pub fn restrict_change_to_fields(&mut self, change: u32, fields: FieldSet) -> u32 {
        if change == 0 || fields == FieldSet::ALL {
            return change;
        }
        if fields == FieldSet::NONE {
            return 0;
        }
        let mut kept = self.changes.get(change).clone();
        let wanted: Vec<LevelRange> = self
            .field_levels
            .iter()
            .filter(|(f, _)| fields.contains(*f))
            .map(|(_, l)| *l)
            .collect();
        kept.bit_sources
            .retain(|level, _| wanted.iter().any(|l| (l.first..l.end()).contains(level)));
        if !fields.contains(Field::Ttl) {
            (kept.ttl_transform, kept.writes_ttl) = (TtlTransform::IDENTITY, false);
        }
        kept.unmodelled_targets.clear();
        self.changes.intern(&kept)
    }
}
