//! Names of modules, targets and chains.

use weir_model::rule_match::OpaqueExtension;
use weir_model::{Family, SharedName, Span, TableName, Target};

use super::{NamedExtension, OptionArgument, OptionScanner, ParsedJumpTarget, base_option_table};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::extension::{find_match_extension, find_target_extension};
use crate::iptables::word_splitting::Word;

impl<'w> OptionScanner<'_, '_, 'w> {
    pub(super) fn load_match_module(
        &mut self,
        arg: OptionArgument<'w>,
        span: Span,
    ) -> ParseResult<()> {
        let family = self.context.family;
        let open = match find_match_extension(arg.text, family) {
            Some(e) => NamedExtension::Match(e),
            None if arg.text.is_empty() => {
                return Diagnostic::new("empty module name", arg.span).into_err();
            }
            None => {
                let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
                if let Some(e) = find_match_extension(arg.text, other) {
                    return wrong_family_error(e.name, arg.span, family).into_err();
                }
                refuse_module_named_like_option(arg)?;
                let words = self.take_opaque_words()?;
                NamedExtension::OpaqueMatch(OpaqueExtension { name: arg.text.to_owned(), words })
            }
        };
        let end = self.words[self.position - 1].span.end;
        self.named_extensions.push((open, Span { end, ..span }));
        Ok(())
    }

    /// The words of a module that weir does not know: up to the next base option.
    ///
    /// The first is one of its options: no module takes a word that belongs to none.
    fn take_opaque_words(&mut self) -> ParseResult<Vec<String>> {
        let family = self.context.family;
        let is_base = |w: &Word| {
            !w.quoted && base_option_table::is_option_ending_opaque_words(&w.text, family)
        };
        let mut out = Vec::new();
        while let Some(w) = self.words.get(self.position) {
            let negates_base = w.text == "!"
                && !w.quoted
                && self.words.get(self.position + 1).is_some_and(is_base);
            if is_base(w) || negates_base {
                break;
            }
            let is_option = |w: &Word| w.text.len() > 1 && w.text.starts_with('-');
            let begins_with_option = match &*w.text {
                "!" => self.words.get(self.position + 1).is_some_and(is_option),
                _ => is_option(w),
            };
            if out.is_empty() && !begins_with_option {
                self.position += 1;
                return self.stray_word_error(w).into_err();
            }
            out.push(w.text.clone().into_owned());
            self.position += 1;
        }
        Ok(out)
    }

    pub(super) fn set_jump_target(
        &mut self,
        letter: u8,
        arg: OptionArgument<'w>,
        span: Span,
    ) -> ParseResult<()> {
        if !matches!(self.jump, ParsedJumpTarget::None) {
            return Diagnostic::new("a second target", span)
                .with_help("give one -j or -g per rule")
                .into_err();
        }
        self.jump_span = span;
        base_option_table::check_target_name(arg)?;
        let family = self.context.family;
        if letter == b'g' {
            if !(self.context.is_chain)(arg.text) {
                return base_option_table::unknown_chain_error(arg, self.context.table).into_err();
            }
            self.jump = ParsedJumpTarget::Standard(Target::Goto(self.intern_argument(arg)));
            return Ok(());
        }
        self.jump = match arg.text {
            "ACCEPT" => ParsedJumpTarget::Standard(Target::Accept),
            "DROP" if self.context.table == TableName::Nat => {
                return Diagnostic::new("DROP in the nat table", arg.span)
                    .with_help(
                        "nat sees only the first packet of a connection: drop in filter or raw",
                    )
                    .into_err();
            }
            "DROP" => ParsedJumpTarget::Standard(Target::Drop),
            "RETURN" => ParsedJumpTarget::Standard(Target::Return),
            "QUEUE" => ParsedJumpTarget::Standard(Target::Divert(Box::new(
                weir_model::target::ExtensionTarget { module: "QUEUE", options: Vec::new() },
            ))),
            // A chain comes before a target of its name (libiptc's `iptcc_map_target`).
            name if (self.context.is_chain)(name) => {
                ParsedJumpTarget::Standard(Target::Jump(self.intern_argument(arg)))
            }
            name => match find_target_extension(name, family) {
                Some(e) => {
                    self.named_extensions.push((NamedExtension::Target(e), span));
                    ParsedJumpTarget::Extension
                }
                None => return self.take_opaque_target(arg),
            },
        };
        Ok(())
    }

    fn intern_argument(&mut self, arg: OptionArgument<'w>) -> SharedName {
        // The argument is the word read last, unless it is in one word with its option.
        match &self.words[self.position - 1] {
            w if w.span == arg.span => self.context.interner.intern_if_borrowed(&w.text),
            _ => SharedName::from(arg.text),
        }
    }

    /// A target that is neither a chain nor known: a module if it looks like one.
    fn take_opaque_target(&mut self, arg: OptionArgument<'w>) -> ParseResult<()> {
        let family = self.context.family;
        let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
        if let Some(e) = find_target_extension(arg.text, other) {
            return wrong_family_error(e.name, arg.span, family).into_err();
        }
        refuse_module_named_like_option(arg)?;
        let words = self.take_opaque_words()?;
        if words.is_empty()
            && !base_option_table::CHAIN_LIKE_OPAQUE_TARGET_NAMES.contains(&arg.text)
        {
            return base_option_table::unknown_chain_error(arg, self.context.table).into_err();
        }
        self.jump_span.end = self.words[self.position - 1].span.end;
        self.jump = ParsedJumpTarget::Opaque(OpaqueExtension { name: arg.text.to_owned(), words });
        Ok(())
    }
}

/// Refuses `-jDROP`, of which iptables takes the whole word for the name, and `-m --option`.
fn refuse_module_named_like_option(arg: OptionArgument) -> ParseResult<()> {
    if !arg.text.starts_with('-') {
        return Ok(());
    }
    let d = Diagnostic::new(format!("no chain or module {}", arg.text), arg.span);
    match arg.text.starts_with("-j") || arg.text.starts_with("--j") {
        true => d.with_help("iptables 1.8 requires a blank between -j and the target").into_err(),
        false => d.with_help("a name is missing before it").into_err(),
    }
}

fn wrong_family_error(name: &str, span: Span, family: Family) -> Diagnostic {
    let (has, not) = match family {
        Family::V4 => ("IPv6", "iptables"),
        Family::V6 => ("IPv4", "ip6tables"),
    };
    Diagnostic::new(format!("{name} is only for {has}"), span)
        .with_help(format!("{not} has no module of that name"))
}
