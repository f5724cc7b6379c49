//! Parses the words of one line into a command with its rule, as iptables-restore's option loop
//! does.
//!
//! It behaves like getopt_long: options of the base come first, then those of the extensions named
//! so far, newest first; names may be abbreviated if that is unambiguous; short options may be
//! combined and contain their argument; `--name=value`. An unknown option loads the match of the
//! rule's protocol (`-p tcp --dport 80`).

mod base_option_parsing;
mod match_and_jump;
mod option_lookup;
mod parsed_line;
mod rule_line_completion;

use weir_model::rule_match::OpaqueExtension;
use weir_model::{BaseMatch, Counters, Family, Match, Span, TableName, Target};

use super::base_option_table::{self, FurtherAddrsOfCommaList};
use super::option_specs_and_arguments::{
    Extension, OptionArgument, OptionArity, OptionSpec, ParsedOption,
};
use super::word_splitting::Word;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::intern::Interner;

pub(super) use parsed_line::{CommandWithOperands, GivenBaseOptions, ParsedLine, hook_bit};

/// What the scanner must know of the text around the line.
pub(super) struct ScanContext<'c, 'a> {
    pub family: Family,
    pub table: TableName,
    pub resolve_host_names: bool,
    pub interner: &'c mut Interner<'a>,
    /// Whether the table has a chain of that name.
    pub is_chain: &'c dyn Fn(&str) -> bool,
}

/// An extension that the line named.
enum NamedExtension {
    Match(&'static Extension<Match>),
    Target(&'static Extension<Target>),
    OpaqueMatch(OpaqueExtension),
}

impl NamedExtension {
    fn option_specs(&self) -> &'static [OptionSpec] {
        match self {
            NamedExtension::Match(e) => e.options,
            NamedExtension::Target(e) => e.options,
            NamedExtension::OpaqueMatch(_) => &[],
        }
    }

    fn known_extension_name_or_empty(&self) -> &'static str {
        match self {
            NamedExtension::Match(e) => e.name,
            NamedExtension::Target(e) => e.name,
            NamedExtension::OpaqueMatch(_) => "",
        }
    }

    fn is_known_target(&self) -> bool {
        matches!(self, NamedExtension::Target(_))
    }
}

/// The target of `-j` or `-g`.
enum ParsedJumpTarget {
    None,
    Standard(Target),
    Extension,
    Opaque(OpaqueExtension),
}

pub(super) struct OptionScanner<'c, 'a, 'w> {
    pub context: &'c mut ScanContext<'c, 'a>,
    pub words: &'w [Word<'a>],
    position: usize,
    pub pending_negation: Option<Span>,
    command: Option<CommandWithOperands<'w>>,
    pub base: BaseMatch,
    pub extra_sources: FurtherAddrsOfCommaList,
    pub extra_destinations: FurtherAddrsOfCommaList,
    pub counters: Option<Counters>,
    named_extensions: Vec<(NamedExtension, Span)>,
    parsed_options: Vec<ParsedOption<'w>>,
    jump: ParsedJumpTarget,
    jump_span: Span,
    pub given_letters: GivenBaseOptions,
    implicit_protocol_match_loaded: bool,
    /// A `-s` or `-d` with `!`.
    pub negated_address_span: Option<Span>,
    /// `-4` in a text of ip6tables and `-6` in one of iptables: the tool skips the rest of the
    /// line.
    other_family_option_span: Option<Span>,
}

/// Reads the words of one line; `None` if it is for the other family, and iptables-restore skips
/// it.
pub(super) fn scan_rule_line<'c, 'a, 'w>(
    around: &'c mut ScanContext<'c, 'a>,
    words: &'w [Word<'a>],
) -> ParseResult<Option<ParsedLine<'w>>> {
    let mut scan = OptionScanner {
        context: around,
        words,
        position: 0,
        pending_negation: None,
        command: None,
        base: BaseMatch::default(),
        extra_sources: FurtherAddrsOfCommaList::default(),
        extra_destinations: FurtherAddrsOfCommaList::default(),
        counters: None,
        named_extensions: Vec::new(),
        parsed_options: Vec::new(),
        jump: ParsedJumpTarget::None,
        jump_span: Span::NONE,
        given_letters: GivenBaseOptions::default(),
        implicit_protocol_match_loaded: false,
        negated_address_span: None,
        other_family_option_span: None,
    };
    while scan.position < words.len() {
        scan.scan_option()?;
        if let Some(option) = scan.other_family_option_span {
            return scan.refuse_skipped_line_if_command_runs(option).map(|()| None);
        }
    }
    scan.build_parsed_line().map(Some)
}

