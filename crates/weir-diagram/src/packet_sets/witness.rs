//! One packet of a set, with the answers that make it a member.

use weir_model::{Addr, Family, Field, Hook, Match, Packet};
use weir_packet::{Transport, tcp_flag};
use weir_semantics::ConnectionFactOfHost;
use weir_semantics::question_digest::{digest_after_second_route_lookup, digest_debug_text};

use crate::bdd::node_store::{DiagramRef, LEAF_LEVEL, LimitReached};
use crate::packet_sets::free_variable::{FieldBit, FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::match_and_field_descriptions::format_match_as_iptables_option;
use crate::packet_sets::packet_bit_codec::{FieldBitAssignment, decode_packet, encode_packet};
use crate::packet_sets::packet_space::{PacketSet, PacketSpace};

/// A packet of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// The packet, with both devices: at PREROUTING no rule tests the output device.
    pub packet: Packet,
    /// What is taken for granted next to it; every other answer does not matter.
    pub assumptions: Vec<Assumption>,
}

/// The answer to a question that the packet leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// The match; `None` for what a translation chooses or an unknown target decides, and for a
    /// match that is another question elsewhere: there `description` says which one is meant.
    pub assumed_match: Option<Match>,
    /// The same in words.
    pub description: String,
    /// The hook, where it matters.
    pub hook: Option<Hook>,
    /// Whether it is true.
    pub answer: bool,
    /// The packet as it is at the evaluation, if rules changed it before.
    pub packet: Option<Packet>,
    pub(crate) variable: FreeVariable,
    /// Whether `description` names a match, which holds or not; else it is a sentence.
    pub(crate) describes_match: bool,
}

impl Assumption {
    /// Whether it is about a packet that rules changed before.
    pub(crate) fn is_about_changed_packet(&self) -> bool {
        match self.variable {
            FreeVariable::StatelessTest { change, .. } => change != 0,
            FreeVariable::StatefulTest { state_input, .. } => state_input.change != 0,
            FreeVariable::StatelessTargetBit { .. } | FreeVariable::StatefulTargetBit { .. } => {
                true
            }
        }
    }
}

impl Witness {
    /// What is taken for granted, a phrase each: bits of one value together. `words` says what a
    /// match is.
    pub fn describe_assumptions_as_phrases(&self, words: &dyn Fn(&Match) -> String) -> Vec<String> {
        let said = self
            .assumptions
            .iter()
            .map(|o| o.assumed_match.as_ref().map_or(o.description.clone(), words));
        let said: Vec<String> = said.collect();
        let all =
            self.assumptions.iter().zip(&said).map(|(o, said)| (o.variable, &**said, o.answer));
        let is_sentence = |words: &str| {
            self.assumptions.iter().any(|o| !o.describes_match && o.description == words)
        };
        let said = |(words, answer): (String, Option<bool>)| match answer {
            None => words,
            Some(answer) if is_sentence(&words) => sentence_or_opposite(words, answer),
            Some(true) => format!("{words} matches"),
            Some(false) => format!("{words} does not match"),
        };
        merge_bit_assumption_phrases(all).into_iter().map(said).collect()
    }
}

/// What follows the name of a module or target that drops a packet itself.
const DROPS_THE_PACKET: &str = " drops the packet";

fn sentence_or_opposite(sentence: String, is_true: bool) -> String {
    match (is_true, sentence.strip_suffix(DROPS_THE_PACKET)) {
        (true, _) => sentence,
        (false, Some(name)) => format!("{name} does not drop the packet"),
        (false, None) => format!("not ({sentence})"),
    }
}

