//! What compiling to any form prints.

use weir_backends::FormRefusal;
use weir_syntax::Diagnostic;

use crate::operand::{LoadedFirewall, RulesetTextKind};

/// The most refusals that are drawn of one file, as of errors.
const DRAWN_REFUSALS_MAX: usize = 20;

/// Draws what a form cannot say at its place in the text, and how many more there are.
pub(super) fn print_refusals(
    loaded: &LoadedFirewall,
    form: &str,
    refusals: &[FormRefusal],
    color: bool,
) {
    for source in &loaded.sources {
        let RulesetTextKind::Rules(family) = source.kind else { continue };
        let mut here = refusals.iter().filter(|refusal| refusal.family == family);
        let drawn: Vec<Diagnostic> = here
            .by_ref()
            .take(DRAWN_REFUSALS_MAX)
            .map(|refusal| refusal_diagnostic(form, refusal))
            .collect();
        crate::terminal::print_colored_to_stderr(&weir_syntax::render_diagnostics(
            &drawn,
            &source.name,
            &source.text,
            color,
        ));
        let more = here.count();
        if more > 0 {
            crate::terminal::print_colored_to_stderr(&format!(
                "{}: {form} cannot express {more} more rules\n",
                source.name
            ));
        }
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
