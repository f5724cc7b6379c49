//! Sizes: one idea per file, one screen per function. These are warnings, because a table of fields
//! may be long.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;
use crate::rust_source;

const MAX_CODE_FILE_LINES: usize = 500;
const MAX_FUNCTION_CODE_LINES: usize = 70;
const MAX_CODE_LINE_COLUMNS: usize = 100;

pub fn find_oversized_code(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for (path, text) in tree.text_files() {
        let is_code = [".rs", ".c", ".h", ".sh"].iter().any(|end| path.ends_with(end));
        if !is_code || path.starts_with("testdata/") {
            continue;
        }
        let lines = text.lines().count();
        if lines > MAX_CODE_FILE_LINES {
            let message =
                format!("{lines} lines, more than {MAX_CODE_FILE_LINES}: is this two ideas?");
            found.push(TidyFinding::new_warning("size", path, 0, message));
        }
        // A table that is laid out by hand may be as wide as it needs.
        let columns =
            if text.contains("rustfmt::skip") { usize::MAX } else { MAX_CODE_LINE_COLUMNS };
        for (i, line) in text.lines().enumerate().filter(|(_, l)| l.chars().count() > columns) {
            let message =
                format!("{} columns, more than {MAX_CODE_LINE_COLUMNS}", line.chars().count());
            found.push(TidyFinding::new_warning("size", path, i + 1, message));
        }
        if path.ends_with(".rs") {
            found.extend(find_long_functions(path, text));
        }
    }
    found
}

fn find_long_functions(path: &str, text: &str) -> impl Iterator<Item = TidyFinding> {
    let functions =
        rust_source::find_functions(&rust_source::blank_comments_and_strings(text)).into_iter();
    functions.filter(|f| f.code_lines > MAX_FUNCTION_CODE_LINES).map(|f| {
        let message =
            format!("{} has {} lines, more than {MAX_FUNCTION_CODE_LINES}", f.name, f.code_lines);
        TidyFinding::new_warning("size", path, f.line, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        find_oversized_code(&WorkingTreeFiles::from_texts(&[("a.rs", text)]))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_long_file_is_reported() {
        assert!(messages(&"\n".repeat(MAX_CODE_FILE_LINES)).is_empty());
        assert!(messages(&"\n".repeat(MAX_CODE_FILE_LINES + 1))[0].starts_with("501 lines"));
    }

    #[test]
    fn a_long_function_is_reported_by_name() {
        let function = |lines: usize| format!("fn long() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        assert!(messages(&function(MAX_FUNCTION_CODE_LINES)).is_empty());
        assert_eq!(
            messages(&function(MAX_FUNCTION_CODE_LINES + 1)),
            ["long has 71 lines, more than 70"]
        );
    }

    #[test]
    fn a_long_line_is_reported() {
        assert!(messages(&"x".repeat(MAX_CODE_LINE_COLUMNS)).is_empty());
        let long = "ä".repeat(MAX_CODE_LINE_COLUMNS + 1);
        assert_eq!(messages(&long), ["101 columns, more than 100"]);
        assert!(messages(&format!("#[rustfmt::skip]\n{long}")).is_empty());
    }
}
