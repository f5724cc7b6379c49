//! One line of words to one command with its rule, as iptables-restore's option loop reads it.
//!
//! getopt_long's habits are kept: options of the base first, then of the extensions named so far,
//! newest first; names may be abbreviated where that is unambiguous; short options may stand
//! together and hold their argument; `--name=value`. An option that nobody knows brings in the
//! match of the rule's protocol (`-p tcp --dport 80`).

use std::cell::Cell;

use weir_model::matching::Opaque;
use weir_model::{Base, Counters, Family, Hook, Match, Name, Span, TableName, Target};

use super::base::{self, Addrs};
use super::extension::{self, find_match, find_target};
use super::option::{Arity, Extension, Given, Opt, Place, Taken};
use super::word::Word;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::intern::Interner;

/// What the scanner must know of the text around the line.
pub(super) struct Surroundings<'c, 'a> {
    pub family: Family,
    pub table: TableName,
    pub resolve: bool,
    pub names: &'c mut Interner<'a>,
    /// Whether the table has a chain of that name.
    pub is_chain: &'c dyn Fn(&str) -> bool,
}

/// A command letter with its operands.
#[derive(Debug)]
pub(super) struct Command<'w> {
    pub letter: u8,
    pub span: Span,
    pub chain: Option<&'w str>,
    pub chain_span: Span,
    /// Rule number, policy or new name.
    pub operand: Option<&'w str>,
    pub operand_span: Span,
}

/// A line that was read.
pub(super) struct Line<'w> {
    pub command: Command<'w>,
    pub base: Base,
    pub sources: Addrs,
    pub destinations: Addrs,
    pub matches: Vec<Match>,
    pub target: Target,
    pub counters: Option<Counters>,
    /// Of each match, then of the target.
    pub spans: Vec<Span>,
    /// Hooks that may lead to the rule, as bits, and who said so.
    pub hooks: u8,
    pub narrowed_by: &'static str,
    /// Base options that were given: letters.
    pub given: Vec<(u8, Span)>,
}

impl Line<'_> {
    /// A line that changes nothing.
    fn ignored() -> Self {
        let command = Command {
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
            given: Vec::new(),
        }
    }
}

/// Bit of a hook in a set of hooks.
pub(super) const fn hook_bit(hook: Hook) -> u8 {
    1 << hook as u8
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

/// Where `-j` or `-g` goes.
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
    command: Option<Command<'w>>,
    pub base: Base,
    pub sources: Addrs,
    pub destinations: Addrs,
    pub counters: Option<Counters>,
    open: Vec<(Open, Span)>,
    taken: Vec<Taken<'w>>,
    jump: Jump,
    jump_span: Span,
    pub given: Vec<(u8, Span)>,
    proto_used: bool,
    /// A `-s` or `-d` with `!`.
    pub negated_address: Option<Span>,
    /// `-4` in a text of ip6tables and `-6` in one of iptables: the tool skips such a line.
    ignored: bool,
}

/// An argument: its text and place.
#[derive(Clone, Copy)]
pub(super) struct Arg<'w> {
    pub text: &'w str,
    pub span: Span,
}

/// Who knows a long option.
enum Found {
    Base(u8),
    Extension(usize, &'static Opt),
    Ambiguous(String),
    Unknown,
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
        given: Vec::new(),
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
        let d = Diagnostic::new(format!("{:?} belongs to no option", word.text), word.span);
        match self.words.get(self.at.wrapping_sub(2)) {
            Some(before)
                if before.text.starts_with('\u{2013}') || word.text.starts_with('\u{2013}') =>
            {
                d.help("options begin with hyphens; a dash of a word processor is none")
            }
            _ if word.text.starts_with('\u{2013}') => {
                d.help("options begin with hyphens; a dash of a word processor is none")
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
            None => Diagnostic::new(format!("{name} without its argument"), option).fail(),
        }
    }

    /// An argument that stands in the same word as its option.
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
            .help("one command a line")
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
        self.command = Some(Command {
            letter,
            span,
            chain: chain.map(|a| a.text),
            chain_span: chain.map_or(span, |a| a.span),
            operand: operand.map(|a| a.text),
            operand_span: operand.map_or(span, |a| a.span),
        });
        Ok(())
    }

