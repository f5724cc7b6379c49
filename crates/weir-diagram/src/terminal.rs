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
use weir_semantics::digest::content;

use crate::change::{PacketChange, TtlMap, ValueInterner};
use crate::layout::{Layout, Levels};
use crate::store::Ref;
use crate::variable::{FreeVariable, FreeVariables, StateInput};

/// How rules are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Exit {
    /// On with the next rule.
    Continue,
    /// Back after the jump.
    Return,
    /// The table is decided.
    Verdict(Verdict),
    /// Nothing is said: a place that another diagram fills.
    Hole,
    /// Both rulesets that are compared do the same.
    Same,
}

/// Lists and the change are numbers of [`Terminals`]; 0 is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terminal {
    pub exit: Exit,
    /// Effects in their order.
    pub effects: u32,
    /// Stateful tests that were evaluated, in order.
    pub asked: u32,
    pub change: u32,
}

impl Terminal {
    pub const fn of(exit: Exit) -> Terminal {
        Terminal { exit, effects: 0, asked: 0, change: 0 }
    }

    /// Whether later rules see something else than without it.
    pub const fn goes_on_changed(&self) -> bool {
        matches!(self.exit, Exit::Continue) && (self.change != 0 || self.asked != 0)
    }
}

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    /// Whose it is.
    pub who: u64,
    /// Digest of the match or target.
    pub content: u64,
    /// Of which packet.
    pub of: StateInput,
}

/// All terminals that occurred.
#[derive(Debug)]
pub(crate) struct Terminals {
    all: ValueInterner<Terminal>,
    /// Hook, table, and the target's digest.
    effects: ValueInterner<(Hook, TableName, u64)>,
    lists: ValueInterner<Vec<u32>>,
    asked: ValueInterner<Vec<Ask>>,
    changes: ValueInterner<PacketChange>,
    /// The level of the first question.
    fields_end: u32,
    /// The positions of the fields.
    fields: Vec<(Field, Levels)>,
    /// Pairs that were composed before.
    pairs: HashMap<(u32, u32), u32>,
    /// Results of [`Terminals::renamed`].
    renamed: HashMap<(u32, u32, u32), u32>,
    /// Some terminal continues with a change or a question.
    pub any_changed: bool,
    /// Effects are distinguished; else there are none.
    pub with_effects: bool,
}

/// A leaf that another diagram fills.
pub(crate) const HOLE: Ref = Ref::ONE;

impl Terminals {
    pub fn new(layout: &Layout) -> Terminals {
        let mut all = ValueInterner::new(Terminal::of(Exit::Continue));
        all.number(&Terminal::of(Exit::Hole));
        Terminals {
            all,
            effects: ValueInterner::new((Hook::Prerouting, TableName::Raw, 0)),
            lists: ValueInterner::new(Vec::new()),
            asked: ValueInterner::new(Vec::new()),
            changes: ValueInterner::new(PacketChange::default()),
            fields_end: layout.end,
            fields: FIELDS.iter().map(|row| (row.field, layout.field(row.field))).collect(),
            pairs: HashMap::new(),
            renamed: HashMap::new(),
            any_changed: false,
            with_effects: true,
        }
    }

    pub fn leaf(&mut self, terminal: Terminal) -> Ref {
        self.any_changed |= terminal.goes_on_changed();
        Ref::leaf(self.all.number(&terminal))
    }

    pub fn exit(&mut self, exit: Exit) -> Ref {
        self.leaf(Terminal::of(exit))
    }

    /// The terminal of a leaf.
    pub fn get(&self, leaf: Ref) -> Terminal {
        *self.all.get(leaf.terminal().unwrap_or(0))
    }

    pub fn change(&self, number: u32) -> &PacketChange {
        self.changes.get(number)
    }

    pub fn change_number(&mut self, change: &PacketChange) -> u32 {
        self.changes.number(change)
    }

    /// The list of one effect.
    pub fn effect(&mut self, hook: Hook, table: TableName, target: &Target) -> u32 {
        if !self.with_effects {
            return 0;
        }
        let effect = self.effects.number(&(hook, table, content(target)));
        self.lists.number(&vec![effect])
    }

    /// The list of one question.
    pub fn ask(&mut self, ask: Ask) -> u32 {
        self.asked.number(&vec![ask])
    }

    /// The effects of a list: hook, table, and the target's digest.
    pub fn effects_of(&self, list: u32) -> Vec<(Hook, TableName, u64)> {
        self.lists.get(list).iter().map(|e| *self.effects.get(*e)).collect()
    }

