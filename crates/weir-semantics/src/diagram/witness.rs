//! One packet out of a set, with the answers that put it there.

use weir_model::{Family, Hook, Match, Packet};

use super::encode::{Assignment, decode, encode};
use super::space::{PacketSet, Space};
use super::store::{BOTTOM, Full, Ref};
use super::unsaid::Unsaid;
use super::words::match_words;
use crate::language::parse_packet;

/// A packet of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// The packet, with both devices: at PREROUTING the output device is not looked at.
    pub packet: Packet,
    /// What is taken for granted beside it; every other answer does not matter.
    pub opinions: Vec<Opinion>,
}

/// The answer to a question that the packet leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    /// The match; `None` for what a translation chooses or an unknown target decides.
    pub asked: Option<Match>,
    /// The same in words.
    pub words: String,
    /// The hook, where it matters.
    pub hook: Option<Hook>,
    /// Whether it holds.
    pub answer: bool,
    pub(crate) unsaid: Unsaid,
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
    pub(crate) fn pick(&self, mut f: Ref) -> Witness {
        let mut bits = self.usual();
        let mut opinions = Vec::new();
        while self.store.level(f) != BOTTOM {
            let level = self.store.level(f);
            let (low, high) = self.store.branches(f);
            let question = level.checked_sub(self.layout.end);
            let wanted = question.is_none() && bits.0[level as usize];
            let preferred = if wanted { high } else { low };
            let set = if preferred == Ref::ZERO { !wanted } else { wanted };
            match question {
                None => bits.0[level as usize] = set,
                Some(question) => opinions.push(self.opinion(question, set)),
            }
            f = if set { high } else { low };
        }
        Witness { packet: decode(&self.layout, &bits), opinions }
    }

    pub(crate) fn opinion(&self, question: u32, answer: bool) -> Opinion {
        let (unsaid, asked) = self.unsaid.get(question).expect("a level has a question").clone();
        let hook = match unsaid {
            Unsaid::Stateless { hook, .. } => hook,
            Unsaid::Stateful { .. } => None,
        };
        let words = match &asked {
            Some(m) => match_words(m),
            None => "an unknown target ends the walk".to_owned(),
        };
        Opinion { asked, words, hook, answer, unsaid }
    }

    /// What is put where a set leaves a choice.
    fn usual(&self) -> Assignment {
        let text = match self.family() {
            Family::V4 => "ip saddr 198.51.100.7 tcp sport 40000 tcp dport 80",
            Family::V6 => "ip6 saddr 2001:db8:1::7 tcp sport 40000 tcp dport 80",
        };
        let mut packet = parse_packet(text).expect("words of the language");
        packet.smac = Some([2, 0, 0, 0, 0, 1]);
        // Some device that no rule names, rather than none.
        let names = self.layout.devices.names();
        let unnamed = names.get(1).unwrap_or(&names[0]);
        (packet.iif, packet.oif) = (unnamed.clone(), unnamed.clone());
        encode(&self.layout, &packet).expect("a usual packet has a code")
    }
}
