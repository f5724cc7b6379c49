//! Documents: valid links, existing source files, numbered decisions, glossary terms in use, and
//! existing tests in the semantics.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

const ARCHITECTURE_PATH: &str = "ARCHITECTURE.md";
const GLOSSARY_PATH: &str = "docs/glossary.md";
const SEMANTICS_PATH: &str = "docs/semantics.md";
const DECISIONS_FOLDER: &str = "docs/decisions/";

pub fn check_documents(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found: Vec<_> = tree
        .files_with_suffix(".md")
        .flat_map(|(path, text)| find_links_to_missing_files(tree, path, text))
        .collect();
    found.extend(find_missing_files_named_in_architecture(tree));
    found.extend(check_decision_titles_and_duplicates(tree));
    found.extend(check_glossary(tree));
    found.extend(check_semantics_test_names(tree));
    found
}

/// Links to files of the repository that are not there.
fn find_links_to_missing_files(
    tree: &WorkingTreeFiles,
    path: &str,
    text: &str,
) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (i, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for file in parse_link_targets_of_line(line)
            .map(|target| target.split('#').next().unwrap_or_default())
        {
            let is_elsewhere = file.is_empty() || file.contains(':');
            if !is_elsewhere && !tree.contains_path(&resolve_relative_link(path, file)) {
                let message = format!("link to {file}, which is not there");
                found.push(TidyFinding::new_error("link", path, i + 1, message));
            }
        }
    }
    found
}

/// What a line links: `[text](target)`, `[text](target "title")`, and `[name]: target`.
fn parse_link_targets_of_line(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.match_indices("](").map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.split(')').next().unwrap_or_default()
    });
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline
        .chain(definition.map(|(_, target)| target))
        .filter_map(|target| target.split_whitespace().next())
}

/// Files of crates that the architecture names (`weir-model/src/rule_test.rs`) and that are not
/// there.
fn find_missing_files_named_in_architecture(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for (i, line) in tree.file_text(ARCHITECTURE_PATH).unwrap_or_default().lines().enumerate() {
        let names = line.split('`').skip(1).step_by(2);
        let is_file = |name: &&str| {
            let in_crate = name.starts_with("weir-") && name.contains('/');
            in_crate && !name.contains([' ', '*', '…'])
        };
        for name in names.filter(is_file) {
            if !tree.contains_path(&format!("crates/{name}")) {
                let message = format!("{name} is named and not there");
                found.push(TidyFinding::new_error("file", ARCHITECTURE_PATH, i + 1, message));
            }
        }
    }
    found
}

/// The path that a link in the file `from` means.
fn resolve_relative_link(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// `NNNN-title.md` begins with `# NNNN Title`, and no number is used twice.
fn check_decision_titles_and_duplicates(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    let mut last = String::new();
    for (path, text) in
        tree.files_with_suffix(".md").filter(|(p, _)| p.starts_with(DECISIONS_FOLDER))
    {
        let name = &path[DECISIONS_FOLDER.len()..];
        let number: String = name.chars().take_while(char::is_ascii_digit).collect();
        if name == "README.md" {
            continue;
        }
        if number.len() != 4 || !text.starts_with(&format!("# {number} ")) {
            let message = "a decision is NNNN-title.md and begins with `# NNNN Title`";
            found.push(TidyFinding::new_error("decision", path, 1, message));
        }
        if number == last {
            let message = format!("number {number} is taken");
            found.push(TidyFinding::new_error("decision", path, 1, message));
        }
        last = number;
    }
    found
}

/// Each line of the semantics names the test, or the case, that holds it: it is there.
fn check_semantics_test_names(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for (i, line) in tree.file_text(SEMANTICS_PATH).unwrap_or_default().lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)) {
            let is_there = |(path, text): (&str, &str)| {
                (path.ends_with(".rs") || path.starts_with("testdata/")) && text.contains(name)
            };
            if !tree.text_files().any(is_there) {
                let message = format!("no test or case is called {name}");
                found.push(TidyFinding::new_error("semantics", SEMANTICS_PATH, i + 1, message));
            }
        }
    }
    found
}

/// A name that is a sentence: `a_comment_name_that_does_not_exist_is_refused`.
fn is_test_name(word: &str) -> bool {
    let is_snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.matches('_').count() >= 3 && word.chars().all(is_snake)
}

