//! Reads `testdata/options`: values of the options of each match and target.
//!
//! `testdata/README.md` describes the format. A module without a file has no values of its own.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::testdata;

/// The file of one module.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ModuleOptionSamples {
    /// Values that an option takes, some of them only at times.
    values: OptionValuesByFamily,
    /// Second arguments that an option takes.
    second_values: OptionValuesByName,
    /// Second arguments that it refuses.
    second_values_refused: OptionValuesByName,
    /// Words of errors with which weir alone refuses a rule, because the tool silently reads
    /// another value than the rule says.
    #[serde(rename = "refused-by-weir-alone")]
    pub weir_only_error_words: Vec<String>,
    /// Rules over the range of an option's values.
    #[serde(rename = "rule")]
    value_range_rules: Vec<RuleTemplateWithValueRange>,
}

type OptionValuesByName = BTreeMap<String, Vec<String>>;

/// Values by option, of both families and of one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OptionValuesByFamily {
    both: OptionValuesByName,
    v4: OptionValuesByName,
    v6: OptionValuesByName,
}

/// A rule whose values are in braces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleTemplateWithValueRange {
    /// `v4` or `v6`, if only one family has it.
    #[serde(default)]
    pub family: Option<String>,
    /// Its table.
    pub table: String,
    /// The rule, as `-A INPUT -m ttl --ttl-gt {n:255}`.
    pub text: String,
}

impl ModuleOptionSamples {
    /// Values of an option by one of its spellings in a family; `v4` or `v6`.
    pub fn option_values(&self, spellings: &[&str], family: &str) -> Option<&[String]> {
        let own = if family == "v4" { &self.values.v4 } else { &self.values.v6 };
        find_values_by_spelling(own, spellings)
            .or_else(|| find_values_by_spelling(&self.values.both, spellings))
    }

    /// Second arguments of an option: taken ones, and refused ones.
    pub fn second_argument_values(&self, spellings: &[&str]) -> (&[String], &[String]) {
        let of = |values| find_values_by_spelling(values, spellings).unwrap_or_default();
        (of(&self.second_values), of(&self.second_values_refused))
    }

    /// All options that the file names.
    pub fn named_options(&self) -> impl Iterator<Item = &str> {
        let OptionValuesByFamily { both, v4, v6 } = &self.values;
        let all = [both, v4, v6, &self.second_values, &self.second_values_refused];
        all.into_iter().flat_map(|values| values.keys().map(String::as_str))
    }
}

fn find_values_by_spelling<'v>(
    values: &'v OptionValuesByName,
    spellings: &[&str],
) -> Option<&'v [String]> {
    spellings.iter().find_map(|name| values.get(*name)).map(Vec::as_slice)
}

/// The samples of a match or target; none if it has no file.
///
/// # Panics
/// If the file is not of the format.
#[track_caller]
pub fn read_module_option_samples(is_target: bool, module: &str) -> ModuleOptionSamples {
    let path = samples_folder(is_target).join(format!("{module}.toml"));
    if path.exists() { parse_samples_file(&path) } else { ModuleOptionSamples::default() }
}

/// Whether a target, the name, and the samples of every module that has a file.
///
/// # Panics
/// If a file is not of the format.
#[track_caller]
pub fn read_all_option_samples() -> Vec<(bool, String, ModuleOptionSamples)> {
    let mut out = Vec::new();
    for is_target in [false, true] {
        for path in testdata::files_with_extension(&samples_folder(is_target), "toml") {
            let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            out.push((is_target, module, parse_samples_file(&path)));
        }
    }
    out
}

/// The rules over ranges of values of every module.
///
/// # Panics
/// If a file is not of the format.
#[track_caller]
pub fn read_value_range_rules() -> Vec<RuleTemplateWithValueRange> {
    read_all_option_samples()
        .into_iter()
        .flat_map(|(.., samples)| samples.value_range_rules)
        .collect()
}

fn samples_folder(is_target: bool) -> std::path::PathBuf {
    testdata::testdata_path(if is_target { "options/targets" } else { "options/matches" })
}

fn parse_samples_file(path: &Path) -> ModuleOptionSamples {
    let text = std::fs::read_to_string(path).expect("a readable file");
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
