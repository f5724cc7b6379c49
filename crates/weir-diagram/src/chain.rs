//! Rules, chains and tables as diagrams.
//!
//! A rule is built from its end: first its target, then each test in front of it. A chain is the
//! sequence of its rules, merged as a balanced tree. A chain that is jumped to is built once per
//! hook, before the chains that jump to it; packets that return from it continue after the jump.
//! The [`library`](super::library) finds chains that were built before.

use weir_model::{
    Chain, ChainGraph, FieldSet, Hotdrop, Match, Policy, Rule, Table, Target, Test,
    located_tests_of, match_effects,
};
use weir_semantics::Verdict;
use weir_semantics::digest::{content, dropping};

use crate::at::At;
use crate::change::PacketChange;
use crate::compose::RulesetDiagram;
use crate::library::{ChainDiagrams, ChainId, ChainKey};
use crate::merging::{Merging, merge};
use crate::place::TablePlace;
use crate::presence::spans_in;
use crate::runs::{MergeStep, steps};
use crate::stateful_identity::StatefulIdentity;
use crate::store::{Full, Ref, Store};
use crate::terminal::{Ask, Exit, Terminal};
use crate::variable::StateInput;

/// Why there is no diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// A limit.
    Full(Full),
    /// Another reason, in words.
    Why(String),
}

impl From<Full> for Unknown {
    fn from(full: Full) -> Self {
        Unknown::Full(full)
    }
}

/// The chains of a table, and what those mean that are made already.
#[derive(Debug)]
struct Chains<'t> {
    graph: ChainGraph<'t>,
    /// Chains that some rule goes to.
    gone_to: Vec<bool>,
    meant: Vec<Option<ChainId>>,
}

impl<'t> Chains<'t> {
    fn new(table: &'t Table) -> Self {
        let graph = table.graph();
        let mut gone_to = vec![false; table.chains.len()];
        for jump in graph.all_jumps() {
            let target = &table.chains[jump.from].rules[jump.rule].target;
            gone_to[jump.to] |= matches!(target, Target::Goto(_));
        }
        Chains { graph, gone_to, meant: vec![None; table.chains.len()] }
    }

    fn meant(&self, name: &str) -> Option<ChainId> {
        self.graph.chain(name).and_then(|at| self.meant[at])
    }
}

impl<'f> RulesetDiagram<'f> {
    /// A table at a hook: what its built-in chain and policy make of packets. Accepted packets
    /// continue. Without such a chain, all do.
    ///
    /// `from` is a point from which on only the diagrams that `keep` knows are in use.
    pub fn table(
        &mut self,
        table: &'f Table,
        who: &StatefulIdentity,
        place: TablePlace,
        keep: &mut [Ref],
        from: usize,
    ) -> Result<Ref, Unknown> {
        let hook = place.hook();
        let is_base = |c: &Chain| &*c.name == hook.chain() && c.policy.is_some();
        let start = match table.chains.iter().position(is_base) {
            Some(start) if table.name.hooks().contains(&hook) => start,
            _ => return Ok(Ref::ZERO),
        };
        let mut chains = Chains::new(table);
        let order = chains.graph.callees_first(start).map_err(|at| {
            let name = &table.chains[at].name;
            Unknown::Why(format!("chain {name} of table {} leads back to itself", table.name))
        })?;
        for at in order {
            let meant = self.chain(&chains, &table.chains[at], who, place)?;
            let made = self.chains_made.get(meant);
            if at == start {
                return self.with_policy(made.rules, table.chains[at].policy);
            }
            if chains.gone_to[at] && made.goto.is_none() {
                let goto = self.leaving(made.rules, Exit::Continue, Exit::Return)?;
                self.chains_made.set_goto(meant, goto);
            }
            chains.meant[at] = Some(meant);
            self.sweep_all(keep, from);
        }
        Ok(Ref::ZERO)
    }

    /// What a chain means: looked up, or made.
    fn chain(
        &mut self,
        chains: &Chains<'f>,
        chain: &'f Chain,
        who: &StatefulIdentity,
        place: TablePlace,
    ) -> Result<ChainId, Unknown> {
        let sets_of = self.space.sets_of();
        let said = ChainKey::new(&chain.rules, (who, place, sets_of), |name| chains.meant(name));
        if let Some(meant) = self.chains_made.find(&said) {
            return Ok(meant);
        }
        self.prepare_sets(chain, place.at)?;
        let steps = steps(&chain.rules, self.space.layout.family);
        let count = steps.len();
        let mut rules = Rules { meaning: self, chains, rules: &chain.rules, steps, who, place };
        let rules = merge(&mut rules, count)?;
        let meant = match self.chains_made.of_rules(rules) {
            Some(meant) => meant,
            None => {
                let jump = self.leaving(rules, Exit::Return, Exit::Continue)?;
                self.chains_made.add(ChainDiagrams { rules, jump, goto: None })
            }
        };
        self.chains_made.note(said, meant);
        Ok(meant)
    }

