//! A hash table over the masked words of filters: what tuple spaces are built of.
//!
//! Filters that agree on the bits of the mask share a chain, in the order of their rules. The hash
//! is kept with each filter; a filter of equal hash is compared with the key on all its tests, so
//! bits outside the mask, ranges, and collisions of the hash need no special case.

use crate::engines::filter_test_rows::FilterTestRows;

const NO_ENTRY: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct MaskedTable {
    /// The words that the mask covers, with their masks.
    masked_words: Vec<(u32, u32)>,
    heads: Vec<u32>,
    entries: Vec<HashChainEntry>,
    first_free: u32,
    filter_count: usize,
    /// No filter of the table belongs to a smaller rule; [`NO_ENTRY`] if it is empty.
    smallest_rule: u32,
}

#[derive(Clone, Copy, Debug)]
struct HashChainEntry {
    hash: u32,
    rule: u32,
    filter: u32,
    next: u32,
}

impl MaskedTable {
    /// An empty table of a mask, a word of it for each word of keys.
    pub(super) fn new(mask: &[u32]) -> MaskedTable {
        let words = (0..).zip(mask).filter(|(_, mask)| **mask != 0);
        MaskedTable {
            masked_words: words.map(|(word, mask)| (word, *mask)).collect(),
            heads: vec![NO_ENTRY; 4],
            entries: vec![],
            first_free: NO_ENTRY,
            filter_count: 0,
            smallest_rule: NO_ENTRY,
        }
    }

    /// The mask is a part of another: every filter of that other mask may be placed here.
    pub(super) fn can_hold_filters_of_mask(&self, mask: &[u32]) -> bool {
        self.masked_words.iter().all(|(word, of_table)| of_table & !mask[*word as usize] == 0)
    }

    pub(super) fn has_mask(&self, mask: &[u32]) -> bool {
        let tested = mask.iter().filter(|word| **word != 0).count();
        tested == self.masked_words.len()
            && self.masked_words.iter().all(|(word, of)| mask[*word as usize] == *of)
    }

    /// How many bits the mask has.
    pub(super) fn mask_bit_count(&self) -> u32 {
        self.masked_words.iter().map(|(_, mask)| mask.count_ones()).sum()
    }

    pub(super) fn smallest_rule(&self) -> u32 {
        self.smallest_rule
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filter_count == 0
    }

    #[inline]
    fn hash_words(&self, word_of: impl Fn(usize) -> u32) -> u32 {
        let hash = self.masked_words.iter().fold(0_u64, |hash, &(word, mask)| {
            let masked = u64::from(word_of(word as usize) & mask);
            (hash.rotate_left(29) ^ masked).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (hash >> 32) as u32
    }

    fn hash_filter(&self, filters: &FilterTestRows, filter: u32) -> u32 {
        let row = filters.row(filter);
        self.hash_words(|word| row[word].base)
    }

    fn bucket_index(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    /// The filters of equal hash, in the order of their rules.
    #[inline]
    fn entries_with_hash(&self, hash: u32) -> impl Iterator<Item = HashChainEntry> + '_ {
        let mut at = self.heads[self.bucket_index(hash)];
        let entries = std::iter::from_fn(move || {
            let entry = *self.entries.get(at as usize)?;
            at = entry.next;
            Some(entry)
        });
        entries.filter(move |entry| entry.hash == hash)
    }

    /// The filters that could match a key, with their rules, in the order of rules.
    #[inline]
    pub(super) fn find_candidates(&self, key: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
        let hash = self.hash_words(|word| key[word]);
        self.entries_with_hash(hash).map(|entry| (entry.rule, entry.filter))
    }

    /// The filters that share the chain of one, itself included if it is placed.
    pub(super) fn find_filters_of_equal_hash(
        &self,
        filters: &FilterTestRows,
        filter: u32,
    ) -> impl Iterator<Item = u32> + '_ {
        self.entries_with_hash(self.hash_filter(filters, filter)).map(|entry| entry.filter)
    }

    pub(super) fn filters(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().flat_map(move |head| {
            let mut at = *head;
            std::iter::from_fn(move || {
                let entry = self.entries.get(at as usize)?;
                at = entry.next;
                Some(entry.filter)
            })
        })
    }

    pub(super) fn insert(&mut self, filters: &FilterTestRows, filter: u32) {
        if self.filter_count == self.heads.len() {
            self.double_bucket_count();
        }
        let (hash, rule) = (self.hash_filter(filters, filter), filters.rule(filter));
        let entry = HashChainEntry { hash, rule, filter, next: NO_ENTRY };
        let at = match self.entries.get(self.first_free as usize) {
            Some(free) => {
                let at = self.first_free;
                self.first_free = free.next;
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.link_in_rule_order(at);
        self.filter_count += 1;
        self.smallest_rule = self.smallest_rule.min(rule);
    }

    fn link_in_rule_order(&mut self, at: u32) {
        let HashChainEntry { hash, rule, .. } = self.entries[at as usize];
        let head = self.bucket_index(hash);
        let (mut before, mut next) = (NO_ENTRY, self.heads[head]);
        while next != NO_ENTRY && self.entries[next as usize].rule < rule {
            (before, next) = (next, self.entries[next as usize].next);
        }
        self.entries[at as usize].next = next;
        match before {
            NO_ENTRY => self.heads[head] = at,
            before => self.entries[before as usize].next = at,
        }
    }

    fn double_bucket_count(&mut self) {
        let linked: Vec<u32> = {
            let mut linked = vec![];
            for head in &self.heads {
                let mut at = *head;
                while at != NO_ENTRY {
                    linked.push(at);
                    at = self.entries[at as usize].next;
                }
            }
            linked
        };
        self.heads = vec![NO_ENTRY; self.heads.len() * 2];
        // Later entries of an old chain first: each is then linked at a head.
        for at in linked.into_iter().rev() {
            self.link_in_rule_order(at);
        }
    }

    /// Removes a filter that was inserted.
    pub(super) fn remove(&mut self, filters: &FilterTestRows, filter: u32) {
        let head = self.bucket_index(self.hash_filter(filters, filter));
        let (mut before, mut at) = (NO_ENTRY, self.heads[head]);
        while self.entries[at as usize].filter != filter {
            (before, at) = (at, self.entries[at as usize].next);
        }
        let next = self.entries[at as usize].next;
        match before {
            NO_ENTRY => self.heads[head] = next,
            before => self.entries[before as usize].next = next,
        }
        self.entries[at as usize].next = self.first_free;
        self.first_free = at;
        self.filter_count -= 1;
        if filters.rule(filter) == self.smallest_rule {
            let rules = self.filters().map(|filter| filters.rule(filter));
            self.smallest_rule = rules.min().unwrap_or(NO_ENTRY);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.heads.len() * size_of::<u32>() + self.entries.len() * size_of::<HashChainEntry>()
    }
}
