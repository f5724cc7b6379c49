//! The results of a policy as text.

use std::fmt::Write as _;

use super::policy_report::{PolicyPathReport, PolicyReport, PolicyTestReport, PolicyTestResult};

impl PolicyReport {
    /// A line for each test, and below a test that fails or is undecided why. `policy` is the name
    /// of its file.
    pub fn render_text(&self, policy: &str) -> String {
        let mut text = String::new();
        let mut group = None;
        for test in &self.tests {
            if test.group != group {
                group.clone_from(&test.group);
                let heading = group.as_ref().map(|group| format!("group \"{group}\""));
                let _ = writeln!(text, "{}", heading.unwrap_or_default());
            }
            let _ = writeln!(text, "{:<9} {}", test.result.word(), test.name);
            if matches!(test.result, PolicyTestResult::Fails | PolicyTestResult::Undecided) {
                text.push_str(&test.render_details(policy));
            }
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }

    /// `12 tests: 10 hold, 2 fail`.
    pub fn summary(&self) -> String {
        let total = self.tests.len();
        let mut counts = vec![counted(self.holding_tests, "holds", "hold")];
        for (count, one, several) in [
            (self.failing_tests, "fails", "fail"),
            (self.undecided_tests, "is undecided", "are undecided"),
            (self.invalid_tests, "is invalid", "are invalid"),
        ] {
            if count > 0 {
                counts.push(counted(count, one, several));
            }
        }
        format!("{}: {}", counted(total, "test", "tests"), counts.join(", "))
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

impl PolicyTestResult {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            PolicyTestResult::Holds => "holds",
            PolicyTestResult::Undecided => "undecided",
            PolicyTestResult::Fails => "FAILS",
            PolicyTestResult::Invalid => "invalid",
        }
    }
}

impl PolicyTestReport {
    /// Where it is written, what it expects, and why it does not hold.
    pub(super) fn render_details(&self, policy: &str) -> String {
        let mut text = format!("  {policy}:{}: {}\n", self.line, self.test);
        if let Some(reason) = &self.invalid {
            let _ = writeln!(text, "  {}: {}", reason.message, reason.cure);
        }
        for path in self.paths.iter().filter(|path| path.result != PolicyTestResult::Holds) {
            text.push_str(&path.render(&self.expected));
        }
        text
    }
}

impl PolicyPathReport {
    fn render(&self, expected: &str) -> String {
        let mut text = format!("  {} {}: expected {expected}", self.family, self.path);
        if let Some(why) = &self.why {
            let _ = write!(text, ", not decided: {why}");
        }
        if let Some(share) = self.failing_share {
            let _ = write!(text, ", fails for {} of the region", format_share_as_percentage(share));
        }
        text.push('\n');
        for region in &self.failing_regions {
            let _ = writeln!(text, "    packets    {region}");
        }
        let Some(packet) = &self.packet else { return text };
        let devices = match packet.stands_for.is_empty() {
            true => String::new(),
            false => format!("  ({})", packet.stands_for.join("; ")),
        };
        let label = match self.result {
            PolicyTestResult::Undecided => "undecided",
            _ => "fails for",
        };
        let _ = writeln!(text, "    {label}  {}{devices}", packet.packet);
        for line in packet.trace_text.lines() {
            let _ = writeln!(text, "      {line}");
        }
        text
    }
}

/// A share as a percentage with two digits that are not zero.
fn format_share_as_percentage(share: f64) -> String {
    match share * 100.0 {
        all if all >= 99.5 && share < 1.0 => "almost all".to_owned(),
        all if all >= 10.0 => format!("{all:.0} %"),
        some if some >= 0.01 => format!("{some:.2} %"),
        _ => "less than 0.01 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_but_never_to_all_or_nothing() {
        for (share, words) in [
            (1.0, "100 %"),
            (0.996, "almost all"),
            (0.994, "99 %"),
            (0.25, "25 %"),
            (0.000_5, "0.05 %"),
            (1e-12, "less than 0.01 %"),
        ] {
            assert_eq!(format_share_as_percentage(share), words, "{share}");
        }
    }
}
