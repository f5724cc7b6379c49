//! Unreachable chains, jumps to empty chains, loops.

use weir_model::managing_programs::{ManagingProgram, program_of_chain_or_set};
use weir_model::{Family, Target};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::{Finding, RulesetEdit};
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(UNREACHABLE_CHAIN, "unreachable-chain", Note, fix);
define_lint!(JUMP_TO_EMPTY_CHAIN, "jump-to-empty-chain", Note, fix);
define_lint!(JUMP_LOOP, "jump-loop", Error);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&UNREACHABLE_CHAIN, &JUMP_TO_EMPTY_CHAIN, &JUMP_LOOP], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        report_unreachable_chains(table, out);
        report_jumps_to_empty_chains(table, out);
        report_jump_loops(table, out);
    }
}

/// Chains that no rule leads to, and those that only such chains lead to.
fn report_unreachable_chains(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    let graph = table.packet_set_flow.chain_graph();
    // No rule ever jumps to the chain that marks an artefact of weir's.
    let is_lost = |c: usize| {
        !table.reachable_chains[c]
            && table.chains_behind_catch_all[c].is_none()
            && table.program_of_chain(c) != Some(ManagingProgram::Weir)
    };
    let lost: Vec<usize> = (0..graph.len()).filter(|c| is_lost(*c)).collect();
    let mut root: Vec<Option<usize>> = vec![None; graph.len()];
    let mut rooted = vec![false; graph.len()];
    // Chains in a circle have no first one: any of them will do.
    let first =
        lost.iter().filter(|c| table.packet_set_flow.callers_of_chain(**c).is_empty()).chain(&lost);
    for start in first {
        for chain in graph.mark_newly_reachable([*start], &mut rooted, |jump| is_lost(jump.to)) {
            root[chain] = Some(*start);
        }
    }
    for at in lost {
        let from = root[at].unwrap_or(at);
        let name = &table.chain_at(from).name;
        let one = format!("no rule jumps to chain {name}");
        let many = format!("{one}: {{n}} chains are unreachable");
        let message = match from == at {
            true => one.clone(),
            false => format!("only unreachable chains jump to chain {}", table.chain_at(at).name),
        };
        let cause =
            RootCause::new(table.root_cause_key(from, None), many, "entered only from there")
                .with_help(match program_of_chain_or_set(name) {
                    Some(_) => "leave it: its program may jump to it later".to_owned(),
                    None => format!("remove it (`-F {name}`, `-X {name}`), or jump to it"),
                });
        let found = table
            .new_chain_finding(&UNREACHABLE_CHAIN, at, message)
            .with_blamed_program(table.program_of_chain(from))
            .with_root_cause(
                cause.with_blamed_place(table.rule_or_chain_id_and_span(from, None), one),
            );
        out.push(if program_of_chain_or_set(&table.chain_at(at).name).is_some() {
            found.with_help("leave it: its program may jump to it later")
        } else {
            let (table, chain) = (table.table.name, table.chain_at(at).name.clone());
            let help = format!("remove it (`-F {chain}`, `-X {chain}`), or jump to it");
            let family = found.family.unwrap_or(Family::V4);
            found.with_help(help).with_fix(vec![RulesetEdit::RemoveChain { family, table, chain }])
        });
    }
}

/// Jumps to chains without rules: the chain is to blame.
fn report_jumps_to_empty_chains(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    for jump in table.packet_set_flow.chain_graph().all_jumps() {
        let (at, rule, to) = (jump.from, jump.rule, jump.to);
        let chain = table.chain_at(to);
        if chain.rules.is_empty() {
            let name = &chain.name;
            let one = format!("chain {name} is empty, and a rule jumps to it");
            let many = format!("chain {name} is empty, and {{n}} rules jump to it");
            let cause = RootCause::new(table.root_cause_key(to, None), many, "jumps to it");
            let found = table
                .new_rule_finding(&JUMP_TO_EMPTY_CHAIN, at, rule, format!("chain {name} is empty"))
                .with_blamed_program(table.program_of_chain(to))
                .with_help("remove the jump and the chain, unless a program fills the chain")
                .with_root_cause(
                    cause.with_blamed_place(table.rule_or_chain_id_and_span(to, None), one),
                )
                .with_wasted_comparisons(1);
            // A goto leaves the caller, and a rule may drop what it cannot read.
            let plain = matches!(table.chain_at(at).rules[rule].target, Target::Jump(_)) && {
                let boxes = table.packet_set_flow.rule_boxes((at, rule));
                boxes.boxes_maybe_dropped().len() == 0 && boxes.stateful().len() == 0
            };
            out.push(match plain && program_of_chain_or_set(name).is_none() {
                true => found.with_counter_changing_fix(vec![table.edit_removing_rule(at, rule)]),
                false => found,
            });
        }
    }
}

/// The jumps that close a circle.
fn report_jump_loops(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    for jump in table.packet_set_flow.chain_graph().back_edges() {
        let message = format!("this jump leads back to chain {}", table.chain_at(jump.to).name);
        let help = "remove one of the jumps: the kernel refuses to load a loop";
        out.push(table.new_rule_finding(&JUMP_LOOP, jump.from, jump.rule, message).with_help(help));
    }
}
