//! A parsed line.

use weir_model::{BaseMatch, Counters, Hook, Match, Span, Target};

use super::FurtherAddrsOfCommaList;

/// A command letter with its operands.
#[derive(Debug)]
pub(in crate::iptables) struct CommandWithOperands<'w> {
    pub letter: u8,
    pub span: Span,
    pub chain: Option<&'w str>,
    pub chain_span: Span,
    /// Rule number, policy or new name.
    pub operand_after_chain: Option<&'w str>,
    pub operand_after_chain_span: Span,
}

/// A line that was read.
pub(in crate::iptables) struct ParsedLine<'w> {
    pub command: CommandWithOperands<'w>,
    pub base: BaseMatch,
    pub extra_sources: FurtherAddrsOfCommaList,
    pub extra_destinations: FurtherAddrsOfCommaList,
    pub matches: Vec<Match>,
    pub target: Target,
    pub counters: Option<Counters>,
    /// Of each match, then of the target.
    pub match_and_target_spans: Vec<Span>,
    /// Hooks that may lead to the rule, as bits, and the extension that requires them.
    pub allowed_hooks: u8,
    pub restricting_extension: &'static str,
    /// Base options that were given: letters.
    pub given_letters: GivenBaseOptions,
}

/// Bit of a hook in a set of hooks.
pub(in crate::iptables) const fn hook_bit(hook: Hook) -> u8 {
    1 << hook.number()
}

/// The base options of a line, each at most once: letter and place.
#[derive(Clone, Copy, Default)]
pub(in crate::iptables) struct GivenBaseOptions([Option<Span>; ONCE_ONLY_OPTION_LETTERS.len()]);

/// The base options that may be given once.
const ONCE_ONLY_OPTION_LETTERS: &[u8] = b"sdpiofc";

impl GivenBaseOptions {
    /// Notes a letter; false where it was noted before. Letters that may come again are not noted.
    pub fn record_once(&mut self, letter: u8, span: Span) -> bool {
        let Some(i) = ONCE_ONLY_OPTION_LETTERS.iter().position(|l| *l == letter) else {
            return true;
        };
        self.0[i].replace(span).is_none()
    }

    /// The letters that were given.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Span)> {
        ONCE_ONLY_OPTION_LETTERS
            .iter()
            .zip(self.0)
            .filter_map(|(letter, span)| Some((*letter, span?)))
    }

    /// The position of a letter.
    pub fn span_of_letter(&self, letter: u8) -> Option<Span> {
        self.iter().find(|(l, _)| *l == letter).map(|(_, span)| span)
    }
}
