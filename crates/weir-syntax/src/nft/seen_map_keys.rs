//! The keys of a map that were read so far. nft refuses a key that is in a map already, alone or as
//! a part of an interval, with another verdict (measured: nft 1.0.6, "File exists" and "conflicting
//! intervals specified").

use std::collections::{BTreeMap, HashMap};

use weir_model::nft::{ElementKeyPart, Verdict};

/// Keys with their verdicts.
#[derive(Default)]
pub(super) struct SeenMapKeys {
    /// Of keys of one part: the first value, with the last one.
    spans: BTreeMap<u128, (u128, Verdict)>,
    other: HashMap<Vec<ElementKeyPart>, Verdict>,
}

impl SeenMapKeys {
    /// Whether a key can be added: it is not there, or the same with the same verdict.
    pub fn insert(&mut self, key: &[ElementKeyPart], verdict: &Verdict) -> bool {
        let [ElementKeyPart::Span(first, last)] = key else {
            let known = self.other.entry(key.to_vec()).or_insert_with(|| verdict.clone());
            return known == verdict;
        };
        let before = self.spans.range(..=*last).next_back();
        match before.filter(|(_, (end, _))| end >= first) {
            Some((start, (end, known))) => start == first && end == last && known == verdict,
            None => {
                self.spans.insert(*first, (*last, verdict.clone()));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_overlap_or_have_another_verdict_are_refused() {
        let mut keys = SeenMapKeys::default();
        let span = |first, last| [ElementKeyPart::Span(first, last)];
        assert!(keys.insert(&span(10, 19), &Verdict::Accept));
        assert!(keys.insert(&span(30, 30), &Verdict::Drop));
        assert!(keys.insert(&span(10, 19), &Verdict::Accept));
        for (first, last) in [(10, 19), (5, 10), (12, 13), (19, 25), (0, 99), (25, 30)] {
            assert!(!keys.insert(&span(first, last), &Verdict::Drop), "{first}-{last}");
        }
        assert!(keys.insert(&span(20, 29), &Verdict::Drop));
        let device = |name: &str| [ElementKeyPart::Device(name.into()), span(1, 1)[0].clone()];
        assert!(keys.insert(&device("lan0"), &Verdict::Accept));
        assert!(keys.insert(&device("lan1"), &Verdict::Drop));
        assert!(!keys.insert(&device("lan0"), &Verdict::Drop));
    }
}
