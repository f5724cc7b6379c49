//! What of a packet a classifier sees: a row of 32-bit words.

/// How rules test a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyWordTestMethod {
    /// A number of that many bits (at most 32), tested by intervals.
    Interval {
        /// Width in bits, 1 to 32.
        bits: u32,
    },
    /// Independent bits, tested under a mask. A field of few classes (devices, connection states)
    /// has one bit for each class, of which a packet has one.
    Bits,
}

/// One word of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyWord {
    /// The field, for messages: `saddr`, `saddr[1]` for the second word of an IPv6 address.
    pub name: String,
    /// How rules test it.
    pub kind: KeyWordTestMethod,
}

impl KeyWord {
    /// A number of `bits` bits.
    ///
    /// # Panics
    /// If `bits` is not 1 to 32.
    pub fn interval(name: &str, bits: u32) -> KeyWord {
        assert!((1..=32).contains(&bits), "a word has 1 to 32 bits");
        KeyWord { name: name.into(), kind: KeyWordTestMethod::Interval { bits } }
    }

    /// A word of independent bits.
    pub fn bits(name: &str) -> KeyWord {
        KeyWord { name: name.into(), kind: KeyWordTestMethod::Bits }
    }

    /// The largest value that the word can have.
    pub fn max_value(&self) -> u32 {
        match self.kind {
            KeyWordTestMethod::Interval { bits } => u32::MAX >> (32 - bits),
            KeyWordTestMethod::Bits => u32::MAX,
        }
    }
}

/// The words of a key, in the order in which a row has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeySchema {
    words: Vec<KeyWord>,
}

impl KeySchema {
    /// The most words of a key: what one packet needs for IPv6 with every field.
    pub const WORDS_MAX: usize = 32;

    /// A schema.
    ///
    /// # Panics
    /// If there is no word, or more than [`KeySchema::WORDS_MAX`].
    pub fn new(words: Vec<KeyWord>) -> KeySchema {
        assert!((1..=Self::WORDS_MAX).contains(&words.len()), "a key has 1 to 32 words");
        KeySchema { words }
    }

    /// The five fields of ClassBench: source and destination address, their ports, protocol.
    pub fn five_tuple() -> KeySchema {
        let fields = [("saddr", 32), ("daddr", 32), ("sport", 16), ("dport", 16), ("proto", 8)];
        KeySchema::new(fields.map(|(name, bits)| KeyWord::interval(name, bits)).into())
    }

    /// The words.
    pub fn words(&self) -> &[KeyWord] {
        &self.words
    }

    /// How many there are.
    pub fn word_count(&self) -> usize {
        self.words.len()
    }
}

/// The keys of many packets, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    /// The largest value of each word.
    max_values: Vec<u32>,
    words: Vec<u32>,
}

impl KeyTable {
    /// No keys of a schema.
    pub fn new(schema: &KeySchema) -> KeyTable {
        let max_values = schema.words().iter().map(KeyWord::max_value).collect();
        KeyTable { max_values, words: Vec::new() }
    }

    /// Adds a key.
    ///
    /// # Panics
    /// If it has not as many words as the schema, or a word exceeds its largest value: engines
    /// compare the bits that the word has.
    pub fn push(&mut self, key: &[u32]) {
        assert_eq!(key.len(), self.max_values.len(), "words of a key");
        let fits = key.iter().zip(&self.max_values).all(|(word, max)| word <= max);
        assert!(fits, "the words of a key are within their widths");
        self.words.extend_from_slice(key);
    }

    /// How many keys there are.
    pub fn key_count(&self) -> usize {
        self.words.len() / self.words_per_key()
    }

    /// The words of all keys, row after row: `key_count() * words_per_key()` of them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Words of one key.
    pub fn words_per_key(&self) -> usize {
        self.max_values.len()
    }

    /// One key.
    ///
    /// # Panics
    /// If there is none of that index.
    pub fn key(&self, index: usize) -> &[u32] {
        &self.words[index * self.words_per_key()..][..self.words_per_key()]
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.words.chunks_exact(self.words_per_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "within their widths")]
    fn a_word_above_its_largest_value_is_refused() {
        let mut keys = KeyTable::new(&KeySchema::five_tuple());
        keys.push(&[u32::MAX, u32::MAX, 0xffff, 0xffff, 0xff]);
        keys.push(&[0, 0, 0x1_0000, 0, 0]);
    }
}
