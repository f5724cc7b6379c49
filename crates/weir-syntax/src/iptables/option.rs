//! Options of extensions: their tables, and the options given in a rule.
//!
//! Each extension lists its options once; scanning (names, their unique abbreviations, arguments,
//! negation, "only once", "not together", "required") is the same for all and is in
//! [`scan`](super::scan). An extension only turns the given options into a value.

use std::cell::Cell;

use weir_model::{Base, Family, Hook, Span, TableName};

use crate::diagnostic::{Diagnostic, Fallible};

/// An extension: a match (`T` = `Match`) or a target (`T` = `Target`).
pub(crate) struct Extension<T: 'static> {
    /// Its name, as in `-m NAME`.
    pub name: &'static str,
    /// The family that has it, where only one has.
    pub family: Option<Family>,
    /// Its options.
    pub options: &'static [Opt],
    /// Turns what was given into a value.
    pub build: fn(&Given<'_, '_>) -> Fallible<T>,
    /// Where it is allowed.
    pub place: ExtensionScope,
}

/// Where an extension is allowed; the kernel refuses it elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct ExtensionScope {
    /// Protocols of which `-p` must name one.
    pub protocols: &'static [u8],
    /// Tables, where not in all.
    pub tables: &'static [TableName],
    /// Hooks that may lead to it, where not all.
    pub hooks: &'static [Hook],
}

/// Everywhere.
pub(crate) const ANYWHERE: ExtensionScope =
    ExtensionScope { protocols: &[], tables: &[], hooks: &[] };

impl ExtensionScope {
    /// Only under `-p` of one of these.
    pub const fn protocols(protocols: &'static [u8]) -> Self {
        ExtensionScope { protocols, ..ANYWHERE }
    }

    /// Only in these tables.
    pub const fn tables(tables: &'static [TableName]) -> Self {
        ExtensionScope { tables, ..ANYWHERE }
    }

    /// Only where these hooks lead to.
    pub const fn hooks(hooks: &'static [Hook]) -> Self {
        ExtensionScope { hooks, ..ANYWHERE }
    }

    /// In these tables, where these hooks lead to.
    pub const fn within(tables: &'static [TableName], hooks: &'static [Hook]) -> Self {
        ExtensionScope { protocols: &[], tables, hooks }
    }
}

/// How many words follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    /// None.
    Flag,
    /// One.
    One,
    /// Two: the second is used only if it does not look like an option.
    Two,
}

/// One row of an extension's option table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// Long name without dashes.
    pub name: &'static str,
    /// Number of the option in its table; rows with the same number are spellings of one option.
    pub id: u8,
    /// Words that follow.
    pub arity: Arity,
    /// `!` may be before it.
    pub invert: bool,
    /// It may be given again.
    pub multi: bool,
    /// It must be given.
    pub mandatory: bool,
    /// Bits of the options that may not be given next to it.
    pub excludes: u32,
    /// Bits of the options that must be given with it.
    pub also: u32,
}

/// An option with one argument.
pub(crate) const fn opt(name: &'static str, id: u8) -> Opt {
    Opt {
        name,
        id,
        arity: Arity::One,
        invert: false,
        multi: false,
        mandatory: false,
        excludes: 0,
        also: 0,
    }
}

/// An option without an argument.
pub(crate) const fn flag(name: &'static str, id: u8) -> Opt {
    Opt { arity: Arity::Flag, ..opt(name, id) }
}

impl Opt {
    /// `!` may be before it.
    pub const fn invert(self) -> Self {
        Opt { invert: true, ..self }
    }

    /// It may be given again.
    pub const fn multi(self) -> Self {
        Opt { multi: true, ..self }
    }

    /// It must be given.
    pub const fn mandatory(self) -> Self {
        Opt { mandatory: true, ..self }
    }

    /// Two words follow.
    pub const fn two(self) -> Self {
        Opt { arity: Arity::Two, ..self }
    }

    /// Not together with the options of these bits.
    pub const fn excludes(self, bits: u32) -> Self {
        Opt { excludes: bits, ..self }
    }

    /// Only together with the options of these bits.
    pub const fn also(self, bits: u32) -> Self {
        Opt { also: bits, ..self }
    }
}

/// One option as a rule gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'w> {
    /// Which of the rule's extensions took it.
    pub owner: u8,
    /// The option's number in its table.
    pub id: u8,
    /// `!`.
    pub negated: bool,
    /// Its argument, empty for a flag.
    pub arg: &'w str,
    /// The position of the argument (the option, for a flag).
    pub arg_span: Span,
    /// Its second argument.
    pub second: &'w str,
    /// Its position.
    pub second_span: Span,
    /// From its `!` or dashes to the end of its arguments.
    pub span: Span,
    /// The protocol that `-p` had named until here, and whether negated.
    pub proto: (u8, bool),
}

impl Taken<'_> {
    /// An error about the argument.
    pub fn problem(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.arg_span)
    }

    /// An error about the second argument.
    pub fn second_problem(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.second_span)
    }
}

/// What a rule gave to one extension.
pub(crate) struct Given<'r, 'w> {
    /// Family of the ruleset.
    pub family: Family,
    /// Table of the rule.
    pub table: TableName,
    /// Host names may be looked up.
    pub resolve: bool,
    /// The extension's name.
    pub name: &'static str,
    /// The position of the name.
    pub span: Span,
    /// The rule's base tests.
    pub base: &'r Base,
    /// The options given to all of the rule's extensions, in order.
    pub(super) taken: &'r [Taken<'w>],
    /// Which of them are this one's.
    pub(super) owner: u8,
    /// The extension's table.
    pub(super) options: &'static [Opt],
    /// Hooks that what was given leaves, set by [`only_at`](Given::only_at).
    pub(super) hooks: Cell<&'static [Hook]>,
}

impl<'r, 'w> Given<'r, 'w> {
    /// The options given, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'r Taken<'w>> {
        let owner = self.owner;
        self.taken.iter().filter(move |t| t.owner == owner)
    }

    /// The first occurrence of an option.
    pub fn first(&self, id: u8) -> Option<&'r Taken<'w>> {
        self.iter().find(|t| t.id == id)
    }

    /// Whether an option was given.
    pub fn has(&self, id: u8) -> bool {
        self.first(id).is_some()
    }

    /// The name of an option, as the table spells it first.
    pub fn spelled(&self, id: u8) -> &'static str {
        self.options.iter().find(|o| o.id == id).map_or("", |o| o.name)
    }

    /// Narrows the hooks that may lead to the rule, because of an option's value.
    pub fn only_at(&self, hooks: &'static [Hook]) {
        self.hooks.set(hooks);
    }

    /// An error about the whole extension.
    pub fn problem(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.span)
    }
}

/// An argument: its text and place.
#[derive(Clone, Copy)]
pub(super) struct Arg<'w> {
    pub text: &'w str,
    pub span: Span,
}
