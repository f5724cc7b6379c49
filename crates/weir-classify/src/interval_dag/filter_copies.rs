//! Which filters a search copies most.
//!
//! A filter is copied into every piece of a word that its interval reaches over, so those that are
//! copied often are the wide ones among narrow ones. The construction counts how often filters were
//! listed, by word and width. The counts tell at which word and width a group is best divided
//! ([`group_division`](super::group_division)).

use super::filter_columns::FilterColumns;

/// Classes of widths: the bits of the difference between the ends of an interval, 0 to 32.
const WIDTH_CLASSES: usize = 33;
/// Percent of the copies on a word that may be of narrow filters.
const COPIES_OF_NARROW_PERCENT_MAX: u64 = 30;

/// A test of filters: whether they are wide on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WidthTest {
    pub(super) word: usize,
    /// The least difference between the ends of a wide interval.
    pub(super) wide_span: u32,
}

impl WidthTest {
    /// Whether the interval from `lo` to `hi` is wide.
    pub(super) fn is_wide(&self, lo: u32, hi: u32) -> bool {
        hi - lo >= self.wide_span
    }
}

/// How often filters were listed by the cuts of a construction, by word and width.
#[derive(Clone, Debug)]
pub(super) struct FilterCopies {
    by_word_and_width: Vec<[ListingCounts; WIDTH_CLASSES]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ListingCounts {
    /// Filters of lists that were cut.
    cut: u64,
    /// Filters of the pieces: at least one for each.
    listed: u64,
}

impl ListingCounts {
    fn add(&mut self, other: ListingCounts) {
        self.cut += other.cut;
        self.listed += other.listed;
    }

    fn copies(self) -> u64 {
        self.listed - self.cut
    }
}

impl FilterCopies {
    /// None yet.
    pub(super) fn new(word_count: usize) -> FilterCopies {
        let by_width = [ListingCounts::default(); WIDTH_CLASSES];
        FilterCopies { by_word_and_width: vec![by_width; word_count] }
    }

    /// Counts the filters of a list that a word cuts into pieces.
    pub(super) fn count_cut<'a>(
        &mut self,
        columns: &FilterColumns,
        word: usize,
        list: &[u32],
        pieces: impl Iterator<Item = &'a Vec<u32>>,
    ) {
        let by_width = &mut self.by_word_and_width[word];
        let column = &columns.words[word];
        let class_of =
            |filter: u32| class_of_width(column.lo[filter as usize], column.hi[filter as usize]);
        list.iter().for_each(|filter| by_width[class_of(*filter)].cut += 1);
        pieces.flatten().for_each(|filter| by_width[class_of(*filter)].listed += 1);
    }

    /// Counts the pieces of a cut that is not made, because they would be too large.
    pub(super) fn count_refused_cut(&mut self, columns: &FilterColumns, word: usize, list: &[u32]) {
        let column = &columns.words[word];
        let interval = |filter: u32| (column.lo[filter as usize], column.hi[filter as usize]);
        let starts_of_pieces = |filter: &u32| {
            let (lo, hi) = interval(*filter);
            [Some(lo), hi.checked_add(1)]
        };
        let mut starts: Vec<u32> = list.iter().flat_map(starts_of_pieces).flatten().collect();
        starts.sort_unstable();
        starts.dedup();
        for filter in list {
            let (lo, hi) = interval(*filter);
            let before = starts.partition_point(|start| *start < lo);
            let listed = starts.partition_point(|start| *start <= hi) - before;
            let counts = &mut self.by_word_and_width[word][class_of_width(lo, hi)];
            counts.add(ListingCounts { cut: 1, listed: listed as u64 });
        }
    }

    /// Adds the counts of another part of the construction.
    pub(super) fn add(&mut self, other: &FilterCopies) {
        let counts = self.by_word_and_width.iter_mut().flatten();
        for (counts, others) in counts.zip(other.by_word_and_width.iter().flatten()) {
            counts.add(*others);
        }
    }

