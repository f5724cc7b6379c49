//! Diagrams against the interpreter: the same outcome for every packet, whatever the oracle
//! answers.

mod rulesets;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, Family, Field, Firewall, Hook, Match, Packet};
use weir_semantics::Entry;
use weir_semantics::Interpreter;
use weir_semantics::Verdict;
use weir_semantics::digest::{content, translating};
use weir_semantics::{Fact, Oracle, Question, QuestionSubject, Translation, Write};
use weir_syntax::iptables::{ParseOptions, parse};
use weir_testkit::random::TestRng;
use weir_traffic::{TrafficOptions, packets};

use self::rulesets::{SETS, TESTS, random_rules};
use crate::comparison::{CompareLevel, ComparedPath, Identity};
use crate::compose::RulesetDiagram;
use crate::encode::{Assignment, decode, encode};
use crate::journey::{ComparedSide, pieces};
use crate::space::{Space, SpaceOptions};
use crate::stateful_identity::StatefulIdentity;
use crate::store::Ref;
use crate::terminal::Exit;
use crate::variable::{Choice, FieldBit, FreeVariable};

fn hash(of: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

/// The fields of a packet that rules change, but for its connection.
fn changeable(p: &Packet) -> impl Hash + use<> {
    (p.saddr, p.daddr, p.ports(), p.mark, p.tos, p.ttl, p.len())
}

/// Answers that the same question gets from the diagram's side and from the interpreter's.
#[derive(Clone)]
struct Seeded {
    seed: u64,
    who: StatefulIdentity,
    asked: Vec<(u64, u64)>,
}

impl Seeded {
    fn stateless(&self, content: u64, hook: Hook, packet: &Packet) -> bool {
        hash((self.seed, content, hook, changeable(packet))) & 1 == 1
    }

    fn stateful(&self, who: u64, content: u64, nth: u32) -> bool {
        hash((self.seed, who, content, nth)) & 1 == 1
    }

    /// What a target writes of which nothing is known.
    fn unknown(&self, who: u64, content: u64, nth: u32, field: Field) -> u128 {
        hash((self.seed, who, content, nth, field)).into()
    }

    /// What a target writes into a packet.
    fn chosen(&self, digest: u64, hook: Hook, packet: &Packet, field: Field) -> u128 {
        let h = u128::from(hash((self.seed, digest, hook, changeable(packet), field)));
        match field {
            // Not shorter than its headers.
            Field::Length => packet.len() as u128 + h % 2 * 4,
            _ => h,
        }
    }

    fn choice(
        &self,
        digest: u64,
        hook: Hook,
        packet: &Packet,
        range: &NatRange,
        device: bool,
    ) -> (Addr, Option<u16>) {
        let h = hash((self.seed, digest, hook, changeable(packet)));
        let (source, max) = (hook == Hook::Postrouting, packet.family.max());
        let old = if source { packet.saddr } else { packet.daddr };
        let addr = match range.addrs {
            Some((lo, hi)) if lo == hi => lo,
            // A power of two, as it is modelled: what all addresses have in common.
            Some((lo, hi)) => {
                let free = (1u128 << (lo.0 ^ hi.0).checked_ilog2().map_or(0, |t| t + 1)) - 1;
                Addr(lo.0 & !free | u128::from(h) & free)
            }
            None if device => Addr(u128::from(h % 7) & max),
            None => old,
        };
        let old_port = packet.ports().map(|(s, d)| if source { s } else { d });
        let port = match (range.ports, old_port) {
            (Some((lo, hi)), Some(_)) if lo == hi => Some(lo),
            (Some(_), Some(_)) => Some((h >> 32) as u16),
            _ => None,
        };
        (addr, port)
    }
}

fn range_of(target: &NatTarget) -> Option<(&NatRange, bool)> {
    match target {
        NatTarget::Dnat(r) | NatTarget::Snat(r) => Some((r, false)),
        NatTarget::Masquerade(r) | NatTarget::Redirect(r) => Some((r, true)),
        NatTarget::Netmap(..) => None,
    }
}

impl Oracle for Seeded {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        if q.stateful {
            let ask = (self.who.of(q.rule), q.content);
            let nth = self.asked.iter().filter(|a| **a == ask).count() as u32;
            self.asked.push(ask);
            return self.stateful(ask.0, ask.1, nth);
        }
        if let Some(Match::Set(s)) = q.asked_match() {
            let plain = weir_model::matching::SetMatch { negated: false, ..s.clone() };
            return self.stateless(content(&Match::Set(plain)), q.hook, q.packet) != s.negated;
        }
        self.stateless(q.content, q.hook, q.packet)
    }

    fn drops(&mut self, q: &Question<'_>) -> bool {
        self.answer(&Question { subject: QuestionSubject::Target, ..*q })
    }

    fn knows(&mut self, fact: Fact, hook: Hook, packet: &Packet) -> bool {
        self.stateless(fact.content(), hook, packet)
    }

    fn translated(&mut self, hook: Hook, packet: &Packet) -> Option<(Addr, Option<u16>)> {
        let h = hash((self.seed, translating(), hook, changeable(packet)));
        let addr = Addr(u128::from(h) & packet.family.max());
        Some((addr, packet.ports().map(|_| (h >> 32) as u16)))
    }

    fn comes_back(&mut self, q: &Question<'_>) -> bool {
        self.answer(q)
    }

    fn write(&mut self, w: &Write<'_>) -> u128 {
        let (q, who) = (w.question, self.who.of(w.question.rule));
        let met = self.asked.iter().filter(|a| **a == (who, q.content)).count() as u32;
        let value = match met {
            1.. if KEPT.contains(&w.field) => w.old,
            0 => self.chosen(q.content, q.hook, q.packet, w.field),
            n => self.unknown(who, q.content, n - 1, w.field),
        };
        value & w.field.max(q.family)
    }

    fn translate(&mut self, t: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        let (range, device) = range_of(t.target)?;
        Some(self.choice(content(t.target), t.hook, t.packet, range, device))
    }
}

