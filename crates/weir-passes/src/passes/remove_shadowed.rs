//! `remove_shadowed`: a rule that no packet reaches goes.
//!
//! No packet reaches a rule if those before it in its chain, all together, end the walk of every
//! packet that it could match or drop. That is asked of sets of packets as diagrams, so it does not
//! take one rule that covers another: ten may cover it between them. A packet whose transport
//! header is cut short is dropped by the first rule that looks at it, so it counts as ended there,
//! and a rule that would be the first to look at it is reached.
//!
//! Asked one after another, each rule against the union of all before it, twenty thousand rules
//! would make twenty thousand unions. Instead the chain is halved: the union of a half is made
//! once, for the other half, and so on below: about as many unions as rules, most of them small.

use std::collections::HashSet;

use weir_diagram::{At, Full, PacketSet, Space, SpaceOptions};
use weir_model::{Chain, Family, Firewall, Rule, RuleId, Ruleset};
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
        "rules that no packet reaches, because those before them end its walk, are left out"
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let family = ruleset.family;
        let firewall = match family {
            Family::V4 => Firewall { v4: Some(ruleset.clone()), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset.clone()), ..Firewall::default() },
        };
        let mut dead: HashSet<RuleId> = HashSet::new();
        let options = SpaceOptions { memory_bytes: 256 << 20, ..SpaceOptions::default() };
        let fresh = || Space::with(family, &[&firewall], options).ok();
        let mut space = None;
        for table in &ruleset.tables {
            let algebra = TestAlgebra::of(table, family);
            let ours = table.chains.iter().filter(|c| context.may_touch(c));
            for chain in ours.filter(|c| c.rules.len() > 1) {
                let Some(own) = space.take().or_else(fresh) else { continue };
                let mut search = ShadowSearch { space: own, algebra, family, dead: &mut dead };
                // Rules behind the memory limit are not known to be shadowed: they stay, and the
                // next chain begins with an empty space.
                let done = search.chain(chain);
                space = done.is_ok().then_some(search.space);
            }
        }
        remove(ruleset, &dead, "no packet reaches it behind the rules before it", context)
    }
}

struct ShadowSearch<'f, 'd> {
    space: Space<'f>,
    algebra: TestAlgebra,
    family: Family,
    dead: &'d mut HashSet<RuleId>,
}

impl ShadowSearch<'_, '_> {
    fn chain(&mut self, chain: &Chain) -> Result<(), Full> {
        self.half(&chain.rules, PacketSet::NONE).map(|_| ())
    }

    /// Looks for dead rules behind packets that are gone; which packets end their walk in these.
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
