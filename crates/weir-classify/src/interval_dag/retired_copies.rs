//! Copies that were published before, and may still be read.
//!
//! A copy is free when no reader has it. It then lacks the edits since it was published; these are
//! repeated on it, which takes less time than a copy of the whole as long as they are few. What
//! readers keep is left to them: with one reader, a third copy is enough for the writer never to
//! wait.

use std::collections::VecDeque;
use std::sync::Arc;

/// The most copies that are waited for. A reader has one at a time.
const RETIRED_COPIES_MAX: usize = 8;
/// A copy that lacks more edits than this is given up, unless it is the one that was retired last:
/// to copy the whole takes about as long as to repeat them.
const EDITS_REPEATED_MAX: usize = 4096;

/// The copies in the order in which they were retired, and the edits that the first one lacks.
#[derive(Debug)]
pub(super) struct RetiredCopies<Copy, Edit> {
    copies: VecDeque<RetiredCopy<Copy>>,
    edits: VecDeque<Edit>,
    /// How many edits were made before those of `edits`.
    first_edit: u64,
    /// Edits that the published copy has.
    published_edits: u64,
}

#[derive(Debug)]
struct RetiredCopy<Copy> {
    copy: Arc<Copy>,
    /// How many edits it has.
    edit_count: u64,
}

impl<Copy, Edit> Default for RetiredCopies<Copy, Edit> {
    fn default() -> Self {
        RetiredCopies {
            copies: VecDeque::new(),
            edits: VecDeque::new(),
            first_edit: 0,
            published_edits: 0,
        }
    }
}

impl<Copy, Edit> RetiredCopies<Copy, Edit> {
    /// Records an edit of the working copy.
    pub(super) fn push_edit(&mut self, edit: Edit) {
        self.edits.push_back(edit);
    }

    /// The working copy is published with all edits, and this one was before it.
    pub(super) fn retire(&mut self, copy: Arc<Copy>) {
        let edit_count =
            std::mem::replace(&mut self.published_edits, self.first_edit + self.edits.len() as u64);
        self.copies.push_back(RetiredCopy { copy, edit_count });
        self.keep_one_free_copy();
        let all_edits = self.published_edits;
        while self.copies.len() > RETIRED_COPIES_MAX
            || self.copies.len() > 1
                && all_edits - self.copies[0].edit_count > EDITS_REPEATED_MAX as u64
        {
            self.copies.pop_front();
        }
        self.forget_edits_that_all_copies_have();
    }

    /// The free copy that lacks the fewest edits, after `repeat` has repeated these on it; `None`
    /// if readers have all copies, or an edit cannot be repeated. Call it when all edits are
    /// published.
    pub(super) fn take_free_copy(
        &mut self,
        mut repeat: impl FnMut(&mut Copy, &Edit) -> bool,
    ) -> Option<Copy> {
        for index in (0..self.copies.len()).rev() {
            let RetiredCopy { copy, edit_count } = self.copies.remove(index)?;
            match Arc::try_unwrap(copy) {
                Ok(mut copy) => {
                    let known = (edit_count - self.first_edit) as usize;
                    let is_complete = self.edits.range(known..).all(|edit| repeat(&mut copy, edit));
                    return is_complete.then_some(copy);
                }
                Err(copy) => self.copies.insert(index, RetiredCopy { copy, edit_count }),
            }
        }
        None
    }

    /// Drops copies that readers have returned, but for the newest of them.
    fn keep_one_free_copy(&mut self) {
        let newest_free = self.copies.iter().rposition(|c| Arc::strong_count(&c.copy) == 1);
        let mut index = 0;
        self.copies.retain(|c| {
            index += 1;
            Some(index - 1) == newest_free || Arc::strong_count(&c.copy) > 1
        });
    }

    fn forget_edits_that_all_copies_have(&mut self) {
        let known = self.copies.front().map_or(self.published_edits, |first| first.edit_count);
        self.edits.drain(..(known - self.first_edit) as usize);
        self.first_edit = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose copies are lists of edits.
    #[derive(Default)]
    struct ListWriter {
        published: Arc<Vec<u32>>,
        retired: RetiredCopies<Vec<u32>, u32>,
        all: Vec<u32>,
        whole_copies: usize,
    }

    impl ListWriter {
        /// Makes so many edits and publishes them.
        fn edit_and_publish(&mut self, count: usize) {
            let repeat = |copy: &mut Vec<u32>, edit: &u32| {
                copy.push(*edit);
                true
            };
            let mut working = self.retired.take_free_copy(repeat).unwrap_or_else(|| {
                self.whole_copies += 1;
                self.published.to_vec()
            });
            for _ in 0..count {
                let edit = self.all.len() as u32;
                working.push(edit);
                self.all.push(edit);
                self.retired.push_edit(edit);
            }
            assert_eq!(working, self.all);
            self.retired.retire(std::mem::replace(&mut self.published, Arc::new(working)));
        }
    }

    #[test]
    fn two_copies_alternate_while_readers_return_them() {
        let mut writer = ListWriter::default();
        (0..100).for_each(|count| writer.edit_and_publish(count % 4));
        assert_eq!(writer.whole_copies, 1);
        assert_eq!(writer.retired.copies.len(), 1);
        writer.edit_and_publish(2 * EDITS_REPEATED_MAX);
        writer.edit_and_publish(1);
        assert_eq!(writer.whole_copies, 1, "the copy that was retired last is kept");
    }

    #[test]
    fn a_kept_copy_costs_one_more_and_is_used_again_when_it_is_returned() {
        let mut writer = ListWriter::default();
        for round in 0..50 {
            let kept = writer.published.clone();
            let before = kept.to_vec();
            (0..3).for_each(|_| writer.edit_and_publish(1 + round % 3));
            assert_eq!(*kept, before);
        }
        assert_eq!(writer.whole_copies, 2, "one of them the first");
        assert!(writer.retired.edits.len() < 20, "old edits are forgotten");
    }

    #[test]
    fn a_copy_that_is_never_returned_is_given_up() {
        let mut writer = ListWriter::default();
        let _kept: Vec<_> = (0..2 * RETIRED_COPIES_MAX)
            .map(|_| {
                writer.edit_and_publish(1);
                writer.published.clone()
            })
            .collect();
        (0..100).for_each(|_| writer.edit_and_publish(EDITS_REPEATED_MAX / 8));
        assert_eq!(writer.retired.copies.len(), 1);
        assert!(writer.retired.edits.len() <= EDITS_REPEATED_MAX);
    }

    #[test]
    fn copies_that_readers_return_are_dropped_but_for_one() {
        let mut writer = ListWriter::default();
        let mut kept = Vec::new();
        for _ in 0..5 {
            writer.edit_and_publish(1);
            kept.push(writer.published.clone());
        }
        assert!(writer.retired.copies.len() > 2);
        let whole_copies = writer.whole_copies;
        kept.clear();
        (0..2).for_each(|_| writer.edit_and_publish(1));
        assert_eq!(writer.retired.copies.len(), 1);
        writer.edit_and_publish(1);
        assert_eq!(writer.whole_copies, whole_copies, "the one that is left is used again");
    }

    #[test]
    fn a_copy_on_which_an_edit_cannot_be_repeated_is_not_used() {
        let mut retired = RetiredCopies::default();
        retired.push_edit(1);
        retired.retire(Arc::new(0));
        assert_eq!(retired.take_free_copy(|_: &mut u32, _: &u32| false), None);
        assert!(retired.copies.is_empty());
    }
}
