//! What a rule enables by being loaded: connection tracking and the reassembly of fragments.

use weir_packet::Family;

use super::conntrack_demand_level::ConntrackDemand;
use super::matches::{OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS, match_effects};
use super::opaque_module_row::OpaqueModuleWithoutSharedObjects;
use super::targets::{OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS, target_effects};
use crate::rule_match::Match;
use crate::ruleset::{Rule, Ruleset};
use crate::target::Target;

/// What a rule switches on by being loaded.
pub fn rule_conntrack_demand(rule: &Rule) -> ConntrackDemand {
    let opaque = |rows: &[OpaqueModuleWithoutSharedObjects], name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.map_or(ConntrackDemand::Nothing, |row| row.conntrack_demand)
    };
    let by_match = |m: &Match| match m {
        Match::Opaque(o) => opaque(OPAQUE_MATCHES_WITHOUT_SHARED_OBJECTS, &o.name),
        // In both families alike.
        _ => match_effects(m, Family::V4).conntrack_demand,
    };
    let by_target = match &rule.target {
        Target::Opaque(o) => opaque(OPAQUE_TARGETS_WITHOUT_SHARED_OBJECTS, &o.name),
        other => target_effects(other).conntrack_demand,
    };
    rule.matches.iter().map(by_match).fold(by_target, ConntrackDemand::max)
}

/// What some rules switch on together.
pub fn total_conntrack_demand<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> ConntrackDemand {
    rules.into_iter().map(rule_conntrack_demand).max().unwrap_or(ConntrackDemand::Nothing)
}

/// Whether a rule makes the kernel track connections.
pub fn is_conntrack_enabling_rule(rule: &Rule) -> bool {
    rule_conntrack_demand(rule) == ConntrackDemand::Tracking
}

/// Whether some rule of a family makes the kernel track its connections.
pub fn has_conntrack_enabling_rule(ruleset: &Ruleset) -> bool {
    ruleset.rules_with_table_and_chain().any(|(_, _, rule)| is_conntrack_enabling_rule(rule))
}
