//! INPUT or FORWARD that accepts packets which no rule decides, which makes its accepting rules
//! useless.

use weir_model::{Policy, TableName, Target};

use crate::analyzed_firewall::AnalyzedFirewall;
use crate::chain_reachability::find_terminating_chains;
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;

define_lint!(NO_FINAL_DROP, "no-final-drop", Warning);

pub(crate) static LINT_FAMILY: LintFamily = LintFamily { lints: &[&NO_FINAL_DROP], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in context.tables.iter().filter(|t| t.table.name == TableName::Filter) {
        let closed = find_terminating_chains(
            table.family(),
            table.table,
            table.packet_set_flow.chain_graph(),
        );
        for (at, chain) in table.table.chains.iter().enumerate() {
            let name = &chain.name;
            let guarded = matches!(&**name, "INPUT" | "FORWARD");
            let accepts =
                (0..chain.rules.len()).filter(|i| chain.rules[*i].target == Target::Accept);
            let mut writers = accepts.map(|i| table.program_of_rule((at, i))).peekable();
            if !guarded || chain.policy != Some(Policy::Accept) || writers.peek().is_none() {
                continue;
            }
            if closed.get(&**name).is_some_and(Option::is_some) {
                continue;
            }
            let message = format!(
                "{name} accepts packets that match no rule: its policy is ACCEPT and no last rule \
                 drops"
            );
            let help =
                format!("set the policy to DROP (`-P {name} DROP`), or add a last DROP rule");
            // If programs wrote all accepting rules, the chain is open on purpose.
            let program = writers.try_fold(None, |_, writer| writer.map(Some)).flatten();
            out.push(
                table
                    .new_chain_finding(&NO_FINAL_DROP, at, message)
                    .with_blamed_program(program)
                    .with_help(help),
            );
        }
    }
}
