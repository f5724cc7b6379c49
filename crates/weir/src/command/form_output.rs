//! What compiling to any form prints.

use weir_backends::FormRefusal;
use weir_syntax::Diagnostic;

use crate::operand::{LoadedFirewall, RulesetTextKind};

/// Draws what a form cannot say at its place in the text.
pub(super) fn print_refusals(
    loaded: &LoadedFirewall,
    form: &str,
    refusals: &[FormRefusal],
    color: bool,
) {
    for source in &loaded.sources {
        let RulesetTextKind::Rules(family) = source.kind else { continue };
        let here: Vec<Diagnostic> = refusals
            .iter()
            .filter(|r| r.family == family)
            .map(|r| refusal_diagnostic(form, r))
            .collect();
        crate::terminal::print_colored_to_stderr(&weir_syntax::render_diagnostics(
            &here,
            &source.name,
            &source.text,
            color,
        ));
    }
}

fn refusal_diagnostic(form: &str, refusal: &FormRefusal) -> Diagnostic {
    let message = format!("{form} cannot express {}", refusal.construct);
    let diagnostic = Diagnostic::new(message, refusal.span).with_label(refusal.rule_id.clone());
    match &refusal.cure {
        Some(cure) => diagnostic.with_help(cure.clone()),
        None => diagnostic,
    }
}

/// Bytes in the largest unit of which there are several.
pub(super) fn format_binary_byte_size(n: u64) -> String {
    match n {
        0..10_240 => format!("{n} bytes"),
        10_240..10_485_760 => format!("{} KiB", n / 1024),
        _ => format!("{} MiB", n / (1024 * 1024)),
    }
}
