//! Interns names that occur often.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_model::Name;

/// Hands out one shared [`Name`] for equal words.
#[derive(Default)]
pub(crate) struct Interner<'a> {
    borrowed: HashMap<&'a str, Name>,
    prefixes: Vec<Name>,
}

impl<'a> Interner<'a> {
    /// The name of a word that lies in the text.
    pub fn name(&mut self, word: &'a str) -> Name {
        self.borrowed.entry(word).or_insert_with(|| Name::from(word)).clone()
    }

    /// The name of a part of a word: there are few of them, prefixes of devices.
    pub fn device(&mut self, name: &str) -> Name {
        if let Some(n) = self.prefixes.iter().find(|n| &***n == name) {
            return n.clone();
        }
        let n = Name::from(name);
        if self.prefixes.len() < 64 {
            self.prefixes.push(n.clone());
        }
        n
    }

    /// The name of a word that may have been unquoted.
    #[expect(clippy::ptr_arg, reason = "borrowed words are interned by the text they lie in")]
    pub fn of(&mut self, word: &Cow<'a, str>) -> Name {
        match word {
            Cow::Borrowed(w) => self.name(w),
            Cow::Owned(w) => Name::from(w.as_str()),
        }
    }
}
