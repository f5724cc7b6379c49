//! The baseline: known findings, so that only new ones are reported.
//!
//! There is one line for each rule, chain or set that a finding is about: its ID, its location, and
//! the rule as iptables-save prints it. Rules are not numbered, so a line stays valid when other
//! rules are added or removed; two equal lines represent two findings.
//!
//! ```text
//! shadowed-rule iptables/filter/INPUT -s 192.0.2.7/32 -j DROP
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_lint::{Finding, find_lint};
use weir_model::{Firewall, iptables_tool_name};
use weir_syntax::iptables;

const BASELINE_HEADER_COMMENT: &str = "# Known findings; written by weir check --write-baseline.";

/// How many findings of each line are known.
pub(super) struct Baseline {
    known_finding_counts: HashMap<String, usize>,
}

impl Baseline {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line does not begin with the id of a finding.
    pub fn read_checking_lint_ids(path: &Path) -> Result<Baseline> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
        let mut known = HashMap::new();
        for (i, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let id = line.split(' ').next().unwrap_or_default();
            if find_lint(id).is_none() {
                bail!(
                    "{name}:{}: `{id}` is not a kind of finding: write the baseline again \
                     (--write-baseline)",
                    i + 1
                );
            }
            *known.entry(line.to_owned()).or_default() += 1;
        }
        Ok(Baseline { known_finding_counts: known })
    }

    /// Whether a finding is known; each line of the baseline is used up once.
    pub fn take_known_finding(&mut self, finding: &Finding, firewall: &Firewall) -> bool {
        match self.known_finding_counts.get_mut(&format_unnumbered_finding_line(finding, firewall))
        {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// The text of a baseline of these lines.
pub(super) fn render_baseline(mut lines: Vec<String>) -> String {
    lines.sort_unstable();
    lines.insert(0, BASELINE_HEADER_COMMENT.to_owned());
    lines.join("\n") + "\n"
}

/// The line that stands for a finding about one rule, chain or set.
pub(super) fn format_unnumbered_finding_line(finding: &Finding, firewall: &Firewall) -> String {
    let id = finding.lint_id();
    let Some(place) = &finding.place else {
        return format!("{id} - {}", finding.message);
    };
    let words = match firewall.find_rule(place) {
        Some(rule) => iptables::print_rule(rule, place.family),
        None => "policy".to_owned(),
    };
    format!("{id} {}/{}/{} {words}", iptables_tool_name(place.family), place.table, place.chain)
}

#[cfg(test)]
mod tests {
    use weir_lint::{LintOptions, lint_without_grouping};
    use weir_syntax::iptables::{ParserSettings, parse};

    use super::*;

    fn checked(rules: &str) -> (Vec<Finding>, Firewall) {
        let text = format!("*filter\n:INPUT DROP [0:0]\n{rules}COMMIT\n");
        let v4 = parse(&text, &ParserSettings::default()).expect("a ruleset");
        let firewall = Firewall { v4: Some(v4), ..Firewall::default() };
        let mut found = lint_without_grouping(&firewall, &LintOptions::default()).findings;
        found.retain(|f| f.lint_id() == "duplicate-rule");
        (found, firewall)
    }

    fn known(text: &str) -> Result<Baseline> {
        let file = std::env::temp_dir().join(format!("weir-baseline-{}", std::process::id()));
        fs::write(&file, text)?;
        let read = Baseline::read_checking_lint_ids(&file);
        fs::remove_file(&file)?;
        read
    }

    #[test]
    fn a_baseline_line_covers_one_finding_wherever_its_rule_is() {
        let twice = "-A INPUT -s 192.0.2.1/32 -j DROP\n-A INPUT -s 192.0.2.1/32 -j DROP\n";
        let (findings, firewall) = checked(twice);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let listed = render_baseline(
            findings.iter().map(|f| format_unnumbered_finding_line(f, &firewall)).collect(),
        );
        let moved = format!("-A INPUT -p tcp -j RETURN\n{twice}-A INPUT -s 192.0.2.1/32 -j DROP\n");
        let (findings, firewall) = checked(&moved);
        let mut baseline = known(&listed).expect("a baseline");
        let new: Vec<_> =
            findings.iter().filter(|f| !baseline.take_known_finding(f, &firewall)).collect();
        assert_eq!((findings.len(), new.len()), (2, 1), "{findings:?}");
    }

    #[test]
    fn an_invalid_baseline_line_is_refused_with_its_number() {
        let error = known("# known\nshadowed iptables/filter/INPUT x\n").err().expect("refused");
        assert!(error.to_string().contains(":2: `shadowed` is not a kind of finding"), "{error}");
    }
}
