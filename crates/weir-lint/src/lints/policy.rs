//! INPUT or FORWARD that accepts what no rule decided, although rules accept: they then need not.

use weir_model::{Policy, TableName, Target};

use crate::chains::closed;
use crate::context::Context;
use crate::family::LintFamily;
use crate::finding::Finding;
use crate::lint::define;

define!(NO_FINAL_DROP, "no-final-drop", Warning);

pub(crate) static FAMILY: LintFamily = LintFamily { lints: &[&NO_FINAL_DROP], look };

fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    for table in context.tables.iter().filter(|t| t.table.name == TableName::Filter) {
        let closed = closed(table.family(), table.table);
        for (at, chain) in table.table.chains.iter().enumerate() {
            let name = &chain.name;
            let guarded = matches!(&**name, "INPUT" | "FORWARD");
            let accepts = chain.rules.iter().any(|r| r.target == Target::Accept);
            if !guarded || chain.policy != Some(Policy::Accept) || !accepts {
                continue;
            }
            if closed.get(&**name) == Some(&true) {
                continue;
            }
            let message = format!(
                "{name} accepts what no rule decided: its policy is ACCEPT and no rule at its end \
                 drops"
            );
            let help = format!("set the policy to DROP (`-P {name} DROP`), or end with a DROP");
            out.push(table.of_chain(&NO_FINAL_DROP, at, message).help(help));
        }
    }
}