/// The results of both for a packet.
#[derive(Debug, PartialEq)]
struct Seen {
    verdict: Verdict,
    effects: Vec<(Hook, weir_model::TableName, u64)>,
    asked: Vec<(u64, u64)>,
}

struct Agreement<'f> {
    meaning: RulesetDiagram<'f>,
    interpreter: Interpreter<'f>,
    who: StatefulIdentity,
    translations: Vec<&'f NatTarget>,
    ways: Vec<(ComparedPath, Ref)>,
}

impl<'f> Agreement<'f> {
    fn new(firewall: &'f Firewall, family: Family) -> Self {
        let space = Space::with(family, &[firewall], SpaceOptions::default()).expect("room");
        let mut meaning = RulesetDiagram::new(space);
        let who = StatefulIdentity::new(firewall, Identity::Credit);
        let side = ComparedSide::new(firewall, family, 0, who.clone(), false);
        let entries = Entry::ALL.map(ComparedPath::Entry);
        let hooks = [Hook::Prerouting, Hook::Forward, Hook::Output, Hook::Postrouting];
        let ways = entries.into_iter().chain(hooks.map(ComparedPath::Hook)).map(|way| {
            let from = meaning.space.store.len();
            let pieces = pieces(way, std::slice::from_ref(&side));
            let mut keep = Vec::new();
            for piece in &pieces {
                let made = meaning.piece(&side, *piece, &mut keep, from);
                keep.push(made.expect("a diagram"));
            }
            let made = meaning.way(way, &pieces, &mut keep, from).expect("a diagram");
            (way, meaning.finished(made, CompareLevel::Effects).expect("room"))
        });
        let ways = ways.collect();
        let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules());
        let translations = rules.filter_map(|(_, _, rule)| match &rule.target {
            weir_model::Target::Nat(nat) => Some(&**nat),
            _ => None,
        });
        let translations = translations.collect();
        Agreement { meaning, interpreter: Interpreter::new(firewall), who, translations, ways }
    }

    fn by_interpreter(&self, way: ComparedPath, packet: &Packet, seed: u64) -> Seen {
        let mut answers = Seeded { seed, who: self.who.clone(), asked: Vec::new() };
        let outcome = match way {
            ComparedPath::Entry(entry) => self.interpreter.journey(packet, entry, &mut answers),
            ComparedPath::Hook(hook) => self.interpreter.at_hook(packet, hook, &mut answers),
            ComparedPath::Assembled => self.interpreter.at_hook(packet, Hook::Input, &mut answers),
        };
        let effects = outcome.effects.iter().map(|e| (e.hook, e.table, content(e.target)));
        Seen { verdict: outcome.verdict, effects: effects.collect(), asked: answers.asked }
    }

    fn by_diagram(&self, diagram: Ref, packet: &Packet, seed: u64) -> Option<Seen> {
        let space = &self.meaning.space;
        let bits = encode(&space.layout, packet)?;
        let answers = Seeded { seed, who: self.who.clone(), asked: Vec::new() };
        // What a target keeps depends on the changes before it. The leaf tells those, and the
        // questions up to a target do not depend on what it writes: each walk settles one more.
        let mut asked = 0;
        let terminal = loop {
            let mut answer =
                |variable, _: Option<&Match>| self.answer(&answers, &bits, asked, variable);
            let leaf = space.walk(diagram, &bits, &mut answer);
            let terminal = self.meaning.terminals.get(leaf);
            if terminal.asked == asked {
                break terminal;
            }
            asked = terminal.asked;
        };
        let Exit::Verdict(verdict) = terminal.exit else { panic!("no end: {terminal:?}") };
        let effects = self.meaning.terminals.effects_of(terminal.effects);
        let asked = self.meaning.terminals.asked(terminal.asked);
        let asked = asked.iter().map(|a| (a.who, a.content)).collect();
        Some(Seen { verdict, effects, asked })
    }

    fn answer(
        &self,
        answers: &Seeded,
        bits: &Assignment,
        asked: u32,
        variable: FreeVariable,
    ) -> bool {
        // What was changed before may depend on what a translation chose.
        let changed_bits = |change| {
            let mut chosen = std::collections::HashMap::new();
            for source in self.meaning.terminals.change(change).bits.values() {
                for level in source.bits.iter().filter(|l| **l >= self.meaning.space.layout.end) {
                    let number = level - self.meaning.space.layout.end;
                    let (variable, _) =
                        self.meaning.space.variables.get(number).expect("a question");
                    chosen.insert(*variable, self.answer(answers, bits, asked, *variable));
                }
            }
            self.meaning.changed(bits, change, &chosen)
        };
        let changed = |change| decode(&self.meaning.space.layout, &changed_bits(change));
        match variable {
            FreeVariable::Stateless { content, hook, change } => {
                answers.stateless(content, hook.expect("a hook"), &changed(change))
            }
            FreeVariable::Stateful { who, content, nth, .. } => answers.stateful(who, content, nth),
            FreeVariable::Written { who, content, nth, bit: FieldBit(field, bit), .. }
                if KEPT.contains(&field) =>
            {
                let reached = self.meaning.terminals.asked(asked).iter();
                let mut reached = reached.filter(|a| (a.who, a.content) == (who, content));
                let change = reached.nth(nth as usize).map_or(0, |ask| ask.of.change);
                let levels = self.meaning.space.layout.field(field);
                changed_bits(change).value(levels) >> bit & 1 == 1
            }
            FreeVariable::Written { who, content, nth, bit: FieldBit(field, bit), .. } => {
                answers.unknown(who, content, nth, field) >> bit & 1 == 1
            }
            FreeVariable::Chosen {
                content,
                hook,
                change,
                bit: Choice::Field(FieldBit(field, bit)),
            } => answers.chosen(content, hook, &changed(change), field) >> bit & 1 == 1,
            FreeVariable::Chosen { content, hook, change, bit } if content == translating() => {
                let packet = changed(change);
                let (addr, port) = answers.clone().translated(hook, &packet).expect("an answer");
                match bit {
                    Choice::Addr(bit) => addr.0 >> bit & 1 == 1,
                    Choice::Port(bit) => port.is_some_and(|p| p >> bit & 1 == 1),
                    Choice::Changed | Choice::Field(_) => unreachable!("only addresses and ports"),
                }
            }
            FreeVariable::Chosen { content: digest, hook, change, bit } => {
                let packet = changed(change);
                let target = self.translations.iter().find(|t| content(**t) == digest);
                let (range, device) = range_of(target.expect("its target")).expect("a range");
                let (addr, port) = answers.choice(digest, hook, &packet, range, device);
                let (old, old_port) = (packet.daddr, packet.ports().map(|p| p.1));
                match bit {
                    Choice::Addr(bit) => addr.0 >> bit & 1 == 1,
                    Choice::Port(bit) => port.is_some_and(|p| p >> bit & 1 == 1),
                    Choice::Changed => addr != old || port.is_some() && port != old_port,
                    Choice::Field(_) => unreachable!("handled above"),
                }
            }
        }
    }

    /// Number of packets that were compared, on all paths.
    fn check(&self, sent: &[Packet], seeds: u64, name: &str) -> usize {
        let mut compared = 0;
        for packet in sent {
            for (way, diagram) in &self.ways {
                for seed in 0..seeds {
                    let Some(found) = self.by_diagram(*diagram, packet, seed) else { continue };
                    let want = self.by_interpreter(*way, packet, seed);
                    // Whether more fragments follow is not a variable.
                    if want.verdict == Verdict::Waits && packet.fragment.offset == 0 {
                        continue;
                    }
                    assert_eq!(found, want, "{name}, {way:?}, seed {seed}\n{packet:?}");
                    compared += 1;
                }
            }
        }
        compared
    }
}

