//! Sweeps over the elementary intervals of one word.

use super::filter_columns::IntervalColumn;

/// The filters of a list by their ends on one word.
struct SortedEnds {
    /// Lowest value and filter.
    starts: Vec<(u32, u32)>,
    /// Highest value and filter.
    ends: Vec<(u32, u32)>,
}

/// What remains to be told apart after a search on the word: over all elementary intervals, the
/// number of filters times its logarithm, for those above `bucket_max`. `None` if the search would
/// tell nothing apart.
pub(super) fn sum_n_log_n_over_intervals(
    column: &IntervalColumn,
    list: &[u32],
    bucket_max: usize,
) -> Option<f64> {
    let mut starts: Vec<u32> = list.iter().map(|&f| column.lo[f as usize]).collect();
    let mut ends: Vec<u32> = list.iter().map(|&f| column.hi[f as usize]).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let (first_end, last_start) = (*ends.first()?, *starts.last()?);
    if starts[0] == last_start && first_end == ends[ends.len() - 1] {
        return None;
    }
    let (mut started, mut ended) = (0, 0);
    let mut work = 0.0;
    while ended < ends.len() {
        let next_start = starts.get(started).copied();
        if next_start.is_some_and(|start| start <= ends[ended]) {
            let at = next_start;
            while starts.get(started).copied() == at {
                started += 1;
            }
        } else {
            let at = ends[ended];
            while ends.get(ended) == Some(&at) {
                ended += 1;
            }
        }
        let active = started - ended;
        work += if active > bucket_max { active as f64 * (active as f64).log2() } else { 0.5 };
    }
    Some(work)
}

/// A piece of a word's values and the filters that a value of it may match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PieceWithCandidates {
    pub(super) start: u32,
    /// Ascending.
    pub(super) candidates: Vec<u32>,
}

/// Cuts a word into pieces from 0 up. Neighbouring elementary intervals become one piece while
/// their filters together are at most `bucket_max`. `active_index_of_filter` is scratch space: one
/// place for each filter of the set. `None` if the pieces have more than `listed_max` filters in
/// total; the sweep stops there.
pub(super) fn cut_into_pieces(
    column: &IntervalColumn,
    list: &[u32],
    bucket_max: usize,
    active_index_of_filter: &mut [u32],
    listed_max: usize,
) -> Option<Vec<PieceWithCandidates>> {
    let mut pieces: Vec<PieceWithCandidates> = Vec::new();
    let mut is_open = false;
    let mut listed_left = listed_max;
    let swept = visit_elementary_intervals(column, list, active_index_of_filter, |at| {
        match pieces.last_mut() {
            Some(piece) if is_open && piece.candidates.len() + at.new.len() <= bucket_max => {
                listed_left = listed_left.checked_sub(at.new.len())?;
                piece.candidates.extend(at.new.iter().map(|new| new.1));
            }
            _ => {
                listed_left = listed_left.checked_sub(at.active.len())?;
                let candidates = at.active.to_vec();
                pieces.push(PieceWithCandidates { start: at.start, candidates });
                is_open = at.active.len() <= bucket_max;
            }
        }
        Some(())
    });
    swept?;
    for piece in &mut pieces {
        piece.candidates.sort_unstable();
    }
    Some(pieces)
}

/// As [`cut_into_pieces`], but only with what may be the first match: within an elementary
/// interval, no filter after the first one that matches all of it. `covers` says of a filter
/// whether other words do not matter to it. `None` if elementary intervals have more than
/// `visits_left` filters together, from which those that they have are taken.
pub(super) fn cut_into_first_match_pieces(
    column: &IntervalColumn,
    list: &[u32],
    bucket_max: usize,
    active_index_of_filter: &mut [u32],
    visits_left: &mut usize,
    covers: impl Fn(u32) -> bool,
) -> Option<Vec<PieceWithCandidates>> {
    let mut pieces: Vec<PieceWithCandidates> = Vec::new();
    let mut is_open = false;
    let swept = visit_elementary_intervals(column, list, active_index_of_filter, |at| {
        let ElementaryInterval { start, active, .. } = at;
        *visits_left = visits_left.checked_sub(active.len())?;
        let decided_by = active.iter().copied().filter(|filter| covers(*filter)).min();
        let may_be_first = |filter: &u32| decided_by.is_none_or(|decided_by| *filter <= decided_by);
        let mut candidates = active.to_vec();
        candidates.retain(may_be_first);
        if let Some(piece) = pieces.last_mut().filter(|_| is_open)
            && candidates.len() <= bucket_max
        {
            let before = piece.candidates.len();
            candidates.retain(|filter| !piece.candidates.contains(filter));
            if before + candidates.len() <= bucket_max {
                piece.candidates.append(&mut candidates);
                return Some(());
            }
            candidates = active.to_vec();
            candidates.retain(may_be_first);
        }
        is_open = candidates.len() <= bucket_max;
        pieces.push(PieceWithCandidates { start, candidates });
        Some(())
    });
    swept?;
    for piece in &mut pieces {
        piece.candidates.sort_unstable();
    }
    Some(pieces)
}

