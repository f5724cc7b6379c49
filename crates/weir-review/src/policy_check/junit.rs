//! The results of a policy as JUnit XML, as CI servers read it.
//!
//! Groups are test suites. A test that fails has a `failure`; one that is undecided or invalid has
//! an `error`.

use std::fmt::Write as _;

use super::policy_report::{PolicyReport, PolicyTestReport, PolicyTestResult};

impl PolicyReport {
    /// The XML document. `policy` is the name of the policy's file.
    pub fn render_junit(&self, policy: &str) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let errors = self.undecided_tests + self.invalid_tests;
        let _ = writeln!(
            text,
            "<testsuites name=\"weir test\" tests=\"{}\" failures=\"{}\" errors=\"{errors}\">",
            self.tests.len(),
            self.failing_tests
        );
        for suite in self.tests.chunk_by(|a, b| a.group == b.group) {
            append_suite(&mut text, suite, policy);
        }
        text.push_str("</testsuites>\n");
        text
    }
}

fn append_suite(text: &mut String, tests: &[PolicyTestReport], policy: &str) {
    let count = |result| tests.iter().filter(|test| test.result == result).count();
    let name = tests[0].group.as_deref().unwrap_or(policy);
    let _ = writeln!(
        text,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
        escape_xml(name),
        tests.len(),
        count(PolicyTestResult::Fails),
        count(PolicyTestResult::Undecided) + count(PolicyTestResult::Invalid)
    );
    for test in tests {
        let _ = write!(
            text,
            "    <testcase name=\"{}\" classname=\"{}\" file=\"{}\" line=\"{}\"",
            escape_xml(&test.name),
            escape_xml(name),
            escape_xml(policy),
            test.line
        );
        let element = match test.result {
            PolicyTestResult::Holds => {
                text.push_str("/>\n");
                continue;
            }
            PolicyTestResult::Fails => "failure",
            PolicyTestResult::Undecided | PolicyTestResult::Invalid => "error",
        };
        let message = format!("{}: expected {}", test.result.word(), test.expected);
        let _ = writeln!(
            text,
            ">\n      <{element} message=\"{}\">{}</{element}>\n    </testcase>",
            escape_xml(&message),
            escape_xml(&test.render_details(policy))
        );
    }
    text.push_str("  </testsuite>\n");
}

/// Text for an attribute or an element. XML 1.0 cannot have other control characters at all.
fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped_in_xml() {
        assert_eq!(escape_xml("a<b> & \"c\"\n"), "a&lt;b&gt; &amp; &quot;c&quot;\n");
        assert_eq!(escape_xml("\u{1b}[2J\u{0}"), "\u{fffd}[2J\u{fffd}");
    }
}
