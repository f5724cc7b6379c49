//! Comparison of two texts of a table or set, ignoring values that change with traffic or time:
//! counters, the used part of a quota, the remaining lifetime of an element.

use std::collections::HashMap;
use std::fmt;

/// A line without the numbers that change with traffic or time.
///
/// Numbers inside quotes belong to a comment and are kept.
pub fn remove_changing_numbers(line: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut words = line.split(' ');
    let (mut is_quoted, mut is_first) = (false, true);
    while let Some(word) = words.next() {
        let starts_outside = !is_quoted;
        is_quoted ^= word.matches('"').count() % 2 == 1;
        if starts_outside && is_first && is_counter_pair(word)
            || starts_outside && line.starts_with(':') && is_counter_pair(word)
        {
            is_first = false;
            continue;
        }
        is_first = false;
        // A name or a comment may be one of these words: numbers must follow.
        let follows = |n: usize| words.clone().nth(n).unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let skipped = match word {
            "packets"
                if is_number(follows(0)) && follows(1) == "bytes" && is_number(follows(2)) =>
            {
                3
            }
            "expires" if follows(0).starts_with(|c: char| c.is_ascii_digit()) => 1,
            "used" if is_number(follows(0)) && follows(1).ends_with("bytes") => 2,
            _ => {
                kept.push(word);
                continue;
            }
        };
        match starts_outside {
            true => {
                words.nth(skipped - 1);
            }
            false => kept.push(word),
        }
    }
    kept.join(" ")
}

/// `[packets:bytes]`
fn is_counter_pair(word: &str) -> bool {
    let inner = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    inner.and_then(|pair| pair.split_once(':')).is_some_and(|(a, b)| is_number(a) && is_number(b))
}

/// Whether two texts have the same lines, ignoring changing numbers, empty lines and comment lines.
/// The order matters for the rules of a chain, but not for elements of sets, chains and tables.
pub fn are_texts_equal_except_counters(a: &str, b: &str) -> bool {
    find_text_difference(a, b).is_none()
}

/// The difference of two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDifference {
    /// Lines that only the first text has.
    pub removed_lines: Vec<String>,
    /// Lines that only the second text has.
    pub added_lines: Vec<String>,
}

/// The lines that only one of two texts has; `None` if the texts are equal.
pub fn find_text_difference(before: &str, after: &str) -> Option<TextDifference> {
    let (old, new) = (list_lines_in_blocks(before), list_lines_in_blocks(after));
    let mut balance: HashMap<&LineInBlock, isize> = HashMap::new();
    for line in &old {
        *balance.entry(line).or_default() -= 1;
    }
    for line in &new {
        *balance.entry(line).or_default() += 1;
    }
    let mut take = |lines: &[LineInBlock], sign: isize| -> Vec<String> {
        let mut taken = Vec::new();
        for line in lines {
            if let Some(count) = balance.get_mut(line).filter(|count| **count * sign > 0) {
                *count -= sign;
                taken.push(line.text.clone());
            }
        }
        taken
    };
    let difference = TextDifference { removed_lines: take(&old, -1), added_lines: take(&new, 1) };
    let is_same = difference.removed_lines.is_empty() && difference.added_lines.is_empty();
    if is_same { find_order_difference(&old, &new) } else { Some(difference) }
}

/// A line, with the chain or set that it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LineInBlock {
    block: String,
    text: String,
}

fn list_lines_in_blocks(text: &str) -> Vec<LineInBlock> {
    let mut block = String::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("create table ") {
            continue;
        }
        if line.ends_with('{') && !line.starts_with("elements") {
            line.clone_into(&mut block);
        } else if let Some(rest) =
            line.strip_prefix("-A ").or(line.split_once("] -A ").map(|s| s.1))
        {
            rest.split(' ').next().unwrap_or_default().clone_into(&mut block);
        }
        // The elements of a map of nft have no order, and a line holds several.
        for part in line.trim_start_matches("elements = {").trim_end_matches([',', '}']).split(", ")
        {
            let text = remove_changing_numbers(part.trim());
            if !text.is_empty() {
                lines.push(LineInBlock { block: block.clone(), text });
            }
        }
    }
    lines
}