/// Values of a word that the same filters of a list contain.
struct ElementaryInterval<'a> {
    /// The first value.
    start: u32,
    /// The filters that contain it.
    active: &'a [u32],
    /// Those of them that begin with it, after their lowest values.
    new: &'a [(u32, u32)],
}

/// Calls `visit` for each elementary interval from 0 up, until it returns `None`.
fn visit_elementary_intervals(
    column: &IntervalColumn,
    list: &[u32],
    active_index_of_filter: &mut [u32],
    mut visit: impl FnMut(ElementaryInterval<'_>) -> Option<()>,
) -> Option<()> {
    let SortedEnds { starts, ends } = sort_ends(column, list);
    let (mut started, mut ended) = (0, 0);
    let mut active: Vec<u32> = Vec::new();
    let mut at = 0;
    loop {
        let first_new = started;
        while let Some(&(start, filter)) = starts.get(started)
            && start == at
        {
            active_index_of_filter[filter as usize] = active.len() as u32;
            active.push(filter);
            started += 1;
        }
        visit(ElementaryInterval { start: at, active: &active, new: &starts[first_new..started] })?;
        let next_start = starts.get(started).map_or(u32::MAX, |start| start.0);
        let next_end = ends.get(ended).map_or(u32::MAX, |end| end.0);
        if next_end == u32::MAX && started == starts.len() {
            return Some(());
        }
        at = if next_end < next_start { next_end + 1 } else { next_start };
        while let Some(&(end, filter)) = ends.get(ended)
            && end < at
        {
            let place = active_index_of_filter[filter as usize] as usize;
            active.swap_remove(place);
            if let Some(&moved) = active.get(place) {
                active_index_of_filter[moved as usize] = place as u32;
            }
            ended += 1;
        }
    }
}

fn sort_ends(column: &IntervalColumn, list: &[u32]) -> SortedEnds {
    let by = |ends: &[u32]| {
        let mut sorted: Vec<(u32, u32)> = list.iter().map(|&f| (ends[f as usize], f)).collect();
        sorted.sort_unstable();
        sorted
    };
    SortedEnds { starts: by(&column.lo), ends: by(&column.hi) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bounds: &[(u32, u32)], bucket_max: usize) -> Vec<(u32, Vec<u32>)> {
        let (lo, hi) = bounds.iter().copied().unzip();
        let column = IntervalColumn { lo, hi, bits: Some(32), is_masked: false };
        let list: Vec<u32> = (0..bounds.len() as u32).collect();
        let mut active_index_of_filter = vec![0; list.len()];
        let scratch = &mut active_index_of_filter;
        let pieces = cut_into_pieces(&column, &list, bucket_max, scratch, usize::MAX);
        let pieces = pieces.expect("no limit");
        pieces.into_iter().map(|piece| (piece.start, piece.candidates)).collect()
    }

    #[test]
    fn adjacent_intervals_merge_while_their_filters_fit() {
        let bounds = [(5, 9), (7, u32::MAX), (20, 30)];
        let apart = [
            (0, vec![]),
            (5, vec![0]),
            (7, vec![0, 1]),
            (10, vec![1]),
            (20, vec![1, 2]),
            (31, vec![1]),
        ];
        assert_eq!(pieces(&bounds, 0), apart);
        assert_eq!(pieces(&bounds, 2), [(0, vec![0, 1]), (20, vec![1, 2])]);
    }

    #[test]
    fn a_cut_that_lists_more_filters_than_allowed_is_given_up() {
        // Filter i contains the values from i up: 1 + 2 + ... + 100 candidates.
        let count = 100;
        let column = IntervalColumn {
            lo: (0..count).collect(),
            hi: vec![u32::MAX; count as usize],
            bits: Some(32),
            is_masked: false,
        };
        let list: Vec<u32> = (0..count).collect();
        let cut = |listed_max| cut_into_pieces(&column, &list, 0, &mut [0; 100], listed_max);
        assert_eq!(cut(5050).map(|pieces| pieces.len()), Some(100));
        assert_eq!(cut(5049), None);
    }

    #[test]
    fn the_largest_value_is_in_the_last_piece() {
        assert_eq!(pieces(&[(u32::MAX, u32::MAX)], 0), [(0, vec![]), (u32::MAX, vec![0])]);
    }

    #[test]
    fn a_word_tested_identically_by_all_filters_gives_no_split() {
        let column =
            IntervalColumn { lo: vec![3, 3], hi: vec![9, 9], bits: Some(32), is_masked: false };
        assert_eq!(sum_n_log_n_over_intervals(&column, &[0, 1], 1), None);
    }
}