fn firewall(rules: &str, sets: &str, family: Family) -> Firewall {
    let sets = weir_syntax::ipset::parse(sets).expect("good sets");
    let options = ParseOptions { family: Some(family), ..ParseOptions::default() };
    let ruleset = match parse(rules, &options) {
        Ok(ruleset) => ruleset,
        Err(e) => panic!("{e:?}\n{rules}"),
    };
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), v6: None, sets },
        Family::V6 => Firewall { v4: None, v6: Some(ruleset), sets },
    }
}

/// Packets on and around the edges of the rules, on all entries.
fn sent(firewall: &Firewall, count: usize, seed: u64) -> Vec<Packet> {
    let ruleset = firewall.rulesets().next().expect("a ruleset");
    let of = |entry| {
        let options = TrafficOptions { entry, count, seed, ..TrafficOptions::default() };
        packets(ruleset, &firewall.sets, &options)
    };
    Entry::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn every_case_of_the_verdicts_has_the_outcome_of_the_interpreter() {
    let mut compared = 0;
    for case in weir_testkit::verdicts::read(&weir_testkit::data::path("verdicts")) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let firewall = firewall(&case.rules, &case.sets, family);
        let agreement = Agreement::new(&firewall, family);
        let mut all = sent(&firewall, 60, 1);
        let said =
            |p: &weir_testkit::verdicts::SentPacket| weir_syntax::packet::parse_packet(&p.words);
        all.extend(case.packet.iter().map(|p| said(p).expect("good words")));
        compared += agreement.check(&all, 2, &case.name);
    }
    assert!(compared > 50_000, "{compared} packets were compared");
}

