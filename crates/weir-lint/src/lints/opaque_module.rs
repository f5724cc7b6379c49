//! Modules that weir does not know.

use weir_model::effect::match_module_name;
use weir_model::{Match, Target};

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(OPAQUE_MODULE, "opaque-module", Note);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily { lints: &[&OPAQUE_MODULE], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            let unknown = rule.matches.iter().find(|m| matches!(m, Match::Opaque(_)));
            let module = match (unknown, &rule.target) {
                (Some(m), _) => format!("match {}", match_module_name(m, table.family())),
                (None, Target::Opaque(o)) => format!("target {}", o.name),
                (None, _) => continue,
            };
            let message = format!("weir does not know the {module}");
            let many = format!("{message} ({{n}} rules)");
            let help = "check its spelling; weir preserves the rule verbatim and in order";
            let cause = RootCause::new(module, many, "and here");
            out.push(
                table
                    .new_rule_finding(&OPAQUE_MODULE, chain, i, message)
                    .with_help(help)
                    .with_root_cause(cause),
            );
        }
    }
}
