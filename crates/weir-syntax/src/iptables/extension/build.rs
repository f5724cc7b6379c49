//! Builds values from the options of modules.

use weir_model::Match;
use weir_model::matching::{HostMatch, OptionValue, Stateful, Value};

/// Options of a module in the order of printing.
#[derive(Default)]
pub(super) struct ModuleOptions(pub(super) Vec<OptionValue>);

impl ModuleOptions {
    pub(super) fn push(&mut self, name: &'static str, value: Value) {
        self.0.push(OptionValue { negated: false, name, value });
    }
}

/// A match whose answer the packet's modelled fields do not give.
pub(super) fn host(module: &'static str, options: Vec<OptionValue>) -> Match {
    Match::Host(Box::new(HostMatch { module, options }))
}

/// A match that keeps a budget or a memory.
pub(super) fn stateful(module: &'static str, options: Vec<OptionValue>) -> Match {
    Match::Stateful(Box::new(Stateful { module, options }))
}
