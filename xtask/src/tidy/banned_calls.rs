//! Calls that must not be committed: `todo!` and similar anywhere, sleeping in tests, `unwrap` in a
//! library.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;
use crate::rust_source;

/// Macros that are for the moment of writing.
const UNFINISHED_MACROS: [&str; 3] = ["dbg!", "todo!", "unimplemented!"];

pub fn find_banned_calls(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    tree.files_with_suffix(".rs")
        .flat_map(|(path, text)| find_banned_calls_in_file(path, text))
        .collect()
}

fn find_banned_calls_in_file(path: &str, text: &str) -> Vec<TidyFinding> {
    let code = rust_source::blank_comments_and_strings(text);
    let tests = rust_source::test_code_ranges(&code);
    let in_test = |at: usize| {
        rust_source::is_test_or_bench_file(path)
            || tests.iter().any(|stretch| stretch.contains(&at))
    };
    let mut found = Vec::new();
    for (at, call) in UNFINISHED_MACROS.iter().flat_map(|call| find_calls(&code, call)) {
        let message = format!("{call} is for the moment of writing");
        found.push(TidyFinding::new_error(
            "unfinished",
            path,
            rust_source::line_number(&code, at),
            message,
        ));
    }
    for (at, _) in find_calls(&code, "sleep(") {
        if in_test(at) {
            let message = "a test waits for the event, with a limit, not for time to pass";
            found.push(TidyFinding::new_error(
                "sleep",
                path,
                rust_source::line_number(&code, at),
                message,
            ));
        }
    }
    let is_library = path.starts_with("crates/") && !path.starts_with("crates/weir/");
    for (at, _) in code.match_indices(".unwrap()") {
        if is_library && !in_test(at) {
            let message = "unwrap in a library: return the error, or `expect` what always holds";
            found.push(TidyFinding::new_warning(
                "unwrap",
                path,
                rust_source::line_number(&code, at),
                message,
            ));
        }
    }
    found
}

/// Places where the call stands as a word of its own.
fn find_calls<'a>(code: &'a str, call: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    code.match_indices(call)
        .filter(|&(at, _)| at == 0 || !rust_source::is_identifier_byte(code.as_bytes()[at - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize, bool)> {
        find_banned_calls_in_file(path, text)
            .into_iter()
            .map(|f| (f.rule, f.line_or_zero_for_file, f.is_error))
            .collect()
    }

    #[test]
    fn unfinished_macros_are_refused_everywhere() {
        for call in ["dbg!(x)", "todo!()", "unimplemented!()"] {
            let text = format!("fn f() {{\n    {call}\n}}\n");
            assert_eq!(rules("crates/a/src/lib.rs", &text), [("unfinished", 2, true)]);
            assert_eq!(rules("crates/a/tests/x.rs", &text), [("unfinished", 2, true)]);
        }
    }

    #[test]
    fn comments_strings_and_longer_names_are_not_calls() {
        let text = "// todo!()\nfn f() { say(\"dbg!\"); my_todo!(); oversleep(1) }";
        assert_eq!(rules("crates/a/tests/x.rs", text), []);
    }

    #[test]
    fn sleeping_is_refused_in_tests_only() {
        let sleep = "fn f() { std::thread::sleep(d); }";
        assert_eq!(rules("crates/a/tests/x.rs", sleep), [("sleep", 1, true)]);
        assert_eq!(rules("crates/a/src/x.rs", sleep), []);
        let inside = format!("{sleep}\n#[cfg(test)]\nmod tests {{\n {sleep}\n}}\n");
        assert_eq!(rules("crates/a/src/x.rs", &inside), [("sleep", 4, true)]);
    }

    #[test]
    fn unwrap_is_a_warning_in_library_code_only() {
        let text = "fn f() { x.unwrap() }\n#[test]\nfn g() { x.unwrap() }\n";
        assert_eq!(rules("crates/a/src/x.rs", text), [("unwrap", 1, false)]);
        assert_eq!(rules("crates/weir/src/x.rs", text), []);
        assert_eq!(rules("crates/a/tests/x.rs", text), []);
    }
}