    /// The test that finds the filters that were copied most on the word with the most copies: at
    /// least 70 % of its copies are of wide filters, or all filters but the narrowest are wide.
    /// `None` if no word has filters of several widths that were copied.
    pub(super) fn choose_width_test(&self) -> Option<WidthTest> {
        let words = self.by_word_and_width.iter().enumerate();
        let tests = words.filter_map(|(word, by_width)| {
            let copies: u64 = by_width.iter().map(|counts| counts.copies()).sum();
            let narrowest = by_width.iter().position(|counts| counts.cut > 0)?;
            let widest = by_width.iter().rposition(|counts| counts.cut > 0)?;
            let mut copies_up_to_class = 0;
            let first_wide = (narrowest..=widest).find(|class| {
                copies_up_to_class += by_width[*class].copies();
                copies_up_to_class * 100 > copies * COPIES_OF_NARROW_PERCENT_MAX
            })?;
            let first_wide = first_wide.max(narrowest + 1);
            let test = || WidthTest { word, wide_span: 1 << (first_wide - 1) };
            (first_wide <= widest).then(|| (copies, test()))
        });
        // Of equal words the first.
        tests.rev().max_by_key(|(copies, _)| *copies).map(|(_, test)| test)
    }
}

fn class_of_width(lo: u32, hi: u32) -> usize {
    (u32::BITS - (hi - lo).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::super::filter_columns::IntervalColumn;
    use super::super::interval_sweep::cut_into_pieces;
    use super::*;

    /// 64 hosts, four networks of 16 hosts each, and one of all.
    fn hosts_and_networks() -> FilterColumns {
        let hosts = (0..64).map(|host| (host, host));
        let networks = (0..4).map(|network| (16 * network, 16 * network + 15));
        let (lo, hi): (Vec<u32>, Vec<u32>) = hosts.chain(networks).chain([(0, 63)]).unzip();
        let ranks = (0..lo.len() as u32).collect();
        let column = IntervalColumn { lo, hi, bits: Some(32), is_masked: false };
        FilterColumns { words: vec![column], ranks }
    }

    #[test]
    fn the_filters_that_are_copied_most_are_wide() {
        let columns = hosts_and_networks();
        let list: Vec<u32> = (0..columns.ranks.len() as u32).collect();
        let mut scratch = vec![0; list.len()];
        let pieces = cut_into_pieces(&columns.words[0], &list, 1, &mut scratch, usize::MAX);
        let pieces = pieces.expect("no limit");
        let mut copies = FilterCopies::new(1);
        copies.count_cut(&columns, 0, &list, pieces.iter().map(|piece| &piece.candidates));
        // The networks have 4 x 15 copies, the one of all 63: more than 30 % are of networks.
        let test = copies.choose_width_test();
        assert_eq!(test, Some(WidthTest { word: 0, wide_span: 8 }));
        let mut refused = FilterCopies::new(1);
        refused.count_refused_cut(&columns, 0, &list);
        assert_eq!(refused.choose_width_test(), test);
    }

    #[test]
    fn the_widest_filters_are_not_divided() {
        let (lo, hi) = [(0, 1 << 31), (1, (1 << 31) + 1), (2, u32::MAX)].into_iter().unzip();
        let column = IntervalColumn { lo, hi, bits: Some(32), is_masked: false };
        let columns = FilterColumns { words: vec![column], ranks: vec![0, 1, 2] };
        let mut copies = FilterCopies::new(1);
        copies.count_refused_cut(&columns, 0, &[0, 1, 2]);
        assert_eq!(copies.choose_width_test(), None);
    }

    #[test]
    fn the_word_with_the_most_copies_divides() {
        let one_word = hosts_and_networks();
        let hosts_alone = IntervalColumn {
            lo: (0..69).collect(),
            hi: (0..68).chain([70]).collect(),
            bits: Some(32),
            is_masked: false,
        };
        let mut words = one_word.words;
        words.insert(0, hosts_alone);
        let columns = FilterColumns { words, ranks: one_word.ranks };
        let list: Vec<u32> = (0..69).collect();
        let mut copies = FilterCopies::new(2);
        copies.count_refused_cut(&columns, 0, &list);
        copies.count_refused_cut(&columns, 1, &list);
        assert_eq!(copies.choose_width_test(), Some(WidthTest { word: 1, wide_span: 8 }));
    }

    #[test]
    fn filters_of_one_width_are_not_divided() {
        let columns = hosts_and_networks();
        let mut copies = FilterCopies::new(1);
        copies.count_refused_cut(&columns, 0, &[64, 65, 66, 67]);
        assert_eq!(copies.choose_width_test(), None);
    }
}
