//! Builds values from the options of modules.

use weir_model::Match;
use weir_model::rule_match::{
    ExtensionValue, StatefulMatch, TypedExtensionOption, UnmodelledInputMatch,
};

/// Options of a module in the order of printing.
#[derive(Default)]
pub(super) struct ModuleOptionsBuilder(pub(super) Vec<TypedExtensionOption>);

impl ModuleOptionsBuilder {
    pub(super) fn push_non_negated(&mut self, name: &'static str, value: ExtensionValue) {
        self.0.push(TypedExtensionOption { negated: false, name, value });
    }
}

/// A match whose answer the packet's modelled fields do not give.
pub(super) fn unmodelled_input_match(
    module: &'static str,
    options: Vec<TypedExtensionOption>,
) -> Match {
    Match::UnmodelledInput(Box::new(UnmodelledInputMatch { module, options }))
}

/// A match that keeps a budget or a memory.
pub(super) fn stateful_match(module: &'static str, options: Vec<TypedExtensionOption>) -> Match {
    Match::Stateful(Box::new(StatefulMatch { module, options }))
}