/// Each word that the glossary explains is used somewhere else; each stands there once, in order.
fn check_glossary(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    let text = tree.file_text(GLOSSARY_PATH).unwrap_or_default();
    let mut last: Option<String> = None;
    for (i, word) in
        text.lines().enumerate().filter_map(|(i, l)| Some((i, parse_glossary_term(l)?)))
    {
        let lower = word.to_lowercase();
        if !is_term_used(tree, &lower) {
            let message = format!("nothing else uses the word `{word}`");
            found.push(TidyFinding::new_error("glossary", GLOSSARY_PATH, i + 1, message));
        }
        if last.as_ref().is_some_and(|l| *l >= lower) {
            let message = format!("`{word}` stands out of order, or twice");
            found.push(TidyFinding::new_error("glossary", GLOSSARY_PATH, i + 1, message));
        }
        last = Some(lower);
    }
    found
}

/// The word of a line `**word**: meaning`.
fn parse_glossary_term(line: &str) -> Option<&str> {
    line.strip_prefix("**")?.split_once("**:").map(|(word, _)| word)
}

fn is_term_used(tree: &WorkingTreeFiles, word: &str) -> bool {
    let stem = word.replace(' ', "_");
    tree.text_files()
        .filter(|(path, _)| {
            *path != GLOSSARY_PATH && (path.ends_with(".rs") || path.ends_with(".md"))
        })
        .map(|(_, text)| text.to_lowercase())
        .any(|text| text.contains(word) || text.contains(&stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check_documents(&WorkingTreeFiles::from_texts(files))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_dead_link_is_refused() {
        let other = ("docs/b.md", "");
        let good = "[b](b.md) [top](../README.md#x) [web](https://example.net/) [here](#x)";
        assert!(messages(&[("docs/a.md", good), other, ("README.md", "")]).is_empty());
        assert_eq!(
            messages(&[("docs/a.md", "[c](c.md)"), other]),
            ["link to c.md, which is not there"]
        );
        for dead in ["![c](c.md \"C\")", "[c]: c.md", "[b](b.md) and [c](./c.md#x)"] {
            assert_eq!(messages(&[("docs/a.md", dead), other]).len(), 1, "{dead}");
        }
        assert!(
            messages(&[("docs/a.md", "[b]: b.md\n[w]: https://example.net/"), other]).is_empty()
        );
        assert!(messages(&[("docs/a.md", "```\n[c](c.md)\n```")]).is_empty());
    }

    #[test]
    fn a_file_that_the_architecture_names_is_there() {
        let text = "`weir-model/src/a.rs` and `weir_model::A`, `weir-model`, `weir-x/*`\n";
        let there = ("crates/weir-model/src/a.rs", "");
        assert!(messages(&[(ARCHITECTURE_PATH, text), there]).is_empty());
        assert_eq!(
            messages(&[(ARCHITECTURE_PATH, text)]),
            ["weir-model/src/a.rs is named and not there"]
        );
    }

    #[test]
    fn a_decision_must_have_its_own_number() {
        let first = ("docs/decisions/0001-a.md", "# 0001 A\n");
        assert!(messages(&[first, ("docs/decisions/0002-b.md", "# 0002 B\n")]).is_empty());
        assert_eq!(messages(&[first, ("docs/decisions/0002-b.md", "# B\n")]).len(), 1);
        let twice = messages(&[first, ("docs/decisions/0001-b.md", "# 0001 B\n")]);
        assert_eq!(twice, ["number 0001 is taken"]);
    }

    #[test]
    fn a_test_that_the_semantics_names_is_there() {
        let text = "It does (`verdicts/walk`: `goto_leaves_no_way_back`, in `net/x_tables.c`).\n";
        let semantics = (SEMANTICS_PATH, text);
        let case = ("testdata/verdicts/walk.toml", "name = \"goto_leaves_no_way_back\"");
        assert!(messages(&[semantics, case]).is_empty());
        let missing = messages(&[semantics]);
        assert_eq!(missing, ["no test or case is called goto_leaves_no_way_back"]);
    }

    #[test]
    fn a_glossary_word_is_used_and_in_order() {
        let code = ("a.rs", "/// A barrier of a pass.");
        assert!(messages(&[(GLOSSARY_PATH, "**barrier**: x\n**pass**: y\n"), code]).is_empty());
        let unused = messages(&[(GLOSSARY_PATH, "**barrier**: x\n**quux**: y\n"), code]);
        assert_eq!(unused, ["nothing else uses the word `quux`"]);
        let order = messages(&[(GLOSSARY_PATH, "**pass**: y\n**barrier**: x\n"), code]);
        assert_eq!(order, ["`barrier` stands out of order, or twice"]);
    }
}
