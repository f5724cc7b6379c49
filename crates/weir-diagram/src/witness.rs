//! One packet of a set, with the answers that make it a member.

use weir_model::{Addr, Family, Field, Hook, Match, Packet};
use weir_packet::{Transport, tcp_flag};
use weir_semantics::Fact;

use crate::encode::{Assignment, decode, encode};
use crate::space::{PacketSet, Space};
use crate::store::{BOTTOM, Full, Ref};
use crate::variable::{Choice, FieldBit, FreeVariable};
use crate::words::match_words;

/// A packet of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// The packet, with both devices: at PREROUTING the output device is not looked at.
    pub packet: Packet,
    /// What is taken for granted next to it; every other answer does not matter.
    pub assumptions: Vec<Assumption>,
}

/// The answer to a question that the packet leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// The match; `None` for what a translation chooses or an unknown target decides.
    pub asked: Option<Match>,
    /// The same in words.
    pub words: String,
    /// The hook, where it matters.
    pub hook: Option<Hook>,
    /// Whether it is true.
    pub answer: bool,
    /// The packet as it is at the evaluation, if rules changed it before.
    pub packet: Option<Packet>,
    pub(crate) variable: FreeVariable,
}

impl Assumption {
    /// Whether it is about a packet that rules changed before.
    pub(crate) fn is_of_a_changed_packet(&self) -> bool {
        match self.variable {
            FreeVariable::Stateless { change, .. } => change != 0,
            FreeVariable::Stateful { of, .. } => of.change != 0,
            FreeVariable::Chosen { .. } | FreeVariable::Written { .. } => true,
        }
    }
}

impl Witness {
    /// What is taken for granted, a phrase each: bits of one value together. `words` says what a
    /// match is.
    pub fn given(&self, words: &dyn Fn(&Match) -> String) -> Vec<String> {
        let said = self.assumptions.iter().map(|o| o.asked.as_ref().map_or(o.words.clone(), words));
        let said: Vec<String> = said.collect();
        let all =
            self.assumptions.iter().zip(&said).map(|(o, said)| (o.variable, &**said, o.answer));
        let word = |answer| if answer { "matches" } else { "does not match" };
        let said = |(words, answer): (String, Option<bool>)| match answer {
            Some(answer) => format!("{words} {}", word(answer)),
            None => words,
        };
        joined(all).into_iter().map(said).collect()
    }
}

/// Questions and their answers in words. Bits of one value that a target writes become one
/// phrase, which needs no answer.
pub(crate) fn joined<'o>(
    questions: impl Iterator<Item = (FreeVariable, &'o str, bool)>,
) -> Vec<(String, Option<bool>)> {
    let mut out: Vec<(String, Option<bool>)> = Vec::new();
    // The question without its bit, the position of its phrase, value and mask.
    let mut values: Vec<(FreeVariable, usize, Written, u128, u128)> = Vec::new();
    for (variable, words, answer) in questions {
        let Some((of, written, bit)) = without_bit(variable) else {
            out.push((words.to_owned(), Some(answer)));
            continue;
        };
        let (set, bit) = (u128::from(answer) << bit, 1 << bit);
        match values.iter_mut().find(|v| v.0 == of) {
            Some((.., value, mask)) => (*value, *mask) = (*value | set, *mask | bit),
            None => {
                values.push((of, out.len(), written, set, bit));
                out.push((String::new(), None));
            }
        }
    }
    for (_, at, written, value, mask) in values {
        let (who, what, field) = match written {
            Written::Field(field) => ("target writes", field.row().name, field),
            Written::Address => ("translation chooses", "address", Field::Saddr),
            Written::Port => ("translation chooses", "port", Field::Sport),
        };
        let family = [Family::V4, Family::V6].into_iter().find(|f| field.max(*f) == mask);
        out[at].0 = match (written, family) {
            (Written::Address | Written::Port, Some(family)) => {
                format!("a {who} {what} {}", field.display_value(value, family))
            }
            (Written::Field(_), Some(_)) => format!("a {who} {what} {value:#x}"),
            (_, None) => format!("a {who} {what} {value:#x}/{mask:#x}"),
        };
    }
    out
}

/// What a target leaves open, bit by bit.
#[derive(Clone, Copy)]
enum Written {
    Field(Field),
    Address,
    Port,
}

/// A question about a bit that a target writes, as that about the whole, what that is, and the bit.
fn without_bit(variable: FreeVariable) -> Option<(FreeVariable, Written, u8)> {
    match variable {
        FreeVariable::Written { who, content, nth, of, bit: FieldBit(field, bit) } => {
            let whole = FreeVariable::Written { who, content, nth, of, bit: FieldBit(field, 0) };
            Some((whole, Written::Field(field), bit))
        }
        FreeVariable::Chosen { content, hook, change, bit: choice } => {
            let (whole, written, bit) = match choice {
                Choice::Field(FieldBit(field, bit)) => {
                    (Choice::Field(FieldBit(field, 0)), Written::Field(field), bit)
                }
                Choice::Addr(bit) => (Choice::Addr(0), Written::Address, bit),
                Choice::Port(bit) => (Choice::Port(0), Written::Port, bit),
                Choice::Changed => return None,
            };
            Some((FreeVariable::Chosen { content, hook, change, bit: whole }, written, bit))
        }
        _ => None,
    }
}

