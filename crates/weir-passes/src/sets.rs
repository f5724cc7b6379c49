//! Turns runs of rules with one verdict into sets.
//!
//! Rules that differ only in one address (and in a destination port, if they test one) are
//! collected into a *group*. A rule may be moved past others to its group only if no packet could
//! match both, or if both only count. A group that is long enough becomes a set and one rule. Every
//! original rule keeps its counter: that of its element, which the kernel increments at the lookup.
//!
//! Therefore the set lookup is the last test of the rule: an element must not count a packet that
//! another test of the rule rejects. But legacy iptables drops a packet with a truncated transport
//! header as soon as a rule tests its ports, and the original rule tested them only for packets
//! with its address. So if a group tests transport fields, there are two lookups: first one without
//! counting, which excludes all other packets from those tests, and last one that counts.
//!
//! In a set the longest prefix decides; in a list the first rule. If the rules are terminating, a
//! rule after one that covers it is dead and removed, and of the others the narrower comes first,
//! so both orders agree. If they are not terminating (LOG, MARK, counters, jumps that may return),
//! a packet may match several: overlapping prefixes go into several sets, in the order of the
//! rules.

mod group;
mod make;

use weir_artefact::manifest::{CompiledRun, Kept};
use weir_model::{Chain, Family, IpSet, Name, Rule, RuleIds, RuleIndex, Ruleset, Table};

use crate::run::{self, RunItem, Segment};
use crate::{CostModel, Rewritten};
use group::Group;

/// How sets are to be made.
#[derive(Clone, Debug)]
pub struct SetOptions {
    /// What checks and probes cost.
    pub cost: CostModel,
    /// Beginning of every set's name; at most 22 bytes.
    pub stem: String,
    /// Names that sets of the user have.
    pub taken: Vec<Name>,
}

/// Rewrites every chain's groups of similar rules as sets.
///
/// `places` are those of the ruleset as read: reports name its rules.
pub fn compile(ruleset: &Ruleset, options: &SetOptions, places: &RuleIds) -> Rewritten {
    assert!(options.stem.len() <= 22, "a set's name has at most 31 bytes");
    let mut work = Work {
        family: ruleset.family,
        options,
        places,
        sets: Vec::new(),
        numbers: 0,
        compiled: Vec::new(),
        kept: Vec::new(),
        dead: Vec::new(),
    };
    let mut tables = Vec::with_capacity(ruleset.tables.len());
    for table in &ruleset.tables {
        let chains = table.chains.iter().map(|c| work.chain(c)).collect();
        tables.push(Table {
            name: table.name,
            chains,
            leading_comments: table.leading_comments.clone(),
            trailing_comments: table.trailing_comments.clone(),
        });
    }
    let Work { sets, compiled, kept, dead, .. } = work;
    let trailing_comments = ruleset.trailing_comments.clone();
    let ruleset = Ruleset { tables, trailing_comments, family: ruleset.family };
    Rewritten { ruleset, sets, compiled, kept, dead }
}

struct Work<'a> {
    family: Family,
    options: &'a SetOptions,
    places: &'a RuleIds,
    sets: Vec<IpSet>,
    numbers: u32,
    compiled: Vec<CompiledRun>,
    kept: Vec<Kept>,
    dead: Vec<RuleIndex>,
}

impl Work<'_> {
    fn chain(&mut self, chain: &Chain) -> Chain {
        let items: Vec<RunItem<'_>> =
            chain.rules.iter().map(|r| RunItem::of(r, self.family)).collect();
        let before = self.compiled.len();
        let mut rules = Vec::with_capacity(items.len());
        for segment in run::segments(&items) {
            match segment {
                Segment::Barrier(i, _) => rules.push(items[i].rule.clone()),
                Segment::Between(range) => self.stretch(&items[range], &mut rules),
            }
        }
        if self.compiled.len() == before {
            return chain.clone();
        }
        for item in &items {
            if let (Some(why), Some(rule)) = (item.barrier, self.places.of_rule(item.rule)) {
                self.kept.push(Kept { rule, why: why.to_string() });
            }
        }
        Chain { rules, ..chain.clone() }
    }

    /// A stretch without barriers: groups in an order with the same meaning, or unchanged if no
    /// group is long enough.
    fn stretch(&mut self, items: &[RunItem<'_>], out: &mut Vec<Rule>) {
        let groups = group::gather(items, self.family);
        let before = self.compiled.len();
        let mut rules = Vec::with_capacity(items.len());
        for g in &groups {
            if !self.group(g, &mut rules) {
                rules.extend(g.members.iter().map(|m| m.rule.clone()));
            }
        }
        if self.compiled.len() == before {
            out.extend(items.iter().map(|i| i.rule.clone()));
        } else {
            out.append(&mut rules);
        }
    }

    /// An unused name for a set.
    fn name(&mut self) -> Name {
        loop {
            self.numbers += 1;
            let name = format!("{}{:05}", self.options.stem, self.numbers);
            assert!(name.len() <= 31, "set name {name} is too long");
            if self.options.taken.iter().all(|t| **t != *name) {
                return name.into();
            }
        }
    }

    fn report(&mut self, group: &Group<'_>, into: String) {
        // Rules that a pass made have no place.
        let first = group.members.iter().find_map(|m| self.places.of_rule(m.rule));
        let first = first.unwrap_or_default();
        self.compiled.push(CompiledRun { first, rules: group.members.len() as u32, into });
    }
}