impl<'a, 'w> OptionScanner<'_, 'a, 'w> {
    /// The word read last, where it is the one at `span`.
    pub fn last_read_word_if_at(&self, span: Span) -> Option<&'w Word<'a>> {
        self.words.get(self.position.wrapping_sub(1)).filter(|w| w.span == span)
    }

    /// Whether nothing is executed of a line whose rest is skipped. That a rule is appended,
    /// inserted or deleted by its words is not; another command before the option is (`do_command4`
    /// of iptables.c, measured).
    fn refuse_skipped_line_if_command_runs(&self, option: Span) -> ParseResult<()> {
        let is_executed = self.command.as_ref().filter(|c| match c.letter {
            b'A' | b'I' | b'C' => false,
            b'D' => c.operand_after_chain.is_some(),
            _ => true,
        });
        let Some(command) = is_executed else { return Ok(()) };
        let letter = command.letter as char;
        Diagnostic::new("the option of the other family does not stop the command", option)
            .with_help(format!(
                "iptables-restore executes -{letter} all the same: remove one of both"
            ))
            .into_err()
    }

    /// Reads one option with its arguments.
    fn scan_option(&mut self) -> ParseResult<()> {
        let word = &self.words[self.position];
        self.position += 1;
        let text: &'w str = &word.text;
        match text.as_bytes() {
            [b'-', b'-', _, ..] => self.scan_long_option(word),
            [b'-', letter, ..] if *letter != b'-' => self.scan_short_options(word),
            b"--" if self.position == self.words.len() => Ok(()),
            b"!" => {
                if self.pending_negation.is_some() {
                    return Diagnostic::new("two ! in a row", word.span)
                        .with_help("write one")
                        .into_err();
                }
                self.pending_negation = Some(word.span);
                Ok(())
            }
            _ => self.stray_word_error(word).into_err(),
        }
    }

    /// The error for a word that belongs to no option.
    fn stray_word_error(&self, word: &Word<'a>) -> Diagnostic {
        let d =
            Diagnostic::new(format!("{:?} is not an argument of an option", word.text), word.span);
        match self.words.get(self.position.wrapping_sub(2)) {
            Some(before)
                if before.text.starts_with('\u{2013}') || word.text.starts_with('\u{2013}') =>
            {
                d.with_help("options begin with hyphens, not with the dash of a word processor")
            }
            _ if word.text.starts_with('\u{2013}') => {
                d.with_help("options begin with hyphens, not with the dash of a word processor")
            }
            Some(before) if before.quoted => d.with_help("a closing quote ends the word"),
            _ => d.with_help("remove it, or quote it together with the word before it"),
        }
    }

    fn scan_short_options(&mut self, word: &'w Word<'a>) -> ParseResult<()> {
        let text: &'w str = &word.text;
        let mut at = 1;
        while at < text.len() {
            let letter = text.as_bytes()[at];
            at += 1;
            let Some(arity) = base_option_table::option_arity(letter, self.context.family) else {
                let c = text[at - 1..].chars().next().unwrap_or('?');
                let d = Diagnostic::new(format!("no option -{c}"), word.span);
                return if text.len() > 2 && text.is_char_boundary(2) {
                    d.with_help(format!("a long option has two dashes: -{text}")).into_err()
                } else {
                    d.into_err()
                };
            };
            // The chain of `-F -X -Z` is optional: `-Fchain`, or the next word (`set_command_and_take_operands`).
            let takes_rest = arity != OptionArity::Flag || b"LSFZX".contains(&letter);
            let arg = match arity {
                _ if takes_rest && at < text.len() => {
                    let attached = &text[at..];
                    at = text.len();
                    Some(self.attached_argument_or_option_word(letter, attached, word))
                }
                OptionArity::Flag => None,
                _ => Some(self.take_argument(word.span, &text[..2])?),
            };
            self.dispatch_option_letter(letter, arg, word.span)?;
        }
        Ok(())
    }

    /// The next word as an argument, whatever it looks like.
    fn take_argument(&mut self, option: Span, name: &str) -> ParseResult<OptionArgument<'w>> {
        match self.words.get(self.position) {
            Some(w) => {
                self.position += 1;
                Ok(OptionArgument { text: &w.text, span: w.span })
            }
            None => Diagnostic::new(format!("{name} without its argument"), option)
                .with_help("write the argument after it, or remove the option")
                .into_err(),
        }
    }

    /// An argument that is in the same word as its option.
    ///
    /// iptables 1.8 takes the whole word for the argument of `-s -d -i -o -p -j`: `-ieth0` is a
    /// device of the name `-ieth0`, and `--jump=DROP` a jump to a chain of that name. (`do_parse`
    /// of xshared.c reads `argv[optind - 1]` for these.)
    fn attached_argument_or_option_word(
        &self,
        letter: u8,
        text: &'w str,
        word: &'w Word<'a>,
    ) -> OptionArgument<'w> {
        if b"sdiopj".contains(&letter) {
            return OptionArgument { text: &word.text, span: word.span };
        }
        let start = word.span.end - (text.len() as u32).min(word.span.end - word.span.start);
        OptionArgument { text, span: Span { start, end: word.span.end } }
    }

    fn dispatch_option_letter(
        &mut self,
        letter: u8,
        arg: Option<OptionArgument<'w>>,
        span: Span,
    ) -> ParseResult<()> {
        let whole = Span { end: arg.map_or(span.end, |a| a.span.end), ..span };
        if let (Some(bang), false) =
            (self.pending_negation, base_option_table::is_invertible(letter))
        {
            return Diagnostic::new("! before an option that cannot be negated", bang)
                .with_help("remove it")
                .into_err();
        }
        let other = if self.context.family == Family::V4 { b'6' } else { b'4' };
        if letter == other {
            self.other_family_option_span = Some(span);
        } else if base_option_table::is_command_letter(letter) {
            self.set_command_and_take_operands(letter, arg, whole)?;
        } else {
            match letter {
                b'm' => {
                    self.load_match_module(arg.unwrap_or(OptionArgument { text: "", span }), whole)?
                }
                b'j' | b'g' => self.set_jump_target(
                    letter,
                    arg.unwrap_or(OptionArgument { text: "", span }),
                    whole,
                )?,
                _ => {
                    let (arg, second) = match (letter, arg) {
                        (b'c', Some(packets)) => {
                            let (packets, bytes) = self.split_or_take_counters(packets, span)?;
                            (Some(packets), Some(bytes))
                        }
                        _ => (arg, None),
                    };
                    self.parse_base_test_or_counters(letter, arg, second, whole)?;
                }
            }
        }
        self.pending_negation = None;
        Ok(())
    }

    /// The counters of `-c`: `5,6`, or two words, of which the second is no option.
    fn split_or_take_counters(
        &mut self,
        packets: OptionArgument<'w>,
        option: Span,
    ) -> ParseResult<(OptionArgument<'w>, OptionArgument<'w>)> {
        if let Some((packets_text, bytes_text)) = packets.text.split_once(',')
            && !packets_text.is_empty()
        {
            let of = |text| OptionArgument { text, span: packets.span };
            return Ok((of(packets_text), of(bytes_text)));
        }
        match self.words.get(self.position) {
            Some(w) if w.text.starts_with(['-', '!']) => {
                Diagnostic::new("-c without the counter of bytes", option)
                    .with_help("write -c PACKETS BYTES")
                    .into_err()
            }
            _ => Ok((packets, self.take_argument(option, "-c")?)),
        }
    }

    fn set_command_and_take_operands(
        &mut self,
        letter: u8,
        arg: Option<OptionArgument<'w>>,
        span: Span,
    ) -> ParseResult<()> {
        if let Some(c) = &self.command {
            return Diagnostic::new(
                format!("-{} beside -{}", letter as char, c.letter as char),
                span,
            )
            .with_help("write one command per line")
            .into_err();
        }
        let mut next = || match self.words.get(self.position) {
            Some(w) if !w.text.starts_with(['-', '!']) => {
                self.position += 1;
                Some(OptionArgument { text: &w.text, span: w.span })
            }
            _ => None,
        };
        let chain = match arg {
            Some(a) => Some(a),
            None => next(),
        };
        let operand_after_chain = match letter {
            b'D' | b'I' | b'R' | b'P' | b'E' | b'Z' => next(),
            _ => None,
        };
        self.command = Some(CommandWithOperands {
            letter,
            span,
            chain: chain.map(|a| a.text),
            chain_span: chain.map_or(span, |a| a.span),
            operand_after_chain: operand_after_chain.map(|a| a.text),
            operand_after_chain_span: operand_after_chain.map_or(span, |a| a.span),
        });
        Ok(())
    }

    fn take_extension_option(
        &mut self,
        owner: usize,
        opt: &'static OptionSpec,
        value: Option<OptionArgument<'w>>,
        word: &'w Word<'a>,
    ) -> ParseResult<()> {
        let bang = self.pending_negation.take();
        if let (Some(bang), false) = (bang, opt.invertible) {
            return Diagnostic::new(format!("--{} cannot be negated", opt.name), bang)
                .with_help("remove the !")
                .into_err();
        }
        let none = OptionArgument { text: "", span: word.span };
        let arg = match (opt.arity, value) {
            (OptionArity::Flag, Some(_)) => {
                return Diagnostic::new(format!("--{} takes no argument", opt.name), word.span)
                    .into_err();
            }
            (OptionArity::Flag, None) => none,
            (_, Some(v)) => v,
            (_, None) => self.take_argument(word.span, &word.text)?,
        };
        if arg.text == "!" && opt.invertible && opt.arity != OptionArity::Flag {
            return old_negation_error(word, arg.span).into_err();
        }
        let second = match opt.arity {
            OptionArity::TwoArguments => match self.words.get(self.position) {
                Some(w) if !w.text.starts_with(['-', '!']) => {
                    self.position += 1;
                    OptionArgument { text: &w.text, span: w.span }
                }
                _ => {
                    return Diagnostic::new(
                        format!("--{} needs two arguments", opt.name),
                        Span { end: arg.span.end, ..word.span },
                    )
                    .into_err();
                }
            },
            _ => none,
        };
        let span = Span {
            start: bang.map_or(word.span.start, |b| b.start),
            end: arg.span.end.max(second.span.end).max(word.span.end),
        };
        let given = self
            .parsed_options
            .iter()
            .any(|t| usize::from(t.extension_index) == owner && t.id == opt.id);
        if given && !opt.repeatable {
            return Diagnostic::new(format!("--{} a second time", opt.name), span)
                .with_help("it can be given once per match: repeat the module (-m) for another")
                .into_err();
        }
        self.named_extensions[owner].1.end = self.named_extensions[owner].1.end.max(span.end);
        self.parsed_options.push(ParsedOption {
            extension_index: owner as u8,
            id: opt.id,
            negated: bang.is_some(),
            arg: arg.text,
            arg_span: arg.span,
            second_arg: second.text,
            second_arg_span: second.span,
            negation_to_arguments_span: span,
            proto_so_far: self.base.proto.map_or((0, false), |p| (p.proto, p.negated)),
        });
        Ok(())
    }
}

/// `--option ! value`, which iptables took until 1.4.
pub(super) fn old_negation_error(word: &Word, bang: Span) -> Diagnostic {
    Diagnostic::new("old negation: ! after the option", bang)
        .with_help(format!("write it before the option: ! {} …", word.text))
}
