//! Parses the words of one line into a command with its rule, as iptables-restore's option loop
//! does.
//!
//! It behaves like getopt_long: options of the base come first, then those of the extensions named
//! so far, newest first; names may be abbreviated if that is unambiguous; short options may be
//! combined and contain their argument; `--name=value`. An unknown option loads the match of the
//! rule's protocol (`-p tcp --dport 80`).

mod base_option;
mod finish;
mod line;
mod lookup;
mod name;

use weir_model::matching::Opaque;
use weir_model::{Base, Counters, Family, Match, Span, TableName, Target};

use super::base::{self, Addrs};
use super::option::{Arg, Arity, Extension, Opt, Taken};
use super::word::Word;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::intern::Interner;

pub(super) use line::{Letters, Line, RuleCommand, hook_bit};

/// What the scanner must know of the text around the line.
pub(super) struct Surroundings<'c, 'a> {
    pub family: Family,
    pub table: TableName,
    pub resolve: bool,
    pub names: &'c mut Interner<'a>,
    /// Whether the table has a chain of that name.
    pub is_chain: &'c dyn Fn(&str) -> bool,
}

/// An extension that the line named.
enum Open {
    Match(&'static Extension<Match>),
    Target(&'static Extension<Target>),
    Opaque(Opaque),
}

impl Open {
    fn options(&self) -> &'static [Opt] {
        match self {
            Open::Match(e) => e.options,
            Open::Target(e) => e.options,
            Open::Opaque(_) => &[],
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Open::Match(e) => e.name,
            Open::Target(e) => e.name,
            Open::Opaque(_) => "",
        }
    }

    fn is_target(&self) -> bool {
        matches!(self, Open::Target(_))
    }
}

/// The target of `-j` or `-g`.
enum Jump {
    None,
    Plain(Target),
    Extension,
    Opaque(Opaque),
}

pub(super) struct Scan<'c, 'a, 'w> {
    pub around: &'c mut Surroundings<'c, 'a>,
    pub words: &'w [Word<'a>],
    at: usize,
    pub invert: Option<Span>,
    command: Option<RuleCommand<'w>>,
    pub base: Base,
    pub sources: Addrs,
    pub destinations: Addrs,
    pub counters: Option<Counters>,
    open: Vec<(Open, Span)>,
    taken: Vec<Taken<'w>>,
    jump: Jump,
    jump_span: Span,
    pub given: Letters,
    proto_used: bool,
    /// A `-s` or `-d` with `!`.
    pub negated_address: Option<Span>,
    /// `-4` in a text of ip6tables and `-6` in one of iptables: the tool skips such a line.
    ignored: bool,
}

/// Reads the words of one line.
pub(super) fn scan<'c, 'a, 'w>(
    around: &'c mut Surroundings<'c, 'a>,
    words: &'w [Word<'a>],
) -> Fallible<Line<'w>> {
    let mut scan = Scan {
        around,
        words,
        at: 0,
        invert: None,
        command: None,
        base: Base::default(),
        sources: Addrs::default(),
        destinations: Addrs::default(),
        counters: None,
        open: Vec::new(),
        taken: Vec::new(),
        jump: Jump::None,
        jump_span: Span::NONE,
        given: Letters::default(),
        proto_used: false,
        negated_address: None,
        ignored: false,
    };
    while scan.at < words.len() && !scan.ignored {
        scan.step()?;
    }
    scan.finish()
}

