//! Changes of a text, as a unified diff.

use std::collections::HashMap;

/// Lines around a change that are shown.
const CONTEXT_LINES: usize = 3;

/// A line of the diff: ` `, `-` or `+`, its text, and how many lines of both texts came before it.
type DiffLineWithPrecedingCounts<'t> = (char, &'t str, [usize; 2]);

/// A unified diff; empty where both texts are the same.
pub fn render_unified_diff(names: [&str; 2], before: &str, after: &str) -> String {
    let lines = diff_lines_by_nearest_match(before, after);
    let changed: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| l.0 != ' ').map(|(i, _)| i).collect();
    let Some(first) = changed.first() else { return String::new() };
    let mut out = format!("--- {}\n+++ {}\n", names[0], names[1]);
    let (mut from, mut last) = (*first, *first);
    for at in changed.iter().skip(1) {
        if at - last > 2 * CONTEXT_LINES {
            push_hunk(&mut out, &lines, from, last);
            from = *at;
        }
        last = *at;
    }
    push_hunk(&mut out, &lines, from, last);
    out
}

fn push_hunk(
    out: &mut String,
    lines: &[DiffLineWithPrecedingCounts<'_>],
    from: usize,
    last: usize,
) {
    let hunk =
        &lines[from.saturating_sub(CONTEXT_LINES)..(last + CONTEXT_LINES + 1).min(lines.len())];
    let count = |sign: char| hunk.iter().filter(|l| l.0 == ' ' || l.0 == sign).count();
    let [old, new] = [('-', 0), ('+', 1)].map(|(sign, side)| {
        // An empty side begins after the line before it.
        let n = count(sign);
        format!("{},{n}", hunk[0].2[side] + usize::from(n > 0))
    });
    out.push_str(&format!("@@ -{old} +{new} @@\n"));
    for (sign, text, _) in hunk {
        out.push_str(&format!("{sign}{text}\n"));
    }
}

/// Lines in order. Not the shortest diff, but one in time that grows with the texts: where lines
/// differ, the nearer of both next occurrences decides.
fn diff_lines_by_nearest_match<'t>(
    before: &'t str,
    after: &'t str,
) -> Vec<DiffLineWithPrecedingCounts<'t>> {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let places = |lines: &[&'t str]| {
        let mut out: HashMap<&'t str, Vec<usize>> = HashMap::new();
        lines.iter().enumerate().for_each(|(i, line)| out.entry(line).or_default().push(i));
        out
    };
    let (in_a, in_b) = (places(&a), places(&b));
    let next = |places: &HashMap<&str, Vec<usize>>, line: &str, from: usize| {
        let all = places.get(line)?;
        all.get(all.partition_point(|i| *i < from)).map(|at| at - from)
    };
    let (mut i, mut k) = (0, 0);
    let mut out = Vec::new();
    while i < a.len() || k < b.len() {
        let at = [i, k];
        match (a.get(i), b.get(k)) {
            (Some(x), Some(y)) if x == y => {
                out.push((' ', *x, at));
                (i, k) = (i + 1, k + 1);
            }
            (Some(x), Some(y)) => match (next(&in_a, y, i), next(&in_b, x, k)) {
                (None, Some(_)) => {
                    out.push(('+', *y, at));
                    k += 1;
                }
                (Some(removed), Some(added)) if added < removed => {
                    out.push(('+', *y, at));
                    k += 1;
                }
                _ => {
                    out.push(('-', *x, at));
                    i += 1;
                }
            },
            (Some(x), None) => {
                out.push(('-', *x, at));
                i += 1;
            }
            (None, Some(y)) => {
                out.push(('+', *y, at));
                k += 1;
            }
            (None, None) => break,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_line_is_shown_with_its_context() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let want = "--- x\n+++ y\n@@ -2,7 +2,6 @@\n b\n c\n d\n-e\n f\n g\n h\n";
        assert_eq!(render_unified_diff(["x", "y"], before, &before.replace("e\n", "")), want);
        assert_eq!(render_unified_diff(["x", "y"], before, before), "");
    }

    #[test]
    fn changed_lines_are_replaced_and_distant_changes_are_separate_hunks() {
        let before: String = (0..40).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n");
        let text = render_unified_diff(["x", "y"], &before, &after);
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(text.contains("-5\n+five\n") && text.contains("-30\n"), "{text}");
    }
}
