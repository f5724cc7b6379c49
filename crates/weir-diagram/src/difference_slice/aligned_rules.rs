//! Aligns two lists of rules: which of them are in both, in the same order.
//!
//! The shortest edit script of Myers (An O(ND) Difference Algorithm and Its Variations, 1986), with
//! a limit: lists with more changes are not aligned, so its cost is bounded by the length of the
//! lists and the square of the limit.

/// The indexes of the elements of each list that the other does not have at an aligned position;
/// `None` if these are more than `changed_max`.
pub(crate) fn find_changed_rules<R>(
    lists: [&[R]; 2],
    changed_max: usize,
    is_same: &dyn Fn(&R, &R) -> bool,
) -> Option<[Vec<usize>; 2]> {
    let [a, b] = lists;
    let begin = a.iter().zip(b).take_while(|(a, b)| is_same(a, b)).count();
    let (a, b) = (&a[begin..], &b[begin..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| is_same(a, b)).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    if a.len().abs_diff(b.len()) > changed_max {
        return None;
    }
    let mut changed = find_shortest_edit([a, b], changed_max.min(a.len() + b.len()), is_same)?;
    changed.iter_mut().flatten().for_each(|at| *at += begin);
    Some(changed)
}

/// The changed elements that one of the other list replaces, alone between the same two common
/// elements, and that are alike in this sense.
pub(crate) fn find_replaced_elements<R>(
    lists: [&[R]; 2],
    changed: &[Vec<usize>; 2],
    is_alike: &dyn Fn(&R, &R) -> bool,
) -> [Vec<usize>; 2] {
    // Before the n-th changed element, at index i, are i - n common ones.
    let with_common_before = changed.each_ref().map(|indexes| {
        let indexes = indexes.iter().enumerate();
        indexes.map(|(number, index)| (index - number, *index)).collect::<Vec<_>>()
    });
    let mut replaced = [Vec::new(), Vec::new()];
    for (common, index) in &with_common_before[0] {
        let here = |side: usize| {
            let elements = with_common_before[side].iter();
            elements.filter(|(before, _)| before == common).map(|(_, index)| *index)
        };
        let mut there = here(1);
        if let (1, Some(other), None) = (here(0).count(), there.next(), there.next())
            && is_alike(&lists[0][*index], &lists[1][other])
        {
            replaced[0].push(*index);
            replaced[1].push(other);
        }
    }
    replaced
}

/// The elements to delete from the first and to insert from the second list.
fn find_shortest_edit<R>(
    [a, b]: [&[R]; 2],
    edits_max: usize,
    is_same: &dyn Fn(&R, &R) -> bool,
) -> Option<[Vec<usize>; 2]> {
    // Diagonal k, where x - y = k, is at index k + edits_max; its value is the greatest x reached.
    let mut reached = vec![0; 2 * edits_max + 2];
    let mut reached_by_edits: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=edits_max {
        reached_by_edits.push(reached.clone());
        for diagonal in (edits_max - edits..=edits_max + edits).step_by(2) {
            let mut x = match comes_from_insertion(&reached, diagonal, edits, edits_max) {
                true => reached[diagonal + 1],
                false => reached[diagonal - 1] + 1,
            };
            let mut y = x + edits_max - diagonal;
            while x < a.len() && y < b.len() && is_same(&a[x], &b[y]) {
                (x, y) = (x + 1, y + 1);
            }
            reached[diagonal] = x;
            if x >= a.len() && y >= b.len() {
                return Some(trace_edits_back(&reached_by_edits, [x, y], edits_max));
            }
        }
    }
    None
}

/// Whether the farthest path to a diagonal ends with an insertion, rather than a deletion.
fn comes_from_insertion(
    reached: &[usize],
    diagonal: usize,
    edits: usize,
    edits_max: usize,
) -> bool {
    diagonal == edits_max - edits
        || (diagonal != edits_max + edits && reached[diagonal - 1] < reached[diagonal + 1])
}

fn trace_edits_back(
    reached_by_edits: &[Vec<usize>],
    [mut x, mut y]: [usize; 2],
    edits_max: usize,
) -> [Vec<usize>; 2] {
    let [mut deleted, mut inserted] = [Vec::new(), Vec::new()];
    for (edits, reached) in reached_by_edits.iter().enumerate().skip(1).rev() {
        let diagonal = x + edits_max - y;
        if comes_from_insertion(reached, diagonal, edits, edits_max) {
            x = reached[diagonal + 1];
            y = x + edits_max - (diagonal + 1);
            inserted.push(y);
        } else {
            x = reached[diagonal - 1];
            y = x + edits_max - (diagonal - 1);
            deleted.push(x);
        }
    }
    deleted.reverse();
    inserted.reverse();
    [deleted, inserted]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(a: &str, b: &str, most: usize) -> Option<[Vec<usize>; 2]> {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        find_changed_rules([&a, &b], most, &|a, b| a == b)
    }

    #[test]
    fn deleted_inserted_and_replaced_elements_are_found() {
        assert_eq!(changed("abc", "abc", 0), Some([vec![], vec![]]));
        assert_eq!(changed("abcd", "abd", 1), Some([vec![2], vec![]]));
        assert_eq!(changed("", "ab", 2), Some([vec![], vec![0, 1]]));
        assert_eq!(changed("abcdef", "aXcdYf", 4), Some([vec![1, 4], vec![1, 4]]));
        assert_eq!(changed("abcdefg", "bcdefgh", 2), Some([vec![0], vec![6]]));
    }

    #[test]
    fn no_alignment_is_returned_beyond_the_edit_limit() {
        assert_eq!(changed("abcd", "abd", 0), None);
        assert_eq!(changed("abcdef", "uvwxyz", 11), None);
        assert!(changed("abcdef", "uvwxyz", 12).is_some());
        assert_eq!(changed("", "abcdef", 5), None);
    }

    #[test]
    fn only_elements_that_replace_each_other_alone_are_found() {
        let replaced = |a: &str, b: &str| {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let changed = find_changed_rules([&a, &b], 12, &|a, b| a == b).expect("few edits");
            find_replaced_elements([&a, &b], &changed, &|a, b| a.eq_ignore_ascii_case(b))
        };
        assert_eq!(replaced("abcd", "aBcD"), [vec![1, 3], vec![1, 3]]);
        assert_eq!(replaced("xabc", "aBc"), [vec![2], vec![1]]);
        assert_eq!(replaced("abc", "aXc"), [vec![], vec![]]);
        assert_eq!(replaced("abc", "ac"), [vec![], vec![]]);
        assert_eq!(replaced("abc", "aBxc"), [vec![], vec![]]);
    }

    /// What is left of both without the changed elements is the same, and no shorter script exists
    /// for lists of two letters (by the longest common subsequence).
    #[test]
    fn unchanged_elements_form_a_longest_common_subsequence() {
        for (n, m) in (0..64_u32).flat_map(|n| (0..64_u32).map(move |m| (n, m))) {
            let list = |bits: u32| (0..6).map(|i| bits >> i & 1).collect::<Vec<u32>>();
            let lists = [list(n), list(m)];
            let changed = find_changed_rules([&lists[0], &lists[1]], 12, &|a, b| a == b)
                .expect("twelve edits replace everything");
            let [a, b] = [0, 1].map(|side| {
                let kept = (0..6).filter(|i| !changed[side].contains(i));
                kept.map(|i| lists[side][i]).collect::<Vec<u32>>()
            });
            assert_eq!(a, b, "{lists:?}");
            let mut longest = [[0; 7]; 7];
            for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
                longest[i + 1][j + 1] = match lists[0][i] == lists[1][j] {
                    true => longest[i][j] + 1,
                    false => longest[i][j + 1].max(longest[i + 1][j]),
                };
            }
            assert_eq!(a.len(), longest[6][6], "{lists:?}");
        }
    }
}