    /// The questions, in order.
    pub fn asked(&self, list: u32) -> &[Ask] {
        self.asked.get(list)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The result of two terminals in sequence. `questions` may get new ones.
    pub fn then(&mut self, first: Ref, second: Ref, questions: &mut FreeVariables) -> Ref {
        let pair = (first.terminal().unwrap_or(0), second.terminal().unwrap_or(0));
        if let Some(both) = self.pairs.get(&pair) {
            return Ref::leaf(*both);
        }
        let (a, b) = (self.get(first), self.get(second));
        let mut effects = self.lists.get(a.effects).clone();
        effects.extend_from_slice(self.lists.get(b.effects));
        let mut asked = self.asked.get(a.asked).clone();
        for ask in self.asked.get(b.asked).clone() {
            let of = self.seen_after(ask.of, a.change, a.asked, questions);
            asked.push(Ask { of, ..ask });
        }
        let both = Terminal {
            exit: b.exit,
            effects: self.lists.number(&effects),
            asked: self.asked.number(&asked),
            change: self.change_then(a.change, b.change, a.asked, questions),
        };
        let leaf = self.leaf(both);
        self.pairs.insert(pair, leaf.terminal().unwrap_or(0));
        leaf
    }

    /// Sequential composition of changes. `asked` is the list of questions up to the end of the
    /// first.
    pub fn change_then(
        &mut self,
        first: u32,
        second: u32,
        asked: u32,
        questions: &mut FreeVariables,
    ) -> u32 {
        if second == 0 || first == 0 && asked == 0 {
            return first.max(second);
        }
        let (a, b) = (self.changes.get(first).clone(), self.changes.get(second).clone());
        let end = self.fields_end;
        let both =
            a.then(&b, end, &mut |level| end + self.renamed(level - end, first, asked, questions));
        self.changes.number(&both)
    }

    /// Whether a change takes bits from what the packet does not say.
    pub fn has_questions(&self, change: u32) -> bool {
        let sources = self.changes.get(change).bits.values();
        sources.flat_map(|s| &s.bits).any(|level| *level >= self.fields_end)
    }

    /// The number of a question after a change and some questions.
    pub fn renamed(
        &mut self,
        question: u32,
        change: u32,
        asked: u32,
        questions: &mut FreeVariables,
    ) -> u32 {
        // A change may take bits from values that were written to a packet after another change, and
        // so on: each is renamed once.
        if let Some(known) = self.renamed.get(&(question, change, asked)) {
            return *known;
        }
        let Some((variable, what)) = questions.get(question).cloned() else { return question };
        let renamed = match variable {
            FreeVariable::Stateless { content, hook, change: later } => {
                let change = self.change_then(change, later, asked, questions);
                FreeVariable::Stateless { content, hook, change }
            }
            FreeVariable::Chosen { content, hook, change: later, bit } => {
                let change = self.change_then(change, later, asked, questions);
                FreeVariable::Chosen { content, hook, change, bit }
            }
            FreeVariable::Stateful { who, content, nth, of } => {
                let nth = nth + self.times(asked, who, content);
                let of = self.seen_after(of, change, asked, questions);
                FreeVariable::Stateful { who, content, nth, of }
            }
            FreeVariable::Written { who, content, nth, of, bit } => {
                let nth = nth + self.times(asked, who, content);
                let of = self.seen_after(of, change, asked, questions);
                FreeVariable::Written { who, content, nth, of, bit }
            }
        };
        let number = questions.number(renamed, || what);
        self.renamed.insert((question, change, asked), number);
        number
    }

    /// How often an element occurs in a list of questions.
    fn times(&self, asked: u32, who: u64, content: u64) -> u32 {
        let same = |a: &&Ask| (a.who, a.content) == (who, content);
        self.asked.get(asked).iter().filter(same).count() as u32
    }

    /// What a stateful match sees of a packet after a change and some questions.
    fn seen_after(
        &mut self,
        of: StateInput,
        change: u32,
        asked: u32,
        questions: &mut FreeVariables,
    ) -> StateInput {
        if of.reads == FieldSet::NONE {
            return of;
        }
        let both = self.change_then(change, of.change, asked, questions);
        StateInput { change: self.only(both, of.reads), ..of }
    }

    /// What a change does to some fields.
    pub fn only(&mut self, change: u32, fields: FieldSet) -> u32 {
        if change == 0 || fields == FieldSet::ALL {
            return change;
        }
        if fields == FieldSet::NONE {
            return 0;
        }
        let mut kept = self.changes.get(change).clone();
        let wanted: Vec<Levels> =
            self.fields.iter().filter(|(f, _)| fields.contains(*f)).map(|(_, l)| *l).collect();
        kept.bits.retain(|level, _| wanted.iter().any(|l| (l.first..l.end()).contains(level)));
        if !fields.contains(Field::Ttl) {
            (kept.ttl, kept.writes_ttl) = (TtlMap::SAME, false);
        }
        kept.unmodelled.clear();
        self.changes.number(&kept)
    }
}
