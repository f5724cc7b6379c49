//! Names in comments that nothing has: a comment that was not changed with the code.
//!
//! A word in backticks that is written as an identifier (snake case, camel case, a path) must be a
//! word of some source outside comments, or the name of a source file. Names of other programs are
//! listed in `xtask/external-names.toml`. And the text of a link that is an identifier must be the
//! end of the path that it links to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;
use crate::rust_source::is_identifier_byte;

const RULE_ID: &str = "comment-name";
const EXTERNAL_NAMES_PATH: &str = "xtask/external-names.toml";

pub fn find_stale_comment_names(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let list = tree.file_text(EXTERNAL_NAMES_PATH).unwrap_or_default();
    let external: BTreeMap<String, Vec<String>> = match toml::from_str(list) {
        Ok(external) => external,
        Err(e) => {
            let message = format!("not lists of names: {e}");
            return vec![TidyFinding::new_error(RULE_ID, EXTERNAL_NAMES_PATH, 0, message)];
        }
    };
    let mut unused: BTreeSet<&str> = external.values().flatten().map(String::as_str).collect();
    let listed = unused.clone();
    let known = collect_source_words(tree);
    let mut found = Vec::new();
    for (path, text) in tree.files_with_suffix(".rs") {
        for (i, line) in text.lines().enumerate().filter(|(_, line)| is_comment_line(line)) {
            for name in quoted_identifiers(line) {
                unused.remove(name);
                if !known.contains(name) && !listed.contains(name) {
                    let message = format!(
                        "no code has the name {name}: correct the comment, or list the name in \
                         {EXTERNAL_NAMES_PATH}"
                    );
                    found.push(TidyFinding::new_error(RULE_ID, path, i + 1, message));
                }
            }
            for (text, target) in links_with_other_target(line) {
                let message = format!("the link {text} leads to {target}: use one name");
                found.push(TidyFinding::new_error(RULE_ID, path, i + 1, message));
            }
        }
    }
    for name in unused {
        let message = format!("no comment names {name}: remove it");
        found.push(TidyFinding::new_error(RULE_ID, EXTERNAL_NAMES_PATH, 0, message));
    }
    found
}

fn is_comment_line(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// All words of sources outside comments that fill a line, and the names of source files.
fn collect_source_words(tree: &WorkingTreeFiles) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    for end in [".rs", ".c", ".h", ".sh"] {
        for (path, text) in tree.files_with_suffix(end) {
            words.extend(Path::new(path).file_stem().and_then(|name| name.to_str()));
            let lines = text.lines().filter(|line| end != ".rs" || !is_comment_line(line));
            words.extend(lines.flat_map(|line| line.split(|c| !is_word_char(c))));
        }
    }
    words
}

fn is_word_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_identifier_byte)
}

/// The identifiers between backticks: segments of a path, words in snake case and in camel case.
fn quoted_identifiers(line: &str) -> impl Iterator<Item = &str> {
    let fence = line.contains("```");
    let quoted = line.split('`').skip(1).step_by(2).filter(move |_| !fence);
    quoted.flat_map(|text| {
        let text = text.strip_suffix("()").unwrap_or(text);
        let is_path = text.contains("::");
        let is_code = text.chars().all(|c| is_word_char(c) || c == ':');
        let named = move |word: &&str| {
            is_code
                && !word.contains(':')
                && (is_path && starts_as_identifier(word) || is_compound_identifier(word))
        };
        text.split("::").filter(named)
    })
}

fn starts_as_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Several words in one, in snake case or in camel case, which no other text is.
fn is_compound_identifier(word: &str) -> bool {
    let snake = word.contains('_')
        && word.split('_').all(|part| !part.is_empty())
        && word.starts_with(|c: char| c.is_ascii_lowercase())
        && !word.contains(|c: char| c.is_ascii_uppercase());
    let upper = word.chars().filter(char::is_ascii_uppercase).count();
    let camel = word.starts_with(|c: char| c.is_ascii_uppercase())
        && upper > 1
        && word.chars().all(|c| c.is_ascii_alphanumeric())
        && !word.as_bytes().windows(2).any(|two| two.iter().all(u8::is_ascii_uppercase))
        && word.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    snake || camel
}

/// Links whose text is an identifier in backticks, but not the end of their target.
fn links_with_other_target(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("[`").skip(1).filter_map(|rest| {
        let (text, rest) = rest.split_once("`](")?;
        let (target, _) = rest.split_once(')')?;
        let name = text.strip_suffix("()").unwrap_or(text);
        let path = target.strip_suffix('(').unwrap_or(target);
        let is_path = |s: &str| s.chars().all(|c| is_word_char(c) || matches!(c, ':' | '@'));
        let differs = is_path(name) && is_path(path) && !path.ends_with(name);
        differs.then_some((text, target))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct PacketView;\nimpl PacketView { fn read_field(&self) {} }\n";

    fn messages(comment: &str, list: &str) -> Vec<String> {
        let text = format!("//! Reads packets.\n\n{comment}\n{CODE}");
        let tree = WorkingTreeFiles::from_texts(&[
            (EXTERNAL_NAMES_PATH, list),
            ("crates/a/src/packet_view.rs", &text),
        ]);
        find_stale_comment_names(&tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn a_comment_name_that_does_not_exist_is_refused() {
        for good in [
            "/// [`PacketView`], `PacketView::read_field()`, `packet_view`.",
            "/// `-m tcp`, `IPv4`, `x`, `NF_ACCEPT`, `a b_c`, `ip:old_filter`, read_fields.",
        ] {
            assert_eq!(messages(good, ""), [""; 0], "{good}");
        }
        for stale in ["`read_fields`", "`PacketLook`", "`PacketView::fields`", "[`read_it()`]"] {
            let found = messages(&format!("// See {stale}."), "");
            assert_eq!(found.len(), 1, "{stale}: {found:?}");
            assert!(found[0].starts_with("no code has the name "), "{}", found[0]);
        }
    }

    #[test]
    fn external_names_must_be_listed_while_comments_cite_them() {
        let list = "kernel = [\"ip_packet_match\"]\n";
        assert_eq!(messages("/// As `ip_packet_match`.", "").len(), 1);
        assert_eq!(messages("/// As `ip_packet_match`.", list), [""; 0]);
        assert_eq!(messages("", list), ["no comment names ip_packet_match: remove it"]);
        assert!(messages("", "kernel = 1")[0].starts_with("not lists of names"));
    }

    #[test]
    fn the_text_of_a_link_must_name_its_target() {
        let same = "/// [`read_field`](PacketView::read_field), [`PacketView`](crate::PacketView).";
        assert_eq!(messages(same, ""), [""; 0]);
        let other = "/// [`read_field`](crate::PacketView).";
        let expected = "the link read_field leads to crate::PacketView: use one name";
        assert_eq!(messages(other, ""), [expected]);
    }
}
