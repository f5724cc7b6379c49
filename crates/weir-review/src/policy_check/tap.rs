//! The results of a policy in the Test Anything Protocol, version 13 (<https://testanything.org>).

use std::fmt::Write as _;

use super::policy_report::{PolicyReport, PolicyTestResult};

impl PolicyReport {
    /// A line `ok` or `not ok` for each test; comments below those that do not hold say why.
    pub fn render_tap(&self, policy: &str) -> String {
        let mut text = format!("TAP version 13\n1..{}\n", self.tests.len());
        for (index, test) in self.tests.iter().enumerate() {
            let ok = if test.result == PolicyTestResult::Holds { "ok" } else { "not ok" };
            let group = test.group.as_ref().map(|group| format!("{group}: ")).unwrap_or_default();
            // `#` would begin a directive such as TODO, which turns a failure into a success.
            let name = format!("{group}{}", test.name).replace('\\', "\\\\").replace('#', "\\#");
            let _ = writeln!(text, "{ok} {} - {name}", index + 1);
            if test.result != PolicyTestResult::Holds {
                let _ = writeln!(text, "# {}", test.result.word());
                for line in test.render_details(policy).lines() {
                    let _ = writeln!(text, "# {line}");
                }
            }
        }
        text
    }
}
