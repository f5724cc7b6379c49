//! The description of an artefact: what is in its folder, and how to read its counters.
//!
//! `manifest.json` is this type as JSON. A program that knows nothing about weir can compute the
//! counter of every original rule from it: read the counters it names and add them up.

use serde::{Deserialize, Serialize};

use weir_model::{CounterLocation, CountersByOriginalRule};

use crate::deviation::Deviation;
use crate::evidence::EqualityCheckRecord;
use crate::form::CompiledForm;

/// Version of the description: 2 has [`Manifest::share`].
pub const MANIFEST_VERSION: u32 = 2;

const fn first_manifest_version() -> u32 {
    1
}

/// An artefact's `manifest.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this description; files without it are of version 1.
    #[serde(default = "first_manifest_version")]
    pub version: u32,
    /// Version of weir that wrote it.
    pub weir: String,
    /// What the ruleset was compiled to.
    pub form: CompiledForm,
    /// Identity of the artefact: eight hexadecimal digits that its sets and its saved state carry.
    #[serde(default)]
    pub id: String,
    /// The tools that the artefact is for, e.g. `iptables-legacy-restore`.
    pub tools: Vec<String>,
    /// Files of the artefact with their SHA-256, so that a later run knows what it wrote; listed
    /// when they are [bundled](crate::FolderContents).
    pub files: Vec<ArtefactFileDigest>,
    /// Estimated kernel memory of the form once loaded, in bytes.
    pub memory_bytes: u64,
    /// Runs that were compiled.
    pub compiled: Vec<CompiledRuleRun>,
    /// Rules between compiled ones that are unchanged, and why.
    pub barriers: Vec<UnchangedRule>,
    /// How much of each hook the form changed.
    #[serde(default)]
    pub share: FormRuleCoverage,
    /// The intended differences of the form.
    pub deviations: Vec<Deviation>,
    /// What the equality check did before the artefact was written.
    pub checked: EqualityCheckRecord,
    /// Counters by original rule.
    pub counters: CountersByOriginalRule,
    /// Rules that a pass merged, where that was allowed: what is known of their counters is the
    /// sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summed: Vec<SummedCounterGroup>,
}

/// Original rules that share counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SummedCounterGroup {
    /// The rules, as in [`Manifest::counters`], which has none of them.
    pub rules: Vec<String>,
    /// The counters whose sum is the sum of theirs.
    pub counters: Vec<CounterLocation>,
}

/// A file of an artefact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArtefactFileDigest {
    /// Name inside the folder.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// A stretch of rules that was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompiledRuleRun {
    /// First rule, `iptables/filter/FORWARD/3`.
    pub first: String,
    /// How many rules from there.
    pub rules: u32,
    /// The outcome of them, in a sentence.
    pub into: String,
}

/// A rule (or stretch) that was left unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnchangedRule {
    /// The rule.
    pub rule: String,
    /// Why.
    pub why: String,
}

/// How many of the rules that hooks enter the form changed, and how many it left.
///
/// In the nft form a rule is in the form if nft evaluates it, and left if iptables still does; a
/// rule that hooks of both kinds enter is both. In the forms for iptables a rule is left if it is
/// unchanged in its original chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormRuleCoverage {
    /// Rules that a hook enters.
    #[serde(rename = "rules")]
    pub hook_entered_rules: u64,
    /// Those that are in the form.
    pub in_form: u64,
    /// Those that are left.
    pub left: u64,
    /// The same for each hook that enters rules.
    pub hooks: Vec<HookRuleCoverage>,
}

/// The rules that one hook enters, also through other chains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRuleCoverage {
    /// The hook's chain, `iptables/filter/FORWARD`.
    pub hook: String,
    /// Its rules.
    pub rules: u64,
    /// Those that are in the form.
    pub in_form: u64,
    /// Those that are left.
    pub left: u64,
    /// Why, the cause with most rules first.
    pub causes: Vec<UnconvertedRulesCauseAndCount>,
}

/// Why rules are left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnconvertedRulesCauseAndCount {
    /// The cause.
    pub why: String,
    /// Rules that are the cause: the rules around them, which stay for their sake, are not counted.
    #[serde(rename = "rules")]
    pub causing_rules: u64,
}