/// Questions and their answers in words. Bits of one value that a target writes become one
/// phrase, which needs no answer.
pub(crate) fn merge_bit_assumption_phrases<'o>(
    questions: impl Iterator<Item = (FreeVariable, &'o str, bool)>,
) -> Vec<(String, Option<bool>)> {
    let mut out: Vec<(String, Option<bool>)> = Vec::new();
    // The question without its bit, the position of its phrase, value and mask.
    let mut values: Vec<(FreeVariable, usize, WrittenQuantity, u128, u128)> = Vec::new();
    for (variable, words, answer) in questions {
        let Some((of, written, bit)) = split_bit_variable(variable) else {
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
            WrittenQuantity::Field(field) => ("target writes", field.row().name, field),
            WrittenQuantity::Address => ("translation chooses", "address", Field::Saddr),
            WrittenQuantity::Port => ("translation chooses", "port", Field::Sport),
        };
        let family = [Family::V4, Family::V6].into_iter().find(|f| field.max_value(*f) == mask);
        out[at].0 = match (written, family) {
            (WrittenQuantity::Address | WrittenQuantity::Port, Some(family)) => {
                format!("a {who} {what} {}", field.display_value(value, family))
            }
            (WrittenQuantity::Field(_), Some(_)) => format!("a {who} {what} {value:#x}"),
            (_, None) => format!("a {who} {what} {value:#x}/{mask:#x}"),
        };
    }
    out
}

/// What a target leaves open, bit by bit.
#[derive(Clone, Copy)]
enum WrittenQuantity {
    Field(Field),
    Address,
    Port,
}

/// A question about a bit that a target writes, as that about the whole, what that is, and the bit.
fn split_bit_variable(variable: FreeVariable) -> Option<(FreeVariable, WrittenQuantity, u8)> {
    match variable {
        FreeVariable::StatefulTargetBit {
            state_id,
            content_digest,
            nth,
            state_input,
            bit: FieldBit(field, bit),
        } => {
            let whole = FreeVariable::StatefulTargetBit {
                state_id,
                content_digest,
                nth,
                state_input,
                bit: FieldBit(field, 0),
            };
            Some((whole, WrittenQuantity::Field(field), bit))
        }
        FreeVariable::StatelessTargetBit { content_digest, hook, change, bit: choice } => {
            let (whole, written, bit) = match choice {
                UndeterminedTargetBit::OtherFieldBit(FieldBit(field, bit)) => (
                    UndeterminedTargetBit::OtherFieldBit(FieldBit(field, 0)),
                    WrittenQuantity::Field(field),
                    bit,
                ),
                UndeterminedTargetBit::AddrBit(bit) => {
                    (UndeterminedTargetBit::AddrBit(0), WrittenQuantity::Address, bit)
                }
                UndeterminedTargetBit::PortBit(bit) => {
                    (UndeterminedTargetBit::PortBit(0), WrittenQuantity::Port, bit)
                }
                UndeterminedTargetBit::NatChangedPacket => return None,
            };
            Some((
                FreeVariable::StatelessTargetBit { content_digest, hook, change, bit: whole },
                written,
                bit,
            ))
        }
        _ => None,
    }
}