#[test]
fn a_queue_keeps_the_state_that_a_rule_before_it_set() {
    let text = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j NOTRACK\nCOMMIT\n\
                *filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j NFQUEUE\nCOMMIT\n\
                *mangle\n:POSTROUTING ACCEPT [0:0]\n\
                -A POSTROUTING -m conntrack --ctstate NEW -j LOG\nCOMMIT\n";
    let firewall = firewall(text, "", Family::V4);
    let agreement = Agreement::new(&firewall, Family::V4);
    let compared = agreement.check(&sent(&firewall, 20, 1), 4, text);
    assert!(compared > 200, "{compared} packets were compared");
}

#[test]
fn random_rulesets_have_the_outcomes_of_the_interpreter() {
    let (mut compared, mut skipped) = (0, 0);
    for seed in 0..120 {
        let text = random_rules(seed);
        let options = ParseOptions { family: Some(Family::V4), ..ParseOptions::default() };
        if parse(&text, &options).is_err() {
            // A target where the kernel does not take it; the next seed is as good.
            skipped += 1;
            continue;
        }
        let firewall = firewall(&text, SETS, Family::V4);
        let agreement = Agreement::new(&firewall, Family::V4);
        let all = sent(&firewall, 25, seed);
        compared += agreement.check(&all, 2, &format!("seed {seed}:\n{text}"));
    }
    assert!(skipped < 60, "{skipped} of 120 rulesets could not be read");
    assert!(compared > 20_000, "{compared} packets were compared");
}

