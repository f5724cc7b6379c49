//! `remove_shadowed`: removes rules that no packet reaches.
//!
//! No packet reaches a rule if the rules before it in its chain together decide every packet that
//! it could match or drop. This is computed with sets of packets as diagrams, so no single rule has
//! to cover it: ten may cover it together. A packet with a truncated transport header is dropped by
//! the first rule that tests the header, so it counts as decided there, and a rule that would be
//! the first to test it is reachable.
//!
//! Testing each rule against the union of all rules before it would need twenty thousand unions for
//! twenty thousand rules. Instead the chain is halved: the union of one half is computed once, for
//! the other half, and so on recursively: about as many unions as rules, most of them small.

use std::collections::HashSet;

use weir_diagram::{HookContext, LimitReached, PacketSet, PacketSpace, PacketSpaceOptions};
use weir_model::{Chain, Family, Firewall, OriginalRuleIndex, Rule, Ruleset};
use weir_partition::{TestAlgebra, find_barrier_reason};

use crate::RewrittenRuleset;
use crate::pass::{Pass, PassContext};
use crate::rewrite::remove_dead_rules_keeping_conntrack_use;

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct RemoveShadowedPass;

impl Pass for RemoveShadowedPass {
    fn name(&self) -> &'static str {
        "remove_shadowed"
    }

    fn description(&self) -> &'static str {
        "removes rules that no packet reaches, because earlier rules match all of their packets first"
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let family = ruleset.family;
        let firewall = match family {
            Family::V4 => Firewall { v4: Some(ruleset.clone()), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset.clone()), ..Firewall::default() },
        };
        let mut dead: HashSet<OriginalRuleIndex> = HashSet::new();
        let options =
            PacketSpaceOptions { memory_bytes: 256 << 20, ..PacketSpaceOptions::default() };
        let fresh = || PacketSpace::for_firewalls(family, &[&firewall], options).ok();
        let mut space = None;
        for table in &ruleset.tables {
            let algebra = TestAlgebra::for_table(table, family);
            let ours = table.chains.iter().filter(|c| context.may_rewrite(c));
            for chain in ours.filter(|c| c.rules.len() > 1) {
                let Some(own) = space.take().or_else(fresh) else { continue };
                let mut search =
                    ShadowedRuleSearch { space: own, algebra, family, dead_rules: &mut dead };
                // Rules beyond the memory limit are not known to be shadowed: they stay, and the
                // next chain begins with an empty space.
                let done = search.search_rules_of_chain(chain);
                space = done.is_ok().then_some(search.space);
            }
        }
        remove_dead_rules_keeping_conntrack_use(
            ruleset,
            &dead,
            "earlier rules match all of its packets first",
            context,
        )
    }
}

struct ShadowedRuleSearch<'f, 'd> {
    space: PacketSpace<'f>,
    algebra: TestAlgebra,
    family: Family,
    dead_rules: &'d mut HashSet<OriginalRuleIndex>,
}

impl ShadowedRuleSearch<'_, '_> {
    fn search_rules_of_chain(&mut self, chain: &Chain) -> Result<(), LimitReached> {
        self.search_rules(&chain.rules, PacketSet::NONE).map(|_| ())
    }

    /// Looks for dead rules after packets that are gone; which packets end their walk in these.
    fn search_rules(
        &mut self,
        rules: &[Rule],
        already_decided: PacketSet,
    ) -> Result<PacketSet, LimitReached> {
        match rules {
            [] => Ok(PacketSet::NONE),
            [rule] => {
                if !rule.credited_originals.is_empty()
                    && find_barrier_reason(rule, self.family).is_none()
                {
                    let reached = self.matched_or_dropped_packets(rule)?;
                    if self.space.is_subset(reached, already_decided)? {
                        self.dead_rules.extend(&rule.credited_originals);
                    }
                }
                self.decided_packets(rule)
            }
            _ => {
                let (first, second) = rules.split_at(rules.len() / 2);
                let by_first = self.search_rules(first, already_decided)?;
                let already_decided = self.space.or(already_decided, by_first)?;
                let by_second = self.search_rules(second, already_decided)?;
                self.space.or(by_first, by_second)
            }
        }
    }

    /// Packets that would notice the rule: those that match it, and those that it drops.
    fn matched_or_dropped_packets(&mut self, rule: &Rule) -> Result<PacketSet, LimitReached> {
        let matching = self.space.packets_matching_rule(rule, HookContext::EVERYTHING_KNOWN)?;
        let dropped =
            self.space.packets_dropped_as_truncated(rule, HookContext::EVERYTHING_KNOWN)?;
        self.space.or(matching, dropped)
    }

    /// Packets that surely go no further in the chain.
    fn decided_packets(&mut self, rule: &Rule) -> Result<PacketSet, LimitReached> {
        if !self.algebra.has_only_stable_tests(rule) {
            return Ok(PacketSet::NONE);
        }
        if rule.target.leaves_chain() {
            self.matched_or_dropped_packets(rule)
        } else {
            self.space.packets_dropped_as_truncated(rule, HookContext::EVERYTHING_KNOWN)
        }
    }
}