    /// Sets are made before the rules are merged, and kept.
    fn prepare_sets(&mut self, chain: &Chain, at: At) -> Result<(), Full> {
        for rule in &chain.rules {
            for m in &rule.matches {
                if let Match::Set(m) = m {
                    self.space.set_members(m, at)?;
                }
            }
        }
        Ok(())
    }

    /// The diagram where one way of leaving is another.
    fn leaving(&mut self, f: Ref, from: Exit, to: Exit) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        space.store.map(code, f, &mut |leaf| {
            let terminal = terminals.get(leaf);
            match terminal.exit == from {
                true => terminals.leaf(Terminal { exit: to, ..terminal }),
                false => leaf,
            }
        })
    }

    /// The end of a built-in chain is its policy; what a table accepts continues.
    fn with_policy(&mut self, f: Ref, policy: Option<Policy>) -> Result<Ref, Unknown> {
        let end = match policy {
            Some(Policy::Drop) => Exit::Verdict(Verdict::Drop),
            Some(Policy::Accept) | None => Exit::Continue,
        };
        Ok(self.exits(f, |exit| match exit {
            Exit::Continue | Exit::Return => end,
            Exit::Verdict(Verdict::Accept) => Exit::Continue,
            other => other,
        })?)
    }

    /// The diagram with every way of leaving replaced.
    pub fn exits(&mut self, f: Ref, exit: impl Fn(Exit) -> Exit) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        space.store.map(code, f, &mut |leaf| {
            let terminal = terminals.get(leaf);
            terminals.leaf(Terminal { exit: exit(terminal.exit), ..terminal })
        })
    }

    /// A rule: what it does if its tests match, and what their evaluation does.
    fn rule(
        &mut self,
        chains: &Chains<'_>,
        rule: &Rule,
        who: u64,
        place: TablePlace,
    ) -> Result<Ref, Unknown> {
        let made = |name: &str| chains.meant(name).map(|meant| self.chains_made.get(meant));
        let mut out = match &rule.target {
            Target::None => Ref::ZERO,
            Target::Accept => self.terminals.exit(Exit::Verdict(Verdict::Accept)),
            Target::Drop => self.terminals.exit(Exit::Verdict(Verdict::Drop)),
            Target::Return => self.terminals.exit(Exit::Return),
            Target::Jump(name) => made(name).map_or(Ref::ZERO, |m| m.jump),
            Target::Goto(name) => made(name).and_then(|m| m.goto).unwrap_or(Ref::ZERO),
            other => self.target(other, who, place)?,
        };
        let tests = located_tests_of(rule, self.space.layout.family);
        // What the rule does to a packet that is dropped once the rule is done with it.
        let with_match = |t: &Test| matches!(t, Test::Opaque { hotdrop: Hotdrop::WithMatch, .. });
        let mut dying = match tests.iter().any(|(_, t)| with_match(t)) {
            true => Some(self.dying(&rule.target, out)?),
            false => None,
        };
        let drop = self.terminals.exit(Exit::Verdict(Verdict::Drop));
        for (from, test) in tests.iter().rev() {
            let lowered = self.space.test(rule, who, *from, test, place.at)?;
            // What a match writes is there for what follows, also where the rule fails later.
            out = self.written_by_match(rule, test, place, (lowered.holds, out))?;
            if let Some(index) = self.remembers(rule, test) {
                let digest = content(&rule.matches[index]);
                let ask = self.ask_of(rule, index, (who, digest), place);
                out = self.asked(ask, lowered.holds, out)?;
                if let Some(then) = &mut dying {
                    *then = self.asked_dying(ask, lowered.holds, *then)?;
                }
                if lowered.drops != Ref::ZERO {
                    let dropping = Ask { content: dropping(digest), ..ask };
                    out = self.asked_drop(dropping, lowered.drops, out)?;
                    if let Some(then) = &mut dying {
                        *then = self.asked_drop(dropping, lowered.drops, *then)?;
                    }
                }
                continue;
            }
            if let (true, Some(then)) = (with_match(test), dying) {
                let otherwise = self.space.store.and(lowered.holds, out)?;
                out = self.space.store.either(lowered.drops, then, otherwise)?;
                continue;
            }
            out = self.space.store.and(lowered.holds, out)?;
            if let Some(then) = &mut dying {
                let holds = self.space.store.minus(lowered.holds, lowered.drops)?;
                *then = self.space.store.either(holds, *then, drop)?;
            }
            if lowered.drops != Ref::ZERO {
                let dropped = self.space.store.and(lowered.drops, drop)?;
                out = self.space.store.over(dropped, out)?;
            }
        }
        Ok(out)
    }

    /// What follows a match that writes, if it matches.
    fn written_by_match(
        &mut self,
        rule: &Rule,
        test: &Test,
        place: TablePlace,
        (holds, then): (Ref, Ref),
    ) -> Result<Ref, Full> {
        let Test::Opaque { index, .. } = test else { return Ok(then) };
        let m = &rule.matches[*index];
        let writes = match_effects(m, self.space.layout.family).writes;
        if writes.is_empty() {
            return Ok(then);
        }
        let mut change = PacketChange::default();
        self.set_chosen(&mut change, writes, content(m), place);
        let change = self.terminals.change_number(&change);
        let changed = Terminal { change, ..Terminal::of(Exit::Continue) };
        let changed = self.terminals.leaf(changed);
        let then = self.then(changed, then)?;
        self.space.store.and(holds, then)
    }

    /// A target, and then a drop whatever it decides; a chain is not entered.
    fn dying(&mut self, target: &Target, out: Ref) -> Result<Ref, Full> {
        let out = match target {
            Target::Jump(_) | Target::Goto(_) => Ref::ZERO,
            _ => out,
        };
        self.exits(out, |_| Exit::Verdict(Verdict::Drop))
    }

    /// A stateful test of a packet that is dropped in any case.
    fn asked_dying(&mut self, ask: Ask, holds: Ref, then: Ref) -> Result<Ref, Full> {
        let (then, drop) = self.ask_branches(ask, then)?;
        self.space.store.either(holds, then, drop)
    }

    /// Whether a stateful test drops the packet is asked first, and that it was asked remembered.
    fn asked_drop(&mut self, ask: Ask, drops: Ref, then: Ref) -> Result<Ref, Full> {
        let (then, drop) = self.ask_branches(ask, then)?;
        self.space.store.either(drops, drop, then)
    }

    /// What follows a stateful test, and a drop; both remember that it was asked.
    fn ask_branches(&mut self, ask: Ask, then: Ref) -> Result<(Ref, Ref), Full> {
        let asked = self.terminals.ask(ask);
        let goes_on = self.terminals.leaf(Terminal { asked, ..Terminal::of(Exit::Continue) });
        let then = self.then(goes_on, then)?;
        let drop = Terminal { asked, ..Terminal::of(Exit::Verdict(Verdict::Drop)) };
        Ok((then, self.terminals.leaf(drop)))
    }

    /// The index of the match, where the answer of a test depends on packets before or on sets
    /// that rules change.
    fn remembers(&self, rule: &Rule, test: &Test) -> Option<usize> {
        match test {
            Test::Opaque { index, stateful: true, .. } => Some(*index),
            Test::Set { index } => match &rule.matches[*index] {
                Match::Set(m) if self.space.changes_set(m) => Some(*index),
                _ => None,
            },
            _ => None,
        }
    }

    /// The question of a match.
    fn ask_of(
        &self,
        rule: &Rule,
        index: usize,
        (who, content): (u64, u64),
        place: TablePlace,
    ) -> Ask {
        let m = &rule.matches[index];
        let reads = match m {
            Match::Set(_) => FieldSet::ALL,
            _ => match_effects(m, self.space.layout.family).reads,
        };
        Ask { who, content, of: StateInput { hook: place.at.hook, reads, change: 0 } }
    }

    /// A stateful test: that it was asked is part of the meaning, whatever the answer.
    fn asked(&mut self, ask: Ask, holds: Ref, then: Ref) -> Result<Ref, Full> {
        let asked = self.terminals.ask(ask);
        let asked = self.terminals.leaf(Terminal { asked, ..Terminal::of(Exit::Continue) });
        let then = self.then(asked, then)?;
        self.space.store.either(holds, then, asked)
    }
}

