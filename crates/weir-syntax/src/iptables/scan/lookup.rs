//! Finds the extension of a long option.

use weir_model::Span;

use super::{Open, Scan, base};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::extension;
use crate::iptables::option::{Arity, Opt};
use crate::iptables::word::Word;

/// Who knows a long option.
enum FoundOption {
    Base(u8),
    Extension(usize, &'static Opt),
    Ambiguous(String),
    Unknown,
}

impl<'a, 'w> Scan<'_, 'a, 'w> {
    pub(super) fn long(&mut self, word: &'w Word<'a>) -> Fallible<()> {
        let text: &'w str = &word.text;
        let (name, value) = match text[2..].split_once('=') {
            Some((n, v)) => (n, Some(v)),
            None => (&text[2..], None),
        };
        loop {
            match self.find(name) {
                FoundOption::Base(letter) => {
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
                FoundOption::Extension(owner, opt) => {
                    let value = value.map(|v| self.attached(0, v, word));
                    return self.take(owner, opt, value, word);
                }
                FoundOption::Ambiguous(names) => {
                    return Diagnostic::new(format!("--{name} may be {names}"), word.span)
                        .help("write the name in full")
                        .fail();
                }
                FoundOption::Unknown if self.load_protocol(word.span) => {}
                FoundOption::Unknown => return self.unknown(name, word.span).fail(),
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
            Some((_, "tcp" | "udp" | "sctp" | "dccp")) => {
                d.help("ports need a protocol: write -p tcp, udp, sctp or dccp before it")
            }
            Some((flag, module)) => {
                d.help(format!("it is an option of {module}: write {flag} {module} before it"))
            }
            None => d.help("no module that weir knows has it: remove it, or check the spelling"),
        }
    }

    fn find(&self, name: &str) -> FoundOption {
        if let Some(letter) = base::long(name, self.around.family) {
            return FoundOption::Base(letter);
        }
        for (owner, (open, _)) in self.open.iter().enumerate().rev() {
            if let Some(o) = open.options().iter().find(|o| o.name == name) {
                return self.unless_completed(owner, o);
            }
        }
        self.find_abbreviated(name)
    }

    fn find_abbreviated(&self, name: &str) -> FoundOption {
        let mut found: Option<(usize, u8, Arity, &'static str, FoundOption)> = None;
        let base = base::long_prefix(name, self.around.family).map(|(full, letter)| {
            (usize::MAX, letter, Arity::One, full, FoundOption::Base(letter))
        });
        let modules = self.open.iter().enumerate().rev().flat_map(|(owner, (open, _))| {
            open.options()
                .iter()
                .filter(|o| o.name.starts_with(name))
                .map(move |o| (owner, o.id, o.arity, o.name, FoundOption::Extension(owner, o)))
        });
        for next in base.chain(modules) {
            match &found {
                Some((owner, id, arity, full, _))
                    if (*owner, *id, *arity) != (next.0, next.1, next.2) =>
                {
                    return FoundOption::Ambiguous(format!("--{full} or --{}", next.3));
                }
                Some(_) => {}
                None => found = Some(next),
            }
        }
        match found {
            Some((_, _, _, _, FoundOption::Extension(owner, o))) => self.unless_completed(owner, o),
            Some((_, _, _, _, f)) => f,
            None => FoundOption::Unknown,
        }
    }

    /// A match takes no options any more once the same module was named again.
    fn unless_completed(&self, owner: usize, opt: &'static Opt) -> FoundOption {
        let open = &self.open[owner].0;
        let again = self.open[owner + 1..]
            .iter()
            .any(|(o, _)| !o.is_target() && !open.is_target() && o.name() == open.name());
        if again { FoundOption::Unknown } else { FoundOption::Extension(owner, opt) }
    }
}
