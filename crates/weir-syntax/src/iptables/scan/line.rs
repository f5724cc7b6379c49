//! A parsed line.

use weir_model::{Base, Counters, Hook, Match, Span, Target};

use super::Addrs;

/// A command letter with its operands.
#[derive(Debug)]
pub(in crate::iptables) struct RuleCommand<'w> {
    pub letter: u8,
    pub span: Span,
    pub chain: Option<&'w str>,
    pub chain_span: Span,
    /// Rule number, policy or new name.
    pub operand: Option<&'w str>,
    pub operand_span: Span,
}

/// A line that was read.
pub(in crate::iptables) struct Line<'w> {
    pub command: RuleCommand<'w>,
    pub base: Base,
    pub sources: Addrs,
    pub destinations: Addrs,
    pub matches: Vec<Match>,
    pub target: Target,
    pub counters: Option<Counters>,
    /// Of each match, then of the target.
    pub spans: Vec<Span>,
    /// Hooks that may lead to the rule, as bits, and the extension that requires them.
    pub hooks: u8,
    pub narrowed_by: &'static str,
    /// Base options that were given: letters.
    pub given: Letters,
}

impl Line<'_> {
    /// A line that changes nothing.
    pub fn ignored() -> Self {
        let command = RuleCommand {
            letter: 0,
            span: Span::NONE,
            chain: None,
            chain_span: Span::NONE,
            operand: None,
            operand_span: Span::NONE,
        };
        Line {
            command,
            base: Base::default(),
            sources: Addrs::new(),
            destinations: Addrs::new(),
            matches: Vec::new(),
            target: Target::None,
            counters: None,
            spans: Vec::new(),
            hooks: u8::MAX,
            narrowed_by: "",
            given: Letters::default(),
        }
    }
}

/// Bit of a hook in a set of hooks.
pub(in crate::iptables) const fn hook_bit(hook: Hook) -> u8 {
    1 << hook as u8
}

/// The base options of a line, each at most once: letter and place.
#[derive(Clone, Copy, Default)]
pub(in crate::iptables) struct Letters([Option<Span>; LETTERS.len()]);

/// The base options that may be given once.
const LETTERS: &[u8] = b"sdpiofc";

impl Letters {
    /// Notes a letter; false where it was noted before. Letters that may come again are not noted.
    pub fn note(&mut self, letter: u8, span: Span) -> bool {
        let Some(i) = LETTERS.iter().position(|l| *l == letter) else { return true };
        self.0[i].replace(span).is_none()
    }

    /// The letters that were given.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Span)> {
        LETTERS.iter().zip(self.0).filter_map(|(letter, span)| Some((*letter, span?)))
    }

    /// The position of a letter.
    pub fn find(&self, letter: u8) -> Option<Span> {
        self.iter().find(|(l, _)| *l == letter).map(|(_, span)| span)
    }
}
