//! Options of any module as text, for comparison.

use std::fmt;

use crate::rule_match::{ExtensionValue, TypedExtensionOption};

/// An option of any module, as text.
#[derive(Debug)]
pub(super) struct OptionText {
    /// With `!`.
    pub negated: bool,
    /// Without dashes.
    pub name: String,
    /// The value; empty for a flag.
    pub value_text: String,
}

impl fmt::Display for OptionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", if self.negated { "! " } else { "" }, self.name, self.value_text)
    }
}

/// The options of a module that is parsed.
pub(super) fn convert_options_to_texts(options: &[TypedExtensionOption]) -> Vec<OptionText> {
    let value_text = |value: &ExtensionValue| match value {
        ExtensionValue::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let spelled = |o: &TypedExtensionOption| {
        let (negated, name) = (o.negated, o.name.to_owned());
        OptionText { negated, name, value_text: value_text(&o.value) }
    };
    options.iter().map(spelled).collect()
}

/// The words of a module that is preserved verbatim. An option may have its value after `=`; one of
/// `naming_options` may be abbreviated.
pub(super) fn parse_option_words(words: &[String], naming_options: &[&str]) -> Vec<OptionText> {
    let mut out: Vec<OptionText> = Vec::new();
    let mut negated = false;
    for word in words {
        if word == "!" {
            negated = true;
            continue;
        }
        match (word.strip_prefix("--"), out.last_mut()) {
            (Some(option), _) => {
                let (name, value_text) = option.split_once('=').unwrap_or((option, ""));
                out.push(OptionText {
                    negated,
                    name: expand_abbreviated_naming_option(name, naming_options),
                    value_text: value_text.to_owned(),
                });
                negated = false;
            }
            (None, Some(last)) => {
                if !last.value_text.is_empty() {
                    last.value_text.push(' ');
                }
                last.value_text.push_str(word);
            }
            (None, None) => {
                out.push(OptionText { negated, name: String::new(), value_text: word.clone() });
            }
        }
    }
    out
}

/// The option of `naming_options` of which `name` is the beginning, if it is the beginning of no
/// other.
fn expand_abbreviated_naming_option(name: &str, naming_options: &[&str]) -> String {
    let mut found = naming_options.iter().filter(|n| name.len() > 1 && n.starts_with(name));
    match (found.next(), found.next()) {
        (Some(only), None) => (*only).to_owned(),
        _ => name.to_owned(),
    }
}