/// The rules of a chain, to be merged.
struct Rules<'m, 'f, 'c> {
    meaning: &'m mut RulesetDiagram<'f>,
    chains: &'c Chains<'f>,
    rules: &'f [Rule],
    steps: Vec<MergeStep>,
    who: &'c StatefulIdentity,
    place: TablePlace,
}

impl Merging for Rules<'_, '_, '_> {
    type Error = Unknown;

    fn store(&mut self) -> &mut Store {
        &mut self.meaning.space.store
    }

    fn leaf(&mut self, number: usize) -> Result<Ref, Unknown> {
        match &self.steps[number] {
            MergeStep::Rule(number) => {
                let rule = &self.rules[*number];
                self.meaning.rule(self.chains, rule, self.who.of(rule), self.place)
            }
            MergeStep::Union { rule, field, spans } => {
                let all = Rule::new(self.rules[*rule].target.clone());
                let ends = self.meaning.rule(self.chains, &all, 0, self.place)?;
                let space = &mut self.meaning.space;
                let levels = space.layout.field(*field);
                let inside = spans_in(&mut space.store, levels, spans)?;
                Ok(space.store.and(inside, ends)?)
            }
        }
    }

    fn join(&mut self, first: Ref, second: Ref) -> Result<Ref, Unknown> {
        Ok(self.meaning.then(first, second)?)
    }

    fn is_full(error: &Unknown) -> bool {
        *error == Unknown::Full(Full::Memory)
    }
}
