//! What a rule enables by being loaded: connection tracking and the reassembly of fragments.

use weir_packet::Family;

use super::conntrack::Conntrack;
use super::matches::match_effects;
use super::targets::effects_of;
use crate::matching::Match;
use crate::ruleset::Rule;
use crate::target::Target;

/// Matches without a row of which it is known that they make the kernel track connections.
const TRACKING: [&str; 2] = ["connlabel", "cluster"];
/// The same of targets.
const TRACKING_TARGETS: [&str; 2] = ["CONNSECMARK", "FLOWOFFLOAD"];

/// What a rule switches on by being loaded.
pub fn conntrack_of(rule: &Rule) -> Conntrack {
    let tracks = |tracking: &[&str], name: &str| match tracking.contains(&name) {
        true => Conntrack::Tracks,
        false => Conntrack::No,
    };
    let by_match = |m: &Match| match m {
        Match::Opaque(o) => tracks(&TRACKING, &o.name),
        // In both families alike.
        _ => match_effects(m, Family::V4).conntrack,
    };
    let by_target = match &rule.target {
        Target::Opaque(o) => tracks(&TRACKING_TARGETS, &o.name),
        other => effects_of(other).conntrack,
    };
    rule.matches.iter().map(by_match).fold(by_target, Conntrack::max)
}

/// What some rules switch on together.
pub fn conntrack_of_all<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Conntrack {
    rules.into_iter().map(conntrack_of).max().unwrap_or(Conntrack::No)
}

/// Whether a rule makes the kernel track connections.
pub fn needs_conntrack(rule: &Rule) -> bool {
    conntrack_of(rule) == Conntrack::Tracks
}
