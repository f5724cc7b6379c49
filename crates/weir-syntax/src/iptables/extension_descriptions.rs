//! The option tables, for programs that generate rules (tests and fuzzing). Not a stable interface.

use weir_model::effect::{MATCH_ROWS, TARGET_ROWS};
use weir_model::{Family, Hook, TableName};

use super::extension::{MATCH_EXTENSIONS, TARGET_EXTENSIONS};
use super::option_specs_and_arguments::{Extension, OptionArity};

/// An extension as its tables describe it.
#[derive(Clone, Debug)]
pub struct ExtensionDescription {
    /// Name, as in `-m NAME` or `-j NAME`.
    pub name: &'static str,
    /// It is a target.
    pub is_target: bool,
    /// The family that has it, where only one has.
    pub family: Option<Family>,
    /// Protocols of which `-p` must name one.
    pub protocols: &'static [u8],
    /// Tables, where not all.
    pub tables: &'static [TableName],
    /// Hooks, where not all.
    pub hooks: &'static [Hook],
    /// Its options are printed as they were written, not as `iptables-save` spells them.
    pub keeps_spelling: bool,
    /// iptables has a library for it.
    pub is_part_of_iptables: bool,
    /// Its options.
    pub options: Vec<OptionDescription>,
}

/// An option of a module.
#[derive(Clone, Debug)]
pub struct OptionDescription {
    /// Long name without dashes.
    pub name: &'static str,
    /// Spellings of one option have the same number.
    pub id: u8,
    /// Words that follow.
    pub argument_count: u8,
    /// `!` may be before it.
    pub invertible: bool,
    /// It must be given.
    pub mandatory: bool,
}

/// All modules whose options weir knows, matches first.
pub fn describe_extensions() -> Vec<ExtensionDescription> {
    let matches = MATCH_EXTENSIONS.iter().map(|e| describe_extension(e, false));
    matches.chain(TARGET_EXTENSIONS.iter().map(|e| describe_extension(e, true))).collect()
}

/// Those with a row in the table of effects.
pub fn describe_extensions_with_effect_row() -> Vec<ExtensionDescription> {
    describe_extensions().into_iter().filter(ExtensionDescription::has_effect_row).collect()
}

impl ExtensionDescription {
    /// It has a row in the table of effects.
    pub fn has_effect_row(&self) -> bool {
        match self.is_target {
            true => TARGET_ROWS.iter().any(|row| row.name == self.name),
            false => MATCH_ROWS.iter().any(|row| row.name == self.name),
        }
    }
}

fn describe_extension<T>(e: &Extension<T>, is_target: bool) -> ExtensionDescription {
    let options = e
        .options
        .iter()
        .map(|o| OptionDescription {
            name: o.name,
            id: o.id,
            argument_count: match o.arity {
                OptionArity::Flag => 0,
                OptionArity::OneArgument => 1,
                OptionArity::TwoArguments => 2,
            },
            invertible: o.invertible,
            mandatory: o.mandatory,
        })
        .collect();
    ExtensionDescription {
        name: e.name,
        is_target,
        family: e.family,
        protocols: e.scope.protocols,
        tables: e.scope.tables,
        hooks: e.scope.hooks,
        keeps_spelling: e.keeps_spelling,
        is_part_of_iptables: e.is_part_of_iptables,
        options,
    }
}
