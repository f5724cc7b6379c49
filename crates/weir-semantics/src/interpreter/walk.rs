//! The traversal of one table at one hook: net/ipv4/netfilter/ip_tables.c, `ipt_do_table`.
//!
//! First match, with an explicit stack. A rule counts when all of its matches are true, before its
//! target acts. RETURN pops; in a built-in chain it applies the policy, whose counter then counts.
//! A goto does not push, so the rest of the calling chain is skipped. A match on a truncated header
//! drops the packet (*hotdrop*), whatever the rule says.

use weir_model::effect::{SetWrites, UNKNOWN_TARGET};
use weir_model::target::{Effect, NatTarget};
use weir_model::{
    Ends, FieldSet, Hook, Hotdrop, Packet, Policy, Rule, RuleIndex, TableName, Target, effects_of,
};

use super::field_test::{Held, field_test, state_holds};
use super::lower::{Action, Compact, CompactRule, OpaqueTest, TableIndex, hook_index};
use super::observer::{Failed, Observer};
use super::view::View;
use super::{Interpreter, nat};
use crate::digest::{content, dropping};
use crate::effects::{self, apply};
use crate::oracle::{Oracle, Question, QuestionSubject, Write};
use crate::outcome::{Asked, Counted, EffectSeen, Hit, Log, Verdict};
use crate::sets::{Membership, membership};

/// A walk under way.
pub(crate) struct Walk<'w, 'f, O> {
    pub interpreter: &'w Interpreter<'f>,
    pub hook: Hook,
    pub packet: &'w mut Packet,
    pub answers: &'w mut dyn Oracle,
    pub log: &'w mut Log<'f>,
    pub observer: &'w mut O,
    /// The packet was sent to a port of this host.
    pub redirected: bool,
}

/// Where the walk is: in which chain, at which rule of the table.
#[derive(Clone, Copy)]
struct WalkPosition {
    chain: u32,
    rule: u32,
}

/// The effect of a rule's target on the traversal.
enum Next {
    Continue,
    /// The packet changed: read its fields again.
    Reread,
    Decide(Verdict),
}

impl<'f, O: Observer<'f>> Walk<'_, 'f, O> {
    /// Walks a table from its built-in chain of the hook; `None` if there is none.
    pub fn table(&mut self, name: TableName) -> Option<Verdict> {
        let table = self.interpreter.table(self.packet.family, name)?;
        let start = table.base[hook_index(self.hook)]?;
        self.chain(name, start)
    }

    /// Walks from a chain; `None` if a chain without policy returned.
    pub fn chain(&mut self, name: TableName, start: u32) -> Option<Verdict> {
        let interpreter = self.interpreter;
        let table = interpreter.table(self.packet.family, name)?;
        self.observer.table(self.hook, name, self.packet);
        let mut view = View::of(self.packet);
        let mut stack: Vec<WalkPosition> = Vec::new();
        let mut at = self.enter(table, start, 0);
        let mut jumps_left = if table.loops { table.rules.len() } else { usize::MAX };
        loop {
            let chain = &table.chains[at.chain as usize];
            if at.rule == chain.end {
                match stack.pop() {
                    Some(back) => {
                        at = self.back(table, back, stack.len());
                        continue;
                    }
                    None => return self.policy(table, start),
                }
            }
            let compact = table.rules[at.rule as usize];
            let rule = &chain.chain.rules[(at.rule - chain.first) as usize];
            let number = at.rule - chain.first + 1;
            self.log.tried += 1;
            let (failed, dying) = self.tests(table, compact, rule, &mut view);
            self.observer.rule(rule, number, failed, self.packet);
            match failed {
                None => {}
                Some(Failed { hotdrop: false, .. }) => {
                    at.rule += 1;
                    continue;
                }
                Some(_) => return self.decide(Verdict::Drop),
            }
            let counted = Counted::Rule { table: name, chain: &chain.chain.name, number };
            self.log.hits.push(Hit { hook: self.hook, counted, credit: &rule.credit });
            if dying {
                if compact.action == Action::Target {
                    self.target(name, rule);
                }
                return self.decide(Verdict::Drop);
            }
            let next = WalkPosition { chain: at.chain, rule: at.rule + 1 };
            at = match compact.action {
                Action::Count => next,
                Action::Accept => return self.decide(Verdict::Accept),
                Action::Drop => return self.decide(Verdict::Drop),
                Action::Return => match stack.pop() {
                    Some(back) => self.back(table, back, stack.len()),
                    None => return self.policy(table, start),
                },
                Action::Jump(to) | Action::Goto(to) => {
                    // The kernel refuses to load a loop; without this it would walk for ever.
                    jumps_left -= 1;
                    if jumps_left == 0 {
                        return self.decide(Verdict::Drop);
                    }
                    if matches!(compact.action, Action::Jump(_)) {
                        stack.push(next);
                    }
                    self.enter(table, to, stack.len())
                }
                Action::Target => match self.target(name, rule) {
                    Next::Continue => next,
                    Next::Reread => {
                        view = View::of(self.packet);
                        next
                    }
                    Next::Decide(verdict) => return self.decide(verdict),
                },
            };
        }
    }

