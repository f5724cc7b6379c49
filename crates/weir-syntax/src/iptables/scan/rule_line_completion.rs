//! The end of a line: its extensions become values, and their requirements are checked.

use std::cell::Cell;

use weir_model::{Hook, Match, Span, Target};

use super::{NamedExtension, OptionScanner, ParsedJumpTarget, ParsedLine, hook_bit};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions,
};

impl<'w> OptionScanner<'_, '_, 'w> {
    /// `!` and a list of addresses do not go together in one rule.
    fn refuse_negated_address_list(&self) -> ParseResult<()> {
        if self.extra_sources.is_empty() && self.extra_destinations.is_empty() {
            return Ok(());
        }
        let Some(span) = self.negated_address_span else { return Ok(()) };
        Diagnostic::new("! with a list of addresses", span)
            .with_help("write a chain that returns on each address, or an ipset")
            .into_err()
    }

    pub(super) fn build_parsed_line(self) -> ParseResult<ParsedLine<'w>> {
        if let Some(bang) = self.pending_negation {
            return Diagnostic::new("! before nothing", bang).with_help("remove it").into_err();
        }
        let start = self.words.first().map_or(Span::NONE, |w| w.span);
        self.refuse_negated_address_list()?;
        let Some(command) = self.command else {
            return missing_command_error(start).into_err();
        };
        let mut line = ParsedLine {
            command,
            base: self.base,
            extra_sources: self.extra_sources,
            extra_destinations: self.extra_destinations,
            matches: Vec::with_capacity(self.named_extensions.len()),
            target: Target::None,
            counters: self.counters,
            match_and_target_spans: Vec::with_capacity(self.named_extensions.len() + 1),
            allowed_hooks: u8::MAX,
            restricting_extension: "",
            given_letters: self.given_letters,
        };
        let mut target = None;
        let mut check_rule_matches: fn(&[Match], Span) -> ParseResult<()> = |_, _| Ok(());
        for (owner, (open, span)) in self.named_extensions.into_iter().enumerate() {
            let given = |options, name| ParsedExtensionOptions {
                family: self.context.family,
                table: self.context.table,
                resolve_host_names: self.context.resolve_host_names,
                name,
                span,
                base: &line.base,
                rule_options: &self.parsed_options,
                extension_index: owner as u8,
                option_specs: options,
                allowed_hooks: Cell::new(&[]),
            };
            match open {
                NamedExtension::OpaqueMatch(o) => {
                    line.matches.push(Match::Opaque(Box::new(o)));
                    line.match_and_target_spans.push(span);
                }
                NamedExtension::Match(e) => {
                    let (m, hooks) = check_and_build_extension(&given(e.options, e.name), e)?;
                    line.matches.push(m);
                    line.match_and_target_spans.push(span);
                    line.restrict_hooks(e.name, e.scope.hooks, hooks);
                }
                NamedExtension::Target(e) => {
                    let (t, hooks) = check_and_build_extension(&given(e.options, e.name), e)?;
                    target = Some((t, span));
                    check_rule_matches = e.check_rule_matches;
                    line.restrict_hooks(e.name, e.scope.hooks, hooks);
                }
            }
        }
        let (target, span) = match self.jump {
            ParsedJumpTarget::None => (Target::None, line.command.span),
            ParsedJumpTarget::Standard(t) => (t, self.jump_span),
            ParsedJumpTarget::Opaque(o) => (Target::Opaque(Box::new(o)), self.jump_span),
            ParsedJumpTarget::Extension => target.unwrap_or((Target::None, self.jump_span)),
        };
        check_rule_matches(&line.matches, span)?;
        line.target = target;
        line.match_and_target_spans.push(span);
        Ok(line)
    }
}

fn missing_command_error(start: Span) -> Diagnostic {
    Diagnostic::new("line without a command", start).with_help("a rule begins with -A CHAIN")
}

/// Makes an extension's value; with it the hooks that the value leaves (none: all).
fn check_and_build_extension<T>(
    g: &ParsedExtensionOptions,
    e: &Extension<T>,
) -> ParseResult<(T, &'static [Hook])> {
    check_option_combination_and_scope(g, e.scope)?;
    let value = (e.build)(g)?;
    Ok((value, g.allowed_hooks.get()))
}

impl ParsedLine<'_> {
    /// Keeps only the hooks that the extension `by` allows, for itself and for its value.
    fn restrict_hooks(&mut self, by: &'static str, place: &[Hook], value: &[Hook]) {
        for hooks in [place, value].into_iter().filter(|h| !h.is_empty()) {
            let bits = hooks.iter().fold(0, |bits, h| bits | hook_bit(*h));
            if self.allowed_hooks & bits != self.allowed_hooks {
                self.restricting_extension = by;
            }
            self.allowed_hooks &= bits;
        }
    }
}

/// What the option table and the place of an extension say about what was given.
fn check_option_combination_and_scope(
    g: &ParsedExtensionOptions,
    place: ExtensionScope,
) -> ParseResult<()> {
    let bits = g.iter().fold(0u32, |bits, t| bits | 1 << t.id);
    for o in g.option_specs {
        let bit = 1 << o.id;
        if o.mandatory && bits & bit == 0 {
            return g
                .extension_error(format!("{} without --{}", g.name, o.name))
                .with_help("the option must be given")
                .into_err();
        }
        if bits & bit == 0 {
            continue;
        }
        let Some(t) = g.first_with_id(o.id) else { continue };
        if let Some(other) = g.iter().find(|t| o.excludes >> t.id & 1 == 1) {
            let (a, b) = (o.name, g.option_name_without_dashes(other.id));
            return Diagnostic::new(
                format!("--{a} and --{b} together"),
                other.negation_to_arguments_span,
            )
            .with_help("give only one of them")
            .into_err();
        }
        if o.requires & !bits != 0 {
            let missing = (o.requires & !bits).trailing_zeros() as u8;
            return Diagnostic::new(
                format!("--{} without --{}", o.name, g.option_name_without_dashes(missing)),
                t.negation_to_arguments_span,
            )
            .into_err();
        }
    }
    let proto = g.base.proto.filter(|p| !p.negated).map(|p| p.proto);
    if !place.protocols.is_empty() && !proto.is_some_and(|p| place.protocols.contains(&p)) {
        let names: Vec<_> = place
            .protocols
            .iter()
            .filter_map(|p| crate::system_name_tables::protocol_name(*p))
            .collect();
        return g
            .extension_error(format!("{} in a rule that is not for its protocol only", g.name))
            .with_help(format!("write -p {} in the rule", names.join(", ")))
            .into_err();
    }
    if !place.tables.is_empty() && !place.tables.contains(&g.table) {
        let names: Vec<_> = place.tables.iter().map(|t| t.as_str()).collect();
        return g
            .extension_error(format!("{} in the {} table", g.name, g.table))
            .with_help(format!("the kernel accepts it only in {}", names.join(", ")))
            .into_err();
    }
    Ok(())
}
