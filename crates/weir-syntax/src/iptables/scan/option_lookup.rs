//! Finds the extension of a long option.

use weir_model::Span;

use super::{NamedExtension, OptionScanner, base_option_table};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::extension;
use crate::iptables::option_specs_and_arguments::{OptionArity, OptionSpec};
use crate::iptables::word_splitting::Word;

/// Who knows a long option.
enum LongOptionLookup {
    Base(u8),
    Extension(usize, &'static OptionSpec),
    Ambiguous(String),
    Unknown,
}

impl<'a, 'w> OptionScanner<'_, 'a, 'w> {
    pub(super) fn scan_long_option(&mut self, word: &'w Word<'a>) -> ParseResult<()> {
        let text: &'w str = &word.text;
        let (name, value) = match text[2..].split_once('=') {
            Some((n, v)) => (n, Some(v)),
            None => (&text[2..], None),
        };
        loop {
            match self.find_long_option(name) {
                LongOptionLookup::Base(letter) => {
                    let arity = base_option_table::option_arity(letter, self.context.family)
                        .unwrap_or(OptionArity::Flag);
                    let arg = match (arity, value) {
                        // `check_empty_interface` of xshared.c.
                        (_, Some("")) if b"io".contains(&letter) => {
                            return Diagnostic::new("empty device name", word.span)
                                .with_help("remove the option")
                                .into_err();
                        }
                        (OptionArity::Flag, Some(_))
                            if !base_option_table::is_command_letter(letter) =>
                        {
                            return Diagnostic::new(
                                format!("--{name} takes no argument"),
                                word.span,
                            )
                            .into_err();
                        }
                        (_, Some(v)) => {
                            Some(self.attached_argument_or_option_word(letter, v, word))
                        }
                        (OptionArity::Flag, None) => None,
                        (_, None) => Some(self.take_argument(word.span, text)?),
                    };
                    return self.dispatch_option_letter(letter, arg, word.span);
                }
                LongOptionLookup::Extension(owner, opt) => {
                    let value = value.map(|v| self.attached_argument_or_option_word(0, v, word));
                    return self.take_extension_option(owner, opt, value, word);
                }
                LongOptionLookup::Ambiguous(names) => {
                    return Diagnostic::new(format!("--{name} may be {names}"), word.span)
                        .with_help("write the name in full")
                        .into_err();
                }
                LongOptionLookup::Unknown if self.load_implicit_protocol_match(word.span) => {}
                LongOptionLookup::Unknown => {
                    return self.unknown_option_error(name, word.span).into_err();
                }
            }
        }
    }

    /// Brings in the match of the rule's protocol, once a line.
    fn load_implicit_protocol_match(&mut self, span: Span) -> bool {
        let Some(p) = self.base.proto.filter(|_| !self.implicit_protocol_match_loaded) else {
            return false;
        };
        let Some(e) = extension::implicit_protocol_match(p.proto, self.context.family) else {
            return false;
        };
        self.implicit_protocol_match_loaded = true;
        self.named_extensions.push((NamedExtension::Match(e), span));
        true
    }

    fn unknown_option_error(&self, name: &str, span: Span) -> Diagnostic {
        let owner = extension::find_flag_and_module_with_option(name, self.context.family);
        let d = Diagnostic::new(format!("no option --{name} here"), span);
        match owner {
            Some((_, "tcp" | "udp" | "sctp" | "dccp")) => {
                d.with_help("ports need a protocol: write -p tcp, udp, sctp or dccp before it")
            }
            Some(("-j", target)) if (self.context.is_chain)(target) => d.with_help(format!(
                "it is an option of the target {target}, but -j {target} jumps to the chain of that \
                 name: rename the chain"
            )),
            Some((flag, module)) => {
                d.with_help(format!("it is an option of {module}: write {flag} {module} before it"))
            }
            None => {
                d.with_help("no module that weir knows has it: remove it, or check the spelling")
            }
        }
    }

    fn find_long_option(&self, name: &str) -> LongOptionLookup {
        if let Some(letter) =
            base_option_table::letter_of_exact_long_option(name, self.context.family)
        {
            return LongOptionLookup::Base(letter);
        }
        for (owner, (open, _)) in self.named_extensions.iter().enumerate().rev() {
            if let Some(o) = open.option_specs().iter().find(|o| o.name == name) {
                return self.unknown_if_module_repeated(owner, o);
            }
        }
        self.find_abbreviated_option(name)
    }

    fn find_abbreviated_option(&self, name: &str) -> LongOptionLookup {
        let mut found: Option<(usize, u8, OptionArity, &'static str, LongOptionLookup)> = None;
        let base = base_option_table::long_options_with_prefix(name, self.context.family).map(
            |(full, letter)| {
                (usize::MAX, letter, OptionArity::OneArgument, full, LongOptionLookup::Base(letter))
            },
        );
        let modules =
            self.named_extensions.iter().enumerate().rev().flat_map(|(owner, (open, _))| {
                open.option_specs().iter().filter(|o| o.name.starts_with(name)).map(move |o| {
                    (owner, o.id, o.arity, o.name, LongOptionLookup::Extension(owner, o))
                })
            });
        for next in base.chain(modules) {
            match &found {
                Some((owner, id, arity, full, _))
                    if (*owner, *id, *arity) != (next.0, next.1, next.2) =>
                {
                    return LongOptionLookup::Ambiguous(format!("--{full} or --{}", next.3));
                }
                Some(_) => {}
                None => found = Some(next),
            }
        }
        match found {
            Some((_, base_option_table::MODPROBE_LETTER, _, _, LongOptionLookup::Base(_))) => {
                LongOptionLookup::Unknown
            }
            Some((_, _, _, _, LongOptionLookup::Extension(owner, o))) => {
                self.unknown_if_module_repeated(owner, o)
            }
            Some((_, _, _, _, f)) => f,
            None => LongOptionLookup::Unknown,
        }
    }

    /// A match takes no options any more once the same module was named again.
    fn unknown_if_module_repeated(
        &self,
        owner: usize,
        opt: &'static OptionSpec,
    ) -> LongOptionLookup {
        let open = &self.named_extensions[owner].0;
        let again = self.named_extensions[owner + 1..].iter().any(|(o, _)| {
            !o.is_known_target()
                && !open.is_known_target()
                && o.known_extension_name_or_empty() == open.known_extension_name_or_empty()
        });
        if again { LongOptionLookup::Unknown } else { LongOptionLookup::Extension(owner, opt) }
    }
}