impl<'a, 'w> Scan<'_, 'a, 'w> {
    /// The word read last, where it is the one at `span`.
    pub fn word_before(&self, span: Span) -> Option<&'w Word<'a>> {
        self.words.get(self.at.wrapping_sub(1)).filter(|w| w.span == span)
    }

    /// Reads one option with its arguments.
    fn step(&mut self) -> Fallible<()> {
        let word = &self.words[self.at];
        self.at += 1;
        let text: &'w str = &word.text;
        match text.as_bytes() {
            [b'-', b'-', _, ..] => self.long(word),
            [b'-', letter, ..] if *letter != b'-' => self.short(word),
            b"--" if self.at == self.words.len() => Ok(()),
            b"!" => {
                if self.invert.is_some() {
                    return Diagnostic::new("two ! in a row", word.span).help("write one").fail();
                }
                self.invert = Some(word.span);
                Ok(())
            }
            _ => self.stray(word).fail(),
        }
    }

    /// The error for a word that belongs to no option.
    fn stray(&self, word: &Word<'a>) -> Diagnostic {
        let d =
            Diagnostic::new(format!("{:?} is not an argument of an option", word.text), word.span);
        match self.words.get(self.at.wrapping_sub(2)) {
            Some(before)
                if before.text.starts_with('\u{2013}') || word.text.starts_with('\u{2013}') =>
            {
                d.help("options begin with hyphens, not with the dash of a word processor")
            }
            _ if word.text.starts_with('\u{2013}') => {
                d.help("options begin with hyphens, not with the dash of a word processor")
            }
            Some(before) if before.quoted => d.help("a closing quote ends the word"),
            _ => d.help("remove it, or quote it together with the word before it"),
        }
    }

    fn short(&mut self, word: &'w Word<'a>) -> Fallible<()> {
        let text: &'w str = &word.text;
        let mut at = 1;
        while at < text.len() {
            let letter = text.as_bytes()[at];
            at += 1;
            let Some(arity) = base::arity(letter, self.around.family) else {
                let c = text[at - 1..].chars().next().unwrap_or('?');
                let d = Diagnostic::new(format!("no option -{c}"), word.span);
                return if text.len() > 2 && text.is_char_boundary(2) {
                    d.help(format!("a long option has two dashes: -{text}")).fail()
                } else {
                    d.fail()
                };
            };
            let arg = match arity {
                Arity::Flag => None,
                _ if at < text.len() => {
                    let attached = &text[at..];
                    at = text.len();
                    Some(self.attached(letter, attached, word))
                }
                _ => Some(self.argument(word.span, &text[..2])?),
            };
            self.apply(letter, arg, word.span)?;
        }
        Ok(())
    }

    /// The next word as an argument, whatever it looks like.
    fn argument(&mut self, option: Span, name: &str) -> Fallible<Arg<'w>> {
        match self.words.get(self.at) {
            Some(w) => {
                self.at += 1;
                Ok(Arg { text: &w.text, span: w.span })
            }
            None => Diagnostic::new(format!("{name} without its argument"), option)
                .help("write the argument after it, or remove the option")
                .fail(),
        }
    }

    /// An argument that is in the same word as its option.
    ///
    /// iptables 1.8 takes the whole word for the argument of `-s -d -i -o -p`: `-ieth0` is a device
    /// of the name `-ieth0`.
    fn attached(&self, letter: u8, text: &'w str, word: &'w Word<'a>) -> Arg<'w> {
        if b"sdiop".contains(&letter) {
            return Arg { text: &word.text, span: word.span };
        }
        let start = word.span.end - (text.len() as u32).min(word.span.end - word.span.start);
        Arg { text, span: Span { start, end: word.span.end } }
    }

    fn apply(&mut self, letter: u8, arg: Option<Arg<'w>>, span: Span) -> Fallible<()> {
        let whole = Span { end: arg.map_or(span.end, |a| a.span.end), ..span };
        if let (Some(bang), false) = (self.invert, base::invertible(letter)) {
            return Diagnostic::new("! before an option that cannot be negated", bang)
                .help("remove it")
                .fail();
        }
        let other = if self.around.family == Family::V4 { b'6' } else { b'4' };
        if letter == other {
            self.ignored = true;
        } else if base::is_command(letter) {
            self.command(letter, arg, whole)?;
        } else {
            match letter {
                b'm' => self.module(arg.unwrap_or(Arg { text: "", span }), whole)?,
                b'j' | b'g' => self.jump(letter, arg.unwrap_or(Arg { text: "", span }), whole)?,
                _ => {
                    let second = match letter {
                        b'c' => Some(self.argument(span, "-c")?),
                        _ => None,
                    };
                    self.base_option(letter, arg, second, whole)?;
                }
            }
        }
        self.invert = None;
        Ok(())
    }

    fn command(&mut self, letter: u8, arg: Option<Arg<'w>>, span: Span) -> Fallible<()> {
        if let Some(c) = &self.command {
            return Diagnostic::new(
                format!("-{} beside -{}", letter as char, c.letter as char),
                span,
            )
            .help("one command per line")
            .fail();
        }
        let mut next = || match self.words.get(self.at) {
            Some(w) if !w.text.starts_with(['-', '!']) => {
                self.at += 1;
                Some(Arg { text: &w.text, span: w.span })
            }
            _ => None,
        };
        let chain = match arg {
            Some(a) => Some(a),
            None => next(),
        };
        let operand = match letter {
            b'D' | b'I' | b'R' | b'P' | b'E' | b'Z' => next(),
            _ => None,
        };
        self.command = Some(RuleCommand {
            letter,
            span,
            chain: chain.map(|a| a.text),
            chain_span: chain.map_or(span, |a| a.span),
            operand: operand.map(|a| a.text),
            operand_span: operand.map_or(span, |a| a.span),
        });
        Ok(())
    }

    fn take(
        &mut self,
        owner: usize,
        opt: &'static Opt,
        value: Option<Arg<'w>>,
        word: &'w Word<'a>,
    ) -> Fallible<()> {
        let bang = self.invert.take();
        if let (Some(bang), false) = (bang, opt.invert) {
            return Diagnostic::new(format!("--{} cannot be negated", opt.name), bang)
                .help("remove the !")
                .fail();
        }
        let none = Arg { text: "", span: word.span };
        let arg = match (opt.arity, value) {
            (Arity::Flag, Some(_)) => {
                return Diagnostic::new(format!("--{} takes no argument", opt.name), word.span)
                    .fail();
            }
            (Arity::Flag, None) => none,
            (_, Some(v)) => v,
            (_, None) => self.argument(word.span, &word.text)?,
        };
        if arg.text == "!" && opt.invert && opt.arity != Arity::Flag {
            return old_negation(word, arg.span).fail();
        }
        let second = match opt.arity {
            Arity::Two => match self.words.get(self.at) {
                Some(w) if !w.text.starts_with(['-', '!']) => {
                    self.at += 1;
                    Arg { text: &w.text, span: w.span }
                }
                _ => {
                    return Diagnostic::new(
                        format!("--{} needs two arguments", opt.name),
                        Span { end: arg.span.end, ..word.span },
                    )
                    .fail();
                }
            },
            _ => none,
        };
        let span = Span {
            start: bang.map_or(word.span.start, |b| b.start),
            end: arg.span.end.max(second.span.end).max(word.span.end),
        };
        let given = self.taken.iter().any(|t| usize::from(t.owner) == owner && t.id == opt.id);
        if given && !opt.multi {
            return Diagnostic::new(format!("--{} a second time", opt.name), span)
                .help("it can be given once per match: repeat the module (-m) for another")
                .fail();
        }
        self.open[owner].1.end = self.open[owner].1.end.max(span.end);
        self.taken.push(Taken {
            owner: owner as u8,
            id: opt.id,
            negated: bang.is_some(),
            arg: arg.text,
            arg_span: arg.span,
            second: second.text,
            second_span: second.span,
            span,
            proto: self.base.proto.map_or((0, false), |p| (p.proto, p.negated)),
        });
        Ok(())
    }
}

/// `--option ! value`, which iptables took until 1.4.
pub(super) fn old_negation(word: &Word, bang: Span) -> Diagnostic {
    Diagnostic::new("old negation: ! after the option", bang)
        .help(format!("write it before the option: ! {} …", word.text))
}