    fn enter(&mut self, table: &TableIndex<'f>, chain: u32, depth: usize) -> WalkPosition {
        let index = &table.chains[chain as usize];
        self.observer.chain(&index.chain.name, depth);
        WalkPosition { chain, rule: index.first }
    }

    fn back(&mut self, table: &TableIndex<'f>, to: WalkPosition, depth: usize) -> WalkPosition {
        self.observer.chain(&table.chains[to.chain as usize].chain.name, depth);
        to
    }

    fn decide(&mut self, verdict: Verdict) -> Option<Verdict> {
        self.observer.verdict(verdict, false);
        Some(verdict)
    }

    /// The end of the chain that the walk began in.
    fn policy(&mut self, table: &TableIndex<'f>, start: u32) -> Option<Verdict> {
        let chain = table.chains[start as usize].chain;
        let verdict = match chain.policy? {
            Policy::Accept => Verdict::Accept,
            Policy::Drop => Verdict::Drop,
        };
        let counted = Counted::Policy { table: table.name, chain: &chain.name };
        self.log.hits.push(Hit { hook: self.hook, counted, credit: &[] });
        self.observer.verdict(verdict, true);
        Some(verdict)
    }

    fn target(&mut self, table: TableName, rule: &'f Rule) -> Next {
        let target = &rule.target;
        let seen = EffectSeen { hook: self.hook, table, target };
        match target {
            Target::Reject(with) => {
                self.log.effects.push(seen);
                Next::Decide(Verdict::Reject(with))
            }
            Target::Divert(extension) => {
                self.log.effects.push(seen);
                self.hand_over(rule, extension.module, content(&**extension))
            }
            Target::Nat(nat) => {
                self.log.effects.push(seen);
                self.redirected |= matches!(**nat, NatTarget::Redirect(_));
                nat::translate(self.hook, nat, self.packet, self.answers);
                Next::Decide(Verdict::Accept)
            }
            Target::Effect(effect) => {
                self.log.effects.push(seen);
                match &**effect {
                    Effect::Other(e) => self.extension(rule, effect, content(e)),
                    _ if apply(effect, self.packet) => Next::Reread,
                    _ => Next::Continue,
                }
            }
            Target::Opaque(opaque) => {
                self.log.effects.push(seen);
                let digest = content(opaque);
                if self.ask(rule, QuestionSubject::Target, true, digest) {
                    return Next::Decide(Verdict::Unknown);
                }
                self.write(rule, UNKNOWN_TARGET.unknown, digest);
                Next::Reread
            }
            Target::None
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::Jump(_)
            | Target::Goto(_) => Next::Continue,
        }
    }

