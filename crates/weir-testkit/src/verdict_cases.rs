//! Reads `testdata/verdicts`: rulesets, packets, and their outcomes.
//!
//! `testdata/README.md` describes the format. Everything is text here, so that each engine parses
//! it itself.

use std::path::Path;

use serde::Deserialize;

/// One file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct VerdictCaseListFile {
    case: Vec<RulesetWithPacketCases>,
}

/// A ruleset and packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RulesetWithPacketCases {
    /// What it shows, as a claim in snake case; with the file's name before it once it is read.
    pub name: String,
    /// Where that is settled: a file of the kernel, or `measured`.
    #[serde(default)]
    pub source: String,
    /// `iptables-save` text, or `ip6tables-save` text with `family = "v6"`.
    pub rules: String,
    /// `v4` or `v6`.
    #[serde(default = "default_family")]
    pub family: String,
    /// `ipset save` text.
    #[serde(default)]
    pub sets: String,
    /// The deviations that some form shows with these packets, by their identifiers in
    /// `docs/semantics.md`.
    #[serde(default)]
    #[serde(rename = "deviations")]
    pub shown_deviation_ids: Vec<String>,
    /// The packets.
    pub packet: Vec<PacketCase>,
}

/// A packet and the outcome of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PacketCase {
    /// In the words of `weir explain --packet`.
    pub words: String,
    /// `forward`, `input` or `output`.
    #[serde(default = "default_journey_forward")]
    pub entry: String,
    /// `accept`, `drop`, `reject`, `divert`, `unknown` or `expired`.
    pub verdict: String,
    /// Everything counted, in order: `filter/FORWARD/1`, `filter/FORWARD/policy`, `set/name/1`.
    pub hits: Option<Vec<String>>,
    /// Names of the targets that did something, in order.
    #[serde(rename = "effects")]
    pub targets_with_effect: Option<Vec<String>>,
    /// How the packet leaves: words that must be true of it, e.g. `mark 0x1`.
    pub leaves: Option<String>,
    /// What matches that the packet does not answer are taken to say.
    #[serde(default)]
    pub answer: bool,
    /// How many rules were tried.
    pub tried: Option<u32>,
}

fn default_family() -> String {
    "v4".to_owned()
}

fn default_journey_forward() -> String {
    "forward".to_owned()
}

/// All cases of a folder, in the order of files and text.
///
/// # Panics
/// Where a file is not of that format.
#[track_caller]
pub fn read_verdict_cases(folder: &Path) -> Vec<RulesetWithPacketCases> {
    let mut cases = Vec::new();
    for path in crate::testdata::files_with_extension(folder, "toml") {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let file: VerdictCaseListFile =
            toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        cases.extend(
            file.case
                .into_iter()
                .map(|c| RulesetWithPacketCases { name: format!("{stem}/{}", c.name), ..c }),
        );
    }
    assert!(!cases.is_empty(), "no cases in {}", folder.display());
    cases
}
