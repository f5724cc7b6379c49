//! Assumed answers to questions that packets do not determine, as values of variables.

use std::collections::{HashMap, HashSet};

use weir_model::Match;
use weir_semantics::ConnectionFactOfHost;
use weir_semantics::question_digest::digest_drop_question;

use crate::bdd::node_store::{DiagramRef, LEAF_LEVEL, LimitReached};
use crate::packet_sets::free_variable::FreeVariable;
use crate::rule_diagrams::compose::DiagramContext;

/// Assumptions about matches and targets whose results packets do not determine.
#[derive(Clone, Copy)]
pub struct RegionAssumptions<'a> {
    /// The assumed result of a match, if any; such a match is also assumed not to drop packets.
    pub assumed_result: &'a dyn Fn(&Match) -> Option<bool>,
    /// Whether the module or target of this name is assumed not to drop packets itself.
    pub never_drops: &'a dyn Fn(&str) -> bool,
}

/// The levels of facts of the connection that are false for the first packet of a connection.
pub(crate) fn assign_false_to_connection_facts_by_level(
    context: &DiagramContext<'_>,
) -> HashMap<u32, bool> {
    let facts = [
        ConnectionFactOfHost::NatTableAlreadyTraversed,
        ConnectionFactOfHost::HostReplyInheritsConntrackEntry,
    ]
    .map(ConnectionFactOfHost::digest);
    context.assign_variable_values_by_level(|variable, _| match variable {
        FreeVariable::StatelessTest { content_digest, .. } => {
            facts.contains(content_digest).then_some(false)
        }
        _ => None,
    })
}

impl DiagramContext<'_> {
    /// The levels of free variables for which `value` gives a value.
    fn assign_variable_values_by_level(
        &self,
        value: impl Fn(&FreeVariable, Option<&Match>) -> Option<bool>,
    ) -> HashMap<u32, bool> {
        let variables = (0..).map_while(|number| {
            Some((self.space.layout.fields_end + number, self.space.free_variables.get(number)?))
        });
        variables
            .filter_map(|(level, (variable, m))| Some((level, value(variable, m.as_ref())?)))
            .collect()
    }

    /// The levels of matches with an assumed result, and of the questions whether these drop the
    /// packet.
    pub(crate) fn assign_assumed_results_by_level(
        &self,
        assumptions: RegionAssumptions<'_>,
    ) -> HashMap<u32, bool> {
        let RegionAssumptions { assumed_result, never_drops } = assumptions;
        let mut drop_questions = HashSet::new();
        for number in 0.. {
            let Some((variable, m)) = self.space.free_variables.get(number) else { break };
            if m.as_ref().is_some_and(|m| assumed_result(m).is_some())
                && let Some(digest) = content_digest_of_test(variable)
            {
                drop_questions.insert(digest_drop_question(digest));
            }
        }
        self.assign_variable_values_by_level(|variable, m| match m {
            Some(m) => assumed_result(m),
            None => {
                let dropper = self.space.free_variables.dropping_module_of_question(variable);
                let digest = content_digest_of_test(variable)?;
                let is_assumed =
                    drop_questions.contains(&digest) || dropper.is_some_and(never_drops);
                is_assumed.then_some(false)
            }
        })
    }

    /// A diagram in which the variables of these levels have these values.
    pub(crate) fn fix_variables(
        &mut self,
        set: DiagramRef,
        values: &HashMap<u32, bool>,
        known: &mut HashMap<DiagramRef, DiagramRef>,
    ) -> Result<DiagramRef, LimitReached> {
        let level = self.space.store.level(set);
        if level == LEAF_LEVEL {
            return Ok(set);
        }
        if let Some(found) = known.get(&set) {
            return Ok(*found);
        }
        let (low, high) = self.space.store.branches(set);
        let found = match values.get(&level) {
            Some(true) => self.fix_variables(high, values, known)?,
            Some(false) => self.fix_variables(low, values, known)?,
            None => {
                let low = self.fix_variables(low, values, known)?;
                let high = self.fix_variables(high, values, known)?;
                self.space.store.make_node(level, low, high)?
            }
        };
        known.insert(set, found);
        Ok(found)
    }
}

fn content_digest_of_test(variable: &FreeVariable) -> Option<u64> {
    match variable {
        FreeVariable::StatelessTest { content_digest, .. }
        | FreeVariable::StatefulTest { content_digest, .. } => Some(*content_digest),
        _ => None,
    }
}