    fn module(&mut self, arg: Arg<'w>, span: Span) -> Fallible<()> {
        let family = self.around.family;
        let open = match find_match(arg.text, family) {
            Some(e) => Open::Match(e),
            None if arg.text.is_empty() => {
                return Diagnostic::new("empty module name", arg.span).fail();
            }
            None => {
                let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
                if let Some(e) = find_match(arg.text, other) {
                    return wrong_family(e.name, arg.span, family).fail();
                }
                let words = self.opaque_words();
                Open::Opaque(Opaque { name: arg.text.to_owned(), words })
            }
        };
        let end = self.words[self.at - 1].span.end;
        self.open.push((open, Span { end, ..span }));
        Ok(())
    }

    /// The words of a module that weir does not know: up to the next base option.
    fn opaque_words(&mut self) -> Vec<String> {
        let family = self.around.family;
        let is_base = |w: &Word| !w.quoted && base::begins_option(&w.text, family);
        let mut out = Vec::new();
        while let Some(w) = self.words.get(self.at) {
            let negates_base =
                w.text == "!" && !w.quoted && self.words.get(self.at + 1).is_some_and(is_base);
            if is_base(w) || negates_base {
                break;
            }
            out.push(w.text.clone().into_owned());
            self.at += 1;
        }
        out
    }

    fn jump(&mut self, letter: u8, arg: Arg<'w>, span: Span) -> Fallible<()> {
        if !matches!(self.jump, Jump::None) {
            return Diagnostic::new("a second target", span).help("one -j or -g a rule").fail();
        }
        self.jump_span = span;
        base::check_target_name(arg)?;
        let family = self.around.family;
        if letter == b'g' {
            if !(self.around.is_chain)(arg.text) {
                return base::no_chain(arg, self.around.table).fail();
            }
            self.jump = Jump::Plain(Target::Goto(self.intern(arg)));
            return Ok(());
        }
        self.jump = match arg.text {
            "ACCEPT" => Jump::Plain(Target::Accept),
            "DROP" if self.around.table == TableName::Nat => {
                return Diagnostic::new("DROP in the nat table", arg.span)
                    .help("nat sees only the first packet of a connection: drop in filter or raw")
                    .fail();
            }
            "DROP" => Jump::Plain(Target::Drop),
            "RETURN" => Jump::Plain(Target::Return),
            "QUEUE" => Jump::Plain(Target::Divert(Box::new(weir_model::target::Extension {
                module: "QUEUE",
                options: Vec::new(),
            }))),
            name => match find_target(name, family) {
                Some(e) => {
                    self.open.push((Open::Target(e), span));
                    Jump::Extension
                }
                None if (self.around.is_chain)(name) => Jump::Plain(Target::Jump(self.intern(arg))),
                None => return self.unknown_target(arg),
            },
        };
        Ok(())
    }

    fn intern(&mut self, arg: Arg<'w>) -> Name {
        // The word that the argument is, or lies in, is the only owner of its text.
        match self.words.iter().find(|w| w.span == arg.span) {
            Some(w) => self.around.names.of(&w.text),
            None => Name::from(arg.text),
        }
    }

    /// A target that is neither a chain nor known: a module if it looks like one.
    fn unknown_target(&mut self, arg: Arg<'w>) -> Fallible<()> {
        let family = self.around.family;
        let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
        if let Some(e) = find_target(arg.text, other) {
            return wrong_family(e.name, arg.span, family).fail();
        }
        let words = self.opaque_words();
        if words.is_empty() && !base::FOREIGN_TARGETS.contains(&arg.text) {
            return base::no_chain(arg, self.around.table).fail();
        }
        self.jump_span.end = self.words[self.at - 1].span.end;
        self.jump = Jump::Opaque(Opaque { name: arg.text.to_owned(), words });
        Ok(())
    }

    fn long(&mut self, word: &'w Word<'a>) -> Fallible<()> {
        let text: &'w str = &word.text;
        let (name, value) = match text[2..].split_once('=') {
            Some((n, v)) => (n, Some(v)),
            None => (&text[2..], None),
        };
        loop {
            match self.find(name) {
                Found::Base(letter) => {
                    let arity = base::arity(letter, self.around.family).unwrap_or(Arity::Flag);
                    let arg = match (arity, value) {
                        (Arity::Flag, Some(_)) if !base::is_command(letter) => {
                            return Diagnostic::new(
                                format!("--{name} takes no argument"),
                                word.span,
                            )
                            .fail();
                        }
                        (_, Some(v)) => Some(self.attached(letter, v, word)),
                        (Arity::Flag, None) => None,
                        (_, None) => Some(self.argument(word.span, text)?),
                    };
                    return self.apply(letter, arg, word.span);
                }
                Found::Extension(owner, opt) => {
                    let value = value.map(|v| self.attached(0, v, word));
                    return self.take(owner, opt, value, word);
                }
                Found::Ambiguous(names) => {
                    return Diagnostic::new(format!("--{name} may be {names}"), word.span)
                        .help("write the name in full")
                        .fail();
                }
                Found::Unknown if self.load_protocol(word.span) => {}
                Found::Unknown => return self.unknown(name, word.span).fail(),
            }
        }
    }