/// The first rule whose position in its chain differs, in texts that have the same lines.
fn find_order_difference(old: &[LineInBlock], new: &[LineInBlock]) -> Option<TextDifference> {
    let is_ordered = |line: &&LineInBlock| {
        !line.block.is_empty() && !line.block.starts_with("map ") && !line.block.starts_with("set ")
    };
    let mut by_block: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in old.iter().filter(is_ordered) {
        by_block.entry(&line.block).or_default().push(&line.text);
    }
    let mut next: HashMap<&str, usize> = HashMap::new();
    for line in new.iter().filter(is_ordered) {
        let at = next.entry(&line.block).or_default();
        let expected = by_block.get(&*line.block).and_then(|lines| lines.get(*at));
        *at += 1;
        if expected != Some(&&*line.text) {
            return Some(TextDifference {
                removed_lines: expected.map(|text| (*text).to_owned()).into_iter().collect(),
                added_lines: vec![line.text.clone()],
            });
        }
    }
    None
}

/// As many lines as fit in a message.
impl fmt::Display for TextDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_LINES_MAX: usize = 5;
        let removed = self.removed_lines.iter().map(|line| ('-', line));
        let all: Vec<(char, &String)> =
            removed.chain(self.added_lines.iter().map(|line| ('+', line))).collect();
        for (sign, line) in all.iter().take(SHOWN_LINES_MAX) {
            write!(f, "\n  {sign} {line}")?;
        }
        match all.len().saturating_sub(SHOWN_LINES_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more lines"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_comments_are_a_difference_and_counters_are_not() {
        let text = |n: u32, comment: &str| {
            format!(
                "*filter\n:INPUT DROP [{n}:7]\n[{n}:8] -A INPUT -m comment --comment \"{comment}\" \
                 -j ACCEPT\nCOMMIT\n"
            )
        };
        assert!(are_texts_equal_except_counters(&text(1, "a"), &text(2, "a")));
        assert!(!are_texts_equal_except_counters(
            &text(1, "[1:2] packets 3"),
            &text(1, "[1:3] packets 4")
        ));
        let nft = |n: u32| {
            format!(
                "table ip t {{\n\tmap m {{\n\t\telements = {{ 1.1.1.1 counter packets {n} bytes 2 : \
                 drop }}\n\t}}\n\tchain c {{\n\t\tcounter packets {n} bytes 4 drop\n\t}}\n}}\n"
            )
        };
        assert!(are_texts_equal_except_counters(&nft(1), &nft(9)));
    }

    #[test]
    fn words_that_precede_counters_elsewhere_hide_no_difference() {
        let rule = |words: &str| format!("*raw\n[0:0] -A OUTPUT {words}\nCOMMIT\n");
        for word in ["used", "packets", "bytes", "expires", "[1:2]"] {
            let comment = |target: &str| rule(&format!("-m comment --comment {word} -j {target}"));
            assert!(
                !are_texts_equal_except_counters(&comment("DROP"), &comment("ACCEPT")),
                "{word}"
            );
        }
        let mode = |mode: &str| rule(&format!("-m connbytes --connbytes-mode {mode} -j DROP"));
        assert!(!are_texts_equal_except_counters(&mode("packets"), &mode("bytes")));
    }

    #[test]
    fn the_order_of_rules_is_a_difference_and_that_of_elements_is_not() {
        let rules = |a: &str, b: &str| {
            format!("*raw\n[0:0] -A OUTPUT -j {a}\n[0:0] -A OUTPUT -j {b}\nCOMMIT\n")
        };
        assert!(!are_texts_equal_except_counters(
            &rules("DROP", "ACCEPT"),
            &rules("ACCEPT", "DROP")
        ));
        assert!(are_texts_equal_except_counters(
            &rules("DROP", "ACCEPT"),
            &rules("DROP", "ACCEPT")
        ));
        assert!(are_texts_equal_except_counters(
            "add s 1.1.1.1\nadd s 1.1.1.2\n",
            "add s 1.1.1.2\nadd s 1.1.1.1\n"
        ));
        let difference = find_text_difference("add s 1.1.1.1\n", "add s 1.1.1.2\n").expect("one");
        assert_eq!(difference.to_string(), "\n  - add s 1.1.1.1\n  + add s 1.1.1.2");
    }
}
