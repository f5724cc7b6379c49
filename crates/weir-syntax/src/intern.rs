//! Interns names that occur often.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_model::SharedName;

/// Hands out one shared [`SharedName`] for equal words.
#[derive(Default)]
pub(crate) struct Interner<'a> {
    names_by_word: HashMap<&'a str, SharedName>,
    device_prefixes: Vec<SharedName>,
}

impl<'a> Interner<'a> {
    /// The name of a word that lies in the text.
    pub fn intern_word(&mut self, word: &'a str) -> SharedName {
        self.names_by_word.entry(word).or_insert_with(|| SharedName::from(word)).clone()
    }

    /// The name of a part of a word: there are few of them, prefixes of devices.
    pub fn intern_device_prefix(&mut self, name: &str) -> SharedName {
        if let Some(n) = self.device_prefixes.iter().find(|n| &***n == name) {
            return n.clone();
        }
        let n = SharedName::from(name);
        if self.device_prefixes.len() < 64 {
            self.device_prefixes.push(n.clone());
        }
        n
    }

    /// The name of a word that may have been unquoted.
    #[expect(clippy::ptr_arg, reason = "borrowed words are interned by the text they lie in")]
    pub fn intern_if_borrowed(&mut self, word: &Cow<'a, str>) -> SharedName {
        match word {
            Cow::Borrowed(w) => self.intern_word(w),
            Cow::Owned(w) => SharedName::from(w.as_str()),
        }
    }
}