    /// Brings in the match of the rule's protocol, once a line.
    fn load_protocol(&mut self, span: Span) -> bool {
        let Some(p) = self.base.proto.filter(|_| !self.proto_used) else { return false };
        let Some(e) = extension::implicit(p.proto, self.around.family) else { return false };
        self.proto_used = true;
        self.open.push((Open::Match(e), span));
        true
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let owner = extension::owner_of(name, self.around.family);
        let d = Diagnostic::new(format!("no option --{name} here"), span);
        match owner {
            Some((flag, module)) => {
                d.help(format!("it is one of {module}: write {flag} {module} before it"))
            }
            None => d,
        }
    }

    fn find(&self, name: &str) -> Found {
        if let Some(letter) = base::long(name, self.around.family) {
            return Found::Base(letter);
        }
        for (owner, (open, _)) in self.open.iter().enumerate().rev() {
            if let Some(o) = open.options().iter().find(|o| o.name == name) {
                return self.unless_completed(owner, o);
            }
        }
        self.find_abbreviated(name)
    }

    fn find_abbreviated(&self, name: &str) -> Found {
        let mut found: Option<(usize, u8, Arity, &'static str, Found)> = None;
        let base = base::long_prefix(name, self.around.family)
            .map(|(full, letter)| (usize::MAX, letter, Arity::One, full, Found::Base(letter)));
        let modules = self.open.iter().enumerate().rev().flat_map(|(owner, (open, _))| {
            open.options()
                .iter()
                .filter(|o| o.name.starts_with(name))
                .map(move |o| (owner, o.id, o.arity, o.name, Found::Extension(owner, o)))
        });
        for next in base.chain(modules) {
            match &found {
                Some((owner, id, arity, full, _))
                    if (*owner, *id, *arity) != (next.0, next.1, next.2) =>
                {
                    return Found::Ambiguous(format!("--{full} or --{}", next.3));
                }
                Some(_) => {}
                None => found = Some(next),
            }
        }
        match found {
            Some((_, _, _, _, Found::Extension(owner, o))) => self.unless_completed(owner, o),
            Some((_, _, _, _, f)) => f,
            None => Found::Unknown,
        }
    }

    /// A match takes no options any more once the same module was named again.
    fn unless_completed(&self, owner: usize, opt: &'static Opt) -> Found {
        let open = &self.open[owner].0;
        let again = self.open[owner + 1..]
            .iter()
            .any(|(o, _)| !o.is_target() && !open.is_target() && o.name() == open.name());
        if again { Found::Unknown } else { Found::Extension(owner, opt) }
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
                .help("it can be given once in a match: name the module again (-m) for another")
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

    /// `!` and a list of addresses do not go together in one rule.
    fn check_lists(&self) -> Fallible<()> {
        if self.sources.is_empty() && self.destinations.is_empty() {
            return Ok(());
        }
        let Some(span) = self.negated_address else { return Ok(()) };
        Diagnostic::new("! beside a list of addresses", span)
            .help("write a chain that returns on each address, or an ipset")
            .fail()
    }

    fn finish(self) -> Fallible<Line<'w>> {
        if self.ignored {
            return Ok(Line::ignored());
        }
        if let Some(bang) = self.invert {
            return Diagnostic::new("! before nothing", bang).help("remove it").fail();
        }
        let start = self.words.first().map_or(Span::NONE, |w| w.span);
        self.check_lists()?;
        let Some(command) = self.command else {
            return Diagnostic::new("line without a command", start)
                .help("a rule begins with -A CHAIN")
                .fail();
        };
        let mut line = Line {
            command,
            base: self.base,
            sources: self.sources,
            destinations: self.destinations,
            matches: Vec::with_capacity(self.open.len()),
            target: Target::None,
            counters: self.counters,
            spans: Vec::with_capacity(self.open.len() + 1),
            hooks: u8::MAX,
            narrowed_by: "",
            given: self.given,
        };
        let mut target = None;
        for (owner, (open, span)) in self.open.into_iter().enumerate() {
            let given = |options, name| Given {
                family: self.around.family,
                table: self.around.table,
                resolve: self.around.resolve,
                name,
                span,
                base: &line.base,
                taken: &self.taken,
                owner: owner as u8,
                options,
                hooks: Cell::new(&[]),
            };
            let (place, name, hooks) = match open {
                Open::Opaque(o) => {
                    line.matches.push(Match::Opaque(Box::new(o)));
                    line.spans.push(span);
                    continue;
                }
                Open::Match(e) => {
                    let g = given(e.options, e.name);
                    check_given(&g, e.place)?;
                    let (m, hooks) = ((e.build)(&g)?, g.hooks.get());
                    line.matches.push(m);
                    line.spans.push(span);
                    (e.place, e.name, hooks)
                }
                Open::Target(e) => {
                    let g = given(e.options, e.name);
                    check_given(&g, e.place)?;
                    target = Some(((e.build)(&g)?, span));
                    (e.place, e.name, g.hooks.get())
                }
            };
            for hooks in [place.hooks, hooks].into_iter().filter(|h| !h.is_empty()) {
                let bits = hooks.iter().fold(0, |bits, h| bits | hook_bit(*h));
                if line.hooks & bits != line.hooks {
                    line.narrowed_by = name;
                }
                line.hooks &= bits;
            }
        }
        let (target, span) = match self.jump {
            Jump::None => (Target::None, line.command.span),
            Jump::Plain(t) => (t, self.jump_span),
            Jump::Opaque(o) => (Target::Opaque(Box::new(o)), self.jump_span),
            Jump::Extension => target.unwrap_or((Target::None, self.jump_span)),
        };
        extension::check_rule(&target, &line.matches, span)?;
        line.target = target;
        line.spans.push(span);
        Ok(line)
    }
}

/// What the option table and the place of an extension say about what was given.
fn check_given(g: &Given, place: Place) -> Fallible<()> {
    let bits = g.iter().fold(0u32, |bits, t| bits | 1 << t.id);
    for o in g.options {
        let bit = 1 << o.id;
        if o.mandatory && bits & bit == 0 {
            return g
                .problem(format!("{} without --{}", g.name, o.name))
                .help("the option must be given")
                .fail();
        }
        if bits & bit == 0 {
            continue;
        }
        let Some(t) = g.first(o.id) else { continue };
        if let Some(other) = g.iter().find(|t| o.excludes >> t.id & 1 == 1) {
            let (a, b) = (o.name, g.spelled(other.id));
            return Diagnostic::new(format!("--{a} and --{b} together"), other.span)
                .help("give one of them")
                .fail();
        }
        if o.also & !bits != 0 {
            let missing = (o.also & !bits).trailing_zeros() as u8;
            return Diagnostic::new(
                format!("--{} without --{}", o.name, g.spelled(missing)),
                t.span,
            )
            .fail();
        }
    }
    let proto = g.base.proto.filter(|p| !p.negated).map(|p| p.proto);
    if !place.protocols.is_empty() && !proto.is_some_and(|p| place.protocols.contains(&p)) {
        let names: Vec<_> =
            place.protocols.iter().filter_map(|p| crate::names::protocol_name(*p)).collect();
        return g
            .problem(format!("{} in a rule that is not for its protocol alone", g.name))
            .help(format!("write -p {} in the rule", names.join(", ")))
            .fail();
    }
    if !place.tables.is_empty() && !place.tables.contains(&g.table) {
        let names: Vec<_> = place.tables.iter().map(|t| t.as_str()).collect();
        return g
            .problem(format!("{} in the {} table", g.name, g.table))
            .help(format!("the kernel takes it only in {}", names.join(", ")))
            .fail();
    }
    Ok(())
}

fn wrong_family(name: &str, span: Span, family: Family) -> Diagnostic {
    let (has, not) = match family {
        Family::V4 => ("IPv6", "iptables"),
        Family::V6 => ("IPv4", "ip6tables"),
    };
    Diagnostic::new(format!("{name} is only for {has}"), span)
        .help(format!("{not} has no module of that name"))
}

/// `--option ! value`, which iptables took until 1.4.
pub(super) fn old_negation(word: &Word, bang: Span) -> Diagnostic {
    Diagnostic::new("old negation: ! after the option", bang)
        .help(format!("write it before the option: ! {} …", word.text))
}