/// Fields that the interpreter leaves alone behind an unknown target, since another value of them
/// would be not a packet: the diagram is asked with the values that they had.
const KEPT: [Field; 7] = [
    Field::Iif,
    Field::Oif,
    Field::Proto,
    Field::Fragment,
    Field::CtState,
    Field::PktType,
    Field::Length,
];

#[test]
fn rules_behind_an_unknown_target_have_the_outcomes_of_the_interpreter() {
    const TARGETS: [&str; 7] = [
        "-j UNKNOWN --option",
        "-j UNKNOWN --option",
        "-j OTHER --option",
        "-j ACCEPT",
        "-j DROP",
        "-j RETURN",
        "-j LOG",
    ];
    let mut compared = 0;
    for seed in 0..40 {
        let mut rng = TestRng::new(seed);
        let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n:sub - [0:0]\n".to_owned();
        for (chain, rules) in [("FORWARD", 5), ("sub", 3)] {
            for _ in 0..rules {
                let to = if chain == "FORWARD" && rng.below(4) == 0 { "-j sub" } else { "" };
                let target = if to.is_empty() { rng.pick(&TARGETS) } else { to };
                text += &format!("-A {chain} {} {target}\n", rng.pick(&TESTS));
            }
        }
        let firewall = firewall(&(text.clone() + "COMMIT\n"), SETS, Family::V4);
        let agreement = Agreement::new(&firewall, Family::V4);
        let sent = sent(&firewall, 40, seed);
        compared += agreement.check(&sent, 3, &format!("seed {seed}:\n{text}"));
    }
    assert!(compared > 10_000, "{compared} packets were compared");
}

#[test]
fn lists_of_addresses_have_the_outcomes_of_the_interpreter() {
    const TARGETS: [&str; 9] = [
        "-j ACCEPT",
        "-j ACCEPT",
        "-j DROP",
        "-j DROP",
        "-j RETURN",
        "-j sub",
        "-g sub",
        "-j LOG",
        "-j MARK --set-xmark 0x1/0x1",
    ];
    let mut compared = 0;
    for seed in 0..60 {
        let mut rng = TestRng::new(seed);
        // Few addresses, so that prefixes repeat and lie in one another; in every second ruleset
        // none does.
        let apart = seed % 2 == 0;
        let mut list = String::new();
        for n in 0..24 {
            let side = rng.pick(&["-s", "-s", "-s", "-d"]);
            let (third, len) = match apart {
                true => (n, 24),
                false => (rng.below(4), 22 + rng.below(4)),
            };
            let target = rng.pick(&TARGETS);
            list += &format!("-A list {side} 10.0.{third}.0/{len} {target}\n");
        }
        let text = format!(
            "*mangle\n:FORWARD ACCEPT [0:0]\n:list - [0:0]\n:sub - [0:0]\n-A FORWARD -j list\n\
             -A FORWARD -m mark --mark 0x1/0x1 -j LOG --log-prefix marked\n{list}\
             -A sub -p tcp -j DROP\n-A sub -m limit --limit 5/sec -j RETURN\n\
             -A sub -j MARK --set-xmark 0x2/0x2\nCOMMIT\n"
        );
        let firewall = firewall(&text, "", Family::V4);
        let agreement = Agreement::new(&firewall, Family::V4);
        compared +=
            agreement.check(&sent(&firewall, 60, seed), 2, &format!("seed {seed}:\n{text}"));
    }
    assert!(compared > 20_000, "{compared} packets were compared");
}
