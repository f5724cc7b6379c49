//! Options of extensions: their tables, and the options given in a rule.
//!
//! Each extension lists its options once; scanning (names, their unique abbreviations, arguments,
//! negation, "only once", "not together", "required") is the same for all and is in
//! [`scan`](super::scan). An extension only turns the given options into a value.

use std::cell::Cell;

use weir_model::rule_match::TypedExtensionOption;
use weir_model::{BaseMatch, Family, Hook, Match, Span, TableName};

use crate::diagnostic::{Diagnostic, ParseResult};

/// An extension: a match (`T` = `Match`) or a target (`T` = `Target`).
pub(crate) struct Extension<T: 'static> {
    /// Its name, as in `-m NAME`.
    pub name: &'static str,
    /// The family that has it, where only one has.
    pub family: Option<Family>,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Turns what was given into a value.
    pub build: fn(&ParsedExtensionOptions<'_, '_>) -> ParseResult<T>,
    /// Where it is allowed.
    pub scope: ExtensionScope,
    /// Appends the value of an option that has one.
    pub print_value: fn(&mut String, &TypedExtensionOption, Family),
    /// Its options are printed as they were written, not as `iptables-save` spells them.
    pub keeps_spelling: bool,
    /// iptables has a library for it; otherwise it is of another package.
    pub is_part_of_iptables: bool,
    /// What the kernel requires of the other matches of the rule; of targets only.
    pub check_rule_matches: fn(&[Match], Span) -> ParseResult<()>,
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
pub(crate) const UNRESTRICTED_SCOPE: ExtensionScope =
    ExtensionScope { protocols: &[], tables: &[], hooks: &[] };

impl ExtensionScope {
    /// Only under `-p` of one of these.
    pub const fn for_protocols(protocols: &'static [u8]) -> Self {
        ExtensionScope { protocols, ..UNRESTRICTED_SCOPE }
    }

    /// Only in these tables.
    pub const fn in_tables(tables: &'static [TableName]) -> Self {
        ExtensionScope { tables, ..UNRESTRICTED_SCOPE }
    }

    /// Only where these hooks lead to.
    pub const fn from_hooks(hooks: &'static [Hook]) -> Self {
        ExtensionScope { hooks, ..UNRESTRICTED_SCOPE }
    }

    /// In these tables, where these hooks lead to.
    pub const fn in_tables_from_hooks(
        tables: &'static [TableName],
        hooks: &'static [Hook],
    ) -> Self {
        ExtensionScope { protocols: &[], tables, hooks }
    }
}

/// How many words follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionArity {
    /// None.
    Flag,
    /// One.
    OneArgument,
    /// Two: the second is used only if it does not look like an option.
    TwoArguments,
}

/// One row of an extension's option table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionSpec {
    /// Long name without dashes.
    pub name: &'static str,
    /// Number of the option in its table; rows with the same number are spellings of one option.
    pub id: u8,
    /// Words that follow.
    pub arity: OptionArity,
    /// `!` may be before it.
    pub invertible: bool,
    /// It may be given again.
    pub repeatable: bool,
    /// It must be given.
    pub mandatory: bool,
    /// Bits of the options that may not be given next to it.
    pub excludes: u32,
    /// Bits of the options that must be given with it.
    pub requires: u32,
}

/// An option with one argument.
pub(crate) const fn option_with_argument(name: &'static str, id: u8) -> OptionSpec {
    OptionSpec {
        name,
        id,
        arity: OptionArity::OneArgument,
        invertible: false,
        repeatable: false,
        mandatory: false,
        excludes: 0,
        requires: 0,
    }
}

/// An option without an argument.
pub(crate) const fn flag_option(name: &'static str, id: u8) -> OptionSpec {
    OptionSpec { arity: OptionArity::Flag, ..option_with_argument(name, id) }
}

impl OptionSpec {
    /// `!` may be before it.
    pub const fn invertible(self) -> Self {
        OptionSpec { invertible: true, ..self }
    }