    /// A target of a module whose row in the table of effects says what it does.
    fn extension(&mut self, rule: &'f Rule, effect: &Effect, digest: u64) -> Next {
        let row = effects_of(&rule.target);
        if row.drops && self.asks_drop(rule, QuestionSubject::Target, row.stateful, digest) {
            return Next::Decide(Verdict::Drop);
        }
        // What it does to a set is ordered with what matches find there.
        if row.stateful || row.sets != SetWrites::None {
            self.ask(rule, QuestionSubject::Target, true, digest);
        }
        let changed = apply(effect, self.packet);
        if row.unknown.is_empty() {
            return if changed { Next::Reread } else { Next::Continue };
        }
        // CT leaves a packet alone that has an entry, CONNMARK one that has none.
        let writes = match row.name {
            "CT" => changed,
            "CONNMARK" => self.packet.ct.has_entry(),
            _ => true,
        };
        if writes {
            self.write(rule, row.unknown, digest);
        }
        Next::Reread
    }

    /// A packet that is handed over, and perhaps returns.
    fn hand_over(&mut self, rule: &'f Rule, module: &'static str, content: u64) -> Next {
        let packet: &Packet = self.packet;
        let (family, hook, subject) = (packet.family, self.hook, QuestionSubject::Target);
        let (stateful, configured) = (true, self.interpreter.configured.of_rule(rule));
        let question =
            Question { family, hook, rule, subject, stateful, content, configured, packet };
        let answer = self.answers.comes_back(&question);
        let credit: &'f [RuleIndex] = &rule.credit;
        self.log.asked.push(Asked { credit, subject, content, configured, stateful, answer });
        let row = effects_of(&rule.target);
        if !answer {
            return Next::Decide(Verdict::Divert(module));
        }
        self.write(rule, row.unknown, content);
        match row.ends {
            Ends::Always => Next::Decide(Verdict::Accept),
            Ends::Never | Ends::Perhaps => Next::Reread,
        }
    }

    /// Writes fields whose new values the caller gives.
    fn write(&mut self, rule: &'f Rule, fields: FieldSet, content: u64) {
        for field in fields.iter() {
            let packet: &Packet = self.packet;
            let (family, hook, subject) = (packet.family, self.hook, QuestionSubject::Target);
            let (stateful, configured) = (false, self.interpreter.configured.of_rule(rule));
            let question =
                Question { family, hook, rule, subject, stateful, content, configured, packet };
            let old = effects::value(field, packet);
            let new = self.answers.write(&Write { question, field, old });
            effects::set(field, new, self.packet);
        }
    }

    /// The first test of a rule that does not hold; and whether the packet is dropped although all
    /// hold.
    #[inline]
    fn tests(
        &mut self,
        table: &TableIndex<'f>,
        compact: CompactRule,
        rule: &'f Rule,
        view: &mut View,
    ) -> (Option<Failed>, bool) {
        let mut dying = false;
        let first = compact.first as usize;
        for (test, t) in table.tests[first..first + compact.count as usize].iter().enumerate() {
            let held = match *t {
                Compact::Set { .. } | Compact::Conntrack { .. } | Compact::Opaque { .. } => {
                    let held = self.asked(table, *t, rule);
                    if matches!(held, Held::Yes | Held::YesAndHotdrop) {
                        self.written_by_match(table, *t, rule, view);
                    }
                    held
                }
                _ => field_test(table, t, view, self.packet),
            };
            match held {
                Held::Yes => {}
                Held::No => return (Some(Failed { test, hotdrop: dying }), dying),
                Held::Hotdrop => return (Some(Failed { test, hotdrop: true }), true),
                Held::YesAndHotdrop => dying = true,
            }
        }
        (None, dying)
    }

    /// Some matches write where they hold.
    fn written_by_match(
        &mut self,
        table: &TableIndex<'f>,
        test: Compact,
        rule: &'f Rule,
        view: &mut View,
    ) {
        let Compact::Opaque { at, .. } = test else { return };
        let test = table.opaques[at as usize];
        if !test.writes.is_empty() {
            self.write(rule, test.writes, test.content);
            *view = View::of(self.packet);
        }
    }

