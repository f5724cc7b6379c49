//! `define NAME = VALUES`: values that regions name as `$NAME`.

use std::collections::BTreeMap;

use super::statements::{PolicyStatement, PolicyToken};
use crate::diagnostic::ParseResult;

/// The definitions of a policy so far.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    by_name: BTreeMap<String, Vec<String>>,
}

const DEFINE_HELP: &str = "write define NAME = VALUE, or define NAME = { VALUE, VALUE }";

impl Definitions {
    pub fn read_definition(&mut self, statement: &PolicyStatement<'_>) -> ParseResult<()> {
        let [keyword, rest @ ..] = &statement.tokens[..] else { return Ok(()) };
        let [name, equals, values @ ..] = rest else {
            return Err(keyword.error("a definition without a name and values", DEFINE_HELP));
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_quoted || name.text.is_empty() || !name.text.chars().all(is_name) {
            let help = "a name has letters, digits, - and _";
            return Err(name.error(format!("{} is not a name", name.text), help));
        }
        if equals.text != "=" {
            return Err(equals.error(format!("{} instead of =", equals.text), DEFINE_HELP));
        }
        if self.by_name.contains_key(name.text) {
            let help = "a definition cannot be changed: choose another name";
            return Err(name.error(format!("{} is defined already", name.text), help));
        }
        let Some(values) = split_value_list(values) else {
            let last = statement.tokens.last().unwrap_or(keyword);
            return Err(last.error("the values of the definition are not a list", DEFINE_HELP));
        };
        let mut defined = Vec::new();
        for value in values {
            defined.extend(self.expand_value(value)?);
        }
        self.by_name.insert(name.text.to_owned(), defined);
        Ok(())
    }

    /// The values of a word: those of a definition for `$NAME`, else the word itself.
    pub fn expand_value(&self, word: &PolicyToken<'_>) -> ParseResult<Vec<String>> {
        let Some(name) = word.text.strip_prefix('$') else {
            return Ok(vec![word.text.to_owned()]);
        };
        self.by_name.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let help = match names.is_empty() {
                true => format!("define it above: define {name} = {{ … }}"),
                false => format!("defined above are {}", names.join(", ")),
            };
            word.error(format!("{name} is not defined"), help)
        })
    }
}

/// `A`, `A, B`, `{ A, B }`: the values; `None` for anything else.
fn split_value_list<'s, 't>(tokens: &'s [PolicyToken<'t>]) -> Option<Vec<&'s PolicyToken<'t>>> {
    let tokens = match tokens {
        [open, inner @ .., close] if open.text == "{" && close.text == "}" => inner,
        other => other,
    };
    let is_not_punctuation =
        |token: &PolicyToken<'_>| !matches!(token.text, "{" | "}" | "," | "=" | "!=");
    let is_list = tokens.len() % 2 == 1
        && tokens.iter().enumerate().all(|(i, token)| match i % 2 {
            0 => is_not_punctuation(token),
            _ => token.text == ",",
        });
    is_list.then(|| tokens.iter().step_by(2).collect())
}

#[cfg(test)]
mod tests {
    use super::super::statements::split_statements;
    use super::*;
    use crate::Diagnostic;

    fn read(text: &str) -> Result<Definitions, Box<Diagnostic>> {
        let mut definitions = Definitions::default();
        for statement in split_statements(text).expect("statements") {
            definitions.read_definition(&statement)?;
        }
        Ok(definitions)
    }

    #[test]
    fn a_definition_may_name_an_earlier_one() {
        let definitions = read("define a = 1\ndefine b = { $a, 2-3 }\n").expect("both are read");
        assert_eq!(definitions.by_name["b"], ["1", "2-3"]);
    }

    #[test]
    fn mistakes_in_definitions_are_named() {
        for (text, message) in [
            ("define a\n", "without a name and values"),
            ("define a { 1 }\n", "instead of ="),
            ("define a = { 1 2 }\n", "not a list"),
            ("define a = { }\n", "not a list"),
            ("define a = 1\ndefine a = 2\n", "defined already"),
            ("define a = $b\n", "b is not defined"),
            ("define $a = 1\n", "not a name"),
        ] {
            let error = read(text).map(|_| ()).expect_err(text);
            assert!(error.message.contains(message), "{text}: {}", error.message);
            assert!(error.help.is_some(), "{text}");
        }
    }
}