    /// It may be given again.
    pub const fn repeatable(self) -> Self {
        OptionSpec { repeatable: true, ..self }
    }

    /// It must be given.
    pub const fn mandatory(self) -> Self {
        OptionSpec { mandatory: true, ..self }
    }

    /// Two words follow.
    pub const fn with_two_arguments(self) -> Self {
        OptionSpec { arity: OptionArity::TwoArguments, ..self }
    }

    /// Not together with the options of these bits.
    pub const fn excludes(self, bits: u32) -> Self {
        OptionSpec { excludes: bits, ..self }
    }

    /// Only together with the options of these bits.
    pub const fn requires_all(self, bits: u32) -> Self {
        OptionSpec { requires: bits, ..self }
    }
}

/// One option as a rule gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedOption<'w> {
    /// Which of the rule's extensions took it.
    pub extension_index: u8,
    /// The option's number in its table.
    pub id: u8,
    /// `!`.
    pub negated: bool,
    /// Its argument, empty for a flag.
    pub arg: &'w str,
    /// The position of the argument (the option, for a flag).
    pub arg_span: Span,
    /// Its second argument.
    pub second_arg: &'w str,
    /// Its position.
    pub second_arg_span: Span,
    /// From its `!` or dashes to the end of its arguments.
    pub negation_to_arguments_span: Span,
    /// The protocol that `-p` had named until here, and whether negated.
    pub proto_so_far: (u8, bool),
}

impl ParsedOption<'_> {
    /// An error about the argument.
    pub fn arg_error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.arg_span)
    }

    /// An error about the second argument.
    pub fn second_arg_error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.second_arg_span)
    }
}

/// What a rule gave to one extension.
pub(crate) struct ParsedExtensionOptions<'r, 'w> {
    /// Family of the ruleset.
    pub family: Family,
    /// Table of the rule.
    pub table: TableName,
    /// Host names may be looked up.
    pub resolve_host_names: bool,
    /// The extension's name.
    pub name: &'static str,
    /// The position of the name.
    pub span: Span,
    /// The rule's base tests.
    pub base: &'r BaseMatch,
    /// The options given to all of the rule's extensions, in order.
    pub(super) rule_options: &'r [ParsedOption<'w>],
    /// Which of them are this one's.
    pub(super) extension_index: u8,
    /// The extension's table.
    pub(super) option_specs: &'static [OptionSpec],
    /// Hooks that what was given leaves, set by
    /// [`restrict_hooks`](ParsedExtensionOptions::restrict_hooks).
    pub(super) allowed_hooks: Cell<&'static [Hook]>,
}

impl<'r, 'w> ParsedExtensionOptions<'r, 'w> {
    /// The options given, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'r ParsedOption<'w>> {
        let owner = self.extension_index;
        self.rule_options.iter().filter(move |t| t.extension_index == owner)
    }

    /// The first occurrence of an option.
    pub fn first_with_id(&self, id: u8) -> Option<&'r ParsedOption<'w>> {
        self.iter().find(|t| t.id == id)
    }

    /// Whether an option was given.
    pub fn has_option(&self, id: u8) -> bool {
        self.first_with_id(id).is_some()
    }

    /// The name of an option, as the table spells it first.
    pub fn option_name_without_dashes(&self, id: u8) -> &'static str {
        self.option_specs.iter().find(|o| o.id == id).map_or("", |o| o.name)
    }

    /// Narrows the hooks that may lead to the rule, because of an option's value.
    pub fn restrict_hooks(&self, hooks: &'static [Hook]) {
        self.allowed_hooks.set(hooks);
    }

    /// An error about the whole extension.
    pub fn extension_error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message, self.span)
    }
}

/// An argument: its text and place.
#[derive(Clone, Copy)]
pub(super) struct OptionArgument<'w> {
    pub text: &'w str,
    pub span: Span,
}
