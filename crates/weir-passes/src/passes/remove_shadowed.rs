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

use weir_diagram::{At, Full, PacketSet, Space, SpaceOptions};
use weir_model::{Chain, Family, Firewall, Rule, RuleIndex, Ruleset};
use weir_partition::{TestAlgebra, barrier};

use crate::Rewritten;
use crate::pass::{Context, Pass};
use crate::rewrite::remove;

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct RemoveShadowed;

impl Pass for RemoveShadowed {
    fn name(&self) -> &'static str {
        "remove_shadowed"
    }

    fn about(&self) -> &'static str {
        "removes rules that no packet reaches, because earlier rules match all of their packets first"
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let family = ruleset.family;
        let firewall = match family {
            Family::V4 => Firewall { v4: Some(ruleset.clone()), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset.clone()), ..Firewall::default() },
        };
        let mut dead: HashSet<RuleIndex> = HashSet::new();
        let options = SpaceOptions { memory_bytes: 256 << 20, ..SpaceOptions::default() };
        let fresh = || Space::with(family, &[&firewall], options).ok();
        let mut space = None;
        for table in &ruleset.tables {
            let algebra = TestAlgebra::of(table, family);
            let ours = table.chains.iter().filter(|c| context.may_touch(c));
            for chain in ours.filter(|c| c.rules.len() > 1) {
                let Some(own) = space.take().or_else(fresh) else { continue };
                let mut search = ShadowSearch { space: own, algebra, family, dead: &mut dead };
                // Rules beyond the memory limit are not known to be shadowed: they stay, and the
                // next chain begins with an empty space.
                let done = search.chain(chain);
                space = done.is_ok().then_some(search.space);
            }
        }
        remove(ruleset, &dead, "earlier rules match all of its packets first", context)
    }
}

struct ShadowSearch<'f, 'd> {
    space: Space<'f>,
    algebra: TestAlgebra,
    family: Family,
    dead: &'d mut HashSet<RuleIndex>,
}

impl ShadowSearch<'_, '_> {
    fn chain(&mut self, chain: &Chain) -> Result<(), Full> {
        self.half(&chain.rules, PacketSet::NONE).map(|_| ())
    }

    /// Looks for dead rules after packets that are gone; which packets end their walk in these.
    fn half(&mut self, rules: &[Rule], gone: PacketSet) -> Result<PacketSet, Full> {
        match rules {
            [] => Ok(PacketSet::NONE),
            [rule] => {
                if !rule.credit.is_empty() && barrier(rule, self.family).is_none() {
                    let reached = self.reaches(rule)?;
                    if self.space.implies(reached, gone)? {
                        self.dead.extend(&rule.credit);
                    }
                }
                self.ends(rule)
            }
            _ => {
                let (first, second) = rules.split_at(rules.len() / 2);
                let by_first = self.half(first, gone)?;
                let gone = self.space.or(gone, by_first)?;
                let by_second = self.half(second, gone)?;
                self.space.or(by_first, by_second)
            }
        }
    }

    /// Packets that would notice the rule: those that match it, and those that it drops.
    fn reaches(&mut self, rule: &Rule) -> Result<PacketSet, Full> {
        let matching = self.space.of_rule(rule, At::ANYWHERE)?;
        let dropped = self.space.dropped_by(rule, At::ANYWHERE)?;
        self.space.or(matching, dropped)
    }

    /// Packets that surely go no further in the chain.
    fn ends(&mut self, rule: &Rule) -> Result<PacketSet, Full> {
        if !self.algebra.is_settled(rule) {
            return Ok(PacketSet::NONE);
        }
        if rule.target.leaves_chain() {
            self.reaches(rule)
        } else {
            self.space.dropped_by(rule, At::ANYWHERE)
        }
    }
}
