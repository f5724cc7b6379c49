//! The outcome of one packet according to the diagram of a ruleset, for comparison with another
//! source.
//!
//! The interpreter runs first, and its oracle's answers are recorded ([`RecordingOracle`]); then
//! the diagram is traversed with the same answers. The diagram may test a variable for which the
//! interpreter needed no answer: then nothing depends on it, or the two disagree.

use weir_model::matching::SetMatch;
use weir_model::target::NatTarget;
use weir_model::{Addr, Family, Field, Firewall, Hook, Match, Packet};
use weir_semantics::Entry;
use weir_semantics::digest::{content, translating};
use weir_semantics::interpreter::usual_choice;
use weir_semantics::{Fact, Oracle, Question, Translation, Write};
use weir_semantics::{Outcome, Verdict};

use crate::chain::Unknown;
use crate::comparison::{CompareLevel, ComparedPath, Identity};
use crate::compose::RulesetDiagram;
use crate::encode::encode;
use crate::journey::{ComparedSide, pieces};
use crate::space::{Space, SpaceOptions};
use crate::stateful_identity::StatefulIdentity;
use crate::store::Ref;
use crate::terminal::Exit;
use crate::variable::{Choice, FieldBit, FreeVariable};

/// Why a diagram was not evaluated.
pub const TOO_LARGE: &str = "the diagram exceeds its memory or steps";
/// See [`TOO_LARGE`].
pub const NO_BITS: &str = "the diagram's fields cannot represent the packet";
/// See [`TOO_LARGE`].
pub const TWO_ANSWERS: &str = "one question had two different answers";

/// The journeys of a family's packets, as diagrams.
#[derive(Debug)]
pub struct Lookup<'f> {
    meaning: RulesetDiagram<'f>,
    who: StatefulIdentity,
    ways: Vec<(Entry, Ref)>,
}

impl<'f> Lookup<'f> {
    /// The diagrams of a ruleset; `None` if they take more than `memory_bytes` or `steps_max`.
    pub fn new(
        firewall: &'f Firewall,
        family: Family,
        memory_bytes: usize,
        steps_max: u64,
    ) -> Option<Lookup<'f>> {
        Lookup::make(firewall, family, memory_bytes, steps_max).ok()
    }

    fn make(
        firewall: &'f Firewall,
        family: Family,
        memory_bytes: usize,
        steps_max: u64,
    ) -> Result<Lookup<'f>, Unknown> {
        let options = SpaceOptions { memory_bytes, ..SpaceOptions::default() };
        let mut meaning = RulesetDiagram::new(Space::with(family, &[firewall], options)?);
        meaning.space.store.steps_max = steps_max;
        let who = StatefulIdentity::new(firewall, Identity::Credit);
        let side = [ComparedSide::new(firewall, family, 0, who.clone(), false)];
        let mut ways = Vec::new();
        for entry in Entry::ALL {
            let (way, from) = (ComparedPath::Entry(entry), meaning.space.store.len());
            let pieces = pieces(way, &side);
            let mut keep = Vec::new();
            for piece in &pieces {
                let made = meaning.piece(&side[0], *piece, &mut keep, from)?;
                keep.push(made);
            }
            let made = meaning.way(way, &pieces, &mut keep, from)?;
            ways.push((entry, meaning.finished(made, CompareLevel::Effects)?));
            meaning.chains_made = Default::default();
        }
        Ok(Lookup { meaning, who, ways })
    }

    /// Records questions and answers while the interpreter evaluates a packet.
    pub fn overhear<'a>(&'a self, answers: &'a mut dyn Oracle) -> RecordingOracle<'a> {
        RecordingOracle { answers, who: &self.who, heard: Heard::default() }
    }

    /// In what the diagram differs from the outcome of a packet's journey, if in anything.
    ///
    /// # Errors
    /// Why it could not be evaluated: [`NO_BITS`], [`TWO_ANSWERS`].
    pub fn differs(
        &self,
        packet: &Packet,
        entry: Entry,
        outcome: &Outcome<'_>,
        heard: &Heard,
    ) -> Result<Option<String>, &'static str> {
        let RulesetDiagram { space, terminals, .. } = &self.meaning;
        let bits = encode(&space.layout, packet).ok_or(NO_BITS)?;
        // Whether more fragments follow is not a variable.
        if outcome.verdict == Verdict::Waits && packet.fragment.offset == 0 {
            return Err(NO_BITS);
        }
        let entry = heard.went.unwrap_or(entry);
        let (_, diagram) = self.ways.iter().find(|(e, _)| *e == entry).ok_or(NO_BITS)?;
        let mut ambiguous = false;
        let leaf = space.walk(*diagram, &bits, &mut |variable, _| {
            let mut answers = heard.to(variable);
            let first = answers.next();
            ambiguous |= answers.any(|other| Some(other) != first);
            first.unwrap_or(false)
        });
        if ambiguous {
            return Err(TWO_ANSWERS);
        }
        let terminal = terminals.get(leaf);
        if terminal.exit != Exit::Verdict(outcome.verdict) {
            let says = format!("the diagram says {:?}", terminal.exit);
            return Ok(Some(format!("the interpreter says {:?}, {says}", outcome.verdict)));
        }
        let effects: Vec<_> =
            outcome.effects.iter().map(|e| (e.hook, e.table, content(e.target))).collect();
        if effects != terminals.effects_of(terminal.effects) {
            return Ok(Some("the effects in the diagram and in the interpreter differ".to_owned()));
        }
        let asked = heard.asks.iter().filter_map(|ask| match ask.of {
            Of::Stateful { who, .. } => Some((who, ask.content)),
            Of::Stateless(_) => None,
        });
        let same = asked.eq(terminals.asked(terminal.asked).iter().map(|a| (a.who, a.content)));
        Ok((!same).then(|| "the diagram evaluates other stateful tests".to_owned()))
    }
}

