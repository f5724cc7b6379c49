//! A packet's journey by look-ups: `weir explain --engine`.

use std::fmt::Write as _;

use serde::Serialize;
use thiserror::Error;
use weir_classify::ruleset::{
    FlattenLimits, LookupBuildError, LookupProgram, LookupProgramError, LookupStructures,
};
use weir_classify::{BuildLimits, Engine};
use weir_model::{Firewall, Hook, TableName};
use weir_semantics::trace::{Trace, TraceStep};
use weir_semantics::{Interpreter, Oracle};

use crate::explain::verdict_words;
use crate::lookup_walk::{LookupDifference, find_lookup_difference, walk_by_lookups};

/// A table of a journey, traversed by look-ups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableLookupResult {
    /// `PREROUTING`, …
    pub hook: &'static str,
    /// Table.
    pub table: &'static str,
    /// What became of the packet there.
    pub verdict: String,
    /// What counted it, in order: `filter/FORWARD/3`, `filter/FORWARD/policy`.
    pub credited: Vec<String>,
    /// Rules that the packet could reach.
    #[serde(rename = "rules")]
    pub reachable_rules: usize,
    /// Rules of these that look-ups do not judge alone.
    pub evaluated_rules: usize,
    /// How many look-ups the packet took.
    pub lookups: u32,
    /// How many rules were evaluated for it.
    pub evaluations: u32,
}

/// Why there are no look-ups for a journey.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LookupJourneyError {
    /// A chain cannot be compiled.
    #[error(transparent)]
    UncompilableChain(#[from] LookupProgramError),
    /// The engine does not take the filters of a chain.
    #[error(
        "cannot look up {table}/{chain} with this engine (the engine linear supports every rule)"
    )]
    EngineRefused {
        /// Table.
        table: TableName,
        /// Chain.
        chain: &'static str,
        /// Why.
        source: LookupBuildError,
    },
    /// An error of weir: the look-ups differ from the interpreter.
    #[error(
        "internal error: the look-ups of {table}/{chain} with the engine {engine} differ from the \
         interpreter in {difference}; please report the ruleset and the packet"
    )]
    DiffersFromInterpreter {
        /// Table.
        table: TableName,
        /// Chain.
        chain: &'static str,
        /// Engine.
        engine: &'static str,
        /// In what.
        difference: LookupDifference,
    },
}

/// Traverses every table of a journey by look-ups, and compares each with the interpreter.
///
/// # Errors
/// A chain cannot be looked up by the engine, or the two differ.
pub fn look_up_and_check_journey(
    trace: &Trace<'_>,
    (interpreter, firewall): (&Interpreter<'_>, &Firewall),
    engine: Engine,
    oracle: &mut dyn Oracle,
) -> Result<Vec<TableLookupResult>, LookupJourneyError> {
    let mut tables = Vec::new();
    for step in &trace.steps {
        let TraceStep::EnterTable { hook, table, packet } = step else { continue };
        let (hook, table, chain) = (*hook, *table, hook.chain_name());
        let limits = FlattenLimits::default();
        let program = LookupProgram::compile(firewall, packet.family, (table, chain), limits)?;
        let structures = LookupStructures::build(&program, engine, &BuildLimits::default())
            .map_err(|source| LookupJourneyError::EngineRefused { table, chain, source })?;
        let packet = packet.as_ref();
        let walk =
            walk_by_lookups(&program, &structures, interpreter, hook, packet.clone(), oracle);
        let mut left = packet.clone();
        let (verdict, log) = interpreter.walk_table(table, hook, &mut left, oracle);
        if let Some(difference) = find_lookup_difference(&walk, verdict, &log, &left) {
            let engine = engine.name();
            return Err(LookupJourneyError::DiffersFromInterpreter {
                table,
                chain,
                engine,
                difference,
            });
        }
        tables.push(TableLookupResult {
            hook: Hook::chain_name(hook),
            table: table.as_str(),
            verdict: verdict_words(verdict),
            credited: walk.credited.iter().map(|id| id.path_in_family()).collect(),
            reachable_rules: program.reachable_rule_count(),
            evaluated_rules: program.rules_evaluated_after_lookup().len(),
            lookups: walk.lookup_count,
            evaluations: walk.evaluation_count,
        });
    }
    Ok(tables)
}

/// The tables as text.
pub fn render_lookup_journey(engine: Engine, tables: &[TableLookupResult]) -> String {
    let mut text =
        format!("the engine {} finds the same rules as the trace in every table:\n", engine.name());
    for table in tables {
        let TableLookupResult {
            hook,
            table,
            verdict,
            lookups,
            evaluations,
            reachable_rules: rules,
            ..
        } = table;
        let plural = if *lookups == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  {hook} {table}: {verdict}; {lookups} look-up{plural}, {evaluations} of {rules} \
             reachable rules evaluated one by one"
        );
    }
    let counted: Vec<&str> = tables.iter().flat_map(|t| &t.credited).map(|id| &**id).collect();
    let _ = writeln!(text, "  counters incremented: {}", counted.join(", "));
    text
}
