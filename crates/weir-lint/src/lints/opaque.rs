//! Modules that weir does not know.

use weir_model::effect::match_module_of;
use weir_model::{Match, Target};

use crate::context::LintContext;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;
use crate::root_cause::RootCause;

define!(OPAQUE_MODULE, "opaque-module", Note);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&OPAQUE_MODULE], look };

fn look(context: &LintContext<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let unknown = rule.matches.iter().find(|m| matches!(m, Match::Opaque(_)));
            let module = match (unknown, &rule.target) {
                (Some(m), _) => format!("match {}", match_module_of(m, table.family())),
                (None, Target::Opaque(o)) => format!("target {}", o.name),
                (None, _) => continue,
            };
            let message = format!("weir does not know the {module}");
            let many = format!("{message} ({{n}} rules)");
            let help = "check its spelling; weir preserves the rule verbatim and in order";
            let cause = RootCause::new(module, many, "and here");
            out.push(table.rule(&OPAQUE_MODULE, chain, i, message).help(help).caused(cause));
        }
    }
}
