//! The option tables, for programs that generate rules (tests and fuzzing). Not a stable interface.

use weir_model::{Family, Hook, TableName};

use super::extension::{MODELLED_MATCH_EXTENSIONS, MODELLED_TARGET_EXTENSIONS};
use super::option_specs_and_arguments::{ExtensionScope, OptionArity, OptionSpec};

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

/// All modules that weir knows, matches first.
pub fn describe_modelled_extensions() -> Vec<ExtensionDescription> {
    let matches = MODELLED_MATCH_EXTENSIONS
        .iter()
        .map(|e| describe_extension(e.name, false, e.family, e.scope, e.options));
    let targets = MODELLED_TARGET_EXTENSIONS
        .iter()
        .map(|e| describe_extension(e.name, true, e.family, e.scope, e.options));
    matches.chain(targets).collect()
}

fn describe_extension(
    name: &'static str,
    target: bool,
    family: Option<Family>,
    place: ExtensionScope,
    options: &'static [OptionSpec],
) -> ExtensionDescription {
    let ExtensionScope { protocols, tables, hooks } = place;
    let options = options
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
    ExtensionDescription { name, is_target: target, family, protocols, tables, hooks, options }
}
