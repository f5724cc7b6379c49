//! Names of modules, targets and chains.

use weir_model::matching::Opaque;
use weir_model::{Family, Name, Span, TableName, Target};

use super::{Arg, Jump, Open, Scan, base};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::extension::{find_match, find_target, is_checked_only};
use crate::iptables::word::Word;

impl<'w> Scan<'_, '_, 'w> {
    pub(super) fn module(&mut self, arg: Arg<'w>, span: Span) -> Fallible<()> {
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

    pub(super) fn jump(&mut self, letter: u8, arg: Arg<'w>, span: Span) -> Fallible<()> {
        if !matches!(self.jump, Jump::None) {
            return Diagnostic::new("a second target", span).help("one -j or -g per rule").fail();
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
            "QUEUE" => Jump::Plain(Target::Divert(Box::new(weir_model::target::ExtensionTarget {
                module: "QUEUE",
                options: Vec::new(),
            }))),
            name => match find_target(name, family) {
                // Those that weir only checks give way to a chain of their name: where the tool has
                // no such extension, the chain is what it jumps to.
                Some(e) if !(is_checked_only(e) && (self.around.is_chain)(name)) => {
                    self.open.push((Open::Target(e), span));
                    Jump::Extension
                }
                _ if (self.around.is_chain)(name) => Jump::Plain(Target::Jump(self.intern(arg))),
                _ => return self.unknown_target(arg),
            },
        };
        Ok(())
    }

    fn intern(&mut self, arg: Arg<'w>) -> Name {
        // The argument is the word read last, unless it is in one word with its option.
        match &self.words[self.at - 1] {
            w if w.span == arg.span => self.around.names.of(&w.text),
            _ => Name::from(arg.text),
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
}

fn wrong_family(name: &str, span: Span, family: Family) -> Diagnostic {
    let (has, not) = match family {
        Family::V4 => ("IPv6", "iptables"),
        Family::V6 => ("IPv4", "ip6tables"),
    };
    Diagnostic::new(format!("{name} is only for {has}"), span)
        .help(format!("{not} has no module of that name"))
}
