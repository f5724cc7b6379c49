//! Policies and the published rulesets that they are for.

use std::fs;
use std::path::PathBuf;

use weir_model::{Family, Firewall};
use weir_review::policy_check::{PolicyCheckLimits, PolicyReport, check_policy};
use weir_semantics::JourneyKind;
use weir_syntax::iptables::{ParserSettings, guess_family, parse};
use weir_syntax::policy::{FirewallPolicy, parse_policy};
use weir_testkit::testdata;

const LIMITS: PolicyCheckLimits =
    PolicyCheckLimits { memory_bytes: 2 << 30, steps_max: 400_000_000 };

/// Policies that there are at least, and rulesets that have some.
const POLICIES_MIN: usize = 30;
const RULESETS_MIN: usize = 26;

/// A policy with its ruleset.
pub struct PolicyCase {
    /// Ruleset and policy: `wireless.iptables/router.policy`.
    pub name: String,
    pub policy_path: PathBuf,
    pub policy: FirewallPolicy,
    /// The text of the ruleset.
    pub rules: String,
    pub family: Family,
}

/// All policies, each with the ruleset of the corpus that its folder names.
pub fn load_policy_cases() -> Vec<PolicyCase> {
    let corpus = testdata::corpus_folder_from_env();
    let folder = testdata::testdata_path("policies");
    let entries = fs::read_dir(&folder).expect("testdata/policies");
    let mut rulesets: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder").path()).collect();
    rulesets.sort();
    let (mut cases, mut missing) = (Vec::new(), Vec::new());
    for ruleset in &rulesets {
        let ruleset_name = ruleset.file_name().expect("a name").to_string_lossy().into_owned();
        let Ok(bytes) = fs::read(corpus.join(&ruleset_name)) else {
            missing.push(ruleset_name);
            continue;
        };
        let rules = String::from_utf8_lossy(&bytes).into_owned();
        for policy_path in testdata::files_with_extension(ruleset, "policy") {
            let file = policy_path.file_name().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&policy_path).expect("a policy");
            let policy = parse_policy(&text).unwrap_or_else(|errors| {
                panic!("{}", weir_syntax::render_diagnostics(&errors, &file, &text, false))
            });
            let (name, family) = (format!("{ruleset_name}/{file}"), guess_family(&rules));
            cases.push(PolicyCase { name, policy_path, policy, rules: rules.clone(), family });
        }
    }
    assert!(
        missing.is_empty(),
        "the folder {} lacks rulesets that policies are for: {}",
        corpus.display(),
        missing.join(", ")
    );
    assert!(cases.len() >= POLICIES_MIN, "{} policies", cases.len());
    assert!(rulesets.len() >= RULESETS_MIN, "policies for {} rulesets", rulesets.len());
    if let Ok(part) = std::env::var("WEIR_POLICIES") {
        cases.retain(|case| case.name.contains(&part));
        assert!(!cases.is_empty(), "no policy's path contains WEIR_POLICIES={part}");
    }
    cases
}

impl PolicyCase {
    pub fn firewall(&self) -> Firewall {
        self.firewall_with_rules(&self.rules)
            .unwrap_or_else(|| panic!("{}: the ruleset cannot be read", self.name))
    }

    /// The firewall with another text of the ruleset; `None` if it cannot be read.
    pub fn firewall_with_rules(&self, rules: &str) -> Option<Firewall> {
        let settings = ParserSettings { family: Some(self.family), ..ParserSettings::default() };
        let ruleset = parse(rules, &settings).ok()?;
        Some(match self.family {
            Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
        })
    }

    pub fn check(&self, firewall: &Firewall) -> PolicyReport {
        check_policy(&self.policy, firewall, LIMITS, &mut |_, _| {})
    }
}

/// The journey of a path of a report.
pub fn journey_of_path(path: &str) -> JourneyKind {
    match path {
        "forward" => JourneyKind::Forward,
        "input" => JourneyKind::Input,
        "output" => JourneyKind::Output,
        other => panic!("unknown path {other}"),
    }
}