impl Space<'_> {
    /// A packet of the set that looks as usual as the set allows; `None` for an empty set.
    ///
    /// # Errors
    /// [`Full`].
    pub fn witness(&mut self, a: PacketSet) -> Result<Option<Witness>, Full> {
        let inside = self.store.and(a.0, self.possible)?;
        if inside == Ref::ZERO {
            return Ok(None);
        }
        Ok(Some(self.pick(inside)))
    }

    /// A packet that leads to a terminal other than 0. `f` lies within the possible.
    pub(crate) fn pick(&self, f: Ref) -> Witness {
        let (bits, assumptions) = self.pick_bits(f);
        Witness { packet: decode(&self.layout, &bits), assumptions }
    }

    /// The same as bits and answers.
    pub(crate) fn pick_bits(&self, f: Ref) -> (Assignment, Vec<Assumption>) {
        self.pick_near(f, self.usual())
    }

    /// One that has the bits as far as the set allows, its fields from the first to the last.
    pub(crate) fn pick_near(
        &self,
        mut f: Ref,
        mut bits: Assignment,
    ) -> (Assignment, Vec<Assumption>) {
        let mut assumptions = Vec::new();
        while self.store.level(f) != BOTTOM {
            let level = self.store.level(f);
            let (low, high) = self.store.branches(f);
            let question = level.checked_sub(self.layout.end);
            let wanted = question.is_none() && bits.0[level as usize];
            let preferred = if wanted { high } else { low };
            let set = if preferred == Ref::ZERO { !wanted } else { wanted };
            match question {
                None => bits.0[level as usize] = set,
                Some(question) => assumptions.push(self.assumption(question, set)),
            }
            f = if set { high } else { low };
        }
        (bits, assumptions)
    }

    pub(crate) fn assumption(&self, question: u32, answer: bool) -> Assumption {
        let (variable, asked) =
            self.variables.get(question).expect("a level has a question").clone();
        let hook = match variable {
            FreeVariable::Stateless { hook, .. } => hook,
            FreeVariable::Stateful { of, .. } => of.hook,
            FreeVariable::Written { .. } => None,
            FreeVariable::Chosen { hook, .. } => Some(hook),
        };
        let words = match (&asked, variable) {
            (Some(m), _) => match_words(m),
            (
                None,
                FreeVariable::Chosen { bit: Choice::Field(FieldBit(field, bit)), .. }
                | FreeVariable::Written { bit: FieldBit(field, bit), .. },
            ) => format!("bit {bit} of the {} that a target writes", field.row().name),
            (None, FreeVariable::Chosen { bit: Choice::Addr(bit), .. }) => {
                format!("bit {bit} of the address that a translation chooses")
            }
            (None, FreeVariable::Chosen { bit: Choice::Port(bit), .. }) => {
                format!("bit {bit} of the port that a translation chooses")
            }
            (None, FreeVariable::Chosen { bit: Choice::Changed, .. }) => {
                "a translation changes the packet".to_owned()
            }
            (None, FreeVariable::Stateless { content, .. }) if content == Fact::Bound.content() => {
                "nat has seen an earlier packet of the connection".to_owned()
            }
            (None, FreeVariable::Stateless { content, .. })
                if content == Fact::Attached.content() =>
            {
                "the host sends it in reply to a tracked packet".to_owned()
            }
            (None, FreeVariable::Stateless { .. }) => {
                "a match or target drops the packet".to_owned()
            }
            (None, _) => "an unknown match or target ends the traversal, or a packet that was \
                          handed over returns"
                .to_owned(),
        };
        Assumption { asked, words, hook, answer, packet: None, variable }
    }

    /// What is put where a set leaves a choice.
    pub(crate) fn usual(&self) -> Assignment {
        let (from, to) = match self.family() {
            Family::V4 => (0xc633_6407, 0xcb00_7109),
            Family::V6 => (0x2001_0db8_0001 << 80 | 7, 0x2001_0db8_0002 << 80 | 9),
        };
        let mut packet = Packet::new(self.family(), Addr(from), Addr(to), 6);
        packet.transport = Transport::Tcp {
            sport: 40_000,
            dport: 80,
            seq: 1,
            ack: 0,
            flags: tcp_flag::SYN,
            options: Vec::new(),
        };
        packet.smac = Some([2, 0, 0, 0, 0, 1]);
        // Some device that no rule names, rather than none.
        let names = self.layout.devices.names();
        let unnamed = names.get(1).unwrap_or(&names[0]);
        (packet.iif, packet.oif) = (unnamed.clone(), unnamed.clone());
        encode(&self.layout, &packet).expect("a usual packet has a code")
    }
}