impl PacketSpace<'_> {
    /// A packet of the set that looks as usual as the set allows; `None` for an empty set.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn witness(&mut self, a: PacketSet) -> Result<Option<Witness>, LimitReached> {
        let inside = self.store.and(a.0, self.possible_packets)?;
        if inside == DiagramRef::ZERO {
            return Ok(None);
        }
        Ok(Some(self.pick_witness(inside)))
    }

    /// A packet that leads to a terminal other than 0. `f` lies within the possible.
    pub(crate) fn pick_witness(&self, f: DiagramRef) -> Witness {
        let (bits, assumptions) = self.pick_assignment(f);
        Witness { packet: decode_packet(&self.layout, &bits), assumptions }
    }

    /// The same as bits and answers.
    pub(crate) fn pick_assignment(&self, f: DiagramRef) -> (FieldBitAssignment, Vec<Assumption>) {
        self.pick_assignment_near(f, self.encode_usual_packet())
    }

    /// One that has the bits as far as the set allows, its fields from the first to the last.
    pub(crate) fn pick_assignment_near(
        &self,
        mut f: DiagramRef,
        mut bits: FieldBitAssignment,
    ) -> (FieldBitAssignment, Vec<Assumption>) {
        let mut assumptions = Vec::new();
        while self.store.level(f) != LEAF_LEVEL {
            let level = self.store.level(f);
            let (low, high) = self.store.branches(f);
            let question = level.checked_sub(self.layout.fields_end);
            let wanted = question.is_none() && bits.0[level as usize];
            let preferred = if wanted { high } else { low };
            let set = if preferred == DiagramRef::ZERO { !wanted } else { wanted };
            match question {
                None => bits.0[level as usize] = set,
                Some(question) => assumptions.push(self.make_assumption(question, set)),
            }
            f = if set { high } else { low };
        }
        (bits, assumptions)
    }

    pub(crate) fn make_assumption(&self, question: u32, answer: bool) -> Assumption {
        let (variable, mut asked) =
            self.free_variables.get(question).expect("a level has a question").clone();
        let hook = match variable {
            FreeVariable::StatelessTest { hook, .. } => hook,
            FreeVariable::StatefulTest { state_input, .. } => state_input.hook,
            FreeVariable::StatefulTargetBit { .. } => None,
            FreeVariable::StatelessTargetBit { hook, .. } => Some(hook),
        };
        let describes_match = asked.is_some();
        let words = match &asked {
            Some(m) => {
                let distinction = self.distinguish_question(m, variable);
                let words = format_match_as_iptables_option(m) + distinction;
                asked = asked.filter(|_| distinction.is_empty());
                words
            }
            None => match self.free_variables.dropping_module_of_question(&variable) {
                Some(name) => format!("{name}{DROPS_THE_PACKET}"),
                None => describe_question_without_match(variable),
            },
        };
        Assumption {
            assumed_match: asked,
            description: words,
            hook,
            answer,
            packet: None,
            variable,
            describes_match,
        }
    }

    /// What tells a question from another one about the same match.
    fn distinguish_question(&self, m: &Match, variable: FreeVariable) -> &'static str {
        let (FreeVariable::StatelessTest { content_digest, .. }
        | FreeVariable::StatefulTest { content_digest, .. }) = variable
        else {
            return "";
        };
        match m {
            Match::Set(set) => self.name_ruleset_of_set_question(set, content_digest),
            _ if content_digest == digest_after_second_route_lookup(digest_debug_text(m)) => {
                " (after mangle, which may change the route)"
            }
            _ => "",
        }
    }

    /// What is put where a set leaves a choice.
    pub(crate) fn encode_usual_packet(&self) -> FieldBitAssignment {
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
        let names = self.layout.device_classes.class_example_names();
        let unnamed = names.get(1).unwrap_or(&names[0]);
        (packet.iif, packet.oif) = (unnamed.clone(), unnamed.clone());
        encode_packet(&self.layout, &packet).expect("a usual packet has a code")
    }
}

/// What a free variable that no match of a rule decides stands for.
fn describe_question_without_match(variable: FreeVariable) -> String {
    match variable {
        FreeVariable::StatelessTargetBit {
            bit: UndeterminedTargetBit::OtherFieldBit(FieldBit(field, bit)),
            ..
        }
        | FreeVariable::StatefulTargetBit { bit: FieldBit(field, bit), .. } => {
            format!("bit {bit} of the {} that a target writes", field.row().name)
        }
        FreeVariable::StatelessTargetBit { bit: UndeterminedTargetBit::AddrBit(bit), .. } => {
            format!("bit {bit} of the address that a translation chooses")
        }
        FreeVariable::StatelessTargetBit { bit: UndeterminedTargetBit::PortBit(bit), .. } => {
            format!("bit {bit} of the port that a translation chooses")
        }
        FreeVariable::StatelessTargetBit {
            bit: UndeterminedTargetBit::NatChangedPacket, ..
        } => "a translation changes the packet".to_owned(),
        FreeVariable::StatelessTest { content_digest, .. }
            if content_digest == ConnectionFactOfHost::NatTableAlreadyTraversed.digest() =>
        {
            "nat has seen an earlier packet of the connection".to_owned()
        }
        FreeVariable::StatelessTest { content_digest, .. }
            if content_digest == ConnectionFactOfHost::HostReplyInheritsConntrackEntry.digest() =>
        {
            "the host sends it in reply to a tracked packet".to_owned()
        }
        FreeVariable::StatelessTest { .. } => "a match or target drops the packet".to_owned(),
        FreeVariable::StatefulTest { .. } => {
            "an unknown match or target ends the traversal, or a packet that was handed over \
             returns"
                .to_owned()
        }
    }
}
