//! The option tables, for programs that generate rules (tests and fuzzing). Not a stable interface.

use weir_model::{Family, Hook, TableName};

use super::extension::{MATCHES, TARGETS};
use super::option::{Arity, ExtensionScope, Opt};

/// An extension as its tables describe it.
#[derive(Clone, Debug)]
pub struct ExtensionInfo {
    /// Name, as in `-m NAME` or `-j NAME`.
    pub name: &'static str,
    /// It is a target.
    pub target: bool,
    /// The family that has it, where only one has.
    pub family: Option<Family>,
    /// Protocols of which `-p` must name one.
    pub protocols: &'static [u8],
    /// Tables, where not all.
    pub tables: &'static [TableName],
    /// Hooks, where not all.
    pub hooks: &'static [Hook],
    /// Its options.
    pub options: Vec<OptionRow>,
}

/// An option of a module.
#[derive(Clone, Debug)]
pub struct OptionRow {
    /// Long name without dashes.
    pub name: &'static str,
    /// Spellings of one option have the same number.
    pub id: u8,
    /// Words that follow.
    pub arguments: u8,
    /// `!` may be before it.
    pub invert: bool,
    /// It must be given.
    pub mandatory: bool,
}

/// All modules that weir knows, matches first.
pub fn modules() -> Vec<ExtensionInfo> {
    let matches = MATCHES.iter().map(|e| module(e.name, false, e.family, e.place, e.options));
    let targets = TARGETS.iter().map(|e| module(e.name, true, e.family, e.place, e.options));
    matches.chain(targets).collect()
}

fn module(
    name: &'static str,
    target: bool,
    family: Option<Family>,
    place: ExtensionScope,
    options: &'static [Opt],
) -> ExtensionInfo {
    let ExtensionScope { protocols, tables, hooks } = place;
    let options = options
        .iter()
        .map(|o| OptionRow {
            name: o.name,
            id: o.id,
            arguments: match o.arity {
                Arity::Flag => 0,
                Arity::One => 1,
                Arity::Two => 2,
            },
            invert: o.invert,
            mandatory: o.mandatory,
        })
        .collect();
    ExtensionInfo { name, target, family, protocols, tables, hooks, options }
}
