//! `reorder_by_hits`: evaluates frequently hit rules early.
//!
//! Only real counters (`iptables-save -c`) show what is hit. A rule is moved past its predecessor
//! if no packet could match both, no packet with a truncated header would be dropped by another of
//! the two, and neither is a barrier; so it moves up step by step, and each step preserves the
//! meaning.

use weir_model::{Rule, Ruleset};

use crate::RewrittenRuleset;
use crate::pass::{Pass, PassContext};
use crate::rewrite::rewrite_chains;

/// Places that a rule climbs at most.
const MAX_POSITIONS_MOVED: usize = 64;

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct ReorderByHitsPass;

impl Pass for ReorderByHitsPass {
    fn name(&self) -> &'static str {
        "reorder_by_hits"
    }

    fn description(&self) -> &'static str {
        "moves rules that count more packets (iptables-save -c) up past disjoint ones"
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let hits = |r: &Rule| r.counters.map_or(0, |c| c.packets);
        rewrite_chains(ruleset, context, |chain, (algebra, _), made| {
            let mut rules = chain.rules.clone();
            let mut moved = false;
            for i in 1..rules.len() {
                let mut at = i;
                while at > 0
                    && i - at < MAX_POSITIONS_MOVED
                    && hits(&rules[at]) > hits(&rules[at - 1])
                    && algebra.can_commute_as_disjoint_rules(&rules[at - 1], &rules[at])
                {
                    rules.swap(at - 1, at);
                    at -= 1;
                }
                if at < i {
                    moved = true;
                    made.record_compiled_run(
                        context,
                        &rules[at].credited_originals,
                        1,
                        "earlier in its chain".to_owned(),
                    );
                }
            }
            moved.then_some(rules)
        })
    }
}