/// The questions of one journey, and their answers.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    asks: Vec<AskedTest>,
    chosen: Vec<ChosenTranslation>,
    written: Vec<WrittenValue>,
    /// Where routing took the packet.
    went: Option<Entry>,
}

#[derive(Clone, Debug)]
struct AskedTest {
    content: u64,
    of: Of,
    answer: bool,
}

#[derive(Clone, Debug)]
enum Of {
    Stateless(Hook),
    Stateful { who: u64, nth: u32 },
}

/// What a translation made of a packet that it left open.
#[derive(Clone, Debug)]
struct ChosenTranslation {
    content: u64,
    hook: Hook,
    addr: Addr,
    port: Option<u16>,
    changed: bool,
}

/// What a target wrote that the rule does not say.
#[derive(Clone, Debug)]
struct WrittenValue {
    content: u64,
    of: Of,
    field: Field,
    value: u128,
}

impl Heard {
    /// The answers to a question.
    fn to(&self, variable: FreeVariable) -> impl Iterator<Item = bool> + '_ {
        let asked = self.asks.iter().filter(move |ask| match (variable, &ask.of) {
            (FreeVariable::Stateless { content, hook, .. }, Of::Stateless(at)) => {
                ask.content == content && hook == Some(*at)
            }
            (
                FreeVariable::Stateful { who, content, nth, .. },
                Of::Stateful { who: whose, nth: n },
            ) => (ask.content, *whose, *n) == (content, who, nth),
            _ => false,
        });
        let chosen = self.chosen.iter().filter_map(move |chosen| match variable {
            FreeVariable::Chosen { content, hook, bit, .. }
                if (content, hook) == (chosen.content, chosen.hook) =>
            {
                Some(match bit {
                    Choice::Addr(bit) => chosen.addr.0 >> bit & 1 == 1,
                    Choice::Port(bit) => chosen.port.is_some_and(|p| p >> bit & 1 == 1),
                    Choice::Changed => chosen.changed,
                    Choice::Field(_) => return None,
                })
            }
            _ => None,
        });
        let written =
            self.written.iter().filter_map(move |written| match (variable, &written.of) {
                (
                    FreeVariable::Chosen {
                        content,
                        hook,
                        bit: Choice::Field(FieldBit(field, bit)),
                        ..
                    },
                    Of::Stateless(at),
                ) => ((content, hook, field) == (written.content, *at, written.field))
                    .then_some(written.value >> bit & 1 == 1),
                (
                    FreeVariable::Written { who, content, nth, bit: FieldBit(field, bit), .. },
                    Of::Stateful { who: whose, nth: n },
                ) => ((content, field) == (written.content, written.field)
                    && (who, nth) == (*whose, *n))
                    .then_some(written.value >> bit & 1 == 1),
                _ => None,
            });
        asked.map(|ask| ask.answer).chain(chosen).chain(written)
    }
}