    /// Tests that may need the caller.
    #[cold]
    fn asked(&mut self, table: &TableIndex<'f>, test: Compact, rule: &'f Rule) -> Held {
        match test {
            Compact::Set { index, at } => self.set(table, index, at, rule),
            Compact::Conntrack { index, at } => {
                let test = &table.conntracks[at as usize];
                let state = test.state.map(|s| state_holds(self.packet, s.negated, s.value));
                // conntrack_mt in xt_conntrack.c: without an entry only the state is looked at.
                if state == Some(false) || !self.packet.ct.has_entry() {
                    return Held::from(state == Some(true));
                }
                self.ask(rule, QuestionSubject::Match(index.into()), false, test.content).into()
            }
            Compact::Opaque { index, at } => {
                let test = table.opaques[at as usize];
                self.opaque(rule, QuestionSubject::Match(index.into()), test)
            }
            _ => Held::No,
        }
    }

    /// A test that the fields do not answer, and that may drop the packet.
    fn opaque(&mut self, rule: &'f Rule, subject: QuestionSubject, test: OpaqueTest) -> Held {
        match test.hotdrop {
            Hotdrop::Never => {}
            // xt_esp.c, ipt_ah.c: not for later fragments.
            Hotdrop::CutHeader if self.packet.fragment.offset != 0 => return Held::No,
            Hotdrop::CutHeader if self.packet.payload.len() < test.header_bytes.into() => {
                return Held::Hotdrop;
            }
            Hotdrop::CutHeader => {}
            Hotdrop::Perhaps => {
                if self.asks_drop(rule, subject, test.stateful, test.content) {
                    return Held::Hotdrop;
                }
            }
            Hotdrop::WithMatch => {
                if self.asks_drop(rule, subject, test.stateful, test.content) {
                    return Held::YesAndHotdrop;
                }
            }
        }
        self.ask(rule, subject, test.stateful, test.content).into()
    }

    fn set(&mut self, table: &TableIndex<'f>, index: u16, at: u32, rule: &'f Rule) -> Held {
        let interpreter = self.interpreter;
        let test = &table.sets[at as usize];
        let found = match test.set {
            // Lists hand --return-nomatch on to their members (ip_set_list_set.c): not modelled.
            Some(set) if test.return_nomatch && interpreter.sets[set].is_list() => {
                Membership::Unknown
            }
            Some(set) if !test.asks && !test.changing => {
                membership(&interpreter.sets, set, self.packet, test.dirs)
            }
            _ => Membership::Unknown,
        };
        let inside = match found {
            Membership::Unknown => {
                let subject = QuestionSubject::Match(index.into());
                return self.ask(rule, subject, test.changing, test.content).into();
            }
            Membership::Out => false,
            Membership::In { set, element } => {
                let holder = &interpreter.sets[set];
                if holder.counters && test.counts {
                    let set = &holder.set.name;
                    let element = &holder.set.elements[element as usize];
                    let counted = Counted::Element { set, element };
                    let credit: &'f [RuleIndex] = &element.credit;
                    self.log.hits.push(Hit { hook: self.hook, counted, credit });
                }
                !test.return_nomatch
            }
            Membership::Except { .. } => test.return_nomatch,
        };
        Held::from(inside != test.negated)
    }

    /// Whether a match or a target itself drops the packet.
    fn asks_drop(
        &mut self,
        rule: &'f Rule,
        of: QuestionSubject,
        stateful: bool,
        content: u64,
    ) -> bool {
        let content = dropping(content);
        let packet: &Packet = self.packet;
        let (family, hook, subject) = (packet.family, self.hook, of);
        let configured = self.interpreter.configured.of_rule(rule);
        let question =
            Question { family, hook, rule, subject, stateful, content, configured, packet };
        let answer = self.answers.drops(&question);
        let credit: &'f [RuleIndex] = &rule.credit;
        self.log.asked.push(Asked { credit, subject, content, configured, stateful, answer });
        answer
    }

    fn ask(
        &mut self,
        rule: &'f Rule,
        subject: QuestionSubject,
        stateful: bool,
        content: u64,
    ) -> bool {
        let packet: &Packet = self.packet;
        let (family, hook) = (packet.family, self.hook);
        let configured = self.interpreter.configured.of_rule(rule);
        let question =
            Question { family, hook, rule, subject, stateful, content, configured, packet };
        let answer = self.answers.answer(&question);
        let credit: &'f [RuleIndex] = &rule.credit;
        self.log.asked.push(Asked { credit, subject, content, configured, stateful, answer });
        answer
    }
}