/// Passes questions on, and notes them with their answers. For one journey.
pub struct RecordingOracle<'a> {
    answers: &'a mut dyn Oracle,
    who: &'a StatefulIdentity,
    heard: Heard,
}

impl RecordingOracle<'_> {
    /// What was heard.
    pub fn heard(self) -> Heard {
        self.heard
    }

    /// How often a stateful question was put.
    fn times(&self, who: u64, content: u64) -> u32 {
        let same = |a: &&AskedTest| {
            a.content == content && matches!(a.of, Of::Stateful { who: w, .. } if w == who)
        };
        self.heard.asks.iter().filter(same).count() as u32
    }

    fn of(&self, question: &Question<'_>) -> Of {
        if !question.stateful {
            return Of::Stateless(question.hook);
        }
        let who = self.who.of(question.rule);
        Of::Stateful { who, nth: self.times(who, question.content) }
    }
}

impl Oracle for RecordingOracle<'_> {
    fn answer(&mut self, question: &Question<'_>) -> bool {
        let answer = self.answers.answer(question);
        if question.stateful {
            let (content, of) = (question.content, self.of(question));
            self.heard.asks.push(AskedTest { content, of, answer });
            return answer;
        }
        // The negated test of a set and the plain one are the same question.
        let (content, plain) = match question.asked_match() {
            Some(Match::Set(set)) => {
                let plain = Match::Set(SetMatch { negated: false, ..set.clone() });
                (content(&plain), answer != set.negated)
            }
            _ => (question.content, answer),
        };
        let of = Of::Stateless(question.hook);
        self.heard.asks.push(AskedTest { content, of, answer: plain });
        answer
    }

    fn drops(&mut self, question: &Question<'_>) -> bool {
        let answer = self.answers.drops(question);
        let (content, of) = (question.content, self.of(question));
        self.heard.asks.push(AskedTest { content, of, answer });
        answer
    }

    fn knows(&mut self, fact: Fact, hook: Hook, packet: &Packet) -> bool {
        let answer = self.answers.knows(fact, hook, packet);
        let (content, of) = (fact.content(), Of::Stateless(hook));
        self.heard.asks.push(AskedTest { content, of, answer });
        answer
    }

    fn translated(&mut self, hook: Hook, packet: &Packet) -> Option<(Addr, Option<u16>)> {
        let answer = self.answers.translated(hook, packet);
        let (addr, port) = answer.unwrap_or((packet.daddr, packet.ports().map(|p| p.1)));
        let content = translating();
        self.heard.chosen.push(ChosenTranslation { content, hook, addr, port, changed: false });
        answer
    }

    fn comes_back(&mut self, question: &Question<'_>) -> bool {
        let answer = self.answers.comes_back(question);
        let (content, of) = (question.content, self.of(question));
        self.heard.asks.push(AskedTest { content, of, answer });
        answer
    }

    fn write(&mut self, write: &Write<'_>) -> u128 {
        let value = self.answers.write(write);
        let Question { rule, content, hook, .. } = write.question;
        // Recorded for both: the question about a stateful target comes immediately before.
        let nth = self.times(self.who.of(rule), content);
        let whose = Of::Stateful { who: self.who.of(rule), nth: nth.saturating_sub(1) };
        for of in [whose, Of::Stateless(hook)] {
            self.heard.written.push(WrittenValue { content, of, field: write.field, value });
        }
        value
    }

    fn translate(&mut self, translation: &Translation<'_>) -> Option<(Addr, Option<u16>)> {
        let Translation { hook, target, packet } = *translation;
        let usual = || usual_choice(target, packet);
        let (addr, port) = self.answers.translate(translation).unwrap_or_else(usual);
        let source = matches!(target, NatTarget::Snat(_) | NatTarget::Masquerade(_));
        let old = if source { packet.saddr } else { packet.daddr };
        let old_port = packet.ports().map(|(s, d)| if source { s } else { d });
        let changed = addr != old || port.is_some() && old_port.is_some() && port != old_port;
        let content = content(target);
        self.heard.chosen.push(ChosenTranslation { content, hook, addr, port, changed });
        Some((addr, port))
    }

    fn route(&mut self, packet: &Packet, wish: Entry) -> Entry {
        let went = self.answers.route(packet, wish);
        self.heard.went = Some(went);
        went
    }
}
